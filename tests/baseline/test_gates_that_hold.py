"""Defects of other checkers' limits: values in another unit, and gates that hold nothing."""

import pytest
from support.shipped import FILES, SHIPPED, VALUES

from nodegate.baseline import baseline_file
from nodegate.errors import UsageError
from nodegate.files import strict_yaml

# Boards with limits of their own; of the newest little is published yet.
OF_EIGHT = sorted(
    file.platform for file in FILES if file.platform.endswith("-8") and not file.like and "b300" not in file.platform
)
GATES_THAT_MATTER = {
    *("gpu.count", "gpu.ecc", "nvlink.count", "fabric.required", "burn.bf16_tflops"),
    *("memory.host_to_device_gb_per_s", "memory.device_to_host_gb_per_s", "memory.peer_gb_per_s"),
    *("nccl.nvls", "nccl.all_reduce_gb_per_s", "nccl.all_reduce_ring_gb_per_s"),
    *("nccl.all_gather_gb_per_s", "nccl.reduce_scatter_gb_per_s", "nccl.alltoall_gb_per_s"),
}


@pytest.mark.parametrize("factor", [1000, 0.001, 8, 0.125])
def test_no_shipped_value_could_be_off_by_a_thousand_or_by_eight(factor: float) -> None:
    """DCGM holds an H200 to 2333 MB/s of memory bandwidth, where 3,500,000 are measured: it never fails."""
    for platform, entry in VALUES:
        text = f"platform: p\nlimits:\n  {entry.key}:\n    {{value: {entry.value * factor:.6f}, peak: {entry.peak}, "  # type: ignore[operator]
        loaded = strict_yaml.load(f'{text}unit: "{entry.unit}", direction: at least, source: slip}}\n', platform)
        with pytest.raises(UsageError, match=r":4: .*(less than a fifth of its peak|the peak is what nothing)"):
            baseline_file.parse(loaded)


def test_there_are_the_boards_that_matter() -> None:
    boards = {"a100-40gb", "a100-80gb", "a800", "h100", "h800", "h20", "h200", "b200"}
    assert set(OF_EIGHT) == {f"hgx-{board}-8" for board in boards}


@pytest.mark.parametrize("platform", OF_EIGHT)
def test_every_board_with_eight_gpus_has_the_gates_that_matter(platform: str) -> None:
    """NVSentinel passes an all_reduce of 100 GB/s where 480 are measured; oci-dr-hpc checks nothing on a B200."""
    assert GATES_THAT_MATTER - SHIPPED.platforms[platform].limits.keys() == set()
    held = [entry for name, entry in VALUES if name == platform]
    assert len(held) > 9
    loose = [entry.key for entry in held if entry.limit.value < 0.9 * entry.value - 1e-9]  # type: ignore[operator]
    assert loose == []
