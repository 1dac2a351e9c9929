"""One log of several workers whose clocks are hours apart: taken apart into a log for each of them.

`kubectl logs --prefix`, stern and pdsh put the lines of all workers into one file. What follows from the order of
times in a file holds only if one clock made them.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from nodegate.files.bounded import open_regular
from nodegate.triage import place
from nodegate.triage.clock import Times
from nodegate.triage.place import Place

MOST_BYTES = 24 << 20  # of a log that is held in memory to be taken apart
APART_S = 2700.0  # by which workers of one job print one moment at different times, at most
_MOST_WRITERS = 256
_WINDOWS, _WINDOW_LINES, _WINDOW_BYTES = 400, 40, 8192
_HEAD_LINES = 40
_STAMP_CHARACTERS = 300
_FILE = re.compile(r"==> ([^\n]{1,300}) <==\r?(?:\n|$)")


@dataclass(frozen=True)
class Share:
    """The lines of one writer; those of the others are empty, so that each keeps its number."""

    writer: str
    place: Place
    text: bytes
    begins: int  # lines are before its first one
    own: int  # lines are its own
    size_bytes: int  # of them


def has_writers(head: str) -> bool:
    """Whether the first lines of a log name who wrote them."""
    lines = [line for line in head.splitlines()[:_HEAD_LINES] if line.strip()]
    stern = place.is_stern(lines)
    return any(_writer(line, stern=stern) for line in lines)


def has_files(head: str) -> bool:
    """Whether a log is several files under their names, as `tail` and `head` print them."""
    return bool(_FILE.match(head.lstrip()))


def shares(text: bytes) -> list[Share]:
    """The logs of the writers; none if there are too many of them."""
    lines = text.split(b"\n")  # not where a progress bar returns to the start of its line: only the line has a prefix
    lines = lines if lines[-1] else lines[:-1]
    stern = _stern(lines)
    numbers: dict[tuple[bool, str], list[int]] = {}
    file = ""
    for number, line in enumerate(lines):
        if line.startswith(b"==> ") and (named := _FILE.match(_decoded(line))):
            file = named[1]
            continue
        numbers.setdefault((bool(file), file or _writer(_decoded(line), stern=stern)), []).append(number)
    if len(numbers) > _MOST_WRITERS:
        return []
    found: list[Share] = []
    for (is_file, writer), own in numbers.items():
        where = place.of_path(writer) if is_file else place.of_line(_decoded(lines[own[0]]), stern=stern)
        found.append(_share(writer, own, lines, where if is_file else Place(node=where.node, pod=where.pod)))
    return found


def windows_of(text: bytes) -> list[Sequence[bytes]]:
    """The lines in many places of a log."""
    lines = text.split(b"\n")
    step = max(1, len(lines) // _WINDOWS)
    return [lines[start : start + min(step, _WINDOW_LINES)] for start in range(0, len(lines), step)]


def windows_of_file(path: str) -> list[Sequence[bytes]]:
    """The lines in many places of a large plain file.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        starts = (number * size // _WINDOWS for number in range(_WINDOWS))
        return [os.pread(stream.fileno(), _WINDOW_BYTES, start).split(b"\n")[1:-1] for start in starts]


def differ(windows: Sequence[Sequence[bytes]], times: Times) -> bool:
    """Whether the clocks of the writers in these places are apart."""
    stern = _stern(windows[0])
    return _apart([_times(window, times, stern=stern) for window in windows])


def _share(writer: str, own: Sequence[int], lines: Sequence[bytes], where: Place) -> Share:
    parts: list[bytes] = []
    before = own[0]
    for number in own:
        parts += [b"\n" * (number - before), lines[number], b"\n"]
        before = number + 1
    size = sum(len(lines[number]) + 1 for number in own)
    return Share(writer, where, b"".join(parts), own[0], len(own), size)


def _times(lines: Sequence[bytes], times: Times, *, stern: bool) -> dict[str, tuple[float, float]]:
    """The first and last time of each writer in one place of the log."""
    window: dict[str, tuple[float, float]] = {}
    for line in lines:
        text = _decoded(line[:_WINDOW_BYTES])
        writer = _writer(text, stern=stern)
        stamp = times.first(text[:_STAMP_CHARACTERS]) if writer else None
        if stamp:
            window[writer] = (window.get(writer, (stamp.epoch_s,))[0], stamp.epoch_s)
    return window


def _apart(windows: Sequence[dict[str, tuple[float, float]]]) -> bool:
    """Whether a writer's clock is far from the others' in most places that they share, or at both of its ends."""
    beside: dict[str, list[float]] = {}
    ends: dict[str, tuple[float, float]] = {}
    for window in windows:
        for writer, (first, last) in window.items():
            others = [mine[0] for other, mine in window.items() if other != writer]
            if others:
                beside.setdefault(writer, []).append(first - median(others))
            ends[writer] = (ends.get(writer, (first,))[0], last)
    if any(abs(median(differences)) > APART_S for differences in beside.values()):
        return True
    one = next(iter(ends.values()), None)
    return one is not None and any(
        min(abs(first - one[0]), abs(last - one[1])) > APART_S and (first > one[0]) == (last > one[1])
        for first, last in ends.values()
    )


def _stern(lines: Sequence[bytes]) -> bool:
    return place.is_stern([_decoded(line) for line in lines[:_HEAD_LINES] if line.strip()])


def _writer(line: str, *, stern: bool) -> str:
    return place.of_line(line[:2000], stern=stern).source


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
