"""What was just written is there for the next reader, once, and never more than a few files of it."""

from __future__ import annotations

from pathlib import Path

from nodegate.files.at_hand import AtHand

FILE = Path("evidence/gpu1/facts.json")


def test_it_is_taken_once():
    at_hand = AtHand()
    at_hand.put(FILE, {"node": "gpu1"}, 100)
    assert at_hand.take(FILE) == {"node": "gpu1"}
    assert at_hand.take(FILE) is None


def test_what_is_written_again_takes_the_place_of_the_old():
    at_hand = AtHand()
    at_hand.put(FILE, {"at": 1}, 100)
    at_hand.put(FILE, {"at": 2}, 100)
    assert at_hand.take(FILE) == {"at": 2}


def test_a_large_file_is_not_kept_nor_what_it_replaces():
    at_hand = AtHand()
    at_hand.put(FILE, {"at": 1}, 100)
    at_hand.put(FILE, {"at": 2}, 1 << 24)
    assert at_hand.take(FILE) is None


def test_there_is_place_again_when_one_is_taken():
    at_hand = AtHand()
    for number in range(20):
        at_hand.put(FILE.with_name(f"{number}.json"), {}, 3 << 20)
        assert at_hand.take(FILE.with_name(f"{number}.json")) is not None


def test_the_first_that_nobody_took_stay():
    at_hand, files = AtHand(), [Path(f"{number}.json") for number in range(20)]
    for file in files:
        at_hand.put(file, {}, 1 << 20)
    kept = [at_hand.take(file) is not None for file in files]
    assert kept[:2] == [True, True]
    assert sum(kept) < len(files)
