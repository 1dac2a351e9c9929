"""The verdict that one hook leaves for the next is believed only where it can be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nodegate.exit_codes import Exit
from nodegate.hook.answer import Answer
from nodegate.hook.verdict_cache import keep, kept, now_s

FIT = Answer(Exit.FIT, "fit: 77 checks passed")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A verdict that was measured just now."""
    keep(tmp_path / "run/verdict.json", "limits", FIT, now_s())
    return tmp_path / "run/verdict.json"


def read(file: Path) -> Answer | None:
    return kept(file, "limits", now_s() - 60)


def test_it_comes_back_with_its_age(file: Path) -> None:
    found = read(file)
    assert found is not None
    assert (found.exit, found.line) == (FIT.exit, FIT.line)
    assert 0 <= found.age_s < 60
    assert found.shown() == f"fit: 77 checks passed (checked {found.age_s:.0f} s ago)"


def test_it_is_written_for_all_to_read_and_for_us_to_write(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in file.parent.iterdir()] == ["verdict.json"]


def test_an_old_one_does_not_count(file: Path) -> None:
    assert kept(file, "limits", now_s()) is None


def test_one_by_other_limits_does_not_count(file: Path) -> None:
    assert kept(file, "other limits", 0.0) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("boot", "an earlier boot"),
        ("schema", "nodegate.kept/2"),
        ("measured_s", 1e12),
        ("measured_s", "NaN"),
        ("measured_s", None),
        ("exit_code", 3),
        ("exit_code", None),
    ],
    ids=str,
)
def test_one_that_says_something_else_does_not_count(file: Path, key: str, value: object) -> None:
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, key: value}))
    assert read(file) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 9000, "\x00" * 9000])
def test_a_damaged_one_does_not_count(file: Path, text: str) -> None:
    file.write_text(text)
    assert read(file) is None


def test_none_is_none(tmp_path: Path) -> None:
    assert read(tmp_path / "verdict.json") is None
    assert read(tmp_path / "no/such/folder") is None


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_one_that_others_can_write_does_not_count(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert read(file) is None


def test_one_in_a_folder_that_others_can_write_does_not_count(file: Path) -> None:
    file.parent.chmod(0o1777)
    assert read(file) is None


def test_a_link_does_not_count(file: Path) -> None:
    other = file.with_name("other.json")
    file.rename(other)
    file.symlink_to(other)
    assert read(file) is None


def test_a_pipe_is_not_waited_for(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)
    assert read(file) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_one_of_another_user_does_not_count(file: Path) -> None:
    os.chown(file, 65534, 65534)
    assert read(file) is None
