"""What ecc.corrected, fabric.imex and fabric.imex_domain say of one machine, word for word."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.cases import assert_case
from support.judging import Case

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.machine import Machine

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOTHING: Mapping[str, object] = {}
RACK = "6f7a1c00-59a3-4f3e-8b1f-2d1c5e0a9b77"
UNSUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}
FAILED = {"why": "failed", "detail": "NVML 999"}


def in_a_rack(machine: Machine, *, imex: str = "active") -> None:
    for index in range(8):
        machine.set_gpu(index, "fabric.cluster_uuid", RACK)
        machine.set_gpu(index, "fabric.clique", 32766)
    machine.set_unit("nvidia-imex", "LoadState", "loaded")
    machine.set_unit("nvidia-imex", "ActiveState", imex)


def imex(machine: Machine, text: object = None, status: str = "UP", own: Mapping[str, object] = NOTHING) -> None:
    """Four nodes of a rack as this one (gpu0001) sees them; `own` changes its own entry."""
    in_a_rack(machine)
    hosts = {str(number): f"10.0.0.{number + 1}" for number in range(4)}
    connected = {number: {"host": host, "status": "CONNECTED", "changed": True} for number, host in hosts.items()}
    nodes = {
        number: {"status": "UNAVAILABLE", "host": host, "connections": {"0": {"host": host, "status": "INVALID"}}}
        for number, host in hosts.items()
    }
    name, version = machine.sections["system"]["hostname"], machine.sections["nvml"]["driver_version"]
    itself = {"status": "READY", "host": "10.0.0.1", "hostName": name, "version": version, "changed": True}
    nodes["0"] = {**itself, "connections": connected, **own}
    said = json.dumps({"nodes": nodes, "timestamp": "9/4/2026 00:37:39.905", "status": status})
    machine.set("services", "imex", said if text is None else text)


def with_own(**own: object) -> Callable[[Machine], None]:
    return lambda machine: imex(machine, own=own)


def older_probe(machine: Machine) -> None:
    in_a_rack(machine)
    del machine.sections["services"]["imex"]


def apart(*numbers: int, state: object = "DISCONNECTED") -> dict[str, object]:
    states = {number: state if number in numbers else "CONNECTED" for number in range(4)}
    return {str(number): {"host": f"10.0.0.{number + 1}", "status": said} for number, said in states.items()}


domain = partial(Case, check="fabric.imex_domain")
DOMAIN = (
    domain("no rack", verdict=SKIP),
    domain("IMEX does not run on the host", verdict=SKIP, change=partial(in_a_rack, imex="inactive")),
    domain("up, and connected to all", verdict=PASS, change=imex),
    domain("healthy: another node is being serviced", verdict=PASS, change=partial(imex, status="DEGRADED")),
    domain("down", verdict=FAIL, change=partial(imex, status="DOWN")),
    domain("a word that is not known", verdict=ERROR, change=partial(imex, status="SIDEWAYS")),
    domain("still waiting", verdict=FAIL, change=with_own(status="WAITING_FOR_PEERS")),
    domain("another version than the driver", verdict=FAIL, change=with_own(version="535.1")),
    domain("one of four not connected", verdict=WARN, change=with_own(connections=apart(2))),
    domain("three of four not connected", verdict=FAIL, change=with_own(connections=apart(1, 2, 3))),
    domain("no connection is listed", verdict=ERROR, change=with_own(connections={})),
    domain("a connection without a state", verdict=ERROR, change=with_own(connections=apart(1, state=FAILED))),
    domain("the node is not in its domain", verdict=ERROR, change=with_own(hostName="other")),
    domain("not JSON", verdict=ERROR, change=partial(imex, text="NvGpu Library version is not matching")),
    domain("the service cannot be asked", verdict=ERROR, change=partial(imex, text=FAILED)),
    domain("no program", verdict=ERROR, change=in_a_rack),
    domain("a probe that did not ask", verdict=SKIP, change=older_probe),
)
CASES = (
    Case("none", "ecc.corrected", PASS),
    Case(
        "healthy: a few are the work of ECC",
        "ecc.corrected",
        PASS,
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", 5000),
    ),
    Case(
        "thousands an hour",
        "ecc.corrected",
        WARN,
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", 10_000_000),
    ),
    Case(
        "a count that was not read",
        "ecc.corrected",
        ERROR,
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", FAILED),
    ),
    Case(
        "a count that one GPU of eight does not report",
        "ecc.corrected",
        ERROR,
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", UNSUPPORTED),
    ),
    Case("no rack", "fabric.imex", SKIP),
    Case("IMEX runs", "fabric.imex", PASS, change=in_a_rack),
    Case("IMEX does not run", "fabric.imex", WARN, change=lambda machine: in_a_rack(machine, imex="failed")),
    Case(
        "systemd does not answer",
        "fabric.imex",
        ERROR,
        change=lambda machine: (in_a_rack(machine), machine.section_fails("services", "timeout", "systemctl")),
    ),
)


@pytest.mark.parametrize("case", [*CASES, *DOMAIN], ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
