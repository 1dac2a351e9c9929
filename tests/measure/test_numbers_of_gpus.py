"""Numbers of GPUs and collectives that are none, or that nothing was held to.

Each test changes what a healthy node measured, and judges the node's checks with the baselines of the suite.
"""

import pytest
from fleet.machine import Machine, facts_of
from support import nccl as fake
from support.attempts import attempts
from support.judging import baseline_of
from support.shipped import SHIPPED

from nodegate.baseline.entry import Entry
from nodegate.measure.nccl.findings import judge_devices
from nodegate.measure.nccl.result import parse
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.numbers import metric_findings
from nodegate.numbers.peers import Peers
from nodegate.records.verdict import Verdict
from nodegate.verdicts import Verdicts

WHATS = ("all_reduce", "all_reduce ring", "all_gather", "reduce_scatter", "alltoall", "sendrecv")


def of_board(platform):
    machine = Machine.hgx_h100("gpu1")
    return baseline_of(facts_of(machine), Node("gpu1", expected={"platform": platform}))


def found(platform, name, value, unit, device="GPU 0", **conditions):
    verdicts = Verdicts()
    metric = Metric(name, (value,), unit, device, conditions=conditions)
    alone = Peers.of({}).of_node("gpu1")
    metric_findings.judge(verdicts, [metric], baseline=of_board(platform), peers=alone, remedy="look")
    (finding,) = verdicts.findings
    return finding


BF16 = ("burn.bf16_tflops", "TFLOPS", {"matrix": "8192"})
MEMORY = ("memory.device_gb_per_s", "GB/s", {"path": "ce", "counted": "both"})


@pytest.mark.parametrize(
    ("platform", "number", "path", "value", "verdict", "why"),
    [
        ("hgx-h100-8", BF16, "ptx", 120.0, Verdict.FAIL, "derived: 30 % of the peak of hgx-h100-8.yaml"),
        ("hgx-h100-8", BF16, "ptx", 450.0, Verdict.PASS, ""),
        ("hgx-h100-8", BF16, "cublas", 70641.0, Verdict.ERROR, "more than the 989 TFLOPS that are possible"),
        ("hgx-h200-8", MEMORY, "ce", 1000.0, Verdict.FAIL, "at least"),
        ("gb200-tray", MEMORY, "ce", 1000.0, Verdict.FAIL, "at least"),
    ],
)
def test_a_number_that_physics_bounds(  # noqa: PLR0917 - a table
    platform: str, number: tuple[str, str, dict[str, str]], path: str, value: float, verdict: Verdict, why: str
) -> None:
    name, unit, conditions = number
    said = found(platform, name, value, unit, **conditions | {"path": path})
    assert said.verdict is verdict
    assert why in said.message
    assert verdict is Verdict.ERROR or (said.limit is not None and said.limit.kind.is_absolute)


@pytest.mark.parametrize("platform", sorted(SHIPPED.platforms))
@pytest.mark.parametrize("kernel", ["read", "copy", "triad"])
def test_memory_slow_for_kernels(platform, kernel):
    name = f"memory.{kernel}_gb_per_s"
    entry = of_board(platform).entry("memory.device_gb_per_s")
    assert isinstance(entry, Entry)
    assert entry.peak
    slow = found(platform, name, min(1000.0, 0.7 * entry.peak), "GB/s", path="kernel")
    assert slow.limit is not None
    assert (slow.verdict, slow.limit.kind.is_absolute) == (Verdict.FAIL, True)
    assert entry.peak / 2 < float(str(slow.limit.value)) < entry.peak
    assert found(platform, name, 0.9 * entry.peak, "GB/s", path="kernel").verdict is Verdict.PASS
    assert found(platform, name, 1.01 * entry.peak, "GB/s", path="kernel").verdict is Verdict.ERROR


# Public figures of good GPUs, by kernels of others: te42kyfo/gpu-benches, NVIDIA/cuda-samples issue 366
GOOD = (
    ("hgx-a100-40gb-8", "read", 1490.0),
    ("hgx-a100-40gb-8", "triad", 1360.0),
    ("hgx-a100-80gb-8", "triad", 1759.0),
    ("h100-pcie", "triad", 1832.0),
    ("l40s", "read", 844.0),
    ("l40s", "copy", 770.0),
    ("hgx-h20-8", "copy", 3300.0),
    ("hgx-h200-8", "copy", 4300.0),
)


@pytest.mark.parametrize(("platform", "kernel", "rate"), GOOD)
def test_public_figures_of_good_memory_pass(platform, kernel, rate):
    good = found(platform, f"memory.{kernel}_gb_per_s", rate, "GB/s", path="kernel")
    assert good.verdict is Verdict.PASS, good.message
    sick = found(platform, f"memory.{kernel}_gb_per_s", 0.76 * rate, "GB/s", path="kernel")
    assert sick.verdict is Verdict.FAIL, sick.message


@pytest.mark.parametrize(
    ("told", "verdict", "why"),
    [
        ({}, Verdict.PASS, "each on a GPU of this node"),
        ({"buses": [*range(0x21, 0x29)]}, Verdict.ERROR, "rank 0 is on 0000:21:00, where this node has no GPU"),
        ({"buses": [0x19] * 8}, Verdict.ERROR, "ranks 0 and 1 are on one GPU (0000:19:00)"),
        ({"model": "Tesla T4"}, Verdict.ERROR, "rank 0 is on a Tesla T4, and this node has nvidia h100"),
    ],
    ids=["good", "buses of another node", "two ranks on one GPU", "another model"],
)
def test_the_gpus_of_a_launch(told, verdict, why):
    verdicts, facts = Verdicts(), facts_of(Machine.hgx_h100("gpu1"))
    judge_devices(verdicts, parse(attempts([[fake.ran(what, **told) for what in WHATS]])), facts.gpus)
    assert verdicts.verdict is verdict
    assert why in verdicts.findings[0].message


def launches(**values):
    """Nodes of racks that each made one launch: rack -> its bus bandwidth."""
    nodes = {f"{rack}-{number}": (rack, value) for rack, value in values.items() for number in range(16)}
    return Peers.of({node: ("hgx-h100-8", [wide(rack, value)]) for node, (rack, value) in nodes.items()})


def wide(rack, value):
    conditions = {"group": "rack", "nodes": "16", "gpus": "128"}
    return Metric("nccl.group_all_reduce_gb_per_s", (value,), "GB/s", conditions=conditions, launch=f"rack {rack}")


def of_rack(rack, value, peers):
    verdicts = Verdicts()
    metric_findings.judge(
        verdicts, [wide(rack, value)], baseline=of_board("hgx-h100-8"), peers=peers.of_node(f"{rack}-3"), remedy="look"
    )
    return verdicts.findings[0]


def test_a_launch_is_not_compared_with_itself():
    assert of_rack("a", 5.0, launches(a=5.0)).verdict is Verdict.NOT_JUDGED


def test_two_racks_that_differ():
    peers = launches(a=380.0, b=315.0)
    slow = of_rack("b", 315.0, peers)
    assert slow.verdict is Verdict.WARN
    assert "17.1 % below the 380 GB/s of another launch over as many nodes" in slow.message
    assert of_rack("a", 380.0, peers).verdict is Verdict.NOT_JUDGED
