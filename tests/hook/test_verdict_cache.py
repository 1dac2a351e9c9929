"""The verdict that one hook leaves for the next is believed only where it can be."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from nodegate.exit_codes import Exit
from nodegate.hook.current_verdict import Answer, keep, kept, now_s

FIT = Answer(Exit.FIT, "fit: 77 checks passed")


@pytest.fixture
def file(tmp_path):
    keep(tmp_path / "run/verdict.json", "limits", FIT, now_s())
    return tmp_path / "run/verdict.json"


def read(file):
    return kept(file, "limits", now_s() - 60)


def test_it_comes_back_with_its_age(file):
    found = read(file)
    assert found is not None
    assert (found.exit, found.line) == (FIT.exit, FIT.line)
    assert 0 <= found.age_s < 60
    assert found.shown() == f"fit: 77 checks passed (checked {found.age_s:.0f} s ago)"


def test_it_is_written_for_all_to_read_and_for_us_to_write(file):
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in file.parent.iterdir()] == ["verdict.json"]


def test_an_old_one_and_one_by_other_limits_do_not_count(file):
    assert kept(file, "limits", now_s()) is None
    assert kept(file, "other limits", 0.0) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("boot", "an earlier boot"),
        ("schema", "nodegate.kept/1"),
        ("measured_s", 1e12),
        ("measured_s", "NaN"),
        ("measured_s", None),
        ("exit_code", 3),
        ("exit_code", None),
    ],
    ids=str,
)
def test_one_that_says_something_else_does_not_count(file, key, value):
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, key: value}))
    assert read(file) is None


@pytest.mark.parametrize(
    "spoil",
    [
        *(partial(Path.write_text, data=text) for text in ("", "{", "[]", "null", "[" * 9000, "\x00" * 9000)),
        *(partial(Path.chmod, mode=mode) for mode in (0o666, 0o664, 0o646)),  # others can write it
        lambda file: file.parent.chmod(0o1777),
        lambda file: file.rename(file.with_name("other.json")).with_name(file.name).symlink_to("other.json"),
        lambda file: (file.unlink(), os.mkfifo(file, 0o600)),
        pytest.param(
            lambda file: os.chown(file, 65534, 65534),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away"),
        ),
        Path.unlink,
        lambda file: shutil.rmtree(file.parent),
    ],
)
def test_one_that_is_damaged_or_could_be_of_others_does_not_count(file, spoil):
    spoil(file)
    assert read(file) is None
