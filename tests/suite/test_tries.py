"""docs/tried.md is what the tests under tests/tries hold."""

from __future__ import annotations

from pathlib import Path

from support import tries

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tried.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text("utf-8") == tries.page(), "stale: write it again: make docs"


def test_every_test_of_the_folder_is_a_try() -> None:
    marked = {each.group for each in tries.all_tries()}
    assert len(marked) == len(list(tries.TRIES.glob("test_*.py")))
