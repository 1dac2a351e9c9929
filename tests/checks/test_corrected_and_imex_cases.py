"""What ecc.corrected, fabric.imex and fabric.imex_domain say of one machine, word for word."""

import json

from fleet.changes import changes
from support.cases import ERROR, FAIL, FAILED, PASS, SKIP, WARN, asserting, of, unread
from support.judging import Case, both, fails, gpu

RACK = "6f7a1c00-59a3-4f3e-8b1f-2d1c5e0a9b77"
UNSUPPORTED = unread("not supported", "NVML 3: Not Supported", nvml=3)


@changes
def in_a_rack(machine, *, imex="active"):
    for index in range(8):
        machine.set_gpu(index, "fabric.cluster_uuid", RACK)
        machine.set_gpu(index, "fabric.clique", 32766)
    machine.set_unit("nvidia-imex", "LoadState", "loaded")
    machine.set_unit("nvidia-imex", "ActiveState", imex)


@changes
def imex(machine, text=None, status="UP", own=None):
    """Four nodes of a rack as this one (gpu0001) sees them; `own` changes its own entry."""
    in_a_rack()(machine)
    hosts = {str(number): f"10.0.0.{number + 1}" for number in range(4)}
    connected = {number: {"host": host, "status": "CONNECTED", "changed": True} for number, host in hosts.items()}
    nodes = {
        number: {"status": "UNAVAILABLE", "host": host, "connections": {"0": {"host": host, "status": "INVALID"}}}
        for number, host in hosts.items()
    }
    name, version = machine.sections["system"]["hostname"], machine.sections["nvml"]["driver_version"]
    itself = {"status": "READY", "host": "10.0.0.1", "hostName": name, "version": version, "changed": True}
    nodes["0"] = {**itself, "connections": connected, **(own or {})}
    said = json.dumps({"nodes": nodes, "timestamp": "9/4/2026 00:37:39.905", "status": status})
    machine.set("services", "imex", said if text is None else text)


@changes
def older_probe(machine):
    in_a_rack()(machine)
    del machine.sections["services"]["imex"]


def apart(*numbers, state="DISCONNECTED"):
    states = {number: state if number in numbers else "CONNECTED" for number in range(4)}
    return {str(number): {"host": f"10.0.0.{number + 1}", "status": said} for number, said in states.items()}


CASES = of("fabric.imex_domain")(
    Case("IMEX does not run on the host", SKIP, in_a_rack(imex="inactive")),
    Case("up, and connected to all", PASS, imex()),
    Case("healthy: another node is being serviced", PASS, imex(status="DEGRADED")),
    Case("down", FAIL, imex(status="DOWN")),
    Case("a word that is not known", ERROR, imex(status="SIDEWAYS")),
    Case("still waiting", FAIL, imex(own={"status": "WAITING_FOR_PEERS"})),
    Case("another version than the driver", FAIL, imex(own={"version": "535.1"})),
    Case("one of four not connected", WARN, imex(own={"connections": apart(2)})),
    Case("three of four not connected", FAIL, imex(own={"connections": apart(1, 2, 3)})),
    Case("no connection is listed", ERROR, imex(own={"connections": {}})),
    Case("a connection without a state", ERROR, imex(own={"connections": apart(1, state=FAILED)})),
    Case("the node is not in its domain", ERROR, imex(own={"hostName": "other"})),
    Case("not JSON", ERROR, imex(text="NvGpu Library version is not matching")),
    Case("the service cannot be asked", ERROR, imex(text=FAILED)),
    Case("no program", ERROR, in_a_rack()),
    Case("a probe that did not ask", SKIP, older_probe()),
)
CASES += of("ecc.corrected")(
    Case("healthy: a few are the work of ECC", PASS, gpu(3, "ecc.volatile_corrected", 5000)),
    Case("thousands an hour", WARN, gpu(3, "ecc.volatile_corrected", 10_000_000)),
    Case("a count that was not read", ERROR, gpu(3, "ecc.volatile_corrected", FAILED)),
    Case("a count that one GPU of eight does not report", ERROR, gpu(3, "ecc.volatile_corrected", UNSUPPORTED)),
)
CASES += of("fabric.imex")(
    Case("IMEX runs", PASS, in_a_rack()),
    Case("IMEX does not run", WARN, in_a_rack(imex="failed")),
    Case("systemd does not answer", ERROR, both(in_a_rack(), fails("services", "timeout", "systemctl"))),
)


test_the_check_says = asserting(CASES)
