"""Lists of parts in short: "GPU 0", "GPU 1", "GPU 2" as "GPU 0..2"."""

from __future__ import annotations

import re
from functools import lru_cache

MOST_NAMES = 2000  # of one list
_FEWEST = 3  # that are worth to be folded
_NUMBERS = re.compile(r"(\d+)", re.ASCII)
_FOLDED = re.compile(r"(?P<before>.*?)(?P<first>\d{1,6})\.\.(?P<last>\d{1,6})(?P<after>.*)", re.ASCII | re.DOTALL)
_LIKE_FOLDED = re.compile(r"\d\.\.\d", re.ASCII)
_MOST_DIGITS = 5  # of the first number, so that the last has six at most
_CACHED = 1 << 14  # the lists of a fleet are alike


def is_like_folded(name: str) -> bool:
    """Whether a name could be taken for several; then it cannot stand in such a list."""
    return _LIKE_FOLDED.search(name) is not None


@lru_cache(maxsize=_CACHED)
def fold(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names in their order; three or more of which one number counts up stand as one."""
    found: list[str] = []
    at = 0
    while at < len(names):
        many, words = _run(names, at)
        if many >= _FEWEST:
            found.append(words)
        else:
            found += names[at : at + many]
        at += many
    return tuple(found)


def _run(names: tuple[str, ...], start: int) -> tuple[int, str]:
    """How many names from `start` on count up in one place, and how they stand as one."""
    tokens = _NUMBERS.split(names[start])
    following = _NUMBERS.split(names[start + 1]) if start + 1 < len(names) else []
    if len(tokens) != len(following):
        return 1, names[start]
    differing = [at for at, (one, other) in enumerate(zip(tokens, following, strict=True)) if one != other]
    place = differing[0] if len(differing) == 1 else 0
    first = tokens[place]
    if place % 2 == 0 or len(first) > _MOST_DIGITS or first != str(int(first)):
        return 1, names[start]
    before, after = "".join(tokens[:place]), "".join(tokens[place + 1 :])
    many = 1
    while start + many < len(names) and names[start + many] == f"{before}{int(first) + many}{after}":
        many += 1
    return many, f"{before}{first}..{int(first) + many - 1}{after}"


@lru_cache(maxsize=_CACHED)
def unfold(folded: tuple[str, ...]) -> tuple[str, ...]:
    """The names that `fold` was given.

    Raises:
        ValueError: there are more than anybody writes.
    """
    found: list[str] = []
    for each in folded:
        match = _FOLDED.fullmatch(each)
        if match is None:
            found.append(each)
            continue
        first, last = int(match["first"]), int(match["last"])
        if last - first > MOST_NAMES:
            raise ValueError(f"a list of {last - first} parts")
        found += (f"{match['before']}{number}{match['after']}" for number in range(first, last + 1))
        if len(found) > MOST_NAMES:
            raise ValueError(f"a list of more than {MOST_NAMES} parts")
    return tuple(found)
