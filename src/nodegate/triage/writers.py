"""Who wrote into a log: the pods, containers or nodes that its lines' prefixes name, and when each wrote."""

import re
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median

from nodegate.triage import place
from nodegate.triage.clock import Stamp, Times
from nodegate.triage.place import Place

_MOST_WRITERS = 10_000
_MOST_LINES = 120  # of the head and of the tail of a log
_MOST_LINES_OF_MANY = 3000  # of the tail, where several write
_MOST_HELLO = 8  # first lines of a writer, in which it may say where it runs
_ANCHOR = re.compile(r"\bRANK[:=] ?(?P<rank>[0-9]{1,6})\b|\bnode[_ ]rank[:= ] ?(?P<node_rank>[0-9]{1,6})\b")
_TELLS_NODE = re.compile(r"NODE_?NAME|\bpod[=: ]{1,3}[\w.-]{1,120}[ ,;]{1,3}(?:on|node|NODE)| {3}<none>$")
_REGULAR = 5  # lines with a time from which a writer has a habit


@dataclass
class Writer:
    """One writer of a log: when its first and last line with a time are of, and what it said first."""

    name: str
    place: Place
    first: Stamp | None = None
    last: Stamp | None = None
    hello: list[str] = field(default_factory=list)
    anchor: Stamp | None = None  # when it said which rank it is and called the launcher
    anchor_rank: int | None = None
    ranks: set[int] = field(default_factory=set)
    times: list[float] = field(default_factory=list)  # of its lines at the end of the log

    def habit_s(self) -> float | None:
        """How long it is silent between two lines, mostly; None if it wrote too few with a time."""
        if len(self.times) < _REGULAR:
            return None
        return median(later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False))


@dataclass
class Writers:
    """The writers of one log by name; a log without prefixes has one, whose name is empty."""

    by_name: dict[str, Writer] = field(default_factory=dict)
    stern: bool = False
    mixed: bool = False  # their lines are in the order of time; otherwise it is several logs, one after the other
    in_turn: bool = False  # its lines name ranks one after the other: several logs, each of a rank

    def begin(self, text: str, times: Times) -> None:
        """Read the head of the log."""
        lines = [line for line in text.splitlines() if line][:_MOST_LINES]
        self.stern = place.is_stern([line for line in lines[:40] if line.strip()])
        changes, before = 0, None
        ranks: list[int] = []
        for line in lines:
            found = place.of_line(line[:2000], stern=self.stern)
            ranks += [] if found.rank is None else [found.rank]
            changes += found.source != before
            before = found.source
            self._greets(found, line, times.first(line[:300]))
        self.mixed = changes > len(self.by_name)
        runs = [(rank, len([*run])) for rank, run in groupby(ranks)]
        self.in_turn = len(runs) == len(set(ranks)) and sum(count > 1 for _, count in runs) > 1

    def end(self, text: str, times: Times) -> None:
        """Read the tail of the log."""
        many = any(self.by_name) or any(len(writer.ranks) > 1 for writer in self.by_name.values())
        most = _MOST_LINES_OF_MANY if many else _MOST_LINES
        for line in [line for line in text.splitlines() if line][-most:]:
            stamp = times.first(line[:300])
            found = place.of_line(line[:2000], stern=self.stern) if many else None
            writer = self._writer(name_of(found) if found else "", found)
            if stamp:
                writer.times.append(stamp.epoch_s)
                writer.last = stamp
                writer.first = writer.first or stamp

    def of(self, found: Place) -> str:
        """Who wrote a line, as far as its label says; "" where it may be anyone of this log."""
        return name_of(found) if self.in_turn else found.source

    def _greets(self, found: Place, line: str, stamp: Stamp | None) -> None:
        writer = self._writer(found.source, found)
        if len(writer.hello) < _MOST_HELLO or _TELLS_NODE.search(line):
            writer.hello.append(found.text[:400])
        if stamp is None:
            return
        writer.first, writer.last = writer.first or stamp, stamp
        if writer.anchor is None and (match := _ANCHOR.search(line)):
            writer.anchor, writer.anchor_rank = stamp, int(match["rank"] or match["node_rank"])

    def regular(self) -> list[Writer]:
        """The writers that should all go on for the same time: ranks and pods, not what launched them."""
        return [writer for name, writer in self.by_name.items() if name] or list(self.by_name.values())

    def _writer(self, name: str, found: Place | None) -> Writer:
        known = self.by_name.get(name)
        if known is None:
            known = Writer(name, found or place.Place())
            if len(self.by_name) < _MOST_WRITERS:
                self.by_name[name] = known
        if found is not None and found.rank is not None:
            known.ranks.add(found.rank)
        return known


def name_of(found: Place) -> str:
    """The writer of a line; its rank where its prefix names no one else."""
    return found.source or ("" if found.rank is None else f"rank {found.rank}")
