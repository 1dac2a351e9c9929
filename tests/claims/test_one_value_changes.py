"""docs/evidence/one-value-changes.md: what of a healthy node may be wrong without a word has a reason."""

from pathlib import Path

from bench import one_value_changes as script

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "one-value-changes.md"


def test_the_page_has_a_reason_for_everything() -> None:
    assert script.NO_REASON not in PAGE.read_text("utf-8")


def test_a_change_that_stays_accepted_without_a_reason_is_named() -> None:
    outcomes = [("cpus.smt", "", script.ACCEPTED), ("cpus.new", "", script.ACCEPTED), ("cpus.new", 1, script.REJECTED)]
    assert script.unexplained(outcomes) == ["cpus.new"]
    assert f'| {script.NO_REASON} | `cpus.new` ("") |' in script.page(outcomes)


def test_fewer_cpus_online_are_no_accepted_change() -> None:
    for change, text, verdict in (
        (("cpus", "online"), "0", script.REJECTED),
        (("cpus", "present"), "0", script.INCOMPLETE),
        (("cpus", "smt"), "garbage", script.ACCEPTED),
    ):
        assert script.verdict(script.changed(change, text), "cpus") == verdict
