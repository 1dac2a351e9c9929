"""Limits that a slip of the pen would switch off; the keys that a site's own checks name."""

import pytest

from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.node import Node
from nodegate.suite import limit_keys_in

ALL_REDUCE = "nccl.all_reduce_gb_per_s"
BURN = "burn.bf16_tflops: {value: %s, unit: TFLOPS, direction: at least, source: ours}"
DOWNWARDS = "{value: %s, unit: %s, direction: at most, source: ours}"


def site(folder, limit, platform="hgx-h100-8"):
    file = folder / f"{platform.replace('*', 'everywhere')}.yaml"
    file.write_text(f'platform: "{platform}"\nlimits:\n  {limit}\n')
    return file


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("gpu.power_limit_w: {value: -700, unit: W, source: order}", "-700 W is below zero - write 700$"),
        ("gpu.power_limit_w: {value: 0.7, unit: W, source: order}", "0.7 W, where the known .* - write 700, in W$"),
        (f"{ALL_REDUCE}: {{value: -480, unit: GB/s, direction: at least, source: ours}}", "below zero - write 480$"),
        (BURN % 73, "less than a fifth of its peak of 989"),
        (BURN % "730, tolerance: 0.99", "at most 0.5: more lets everything pass"),
        ("burn.bf16_tflops: " + DOWNWARDS % (730, "TFLOPS"), "write at least$"),
        (f"{ALL_REDUCE}: " + DOWNWARDS % (480, "GB/s"), "write at least$"),
        ("rdma.write_gbps: " + DOWNWARDS % (380, "Gb/s"), "write at least$"),
        ("burn.fp16_tflops: {value: 700, unit: TFLOPS, source: ours}", r"no check asks for burn\.fp16_tflops"),
    ],
)
def test_a_slip_in_a_file_is_refused_with_its_line(tmp_path, limit, said):
    file = site(tmp_path, limit)
    with pytest.raises(UsageError, match=f"^{file}:3: .*{said}"):
        Baselines.read([file])


@pytest.mark.parametrize(("watts", "why"), [(-1, "is below zero"), (0, "holds for every device"), (0.7, "known")])
def test_a_limit_of_the_inventory(watts, why):
    node = Node("gpu1", expected={"limits": {"gpu.power_limit_w": watts}}, origin="hosts.yaml:7")
    with pytest.raises(UsageError, match=rf"^hosts\.yaml:7: .*{why}"):
        Baselines.read().check_expected([node])


def refusal(limits):
    with pytest.raises(UsageError) as caught:
        Baselines.read().check_expected([Node("gpu1", expected={"limits": limits}, origin="hosts.yaml:7")])
    return str(caught.value)


@pytest.mark.parametrize("value", ["700 W", ".nan", "nan", "inf", float("nan"), float("inf"), True, ""])
@pytest.mark.parametrize("key", ["gpu.power_limit_w", "gpu.count", "host.locked_memory_min_gib", "site.own_gb_per_s"])
def test_a_limit_that_is_no_number(key, value):
    assert f"{key} must be a number, not {value!r}" in refusal({key: value})


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("kernel.version_min", 5.15, "text"),
        ("software.nccl_version_min", 2.27, "text"),
        ("fabric.required", "perhaps", "true or false"),
        ("nccl.nvls", "yes please", "true or false"),
        ("counters.pcie_replays_per_lane_per_min", 8, "a list"),
    ],
)
def test_a_limit_of_another_kind(key, value, wanted):
    assert f"{key} must be {wanted}, not {value!r}" in refusal({key: value})


def test_a_limit_of_the_right_kind_is_taken():
    numbers = {"gpu.power_limit_w": "650", "host.locked_memory_min_gib": "unlimited"}
    limits = {**numbers, "kernel.version_min": "5.15", "nccl.nvls": False}
    Baselines.read().check_expected([Node("gpu1", expected={"limits": limits}, origin="hosts.yaml:7")])


def test_a_platform(tmp_path):
    file = site(tmp_path, "gpu.count: {value: 8, unit: GPUs, source: order}", platform="hgx-h100")
    with pytest.raises(UsageError, match=r"no platform 'hgx-h100'.* - did you mean hgx-h100-[48]"):
        Baselines.read([file])


def test_everywhere_means_everywhere_until_a_later_file(tmp_path):
    every = site(tmp_path, "gpu.count: {value: 9, unit: GPUs, source: order}", platform="*")
    later = site(tmp_path, "gpu.count: {value: 4, unit: GPUs, source: order, deliberate: half}")
    node = Node("gpu1", expected={"platform": "hgx-h100-8"})
    for files, count in (([every], 9), ([every, later], 4)):
        assert Baselines.read(files).for_node(node, None, None).number("gpu.count").value == count


CHECK = '''"""Memory, as in "host.memory_words"."""
WANTED = "host.memory_slots"


def test_memory(host, baseline, verdicts):
    """Not "host.memory_lines".  # nor 'host.memory_comments'"""
    limit = baseline.number("host.memory_bytes")
    helper(baseline, WANTED, f"host.{limit}")
'''


def baseline_file(folder, key):
    folder.mkdir(exist_ok=True)
    file = folder / "memory.yaml"
    file.write_text(f'platform: "*"\nlimits:\n  {key}: {{value: 8, unit: bytes, source: "our order"}}\n')
    return file


def check_file(folder):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "test_memory.py"
    file.write_text(CHECK)
    return file


def test_the_keys_of_a_check_are_those_of_its_code(tmp_path):
    file = check_file(tmp_path)
    assert limit_keys_in(file) == {"host.memory_slots", "host.memory_bytes"}
    file.write_text('baseline.number("host.memory_bytes"')  # not Python
    assert limit_keys_in(file) == frozenset()


def test_a_key_that_only_a_check_of_the_site_asks_for_is_accepted(tmp_path):
    checks = [check_file(tmp_path / "site/checks")]
    file = baseline_file(tmp_path / "elsewhere", "host.memory_bytes")
    assert Baselines.read([file], checks).common["host.memory_bytes"].value == 8
    with pytest.raises(UsageError, match=r"no check asks for host\.memory_bytes - did you mean host\.memory_gib\?"):
        Baselines.read([file])


@pytest.mark.parametrize("place", ["site", "site/baselines"])
def test_checks_beside_the_baseline_need_not_be_named(tmp_path, place):
    check_file(tmp_path / "site/checks")
    file = baseline_file(tmp_path / place, "host.memory_bytes")
    assert "host.memory_bytes" in Baselines.read([file]).common


def test_the_inventory_may_set_a_key_of_the_site_and_a_slip_is_refused(tmp_path):
    baselines = Baselines.read((), [check_file(tmp_path / "checks")])
    baselines.check_expected([Node("gpu01", expected={"limits": {"host.memory_bytes": 8}})])
    slip = Node("gpu01", expected={"limits": {"host.memory_byte": 8}}, origin="hosts.yaml:7")
    with pytest.raises(UsageError, match=r"unknown limit 'host\.memory_byte' - did you mean host\.memory_bytes\?"):
        baselines.check_expected([slip])
