"""The few relevant lines of a job log, found without reading the others one by one.

A log has millions of healthy lines. One search for all strings that a known line can hold skips them.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nodegate.knowledge.required import shortest
from nodegate.knowledge.signatures import literals
from nodegate.knowledge.words import Side

# Lines in which a rank identifies itself: NCCL when a communicator starts, and the address that it uses.
_IDENTITY = (" nranks ", "NCCL INFO Bootstrap")
# Every line of a job log that a signature fits contains one of these: they are found in the signatures' own patterns.
# Such a log can have lines of a kernel too.
TRIGGERS = shortest([*literals(Side.USER), *literals(Side.KERNEL, roots_only=True), *_IDENTITY])
# Of these two one is in every line of a log whose writer names its place in the program. The one row that needs them
# wants a level and a time of glog before them: a search for those stops at no healthy line.
_PLACES = (".cpp:", ".py:")
GLOG = tuple(f"{level} ?[0-9]{{3,4}} [0-9:.]{{8,20}} " for level in "EF")
_PLAIN = tuple(string for string in TRIGGERS if string not in _PLACES)
# In lines of JSON letters that are not ASCII may be escaped; the digits of an escape are small or capital letters.
_ESCAPED = [json.dumps(string)[1:-1] for string in _PLAIN if not string.isascii()]
_CAPITAL = [re.sub(r"(?<=\\u)[0-9a-f]{4}", lambda digits: digits[0].upper(), string) for string in _ESCAPED]
STRINGS = tuple(dict.fromkeys((*_PLAIN, *_ESCAPED, *_CAPITAL)))
_LONGEST_SHOWN = 4000  # bytes of a line that are kept
_NEAR_BYTES = 1 << 16  # in which a line with progress bars begins
_PREFIX_BYTES = 300  # of a line, in which its prefixes are
_BEFORE = 1500  # bytes of a long line that are kept before the string that was found


def together(strings: Iterable[str], expressions: Iterable[str] = ()) -> re.Pattern[bytes]:
    """One expression for strings, with a branch per first letter: the engine then skips by a table of first letters.

    `expressions` begin with a letter.
    """
    rests: dict[str, list[str]] = {}
    for string in (each.encode().decode("latin-1") for each in strings):  # a letter a byte
        rests.setdefault(string[0], []).append(re.escape(string[1:]))
    for expression in expressions:
        rests.setdefault(expression[0], []).append(expression[1:])
    branches = (f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in sorted(rests.items()))
    return re.compile("|".join(branches).encode("latin-1"))


_ANY = together(STRINGS, GLOG)


@dataclass(frozen=True)
class Line:
    """A line of a chunk: its text (bounded), and where in the chunk it starts and ends."""

    text: str
    start: int
    end: int


def interesting(chunk: bytes, ranges: Sequence[tuple[int, int]] | None = None) -> list[Line]:
    """The lines that may hold a signature or name a rank, in their order, each once.

    `ranges`: where in the chunk to look, in their order; None: everywhere.
    """
    looked_at = [(0, len(chunk))] if ranges is None else ranges
    return lines_at(chunk, [match.start() for start, end in looked_at for match in _ANY.finditer(chunk, start, end)])


def before_bar(chunk: bytes, line: Line) -> str:
    """How the line of the file begins where a progress bar comes before this one in it; "" if none does."""
    if chunk[line.start - 1 : line.start] != b"\r":
        return ""
    begins = chunk.rfind(b"\n", max(0, line.start - _NEAR_BYTES), line.start) + 1
    return chunk[begins : min(line.start, begins + _PREFIX_BYTES)].decode("utf-8", "replace")


def identifies(line: str) -> bool:
    """Whether NCCL reports in this line the GPU and node of a rank."""
    return any(string in line for string in _IDENTITY)


def lines_at(chunk: bytes, positions: Iterable[int]) -> list[Line]:
    """The lines around these places, which are in their order; a line longer than 4 kB in parts."""
    lines: list[Line] = []
    done = 0
    for at in positions:
        if at < done:
            continue
        start = max(chunk.rfind(b"\n", max(0, at - _BEFORE), at) + 1, at - _BEFORE, done)
        start = max(start, chunk.rfind(b"\r", start, at) + 1)  # a progress bar before it on the same line
        end = chunk.find(b"\n", at, start + _LONGEST_SHOWN)
        end = min(start + _LONGEST_SHOWN, len(chunk)) if end < 0 else end
        text = chunk[start:end].decode("utf-8", "replace").replace("\0", " ")
        lines.append(Line(text.rstrip("\r"), start, end))
        done = end
    return lines
