"""Platforms: recognised by GPU model and switches, whatever is broken, and never guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.hardware import NVSWITCH, gpu_seen, gpus_seen, pci_seen

from nodegate.baseline.baseline import Baselines
from nodegate.errors import NotJudged
from nodegate.node import Node

if TYPE_CHECKING:
    from nodegate.probe.pci import Pci

H100, L40S, H200 = "10de:2330", "10de:26b9", "10de:2335"


@pytest.fixture(scope="module")
def shipped() -> Baselines:
    return Baselines.read()


def platform(shipped: Baselines, pci: Pci | None) -> str:
    return shipped.for_node(Node("n"), None, pci).platform


def test_eight_h100_with_switches(shipped: Baselines):
    assert platform(shipped, pci_seen(*[H100] * 8, *[NVSWITCH] * 4)) == "hgx-h100-8"


def test_lost_gpus_change_nothing(shipped: Baselines):
    assert platform(shipped, pci_seen(*[H100] * 3, *[NVSWITCH] * 4)) == "hgx-h100-8"


def test_lost_switches_change_nothing(shipped: Baselines):
    assert platform(shipped, pci_seen(*[H100] * 7)) == "hgx-h100-8"


def test_a_virtual_machine_that_sees_no_switch(shipped: Baselines):
    assert platform(shipped, pci_seen(*[H100] * 8)) == "hgx-h100-8"


def test_the_board_of_four_has_no_switches(shipped: Baselines):
    assert platform(shipped, pci_seen(*[H100] * 4)) == "hgx-h100-4"


def test_a_card_of_another_model_among_many_changes_nothing(shipped: Baselines):
    assert platform(shipped, pci_seen(*[L40S] * 7, H200)) == "l40s"


def test_half_and_half_is_unknown(shipped: Baselines):
    baseline = shipped.for_node(Node("n"), None, pci_seen(*[L40S] * 4, *[H200] * 4))
    assert baseline.platform == ""
    assert "4 x 10de:2335, 4 x 10de:26b9" in baseline.reason


def test_nvml_alone_will_do(shipped: Baselines):
    gpus = gpus_seen(*(gpu_seen(index, pci_id=L40S) for index in range(8)))
    assert shipped.for_node(Node("n"), gpus, None).platform == "l40s"


def test_an_unknown_model_is_said_and_not_judged(shipped: Baselines):
    baseline = shipped.for_node(Node("n"), None, pci_seen(*["10de:ffff"] * 8))
    assert baseline.platform == ""
    with pytest.raises(NotJudged) as said:
        baseline.limit("gpu.count")
    assert str(said.value) == (
        "no limit gpu.count for platform unknown (GPU PCI ids seen: 8 x 10de:ffff, no baseline has this model)"
    )


def test_a_node_that_shows_no_gpu_is_unknown(shipped: Baselines):
    baseline = shipped.for_node(Node("n"), None, None)
    assert "no NVIDIA GPU seen on PCIe or by NVML" in baseline.reason


def test_a_named_platform_counts_even_when_every_gpu_is_gone(shipped: Baselines):
    baseline = shipped.for_node(Node("n", expected={"platform": "hgx-h100-8"}), None, pci_seen())
    assert (baseline.platform, baseline.named, baseline.detected) == ("hgx-h100-8", "hgx-h100-8", "")
    assert baseline.limit("gpu.count").value == 8


def test_named_and_detected_are_both_kept(shipped: Baselines):
    baseline = shipped.for_node(Node("n", expected={"platform": "hgx-h200-8"}), None, pci_seen(*[L40S] * 8))
    assert (baseline.platform, baseline.detected) == ("hgx-h200-8", "l40s")
