"""Few nodes: what two, three and four tell of each other, and what the median of a node's devices is held to."""

import numpy as np
import pytest
from support.measured import baseline, metric

from bench.fleets import HIGH, LOW, Cell, drawn
from bench.judged_fleets import NAMES, judged
from nodegate.metric import Metric, Statistic
from nodegate.numbers.assessments import assessments
from nodegate.numbers.peers import Peers
from nodegate.records.finding import LimitKind
from nodegate.records.verdict import Verdict

RATE = "burn.bf16_tflops"
FAIL, WARN, UNKNOWN = Verdict.FAIL, Verdict.WARN, Verdict.NOT_JUDGED


def of_pairs(*speeds):
    fleet = {
        f"gpu{at}": ("hgx-h100-8", [Metric("nccl.group_all_reduce_gb_per_s", looks, "GB/s", statistic=Statistic.BEST)])
        for at, looks in enumerate((speed, speed * 0.995) for speed in speeds)
    }
    peers = Peers.of(fleet)
    found = [
        next(assessments(own, baseline=baseline(), peers=peers.of_node(node)))[1] for node, (_, own) in fleet.items()
    ]
    return [(each.verdict, each.note) for each in found]


@pytest.mark.parametrize(
    ("speeds", "verdicts", "said"),
    [
        ((388, 388, 349), (UNKNOWN, UNKNOWN, FAIL), "10.1 % below the 388 GB/s that 2 of 2 other nodes reach"),
        ((388, 389, 390, 349), (UNKNOWN, UNKNOWN, UNKNOWN, FAIL), "10.1 % below the 388 GB/s that 3 of 3 other nodes"),
        ((388, 349), (UNKNOWN, WARN), "10.1 % below the 388 GB/s that the other node reaches: one of the two is not"),
        ((388, 388, 349, 349), (UNKNOWN, UNKNOWN, WARN, WARN), "2 of 3 other nodes reach: which half is right is not"),
        ((349, 349, 388), (UNKNOWN,) * 3, "only 3 nodes"),  # one that is fast is no reason to blame two
        ((388, 390, 380), (UNKNOWN,) * 3, "only 3 nodes"),
    ],
)
def test_who_is_told_by_few_others(speeds, verdicts, said):
    found = of_pairs(*speeds)
    assert tuple(verdict for verdict, _ in found) == verdicts
    assert said in found[-1][1]


def told(nodes, noise, left, where, trials):
    rng, good, slow = np.random.default_rng(4), [], []
    for _ in range(trials):
        fleet = drawn(
            Cell("", nodes, 1, noise, int(left < 1), left, where, tuple(range(6 if where == "busbw" else 3))), rng
        )
        for measurement in NAMES.keys() & fleet.keys():
            for bad, verdict in zip(fleet["bad"], judged(measurement, fleet[measurement])[0], strict=True):
                (slow if bad else good).append(verdict)
    return good, slow


@pytest.mark.parametrize("where", ["burn", "busbw"])
@pytest.mark.parametrize(("nodes", "verdict"), [(2, WARN), (3, FAIL), (4, FAIL)])
def test_a_node_10_percent_slow_of_few_is_told_and_no_good_one(nodes, verdict, where):
    good, slow = told(nodes, LOW, 0.9, where, 3)
    assert slow == [verdict] * 3
    assert FAIL not in good
    assert good.count(WARN) <= 1


@pytest.mark.parametrize("noise", [LOW, HIGH], ids=["low", "high"])
def test_good_nodes_of_few_are_not_rejected(noise):
    good, _ = told(3, noise, 1.0, "", 4)
    assert FAIL not in good
    assert good.count(WARN) <= 0.05 * len(good)


@pytest.mark.parametrize(
    ("share", "source", "verdict", "limit"),
    [
        (0.90, "best_value: 730", FAIL, 686.2),
        (0.90, "note: elsewhere", WARN, 686.2),
        (0.95, "note: elsewhere", Verdict.PASS, 686.2),
    ],
)
def test_the_median_of_a_lone_node_is_held_to_the_stored_value_less_6_percent(share, source, verdict, limit):
    by = baseline(f"  {RATE}: {{value: 730, unit: TFLOPS, direction: at least, tolerance: 0.1, source: s, {source}}}\n")
    gpus = [
        metric(730 * share * (1.01 if at % 2 else 1.0), name=RATE, unit="TFLOPS", device=f"GPU {at}") for at in range(8)
    ]
    found = list(assessments(gpus, baseline=by, peers=Peers.of({"own": ("hgx-h100-8", gpus)}).of_node("own")))
    assert {said.verdict for each, said in found if each.device} == {Verdict.PASS}  # each is within its own 10 %
    (of_node,) = [said for each, said in found if not each.device]
    assert (of_node.verdict, of_node.limit.value) == (verdict, pytest.approx(limit))
    assert of_node.limit.kind is LimitKind.BASELINE
    assert of_node.kept is not None  # by the node or by each of its devices, so a warning leaves the claim proven


def test_without_a_stored_value_nothing_is_said_of_a_lone_nodes_median():
    gpus = [metric(600.0, name=RATE, unit="TFLOPS", device=f"GPU {at}") for at in range(8)]
    found = assessments(gpus, baseline=baseline(), peers=Peers.of({"own": ("hgx-h100-8", gpus)}).of_node("own"))
    assert {each.device for each, _ in found} == {f"GPU {at}" for at in range(8)}
