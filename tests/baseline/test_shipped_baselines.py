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


def documented():
    """Limit key -> unit, "" where there is none."""
    rows = _ROW.findall((ROOT / "docs/reference/limit-keys.md").read_text())
    return {key: re.sub(r"^\(.*\)$", "", unit.strip()) for key, unit in rows}


def named_in_the_source():
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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_file_names_only_documented_keys_in_their_units(file):
    read = baseline_file.read(file, file.name)
    keys = documented()
    assert read.platform in (file.stem, "*")
    assert {key: entry.unit for key, entry in read.limits.items()} == {key: keys.get(key) for key in read.limits}


@pytest.mark.parametrize("file", [file for file in FILES if file.name != "common.yaml"], ids=lambda file: file.name)
def test_each_platform_says_how_it_is_recognised_and_what_it_is(file):
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


def test_no_value_is_of_another_order_of_magnitude_than_on_the_other_platforms():
    """A limit written in the wrong unit lets everything pass, or nothing. What has a peak is held to that."""
    seen: dict[str, list[float]] = {}
    for file in FILES:
        for key, entry in baseline_file.read(file).limits.items():
            plain = isinstance(entry.value, (int, float)) and not isinstance(entry.value, bool) and entry.peak is None
            if plain and entry.value:
                seen.setdefault(key, []).append(entry.value)
    assert {key: values for key, values in seen.items() if max(values) > 15 * min(values)} == {}
