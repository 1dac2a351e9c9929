"""Checks that need more than one machine's document: the fleet, and the controller's clock."""

import pytest
from fleet.machine import Machine
from support.judging import fleet_of, judge_one

from nodegate import suite
from nodegate.judge.fleet import Fleet
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.probe.clock import Clock
from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict
from nodegate.unknown import Unknown, Why
from nodegate.verdicts import Verdicts


def four_nodes():
    return {f"gpu{number:02}": Machine.hgx_h100(f"gpu{number:02}", number) for number in range(1, 5)}


def drift(machines, name):
    return judge_one("drift.same_as_fleet", machines[name], node=Node(name), fleet=fleet_of(machines))


def test_a_node_like_the_others_passes_with_each_characteristic_as_evidence():
    record = drift(four_nodes(), "gpu01")
    assert record.verdict is Verdict.PASS
    assert {part.name for finding in record.findings for part in finding.parts} >= {
        "driver version",
        "kernel",
        "BIOS version",
        "GPU VBIOS",
    }


def test_the_node_with_another_kernel_is_named_and_the_others_pass():
    machines = four_nodes()
    machines["gpu03"].set("system", "kernel_release", "5.15.0-101-generic")
    odd = drift(machines, "gpu03")
    assert odd.verdict is Verdict.WARN
    assert odd.message == (
        "kernel: 5.15.0-101-generic, expected 5.15.0-119-generic (3 of 4 nodes) - update it to the fleet's version"
    )
    assert drift(machines, "gpu01").verdict is Verdict.PASS


def test_the_node_with_confidential_computing_on_is_named():
    machines = four_nodes()
    machines["gpu03"].set("nvml", "confidential", 1)
    odd = drift(machines, "gpu03")
    assert odd.verdict is Verdict.WARN
    assert odd.message == ("confidential computing: on, expected off (3 of 4 nodes) - update it to the fleet's version")


def test_the_node_that_lost_a_socket_is_named():
    machines = four_nodes()
    machines["gpu03"].set("system", "cpu_sockets", 1)
    machines["gpu03"].set("cpus", "numa_nodes", "0")
    odd = drift(machines, "gpu03")
    assert odd.verdict is Verdict.WARN
    assert {finding.part.name for finding in odd.decisive} == {"CPU sockets", "NUMA nodes"}


@pytest.mark.parametrize(
    ("change", "characteristic"),
    [
        (lambda machine: machine.sections["system"]["modules"].pop("ib_uverbs"), "module ib_uverbs"),
        (lambda machine: machine.sections["system"]["modules"].pop("gdrdrv"), "module gdrdrv"),
        (lambda machine: machine.sections["disks"].pop("nvme3n1"), "disks"),
        (
            lambda machine: [entry.update(mtu="1500") for entry in machine.sections["netdev"].values()],
            "RoCE MTU (MT4129)",
        ),
        (
            lambda machine: [
                machine.set_port(name, 1, "gid_types", dict.fromkeys("0123", "IB/RoCE v1"))
                for name in machine.sections["infiniband"]
            ],
            "RoCE GIDs (MT4129)",
        ),
    ],
    ids=["ib_uverbs", "gdrdrv", "a disk", "MTU", "RoCE v1"],
)
def test_what_a_node_alone_cannot_tell_is_told_by_the_others(change, characteristic):
    machines = {f"gpu{number:02}": Machine.pcie_l40s(f"gpu{number:02}", number) for number in range(1, 5)}
    change(machines["gpu03"])
    assert {finding.part.name for finding in drift(machines, "gpu03").decisive} == {characteristic}
    assert drift(machines, "gpu01").verdict is Verdict.PASS


def test_modules_that_could_not_be_read_are_not_called_missing():
    machines = four_nodes()
    machines["gpu03"].set("system", "modules", {"why": "denied", "detail": "EACCES"})
    assert drift(machines, "gpu03").verdict is Verdict.PASS


def test_two_nodes_are_no_fleet():
    machines = dict(list(four_nodes().items())[:2])
    assert drift(machines, "gpu01").verdict is Verdict.NOT_JUDGED


@pytest.mark.parametrize(
    ("skew_s", "error_s", "verdict", "message"),
    [
        (0.3, 0.2, Verdict.PASS, "clock: difference from the controller's clock 0.1 s"),
        (-9.0, 7.5, Verdict.PASS, "clock: difference from the controller's clock 1.5 s"),
        (
            -9.0,
            0.5,
            Verdict.FAIL,
            (
                "clock: difference from the controller's clock 8.5 s, expected at most 2 s (site) - set the clock: "
                "chronyc makestep"
            ),
        ),
        (
            Unknown(Why.FAILED, "no number"),
            0.0,
            Verdict.ERROR,
            (
                "clock: could not read difference from the controller's clock: failed: no number - see the evidence "
                "file for what the node answered"
            ),
        ),
        (
            Unknown(Why.MISSING, "a bare recording"),
            0.0,
            Verdict.SKIP,
            "node: this evidence does not include the round-trip time",
        ),
    ],
)
def test_skew_counts_beyond_what_the_round_trip_leaves_open(skew_s, error_s, verdict, message):
    clock = Clock(synchronized=True, offset_s=0.0, skew_s=skew_s, skew_error_s=error_s)
    known = {"clock": clock, "baseline": _OneLimit(), "fleet": Fleet({}), "verdicts": Verdicts()}
    record = judge(suite.check("host.clock_skew"), known.__getitem__, "gpu01")
    assert (record.verdict, record.message) == (verdict, message)


class _OneLimit:
    def number(self, key):
        assert key == "host.clock_skew_max_s"
        return Limit(2, "s", "site")
