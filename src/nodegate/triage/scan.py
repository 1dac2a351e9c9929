"""The few relevant lines of a job log, found without reading the others one by one.

A log has millions of healthy lines. A few searches in each chunk of 1 MiB skip them. The split was chosen by
measuring: one expression whose branches begin with capitals costs 3 to 4 ns a byte for all of them, a search for one
long string 0.2 ns, for a short one 0.5 ns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Every line that can be a first error of a job contains one of these, and so do the lines that show what followed
# (tests/triage checks the table). If a line contains several known words, the cheapest is enough.
TRIGGERS = (
    *("rror", "ailed", "NCCL WARN", "xception", "Killed", "Killing sub", "SIGTERM", "SIGSEGV", "SIGBUS", "NVRM: "),
    *("Watchdog caught", "Received a dump", "Observed flight", "eartbeat monitor timed", "CANCELLED AT"),
    *(
        "KeyboardInterrupt",
        "Segmentation fault",
        "Out Of Memory",
        "OOM Killed",
        "out of memory",
        "annot allocate memory",
    ),
    *("std::bad_alloc", "Duplicate GPU"),
    *("No space left on", "No route to host", "isk quota exceeded", "Stale file", "Read-only file"),
    *("ransport endpoint is",),
    *("oo many open files", "Resource temp", "RLIMIT_MEMLOCK", "ouldn't allocate MR", "onnection refused"),
    *("onnection closed",),
    *("/library version mismatch", "Unable to", "No device found", "Using network Socket", " is lost"),
    *("NCCL communicator",),
    *("dress already in use", "EADDRINUSE", "Root Cause (first", "last enqueued work", "watchdog got stuck"),
    *("watchdog thread terminated", "lagging/dead/mismatched", "result is not reproducible", "command not found"),
    *("speed change detected", "fatal async event", "lost communication with", "supported system topology"),
    *("loss': nan", "oss is nan", "oss is NaN", "NaN in local", "Inf in local", "lm loss: NAN", "lm loss: nan"),
)
# Lines in which a rank identifies itself: NCCL when a communicator starts, and the address that it uses.
_IDENTITY = (b" nranks ", b"NCCL INFO Bootstrap")
_LONGEST_SHOWN = 4000  # bytes of a line that are kept
_BEFORE = 1500  # bytes of a long line that are kept before the string that was found


def together(strings: Iterable[str]) -> re.Pattern[bytes]:
    """One expression for strings, with a branch per first letter: the engine then skips by a table of first letters."""
    rests: dict[str, list[str]] = {}
    for string in strings:
        rests.setdefault(string[0], []).append(re.escape(string[1:]))
    branches = (f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in sorted(rests.items()))
    return re.compile("|".join(branches).encode())


_CAPITALS = together(trigger for trigger in TRIGGERS if trigger[0].isupper())
_SINGLE = tuple(trigger.encode() for trigger in TRIGGERS if not trigger[0].isupper())


@dataclass(frozen=True)
class Line:
    """A line of a chunk: its text (bounded), and where in the chunk it starts and ends."""

    text: str
    start: int
    end: int


def interesting(chunk: bytes) -> list[Line]:
    """The lines that may hold a signature, in their order, each once."""
    return lines_at(chunk, triggers(chunk))


def triggers(chunk: bytes) -> list[int]:
    """Where in the chunk the triggers are, in ascending order."""
    found = {match.start() for match in _CAPITALS.finditer(chunk)}
    for trigger in _SINGLE:
        found.update(_positions(chunk, trigger))
    return sorted(found)


def identities(chunk: bytes) -> list[Line]:
    """The lines in which NCCL says which rank is which GPU of which node."""
    return lines_at(chunk, sorted(at for string in _IDENTITY for at in _positions(chunk, string)))


def _positions(chunk: bytes, string: bytes) -> list[int]:
    found, at = [], chunk.find(string)
    while at >= 0:
        found.append(at)
        at = chunk.find(string, at + len(string))
    return found


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
