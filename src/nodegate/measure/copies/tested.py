"""What the document of the copies says of a test of the whole memory: patterns written and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.probe import readings as read
from nodegate.unknown import Known, Unknown, value_or

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_WORDS = 64
_FIELDS = 4


@dataclass(frozen=True)
class WrongWord:
    """A word of four bytes that was not what had been written.

    `address` is in bytes, from the start of what was tested; `when` is the pattern.
    """

    when: str
    address: int
    expected: int
    found: int

    def __str__(self) -> str:
        return f"byte {self.address:#x} held {self.found:#010x} for {self.expected:#010x}"


@dataclass(frozen=True)
class Tested:
    """The test of one GPU's memory: so many bytes of `total`, with so many patterns of those planned.

    `bits` are all bits that were ever wrong in a word; `wrong` the first wrong words.
    """

    bytes: Known[int]
    total: Known[int]
    passes: Known[int]
    planned: Known[int]
    wrong_words: Known[int]
    bits: Known[int]
    wrong: tuple[WrongWord, ...]


def tested(data: Mapping[str, object]) -> Tested | None:
    """Of one GPU; None if its memory was not tested."""
    found = value_or(read.mapping(data, "memory"), {})
    if not found:
        return None
    return Tested(
        bytes=_count(found, "bytes"),
        total=_count(found, "total_bytes"),
        passes=_count(found, "passes"),
        planned=_count(found, "planned"),
        wrong_words=_count(found, "wrong_words"),
        bits=_count(found, "bits"),
        wrong=tuple(_wrong(value_or(read.items(found, "wrong"), ()))),
    )


def _count(data: Mapping[str, object], key: str) -> Known[int]:
    found = read.integer(data, key)
    return found if isinstance(found, Unknown) or found >= 0 else read.wrong("a count", found)


def _wrong(listed: object) -> list[WrongWord]:
    found: list[WrongWord] = []
    for each in listed if isinstance(listed, (list, tuple)) else ():
        if isinstance(each, (list, tuple)) and len(each) == _FIELDS and len(found) < _MOST_WORDS:
            numbers = [read.whole(value) for value in each[1:]]
            known = [value for value in numbers if not isinstance(value, Unknown) and value >= 0]
            if len(known) == len(numbers):
                found.append(WrongWord(value_or(read.label(each[0]), "?"), *known))
    return found
