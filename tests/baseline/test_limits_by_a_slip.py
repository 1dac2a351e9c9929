"""Limits that a slip of the pen would switch off.

Each test writes one line of a site's baseline file or inventory, beside the baselines of the suite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.node import Node

if TYPE_CHECKING:
    from pathlib import Path


def refused(folder: Path, limits: str, platform: str = "hgx-h100-8") -> UsageError:
    """What is said of a site's file with these limits."""
    file = folder / "site.yaml"
    file.write_text(f"platform: {platform}\nlimits:\n{limits}\n")
    with pytest.raises(UsageError) as caught:
        Baselines.read([file])
    assert str(caught.value).startswith(f"{file}:")
    return caught.value


def inventory_says(**limits: object) -> UsageError:
    node = Node("gpu1", expected={"limits": limits}, origin="hosts.yaml:7")
    with pytest.raises(UsageError) as caught:
        Baselines.read().check_expected([node])
    assert str(caught.value).startswith("hosts.yaml:7: ")
    return caught.value


def test_a_sign(tmp_path: Path) -> None:
    found = refused(tmp_path, "  gpu.power_limit_w: {value: -700, unit: W, source: order}")
    assert "gpu.power_limit_w: -700 W is below zero" in str(found)
    assert found.hint == "write 700"


def test_a_unit(tmp_path: Path) -> None:
    found = refused(tmp_path, "  gpu.power_limit_w: {value: 0.7, unit: W, source: order}")
    assert "0.7 W, where the known platforms have" in str(found)
    assert found.hint == "write 700, in W"


@pytest.mark.parametrize(("watts", "why"), [(-1, "is below zero"), (0, "holds for every device"), (0.7, "known")])
def test_a_limit_of_the_inventory(watts: float, why: str) -> None:
    assert why in str(inventory_says(**{"gpu.power_limit_w": watts}))


def test_a_sign_of_a_rate(tmp_path: Path) -> None:
    limits = "  nccl.all_reduce_gb_per_s: {value: -480, unit: GB/s, direction: at least, source: ours}"
    assert refused(tmp_path, limits).hint == "write 480"


def test_an_order_of_magnitude(tmp_path: Path) -> None:
    limits = "  burn.bf16_tflops: {value: 73, unit: TFLOPS, direction: at least, source: ours}"
    assert "less than a fifth of its peak of 989" in str(refused(tmp_path, limits))


def test_a_tolerance(tmp_path: Path) -> None:
    limits = "  burn.bf16_tflops: {value: 730, unit: TFLOPS, direction: at least, tolerance: 0.99, source: ours}"
    assert "at most 0.5: more lets everything pass" in str(refused(tmp_path, limits))


@pytest.mark.parametrize(
    ("key", "value", "unit"),
    [
        ("burn.bf16_tflops", 730, "TFLOPS"),
        ("nccl.all_reduce_gb_per_s", 480, "GB/s"),
        ("rdma.write_gbps", 380, "Gb/s"),
    ],
)
def test_a_direction(tmp_path: Path, key: str, value: int, unit: str) -> None:
    found = refused(tmp_path, f"  {key}: {{value: {value}, unit: {unit}, direction: at most, source: ours}}")
    assert found.hint == "write at least"


def test_a_platform(tmp_path: Path) -> None:
    found = refused(tmp_path, "  gpu.count: {value: 8, unit: GPUs, source: order}", platform="hgx-h100")
    assert "no platform 'hgx-h100'" in str(found)
    assert "hgx-h100-4" in found.hint or "hgx-h100-8" in found.hint


def test_everywhere_means_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text('platform: "*"\nlimits:\n  gpu.count: {value: 9, unit: GPUs, source: order}\n')
    read = Baselines.read([file])
    found = read.for_node(Node("gpu1", expected={"platform": "hgx-h100-8"}), None, None)
    assert found.number("gpu.count").value == 9
    later = tmp_path / "later.yaml"
    later.write_text(
        "platform: hgx-h100-8\nlimits:\n  gpu.count: {value: 4, unit: GPUs, source: order, deliberate: half}\n"
    )
    both = Baselines.read([file, later])
    assert both.for_node(Node("gpu1", expected={"platform": "hgx-h100-8"}), None, None).number("gpu.count").value == 4
