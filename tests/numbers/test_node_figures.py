"""The median of a node's devices beside that of the other nodes, and a place that is slow on every node."""

import numpy as np
import pytest
from support.measured import baseline, metric

from nodegate.numbers.assessments import assessments
from nodegate.numbers.limits import Physics
from nodegate.numbers.metric_findings import quantity_of
from nodegate.numbers.peers import Peers
from nodegate.numbers.quantities import node_figures
from nodegate.records.verdict import Verdict

RATE = "burn.bf16_tflops"
BY = baseline()


def gpus(speeds, *, unit="TFLOPS"):
    return [metric(float(speed), name=RATE, unit=unit, device=f"GPU {at}") for at, speed in enumerate(speeds)]


def told(own, *, chips=0.015):
    rng = np.random.default_rng(11)
    fleet = {f"gpu{at:02}": ("hgx-h100-8", gpus(rng.normal(700, 700 * chips, 8))) for at in range(15)}
    fleet["own"] = ("hgx-h100-8", gpus(own))
    found = assessments(fleet["own"][1], baseline=BY, peers=Peers.of(fleet).of_node("own"))
    return [(quantity_of(each), said.verdict) for each, said in found if not each.device]


def test_eight_gpus_that_are_5_percent_slow_together_are_the_nodes_fault():
    assert told([665.0] * 8) == [("bf16 rate, median of 8", Verdict.FAIL)]


def test_one_slow_gpu_does_not_make_its_node_slow():
    assert told([700.0] * 7 + [600.0]) == []


def test_a_node_like_the_others_is_not_mentioned():
    assert told([700.0] * 8) == []


@pytest.mark.parametrize(
    "metrics",
    [gpus([60.0] * 8, unit="°C"), gpus([700.0] * 3), [metric(480.0)]],
    ids=["heat", "three devices", "a number of the node"],
)
def test_what_has_no_figure(metrics):
    assert node_figures(metrics) == []


def test_each_attempt_has_its_own_median():
    devices = [metric(700.0 + at, 600.0 + at, name=RATE, unit="TFLOPS", device=f"GPU {at}") for at in range(8)]
    (figure,) = node_figures(devices)
    assert (figure.values, figure.device) == ((703.5, 603.5), "")


COPY = "memory.host_to_device_gb_per_s"


def places(rates, *, nodes=16, unit="GB/s", slower_link=None):
    def own():
        return [metric(rate, name=COPY, unit=unit, device=f"GPU {at}") for at, rate in enumerate(rates)]

    fleet = {f"gpu{at:02}": ("hgx-h100-8", own()) for at in range(nodes)}
    peers = Peers.of(fleet).of_node("gpu03")

    def link(each, _):
        return Physics(200.0 if each.device == f"GPU {slower_link}" else 400.0, "its link")

    found = assessments(fleet["gpu03"][1], baseline=baseline(), peers=peers, physics=link)
    return {each.device: said.note for each, said in found if said.verdict is not Verdict.PASS}


def test_a_place_that_is_7_percent_slow_on_all_nodes_is_a_warning():
    found = places([390.0] * 3 + [363.0] + [390.0] * 4)
    assert list(found) == ["GPU 3"]
    assert "slow on 16 nodes: its median 363 GB/s is 6.9 % below the 390 GB/s of 7 other places" in found["GPU 3"]


@pytest.mark.parametrize(
    ("rates", "more"),
    [
        ([390.0] * 8, {}),
        ([390.0] * 4 + [363.0] * 4, {}),  # the far socket
        ([390.0] * 3 + [375.0] + [390.0] * 4, {}),  # within the floor
        ([390.0] * 3 + [195.0] + [390.0] * 4, {"slower_link": 3}),
        ([60.0] * 3 + [50.0] + [60.0] * 4, {"unit": "°C"}),
    ],
    ids=["all equal", "half of the places", "a little", "a slower link", "heat"],
)
def test_what_is_no_fault_of_a_place(rates, more):
    assert places(rates, **more) == {}
