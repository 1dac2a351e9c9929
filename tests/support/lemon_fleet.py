"""A fleet night after night for tests: which node had what, kept by the functions that a run uses."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.past import database
from nodegate.past.event import XID, Event
from nodegate.past.events import keep as keep_events
from nodegate.past.keys import CHASSIS, KeptNode, KeptRun, Keys, Placed
from nodegate.past.record import FleetRecord
from nodegate.records import part
from nodegate.records.cause import Cause, CheckFinding, Class, Severity
from nodegate.records.finding import Finding, Record
from nodegate.records.run import NodeReport, Run
from nodegate.records.verdict import NodeVerdict, Verdict

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from pathlib import Path

DAY_S, START_S = 86400.0, 86400.0 * 20_000
LOST = "gpu.lost"


@dataclass
class Site:
    """Nodes gpu00, gpu01, ... with two GPUs each. `faults`: node, slot, the nights in which they are seen, condition.

    `swapped` and `replaced` are GPU 0 from a night on, `renamed` a node; `often` the looks a day of one node. In the
    nights of `lost` a node has no GPU 0, and its GPU 1 has that number.
    """

    file: Path
    nodes: int = 24
    nights: int = 28
    faults: Iterable[tuple] = ()
    traits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    often: Mapping[str, int] = field(default_factory=dict)
    swapped: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    replaced: Mapping[int, str] = field(default_factory=dict)
    lost: Mapping[str, Container[int]] = field(default_factory=dict)
    left_out: Mapping[str, Container[int]] = field(default_factory=dict)
    renamed: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    unreachable: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    unjudged: Iterable[tuple[str, Iterable[int]]] = ()
    xids: Iterable[tuple[str, int, tuple[int, ...]]] = ()
    xids_after_s: float = -600.0  # the run of the night began
    others: Container[str] = ()  # the nodes of another platform
    verdict: str = "fail"
    waiver: str = ""
    lenient: Container[int] = ()  # the nights that have this verdict and waiver; all others fail, where some are named
    sort: str = "gpu"

    def __post_init__(self):
        """What is where in the first night."""
        self.record = FleetRecord(self.file)
        names = [f"gpu{at:02}" for at in range(self.nodes)]
        self._serials = {(name, slot): f"{name}-{slot}" for name in names for slot in (0, 1)}
        self._names = dict.fromkeys(names, "")
        self._seen = defaultdict[tuple[int, str], list[tuple[str, str]]](list)
        for node, slot, nights, *kind in self.faults:
            for night in nights:
                self._seen[night, node].append((slot, *(kind or ["gpu_lost"])))
        self._unjudged = {(name, night) for name, nights in self.unjudged for night in nights}

    def keep(self, events=()):
        """All nights, then these events."""
        for night in range(self.nights):
            self._change(night)
            looks = max(self.often.values(), default=1)
            for look in range(looks):
                asked = [name for name in self._names if night not in self.left_out.get(name, ())]
                nodes = [self._node(name, night) for name in asked if look < self.often.get(name, 1)]
                started = START_S + DAY_S * night + 3600.0 * look
                run = Run(f"night {night} {look}", "nightly", started, started + 60.0, "0")
                self.record.keep(KeptRun(run, "", nodes, frozenset(), lambda _: ()))
        with database.writing(self.file) as base:
            keep_events(base, [*events, *self._xids()])

    def _change(self, night):
        if night in self.swapped:
            one, other = self.swapped[night]
            serials = self._serials
            serials[one, 0], serials[other, 0] = serials[other, 0], serials[one, 0]
        if night in self.replaced:
            self._serials[self.replaced[night], 0] = "brand-new"
        if night in self.renamed:
            self._names[self.renamed[night][0]] = self.renamed[night][1]

    def _node(self, own, night):
        name, here = self._names[own] or own, self._seen[night, own]
        counts = self.lenient and night not in self.lenient
        judged_as = ("fail", "") if counts else (self.verdict, self.waiver)
        judged = [] if (own, night) in self._unjudged and not here else [Record(name, LOST, Verdict.PASS, ())]
        if night in self.unreachable.get(own, ()):
            return KeptNode(NodeReport(name, NodeVerdict.UNREACHABLE, ""), sound=False)
        slots = (1,) if night in self.lost.get(own, ()) else (0, 1)
        verdict = NodeVerdict.REJECTED if here else NodeVerdict.ACCEPTED
        placed = (
            Placed(CHASSIS, f"chassis-{own}"),
            *(Placed(f"GPU {at}", self._serials[own, slot]) for at, slot in enumerate(slots)),
        )
        causes = tuple(self._cause(name, slot, kind, *judged_as) for slot, kind in here)
        platform = "hgx-b200-8" if own in self.others else "hgx-h100-8"
        report = NodeReport(name, verdict, platform, records=tuple(judged))
        return KeptNode(report, not here, causes, placed, self.traits.get(own, {}))

    def _cause(self, name, slot, kind, verdict, waiver):
        where = part.gpu(int(slot[4:])) if slot else part.NODE
        where = part.nvlink(where, int(kind[-1])) if kind.startswith("nvlink") else where
        found = Finding(where, Verdict(verdict), text=f"{kind} was seen", action="replace it")
        check = CheckFinding(LOST, found)
        return Cause(kind, (where,), Severity.LOST, Class(self.sort), check, nodes=(name,), waiver=waiver)

    def _xids(self):
        for node, code, nights in self.xids:
            key = Keys(node, [Placed("GPU 0", self._serials[node, 0])]).of("GPU 0")
            for night in nights:
                yield Event(START_S + DAY_S * night + self.xids_after_s, XID, node, key, "kernel log", str(code))
