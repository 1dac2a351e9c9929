"""One job log, from its first chunk to its last: its errors, how far the training got, its first and last time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.knowledge.signatures import find
from nodegate.knowledge.words import Role, Side
from nodegate.triage import details, elastic, place, progress, scan
from nodegate.triage.clock import find_stamp, last_stamp, zone_in
from nodegate.triage.events import TEXT_SHOWN, Event, Kind, template
from nodegate.triage.place import Place
from nodegate.triage.read import Notes
from nodegate.triage.secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodegate.knowledge.signature import Hit
    from nodegate.triage.clock import Stamp
    from nodegate.triage.events import Events
    from nodegate.triage.grep import Positions
    from nodegate.triage.progress import Iteration

_NEARBY_BYTES = 4096
_HEAD_BYTES = 1 << 16
_IDENTITY_BYTES = 64 << 20  # ranks say who they are when they start
_EXCEPTION = "terminated with exception: "
_SHORT_NUMBERS = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]{4,}|[0-9]+\.[0-9]+")
_MOST_CACHED = 20_000
_LABELS = re.compile(
    r"(?:\[[^\]\n]{0,100}\] {0,3}){1,4}"
)  # [E810 15:36:05.9 ProcessGroupNCCL.cpp:1899] [PG ... Rank 1]


@dataclass
class Log:
    """One log as it was read. `lines` and `size_bytes` are of its uncompressed text."""

    name: str
    kernel: bool
    place: Place
    notes: Notes = field(default_factory=Notes)
    lines: int = 0
    size_bytes: int = 0
    first: Stamp | None = None
    last: Stamp | None = None
    iteration: Iteration | None = None
    episode: int = 0
    zone_s: float | None = None
    ranks: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)

    torn_down: bool = False  # a launcher ended the workers after a failure

    def all_ranks(self) -> set[int]:
        """The ranks that its lines name, else the one in its file name."""
        return self.ranks or ({self.place.rank} if self.place.rank is not None else set())


class JobLogReader:
    """Reads one log into `events`.

    Args:
        log: what is known of the log; filled while the log is read.
        events: where its errors go.
        hits: remembers which kinds of line were looked up; shared between logs.
        now_s: the present, for times without a year.
        positions: where the triggers are, for a plain file in which grep searches; None: they are searched here.
    """

    def __init__(
        self,
        log: Log,
        events: Events,
        hits: dict[str, Hit | None],
        *,
        now_s: float,
        positions: Positions | None = None,
    ) -> None:
        self.log, self.events, self.hits, self.now_s, self.positions = log, events, hits, now_s, positions
        self.before = b""  # the chunk before this one
        self.open = False  # an error was seen, and no progress after it

    def read(self, chunks: Iterable[bytes]) -> None:
        """Read the whole log."""
        for chunk in chunks:
            self._chunk(chunk)
            self.log.lines += chunk.count(b"\n")
            self.log.size_bytes += len(chunk)
            self.before = chunk
        if not self.open:
            self._progress(self.before, 0, len(self.before))
        tail = self.before[-_HEAD_BYTES:].decode("utf-8", "replace")
        self.log.last = last_stamp(tail, now_s=self.now_s)

    def _chunk(self, chunk: bytes) -> None:
        if not self.log.lines:
            self._head(chunk[:_HEAD_BYTES].decode("utf-8", "replace"))
        for line in scan.identities(chunk) if self.log.size_bytes < _IDENTITY_BYTES else ():
            found = place.of_line(line.text)
            details.read_identity(found.text, found.or_else(self.log.place), self.events)
        mark, counted, number = 0, 0, self.log.lines + 1
        for line in scan.lines_at(chunk, self._triggers(chunk)):
            number += chunk.count(b"\n", counted, line.start)
            counted = line.start
            if elastic.starts(line.text):
                self._elastic(chunk, line.start, number)
                continue
            hit, text = self._look_up(line.text)
            if hit is None:
                self.log.torn_down |= elastic.ends_workers(text)
                continue
            if hit.signature.role is not Role.CONTEXT:
                self._progress(chunk, mark, line.start)
                mark = line.end
            self._event(chunk, line, number, hit, text)
        if self.open:
            self._progress(chunk, mark, len(chunk))

    def _triggers(self, chunk: bytes) -> list[int]:
        start = self.log.size_bytes
        if self.positions is None:
            return scan.triggers(chunk)
        return [position - start for position in self.positions.until(start + len(chunk))]

    def _head(self, text: str) -> None:
        self.log.first = find_stamp(text, now_s=self.now_s)
        self.log.zone_s = zone_in(text)
        if "\0" in text:
            self.log.notes.say("contains NUL bytes")

    def _look_up(self, line: str) -> tuple[Hit | None, str]:
        """What the line is, and its text without prefixes."""
        side, text = Side.USER, line
        kernel = line.find("NVRM: ")
        if kernel >= 0:
            side, text = Side.KERNEL, line[kernel:]
        key = _SHORT_NUMBERS.sub("#", text[:1000])
        if key in self.hits:
            return self.hits[key], text
        stripped = place.of_line(text).text if side is Side.USER else text
        hit = find(stripped, side)
        quoted = stripped.partition(_EXCEPTION)[2]
        if quoted and (inner := find(quoted, side)) is not None:
            hit = inner  # the watchdog only quotes it
        if len(self.hits) < _MOST_CACHED:
            self.hits[key] = hit
        return hit, text

    def _event(self, chunk: bytes, line: scan.Line, number: int, hit: Hit, text: str) -> None:
        kind = Kind.of(hit.signature)
        found = place.of_line(line.text)
        self.events.names.learn(found)
        self._meet(found)
        where = Place(found.rank, found.local_rank, found.node, found.gpu).or_else(self.log.place)
        details.read_collective(found.text, where, self.events)
        if kind.role is not Role.CONTEXT:
            self.open = True
        peer = details.peer(found.text)
        key = (self.log.name, self.log.episode, kind.id, where, peer, template(found.text))
        if self.events.known(key):
            return
        stamp, about = self._stamp(chunk, line)
        self.events.add(
            key,
            Event(
                kind,
                _shown(found.text),
                self.log.name,
                number,
                where,
                stamp=stamp,
                about=about,
                ran_s=details.ran_s(text),
                device=hit.device,
                peer=peer,
                episode=self.log.episode,
            ),
        )

    def _elastic(self, chunk: bytes, start: int, number: int) -> None:
        """The block in which torchrun says which worker failed first on its node."""
        block = chunk[start : start + _NEARBY_BYTES].decode("utf-8", "replace")
        self._progress(chunk, 0, start)
        for exit_ in elastic.exits(block, now_s=self.now_s):
            where = exit_.place.or_else(Place(node=self.log.place.node))
            self.events.names.learn(where)
            hit = find(exit_.text, Side.USER)
            key = (self.log.name, "exit", where, exit_.text)
            if hit is None or self.events.known(key):
                continue
            self.events.add(
                key,
                Event(
                    Kind.of(hit.signature),
                    f"torchrun: {without_secrets(exit_.text.strip())}",
                    self.log.name,
                    number,
                    where,
                    stamp=exit_.stamp,
                    episode=self.log.episode,
                ),
            )

    def _meet(self, found: Place) -> None:
        if found.rank is not None and len(self.log.ranks) < 100_000:
            self.log.ranks.add(found.rank)
        if found.node and len(self.log.nodes) < 10_000:
            self.log.nodes.add(found.node)

    def _stamp(self, chunk: bytes, line: scan.Line) -> tuple[Stamp | None, bool]:
        """The time of a line: its own, else that of the nearest line that has one."""
        own = find_stamp(line.text[:300], now_s=self.now_s)
        if own:
            return own, False
        ahead = chunk[line.end : line.end + _NEARBY_BYTES].decode("utf-8", "replace")
        behind = chunk[max(0, line.start - _NEARBY_BYTES) : line.start].decode("utf-8", "replace")
        after, before = find_stamp(ahead, now_s=self.now_s), last_stamp(behind, now_s=self.now_s)
        if before is None and after is None:
            return self.log.iteration.stamp if self.log.iteration else self.log.first, True
        return before if after is None else after if before is None else before, True

    def _progress(self, chunk: bytes, start: int, end: int) -> None:
        found = progress.last_iteration(chunk, start, end, now_s=self.now_s)
        if found is None and start == 0 and not self.open:
            found = progress.last_iteration(self.before, 0, len(self.before), now_s=self.now_s)
        known = self.log.iteration
        if found is None or (known is not None and found.number == known.number):
            return
        if self.open:
            self.log.episode += 1
            self.open = False
        self.log.iteration = found


def _shown(text: str) -> str:
    """The text on one line, without the labels that repeat what the answer says."""
    labels = _LABELS.match(text)
    return without_secrets(" ".join(text[labels.end() if labels else 0 :].split()))[:TEXT_SHOWN]
