"""Checks that need more than one machine's document: the fleet, and the controller's clock."""

import pytest
from fleet.machine import Machine
from support.judging import both, fleet_of, judge_one, plant

from nodegate import suite
from nodegate.judge.fleet import Fleet
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.probe.host import Clock
from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict
from nodegate.unknown import Unknown, Why
from nodegate.verdicts import Verdicts

L40S, MTU = Machine.pcie_l40s, "RoCE MTU (MT4129)"


def four_nodes():
    return {f"gpu{number:02}": Machine.hgx_h100(f"gpu{number:02}", number) for number in range(1, 5)}


def drift(machines, name):
    return judge_one("drift.same_as_fleet", machines[name], node=Node(name), fleet=fleet_of(machines))


def test_a_node_like_the_others_passes_with_each_characteristic_as_evidence():
    record = drift(four_nodes(), "gpu01")
    assert record.verdict is Verdict.PASS
    named = {part.name for finding in record.findings for part in finding.parts}
    assert named >= {"driver version", "kernel", "BIOS version", "GPU VBIOS"}


def set_port_types(machine):
    for name in machine.sections["infiniband"]:
        machine.set_port(name, 1, "gid_types", dict.fromkeys("0123", "IB/RoCE v1"))


LOST_SOCKET = both(plant.set("system", "cpu_sockets", 1), plant.set("cpus", "numa_nodes", "0"))
ODD = {
    "kernel": (Machine.hgx_h100, plant.set("system", "kernel_release", "5.15.0-101-generic"), {"kernel"}),
    "confidential": (Machine.hgx_h100, plant.set("nvml", "confidential", 1), {"confidential computing"}),
    "a socket": (Machine.hgx_h100, LOST_SOCKET, {"CPU sockets", "NUMA nodes"}),
    "ib_uverbs": (L40S, lambda machine: machine.sections["system"]["modules"].pop("ib_uverbs"), {"module ib_uverbs"}),
    "gdrdrv": (L40S, lambda machine: machine.sections["system"]["modules"].pop("gdrdrv"), {"module gdrdrv"}),
    "a disk": (L40S, lambda machine: machine.sections["disks"].pop("nvme3n1"), {"disks"}),
    "MTU": (L40S, lambda machine: [each.update(mtu="1500") for each in machine.sections["netdev"].values()], {MTU}),
    "RoCE v1": (L40S, set_port_types, {"RoCE GIDs (MT4129)"}),
}
SAID = {
    "kernel": "kernel: 5.15.0-101-generic, expected 5.15.0-119-generic",
    "confidential": "confidential computing: on, expected off",
}


@pytest.mark.parametrize("name", ODD)
def test_what_a_node_alone_cannot_tell_is_told_by_the_others(name):
    make, change, characteristics = ODD[name]
    machines = {f"gpu{number:02}": make(f"gpu{number:02}", number) for number in range(1, 5)}
    change(machines["gpu03"])
    odd = drift(machines, "gpu03")
    assert odd.verdict is Verdict.WARN
    assert {finding.part.name for finding in odd.decisive} == characteristics
    if name in SAID:
        assert odd.message == f"{SAID[name]} (3 of 4 nodes) - update it to the fleet's version"
    assert drift(machines, "gpu01").verdict is Verdict.PASS


def test_modules_that_could_not_be_read_are_not_called_missing():
    machines = four_nodes()
    machines["gpu03"].set("system", "modules", {"why": "denied", "detail": "EACCES"})
    assert drift(machines, "gpu03").verdict is Verdict.PASS


def test_two_nodes_are_no_fleet():
    machines = dict(list(four_nodes().items())[:2])
    assert drift(machines, "gpu01").verdict is Verdict.NOT_JUDGED


NO_NUMBER, NOT_RECORDED = Unknown(Why.FAILED, "no number"), Unknown(Why.MISSING, "a bare recording")


@pytest.mark.parametrize(
    ("skew_s", "error_s", "verdict", "message"),
    [
        (0.3, 0.2, Verdict.PASS, "clock: difference from the controller's clock 0.1 s"),
        (-9.0, 7.5, Verdict.PASS, "clock: difference from the controller's clock 1.5 s"),
        (-9.0, 0.5, Verdict.FAIL, "clock: difference from the controller's clock 8.5 s, expected at most 2 s (site)"),
        (NO_NUMBER, 0.0, Verdict.ERROR, "clock: could not read difference from the controller's clock: failed: no num"),
        (NOT_RECORDED, 0.0, Verdict.SKIP, "node: this evidence does not include the round-trip time"),
    ],
)
def test_skew_counts_beyond_what_the_round_trip_leaves_open(skew_s, error_s, verdict, message):
    clock = Clock(synchronized=True, offset_s=0.0, skew_s=skew_s, skew_error_s=error_s)
    known = {"clock": clock, "baseline": _OneLimit(), "fleet": Fleet({}), "verdicts": Verdicts()}
    record = judge(suite.check("host.clock_skew"), known.__getitem__, "gpu01")
    assert record.verdict is verdict
    assert record.message.startswith(message)


class _OneLimit:
    def number(self, key):
        assert key == "host.clock_skew_max_s"
        return Limit(2, "s", "site")
