"""nvidia-smi -L and nvlink --status."""

from __future__ import annotations

import pytest
from support.nvidia_smi_lists import ListedGpu, parse_list, parse_nvlink_status
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.unknown import Unknown, Why

UUID = "GPU-0a1b2c3d-0001-4a7b-9c35-000000000000"


def test_healthy_links_have_their_speed():
    found = parse_nvlink_status(recording("nvidia_smi", "nvlink-healthy.txt"))
    assert [len(links) for links in found.values() if not isinstance(links, Unknown)] == [18, 18]
    assert {(link.up, link.speed_mbps) for link in found[0]} == {(True, 26562)}


def test_inactive_links_are_down():
    found = parse_nvlink_status(recording("nvidia_smi", "nvlink-inactive.txt"))
    assert [link.up for link in found[0]] == [True, False]
    assert isinstance(found[1], Unknown)
    assert found[1].why is Why.FAILED
    assert found[2] == ()


def test_a_line_that_is_cut_off_is_quoted():
    with pytest.raises(CannotMeasure, match=r"Link 1: 26\.5 "):
        parse_nvlink_status(recording("nvidia_smi", "nvlink-truncated.txt"))


@pytest.mark.parametrize("parse", [parse_list, parse_nvlink_status])
def test_empty_output_says_nothing(parse):
    with pytest.raises(CannotMeasure, match="is empty"):
        parse("\n")


def test_the_list_of_gpus():
    written = f"GPU 0: NVIDIA A100-PCIE-40GB (UUID: {UUID})\n  MIG 1g.5gb Device 0: (UUID: MIG-0)\n"
    assert parse_list(written) == (ListedGpu(0, "NVIDIA A100-PCIE-40GB", UUID),)


@pytest.mark.parametrize(
    "written",
    [
        f"GPU 0: NVIDIA A100 ({UUID})",
        f"GPU 0 NVIDIA A100 (UUID: {UUID})",
        f"GPU 0:  (UUID: {UUID})",
        "GPU 0: NVIDIA A100 (UUID: )",
        f"GPU 0: NVIDIA A100 (UUID: {UUID})\nGPU 2: NVIDIA A100 (UUID: {UUID})",
    ],
)
def test_a_list_with_a_bad_line_or_a_gap_is_not_read(written):
    with pytest.raises(CannotMeasure, match="GPU"):
        parse_list(written)
