"""docs/evidence/one-value-changes.md: what of a healthy node may be wrong without a word has a reason."""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "one-value-changes.md"


@cache
def bench() -> Any:
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("one_value_changes", ROOT / "bench" / "one_value_changes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_a_reason_for_everything() -> None:
    assert bench().NO_REASON not in PAGE.read_text("utf-8")


def test_a_change_that_stays_accepted_without_a_reason_is_named() -> None:
    script = bench()
    outcomes = [("cpus.smt", "", script.ACCEPTED), ("cpus.new", "", script.ACCEPTED), ("cpus.new", 1, script.REJECTED)]
    assert script.unexplained(outcomes) == ["cpus.new"]
    assert f'| {script.NO_REASON} | `cpus.new` ("") |' in script.page(outcomes)


def test_fewer_cpus_online_are_no_accepted_change() -> None:
    script = bench()
    assert script.verdict(script.changed(("cpus", "online"), "0"), "cpus") == script.REJECTED
    assert script.verdict(script.changed(("cpus", "present"), "0"), "cpus") == script.INCOMPLETE
    assert script.verdict(script.changed(("cpus", "smt"), "garbage"), "cpus") == script.ACCEPTED
