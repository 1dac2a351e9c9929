"""RDMA pairs and rails with noise, faults and real fabrics: PYTHONPATH=tests python bench/rails.py [--quick] [SECTION ...].

The generator shares nothing with the judging: what each link carries, how it is disturbed, which leaf a node hangs on,
and what perftest prints are made here. nodegate's own code pairs the nodes, chooses who is measured again, reads what
was printed and judges it with the shipped common limits, without a platform's baseline. Sections: good (nothing is
wrong), faulty (one NIC, node, path, leaf or rail is).
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from fleet.machine import Machine, facts_of

from nodegate import suite
from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.finding import Record
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.measurement import Target
from nodegate.measure.program_run import ProgramRun
from nodegate.measure.rdma import perftest_runner
from nodegate.measure.rdma.perftest_runner import Ended, LinkCommands
from nodegate.measure.rdma.rails import rails_in_service
from nodegate.measure.rdma.rdma_node import TOOLS, RdmaNode
from nodegate.measure.rdma.run import RDMA_BANDWIDTH
from nodegate.node import Connection, Node
from nodegate.numbers.peers import Peers
from nodegate.numbers.suspects import suspects
from nodegate.profile import Profile
from nodegate.run.load import Load
from nodegate.verdict import Verdict

PLATFORM = "hgx-h100-8"
BASELINE = Baseline(PLATFORM, "", "", "", "", Baselines.read().common)
CHECKS = Path(__file__).resolve().parents[1] / "checks" / "test_rdma_bandwidth.py"
RAILS = tuple(f"mlx5_{at}" for at in range(8))
GBPS = {"ib_write_bw": 384.0, "ib_read_bw": 380.0}
MICROSECONDS = {"ib_write_lat": 1.7, "ib_read_lat": 2.9}
FAR = 1.4  # through one more tier of switches
FACTS = facts_of(Machine.hgx_h100("gpu"))
HEAD = " Device         : {device}\n Link type      : IB\n Number of qps  : 4\n"
End = tuple[str, str]  # node, device


@dataclass(frozen=True)
class Noise:
    """How far equal runs lie apart, and the share of them that loses 5 to 60 %, or hangs (one of ten of these)."""

    name: str
    spread: float
    disturbed: float = 0.0
    latency: float = 0.03


@dataclass(frozen=True)
class Fabric:
    """Which leaf a node hangs on, by its place in the fleet; whether the rails reach each other."""

    name: str
    leaf: Callable[[int], int] = lambda _place: 0
    rail_only: bool = False


@dataclass
class Fleet:
    """What the links of a fleet carry. Faults take a part of what a NIC sends or receives, or of a link's."""

    rng: np.random.Generator
    names: tuple[str, ...]
    fabric: Fabric
    noise: Noise
    sends: dict[End, float] = field(default_factory=dict)
    receives: dict[End, float] = field(default_factory=dict)
    paths: dict[frozenset[End], float] = field(default_factory=dict)
    later: dict[End, float] = field(default_factory=dict)  # µs more
    lost_after: dict[str, int] = field(default_factory=dict)  # meetings that a node lives to see
    programs: int = 0
    meetings: Counter[str] = field(default_factory=Counter)

    def slow(self, node: str, device: str, left: float, way: str = "both") -> None:
        """Take a part of what a NIC sends, receives, or both."""
        for table, ways in ((self.sends, ("both", "tx")), (self.receives, ("both", "rx"))):
            if way in ways:
                table[node, device] = left

    def gbps(self, tool: str, server: End, client: End) -> float | None:
        """What one run gives; None: it hangs."""
        sender, receiver = (client, server) if "write" in tool else (server, client)
        left = min(self.sends.get(sender, 1.0), self.receives.get(receiver, 1.0))
        left = min(left, self.paths.get(frozenset((sender, receiver)), 1.0))
        hit = self.rng.random() < self.noise.disturbed
        if left == 0.0 or (hit and self.rng.random() < 0.1):
            return None
        lost = self.rng.uniform(0.05, 0.6) if hit else 0.0
        return float(min(GBPS[tool] * left * self.rng.normal(1, self.noise.spread) * (1 - lost), 399.0))

    def microseconds(self, tool: str, server: End, client: End) -> float:
        """The latency of one run."""
        places = [self.names.index(end[0]) for end in (server, client)]
        near = self.fabric.leaf(places[0]) == self.fabric.leaf(places[1])
        more = self.later.get(server, 0.0) + self.later.get(client, 0.0)
        lost = self.rng.uniform(0.1, 2.0) if self.rng.random() < self.noise.disturbed else 0.0
        good = MICROSECONDS[tool] * (1.0 if near else FAR) * self.rng.normal(1, self.noise.latency)
        return float(good * (1 + lost) + more)

    def pair(
        self, server: Target, client: Target, what: str, links: Sequence[LinkCommands], *, timeout_s: float
    ) -> tuple[Ended, ...]:
        """In place of perftest on two nodes: every link has its result."""
        for each in {server.node.name, client.node.name}:
            self.meetings[each] += 1
            if self.meetings[each] > self.lost_after.get(each, sys.maxsize):
                from nodegate.errors import Unreachable  # noqa: PLC0415 - only here

                raise Unreachable("dropped", f"{each}: the connection broke", next_step="see the node")
        return tuple(self._ended(server.node.name, client.node.name, what, link, timeout_s) for link in links)

    def _ended(self, server: str, client: str, tool: str, link: LinkCommands, timeout_s: float) -> Ended:
        self.programs += 1
        ends = [(server, _option(link.server, "-d")), (client, _option(link.client, "-d"))]
        text: str | None
        if server == client and self.fabric.rail_only:
            text = None
        elif tool.endswith("_lat"):
            text = _latency(link.client, self.microseconds(tool, *ends))
        else:
            gbps = self.gbps(tool, *ends)
            text = None if gbps is None else _bandwidth(link.client, gbps)
        head = HEAD.format(device=ends[1][1])
        hung, took = text is None, timeout_s if text is None else float(_option(link.client, "-D") or 3) + 1
        ran = ProgramRun(tool, link.client, stdout=head + (text or ""), timed_out=hung, duration_s=took)
        ran = ProgramRun(**{**vars(ran), "exit_code": None if hung else 0})
        return Ended(ProgramRun(tool, link.server, stdout=HEAD.format(device=ends[0][1])), ran)


def _option(words: Sequence[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words else ""


def _bandwidth(words: Sequence[str], gbps: float) -> str:
    head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    return f"{head} {_option(words, '-s')}    90000   0.00   {gbps:.2f}   0.046\n"


def _latency(words: Sequence[str], us: float) -> str:
    head = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    head += "   99% percentile[usec]   99.9% percentile[usec]\n"
    row = f"{0.95 * us:.3f} {3 * us:.3f} {us:.3f} {us:.3f} 0.02 {1.2 * us:.3f} {1.5 * us:.3f}"
    return f"{head} {_option(words, '-s')} {_option(words, '-n')} {row}\n"


class Folder:
    """In place of the run folder: the documents."""

    def __init__(self) -> None:
        self.documents: dict[str, Mapping[str, object]] = {}

    def write_evidence(self, evidence: object) -> None:
        """Keep the newest."""
        self.documents[evidence.node] = evidence.document  # type: ignore[attr-defined]


class Pool:
    """In place of threads: one job after the other. `steps` counts what the fleet waits for."""

    cancelled = False

    def __init__(self) -> None:
        self.steps = 0

    def begin(self, _what: str, _seconds: float) -> None:
        """Nothing is shown."""

    def at_once(self, jobs: Mapping[str, Callable[[], object]]) -> dict[str, object]:
        """All jobs."""
        from nodegate.errors import CannotMeasure  # noqa: PLC0415 - only here

        self.steps += 1
        found: dict[str, object] = {}
        for name, job in jobs.items():
            try:
                found[name] = job()
            except CannotMeasure as why:
                found[name] = why
        return found


class Gate:
    """In place of the run's gate: the suspects by the shipped limits."""

    def suspects(self, metrics: Mapping[str, object], bounds: Mapping[str, object]) -> Mapping[str, object]:
        """As in a run."""
        of_platforms = {name: (PLATFORM, each) for name, each in metrics.items()}
        return suspects(of_platforms, dict.fromkeys(metrics, BASELINE), bounds)  # type: ignore[arg-type]


def _target(name: str) -> Target:
    node = Node(name, Connection(transport="local", address=name, python="python3"))
    return Target(node, None, FACTS, None, OF_PROFILE[Profile.DELIVERY])  # type: ignore[arg-type]


def _rdma_node(target: Target) -> RdmaNode:
    rails = rails_in_service(target.node, target.facts)
    return RdmaNode(target, rails, {tool: (tool,) for tool in TOOLS}, "6.24", frozenset(), {})


@contextmanager
def wired(fleet: Fleet) -> Iterator[None]:
    """The fleet's links in place of programs on nodes."""
    with patch("nodegate.measure.rdma.run.prepare", _rdma_node), patch.object(perftest_runner, "pair", fleet.pair):
        yield


@cache
def checks() -> tuple[suite.Check, ...]:
    """The checks of RDMA bandwidth."""
    module = suite._import(CHECKS)
    return tuple(suite.describe(each, module) for name, each in vars(module).items() if name.startswith("test_"))


@dataclass(frozen=True)
class Judged:
    """What was said of each node, and what the fleet waited for."""

    records: Mapping[str, tuple[Record, ...]]
    steps: int

    def findings(self, node: str, *verdicts: Verdict) -> list[tuple[str, str, str]]:
        """Check, part and text of the findings of a node."""
        return [
            (record.check, each.part.name or each.part.short, each.brief)
            for record in self.records[node]
            for each in record.findings
            if each.verdict in verdicts
        ]

    def worst(self, node: str) -> Verdict:
        """Of a node."""
        order = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN, Verdict.NOT_JUDGED, Verdict.PASS)
        said = {each.verdict for record in self.records[node] for each in record.findings}
        return next((each for each in order if each in said), Verdict.SKIP)


def run(fleet: Fleet) -> Judged:
    """A whole measurement with its second looks, and the verdicts of all checks of it."""
    folder, pool = Folder(), Pool()
    targets = [_target(name) for name in fleet.names]
    with wired(fleet):
        Load(folder, targets, pool, Gate())._measure(RDMA_BANDWIDTH, targets)  # type: ignore[arg-type]
    found = {name: RDMA_BANDWIDTH.of_document(document) for name, document in folder.documents.items()}
    peers = Peers.of({name: (PLATFORM, each.metrics) for name, each in found.items()})
    parts = node_parts(FACTS)
    records = {}
    for name, each in found.items():
        known = {"rdma_bandwidth": each, "baseline": BASELINE, "peers": peers.of_node(name), "rdma": FACTS.rdma}
        records[name] = tuple(judge(check, known.__getitem__, name, parts) for check in checks())
    return Judged(records, pool.steps)
