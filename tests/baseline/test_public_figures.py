"""Published figures of good and of bad nodes against the shipped limits, and every limit against physics."""

import csv
from pathlib import Path
from typing import NamedTuple

import pytest
from support.shipped import SHIPPED, VALUES

from nodegate.baseline.entry import Entry
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.numbers.limits import of_platform

# Limits that are below half of their peak, each with the reason.
BELOW_HALF = {
    ("hgx-h20-3e-8", "memory.device_gb_per_s"): "the copy engine gives less than half (nvbandwidth issue 48)",
    ("gb200-tray", "nccl.all_reduce_gb_per_s"): "the peak counts NVLS, which 4 GPUs of a tray use in part",
    ("gb300-tray", "nccl.all_reduce_gb_per_s"): "the peak counts NVLS, which 4 GPUs of a tray use in part",
    ("hgx-b200-8", "nccl.all_reduce_gb_per_s"): "NVLS of this generation is at 53 % of its peak with 8 GiB",
    ("hgx-b300-8", "nccl.all_reduce_gb_per_s"): "NVLS of this generation is at 45 % of its peak with 512 MiB",
    ("gb200-tray", "nccl.alltoall_gb_per_s"): "NCCL's own model has 40 of the 50 GB/s of a link (topo.h)",
    ("rtx-4090", "burn.fp32_tflops"): "the peak is at the highest clock, which 450 W do not keep",
}


class Figure(NamedTuple):
    """One published number."""

    platform: str
    key: str
    value: float
    conditions: dict[str, str]
    source: str

    def __str__(self):
        return f"{self.platform} {self.key} {self.value:g}"


def figures(state):
    with (Path(__file__).parent / "public_figures.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row.pop("state") == state]
    return [Figure(**{**row, "value": float(row["value"]), "conditions": pairs(row["conditions"])}) for row in rows]


def pairs(text):
    return dict(part.split("=") for part in text.split())


def limit_of(figure):
    """The limit that holds for a number, stored or derived, and its peak."""
    unit = "TFLOPS" if figure.key.endswith("_tflops") else "GB/s"
    metric = Metric(figure.key, (figure.value,), unit, conditions=figure.conditions)
    baseline = SHIPPED.for_node(Node("n", expected={"platform": figure.platform}), None, None)
    physics, entry = of_platform(metric, baseline), baseline.entry(figure.key)
    fitting = entry.for_conditions(figure.conditions) if entry else ""
    if isinstance(fitting, Entry) and fitting.value is not None:
        return float(str(fitting.limit.value)), physics.peak or 0.0
    assert physics.least is not None, f"{figure}: neither a value nor a share of a peak"
    return float(physics.least.value), physics.peak or physics.least.value * 100


@pytest.mark.parametrize("figure", figures("healthy"), ids=str)
def test_what_is_published_of_good_boards_passes(figure):
    least, peak = limit_of(figure)
    assert least <= figure.value <= peak, figure.source


@pytest.mark.parametrize("figure", figures("sick"), ids=str)
def test_what_is_published_of_bad_boards_fails(figure):
    least, _ = limit_of(figure)
    assert figure.value < least, figure.source


def test_every_figure_has_its_source_and_every_board_a_figure():
    every = figures("healthy") + figures("sick")
    assert all(each.source for each in every)
    boards = {name for name, each in SHIPPED.platforms.items() if not each.like}
    assert sorted(boards - {each.platform for each in every}) == []
    assert len(figures("healthy")) > 80
    assert len(figures("sick")) > 40


def test_each_stored_limit_is_below_its_peak_and_above_half_of_it():
    """Below half of what physics allows a limit finds little: such a one is named here, with the reason."""
    low = set()
    for name, entry in VALUES:
        gate, peak = float(str(entry.limit.value)), float(entry.peak or 0)
        assert gate < peak, entry.origin
        if gate <= peak / 2:
            low.add((name, entry.key))
    assert low == BELOW_HALF.keys()
