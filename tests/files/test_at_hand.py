"""What was just written is there for the next reader, once, and never more than a few megabytes of it."""

from __future__ import annotations

from pathlib import Path

from nodegate.files.at_hand import AtHand

MIB = 1 << 20


def written(folder: Path, number: int = 1, *, size: int = 100) -> Path:
    file = folder / f"{number}.json"
    file.write_bytes(b"x" * size)
    return file


def test_it_is_taken_once(tmp_path: Path) -> None:
    at_hand, file = AtHand(), written(tmp_path)
    at_hand.put(file, {"node": "gpu1"})
    assert at_hand.take(file) == {"node": "gpu1"}
    assert at_hand.take(file) is None


def test_what_is_written_again_takes_the_place_of_the_old(tmp_path: Path) -> None:
    at_hand, file = AtHand(), written(tmp_path)
    at_hand.put(file, {"at": 1})
    at_hand.put(written(tmp_path, size=200), {"at": 2})
    assert at_hand.take(file) == {"at": 2}


def test_a_file_that_was_changed_or_deleted_since_is_to_be_read_itself(tmp_path: Path) -> None:
    at_hand, changed, deleted = AtHand(), written(tmp_path, 1), written(tmp_path, 2)
    for file in (changed, deleted):
        at_hand.put(file, {})
    written(tmp_path, 1, size=101)
    deleted.unlink()
    assert (at_hand.take(changed), at_hand.take(deleted)) == (None, None)


def test_a_large_file_is_not_kept_nor_what_it_replaces(tmp_path: Path) -> None:
    at_hand, file = AtHand(), written(tmp_path)
    at_hand.put(file, {"at": 1})
    at_hand.put(written(tmp_path, size=16 * MIB), {"at": 2})
    assert at_hand.take(file) is None


def test_there_is_place_again_when_one_is_taken(tmp_path: Path) -> None:
    at_hand = AtHand()
    for number in range(4):
        file = written(tmp_path, number, size=3 * MIB)
        at_hand.put(file, {})
        assert at_hand.take(file) == {}


def test_the_first_that_nobody_took_stay(tmp_path: Path) -> None:
    at_hand, files = AtHand(), [written(tmp_path, number, size=MIB) for number in range(8)]
    for file in files:
        at_hand.put(file, {})
    assert [at_hand.take(file) is not None for file in files] == [True] * 4 + [False] * 4
