"""The performance values that the suite ships: each with its peak, source and conditions, each gate tight enough."""

import pytest
from support.shipped import FILES, RATES, SHIPPED, VALUES

from nodegate.baseline import baseline_file
from nodegate.baseline.entry import Entry
from nodegate.errors import UsageError
from nodegate.files import strict_yaml

OF_EIGHT = sorted(file.platform for file in FILES if file.platform.endswith("-8"))
GEN3_X16, GEN4_X16, GEN5_X16 = 15.75, 31.5, 63.0  # GB/s in one direction
GIB = 1 << 30


def stored(platform, key, **conditions):
    found = SHIPPED.platforms[platform].limits[key].for_conditions(conditions)
    assert isinstance(found, Entry), found
    return found


def gate(platform, key, **conditions):
    value = stored(platform, key, **conditions).limit.value
    assert isinstance(value, float)
    return value


def test_every_rate_says_what_physics_allows_and_where_that_comes_from():
    bare = [
        (platform, entry.key)
        for platform, entry in RATES
        if not (entry.peak and (entry.source if entry.value is None else entry.peak_source))
    ]
    assert bare == []


def test_every_value_is_a_floor_below_a_typical_one_with_its_source_and_conditions():
    """Values of two tools, two sizes or two numbers of GPUs are no values of one kind."""
    needed = {"burn": {"path", "matrix"}, "nccl": {"gpus"}, "rdma": {"size_bytes_min"}, "memory": set()}
    assert len(VALUES) > 100
    for platform, entry in VALUES:
        assert entry.direction == "at least", (platform, entry.key)
        assert 0 < entry.tolerance < 0.2, (platform, entry.key)
        assert len(entry.source) >= 8, (platform, entry.key)
        assert entry.parameters.keys() >= needed[entry.key.partition(".")[0]], (platform, entry.key)
        assert entry.parameters, (platform, entry.key)


@pytest.mark.parametrize(
    ("platform", "of_8_gib", "of_1_gib"),
    [("hgx-a100-80gb-8", 232, 222), ("hgx-h100-8", 480, 445), ("hgx-h200-8", 473, 460), ("hgx-b200-8", 838, 704)],
)
def test_a_delivery_and_a_night_are_held_to_different_values(platform, of_8_gib, of_1_gib):
    for size, value in ((8 * GIB, of_8_gib), (GIB, of_1_gib), (GIB // 2, of_1_gib)):
        assert stored(platform, "nccl.all_reduce_gb_per_s", size_bytes=str(size), gpus="8").value == value


@pytest.mark.parametrize("platform", ["hgx-h100-8", "hgx-h200-8", "hgx-b200-8"])
@pytest.mark.parametrize("size", [8 * GIB, GIB, GIB // 2])
def test_a_node_that_lost_nvlink_sharp_is_below_the_gate_at_every_size(platform, size):
    """Rings give 370 GB/s where NVLS gives 480, and less for smaller messages."""
    ring = float(str(stored(platform, "nccl.all_reduce_ring_gb_per_s", size_bytes=str(8 * GIB), gpus="8").value))
    lost = ring if size == 8 * GIB else 0.9 * ring
    assert lost < gate(platform, "nccl.all_reduce_gb_per_s", size_bytes=str(size), gpus="8")


@pytest.mark.parametrize("platform", OF_EIGHT)
def test_sharp_is_expected_from_hopper_on(platform):
    expected = SHIPPED.platforms[platform].limits["nccl.nvls"]
    assert expected.value is not platform.startswith(("hgx-a100", "hgx-a800"))


ON_PCIE = {
    platform
    for platform, entry in VALUES
    if entry.key == "memory.host_to_device_gb_per_s" and platform != "gh200"  # its link is NVLink-C2C
}


@pytest.mark.parametrize("platform", sorted(ON_PCIE))
@pytest.mark.parametrize("key", ["memory.host_to_device_gb_per_s", "memory.device_to_host_gb_per_s"])
def test_half_the_width_and_a_generation_less_are_below_the_gate(platform, key):
    entry = stored(platform, key, path="ce")
    limit, peak = gate(platform, key, path="ce"), entry.peak
    assert peak in (GEN4_X16, GEN5_X16)
    assert limit > (GEN4_X16 if peak == GEN5_X16 else GEN3_X16)
    assert limit > float(str(entry.value)) / 2


def test_the_nic_entry_holds_for_every_port_rate():
    share = float(str(SHIPPED.common["rdma.share_of_rate_percent"].limit.value))
    for rate, healthy in ((100, 97), (200, 195), (400, 388)):  # Gb/s: the lowest that healthy ports showed
        assert rate / 2 < rate * share / 100 <= healthy


# Boards with limits of their own; of the newest little is published yet.
BOARDS_OF_EIGHT = sorted(
    file.platform for file in FILES if file.platform.endswith("-8") and not file.like and "b300" not in file.platform
)
GATES_THAT_MATTER = {
    *("gpu.count", "gpu.ecc", "nvlink.count", "fabric.required", "burn.bf16_tflops"),
    *("memory.host_to_device_gb_per_s", "memory.device_to_host_gb_per_s", "memory.peer_gb_per_s"),
    *("nccl.nvls", "nccl.all_reduce_gb_per_s", "nccl.all_reduce_ring_gb_per_s"),
    *("nccl.all_gather_gb_per_s", "nccl.reduce_scatter_gb_per_s", "nccl.alltoall_gb_per_s"),
}


@pytest.mark.parametrize("factor", [1000, 0.001, 8, 0.125])
def test_no_shipped_value_could_be_off_by_a_thousand_or_by_eight(factor):
    """DCGM holds an H200 to 2333 MB/s of memory bandwidth, where 3,500,000 are measured: it never fails."""
    for platform, entry in VALUES:
        text = f"platform: p\nlimits:\n  {entry.key}:\n    {{value: {entry.value * factor:.6f}, peak: {entry.peak}, "  # type: ignore[operator]
        loaded = strict_yaml.load(f'{text}unit: "{entry.unit}", direction: at least, source: slip}}\n', platform)
        with pytest.raises(UsageError, match=r":4: .*(less than a fifth of its peak|the peak is what nothing)"):
            baseline_file.parse(loaded)


def test_there_are_the_boards_that_matter():
    boards = {"a100-40gb", "a100-80gb", "a800", "h100", "h800", "h20", "h200", "b200"}
    assert set(BOARDS_OF_EIGHT) == {f"hgx-{board}-8" for board in boards}


@pytest.mark.parametrize("platform", BOARDS_OF_EIGHT)
def test_every_board_with_eight_gpus_has_the_gates_that_matter(platform):
    """NVSentinel passes an all_reduce of 100 GB/s where 480 are measured; oci-dr-hpc checks nothing on a B200."""
    assert GATES_THAT_MATTER - SHIPPED.platforms[platform].limits.keys() == set()
    held = [entry for name, entry in VALUES if name == platform]
    assert len(held) > 9
    loose = [entry.key for entry in held if entry.limit.value < 0.9 * entry.value - 1e-9]  # type: ignore[operator]
    assert loose == []
