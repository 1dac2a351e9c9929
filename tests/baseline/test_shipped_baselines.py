"""Every shipped baseline file loads, and its keys are those of docs/reference/limit-keys.md and of the checks."""

import re
from pathlib import Path

import pytest

from nodegate.baseline import baseline_file
from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.files.paths import suite_folder

ROOT = Path(__file__).parents[2]
FILES = sorted(suite_folder("baselines").glob("*.yaml"))
_ROW = re.compile(r"^\| `([a-z0-9_.]+)` \|([^|]*)\|", re.MULTILINE)
# A key in the source: "gpu.count", or composed as in f"burn.{dtype}_tflops".
_NAME = re.compile(r'"([a-z][a-z0-9_]*\.(?:[a-z0-9_.]|\{[^{}"]{1,60}\})+)"')
WANTED_PLATFORMS = {
    *("hgx-a100-40gb-8", "hgx-a100-80gb-8", "hgx-a800-8", "hgx-h100-8", "hgx-h800-8", "hgx-h20-8", "hgx-h200-8"),
    *("hgx-b200-8", "gb200-tray", "gb300-tray", "h100-pcie", "h100-nvl", "l40s", "a100-pcie-80gb", "rtx-4090"),
    *("hgx-b300-8", "gh200", "h200-nvl", "rtx-pro-6000", "hgx-h20-3e-8", "a800-pcie-80gb"),
    *("azure-nd-h100-v5", "aws-p5", "gcp-a3", "oci-bm-gpu-h100-8"),
}


def documented() -> dict[str, str]:
    """Limit key -> unit, "" where there is none."""
    rows = _ROW.findall((ROOT / "docs/reference/limit-keys.md").read_text())
    return {key: re.sub(r"^\(.*\)$", "", unit.strip()) for key, unit in rows}


def named_in_the_source() -> re.Pattern[str]:
    """What the checks and the machinery can ask a baseline for; a measured number is asked for by its metric's name."""
    files = [*suite_folder("checks").glob("test_*.py"), *(ROOT / "src/nodegate").rglob("*.py")]
    names = {name for file in files for name in _NAME.findall(file.read_text())}
    parts = (re.split(r"\{[^{}]*\}", name) for name in names)
    return re.compile("|".join("[a-z0-9_.]+".join(map(re.escape, part)) for part in parts))


def test_the_files_do_not_contradict_one_another():
    try:
        Baselines.read()
    except UsageError as wrong:
        pytest.fail(str(wrong), pytrace=False)


def test_the_platforms_of_the_field_are_there():
    assert Baselines.read().platforms.keys() >= WANTED_PLATFORMS


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_file_names_only_documented_keys_in_their_units(file: Path):
    read = baseline_file.read(file, file.name)
    keys = documented()
    assert read.platform in (file.stem, "*")
    assert {key: entry.unit for key, entry in read.limits.items()} == {key: keys.get(key) for key in read.limits}


@pytest.mark.parametrize("file", [file for file in FILES if file.name != "common.yaml"], ids=lambda file: file.name)
def test_each_platform_says_how_it_is_recognised_and_what_it_is(file: Path):
    read = baseline_file.read(file, file.name)
    assert read.match is not None or (read.like and "nodegate_platform" in file.read_text())
    assert read.title


def test_every_limit_that_a_check_asks_for_is_documented():
    asked = set()
    for file in suite_folder("checks").glob("test_*.py"):
        asked |= set(re.findall(r"baseline\.(?:limit|find|entry)\(\s*[\"']([a-z0-9_.]+)[\"']", file.read_text()))
    assert asked
    assert asked <= documented().keys()


def test_every_limit_that_a_file_sets_is_asked_for_by_a_check():
    """A limit that nothing reads would look like protection and be none."""
    in_files = {key for file in FILES for key in baseline_file.read(file).limits}
    asked = named_in_the_source()
    assert {key for key in in_files if not asked.fullmatch(key)} == set()


def test_an_h100_node_has_every_limit_that_its_platform_promises():
    limits = Baselines.read().platforms["hgx-h100-8"].limits
    assert {key: entry.value for key, entry in limits.items() if entry.peak is None} == {
        "gpu.count": 8,
        "gpu.power_limit_w": 700,
        "gpu.sm_clock_max_mhz": 1980,
        "gpu.memory_clock_max_mhz": 2619,
        "gpu.ecc": "on",
        "gpu.memory_min_gib": 78,
        "gpu.reports": (
            "ecc_errors ecc_errors_lifetime ecc_errors_sram ecc_pending remapped_rows inforom compute_mode power_limit "
            "power_limit_enforced margin_to_slowdown event_reasons processes spare_rows pcie_replays mig "
            "sram_threshold>=550 fabric fabric_health>=550"
        ),
        "nvlink.count": 18,
        "nvlink.speed_mbps": 26000,
        "fabric.required": True,
        "fabric.nvswitch_count": 4,
        "rdma.rails": 8,
        "rdma.rate_gbps": 400,
        "nccl.nvls": True,
    }


def test_no_value_is_of_another_order_of_magnitude_than_on_the_other_platforms():
    """A limit written in the wrong unit lets everything pass, or nothing. What has a peak is held to that."""
    seen: dict[str, list[float]] = {}
    for file in FILES:
        for key, entry in baseline_file.read(file).limits.items():
            plain = isinstance(entry.value, (int, float)) and not isinstance(entry.value, bool) and entry.peak is None
            if plain and entry.value:
                seen.setdefault(key, []).append(entry.value)
    assert {key: values for key, values in seen.items() if max(values) > 15 * min(values)} == {}
