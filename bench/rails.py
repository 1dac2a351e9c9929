"""RDMA pairs and rails: PYTHONPATH=tests python bench/rails.py [--quick] [SECTION ...].

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
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
from fleet.machine import Machine, facts_of

from nodegate import suite
from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.errors import CannotMeasure, Unreachable
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.measurement import Target
from nodegate.measure.rdma import perftest_runner
from nodegate.measure.rdma.perftest_runner import Ended, LinkCommands
from nodegate.measure.rdma.rails import rails_in_service
from nodegate.measure.rdma.rdma_node import TOOLS, RdmaNode
from nodegate.measure.rdma.run import RDMA_BANDWIDTH
from nodegate.node import Connection, Node
from nodegate.numbers.assessments import suspects
from nodegate.numbers.peers import Peers
from nodegate.profile import Profile
from nodegate.records.program_run import ProgramRun
from nodegate.records.verdict import Verdict
from nodegate.run.load import Load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nodegate.records.finding import Record

PLATFORM = "hgx-h100-8"
BASELINE = Baseline(PLATFORM, "", "", "", "", Baselines.read().common)
CHECKS = Path(__file__).resolve().parents[1] / "checks" / "test_rdma_bandwidth.py"
RAILS = tuple(f"mlx5_{at}" for at in range(8))
GBPS = {"ib_write_bw": 384.0, "ib_read_bw": 380.0}
MICROSECONDS = {"ib_write_lat": 1.7, "ib_read_lat": 2.9}
START_S = 2.0  # of a program, over SSH
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
    at_times: dict[End, float] = field(default_factory=dict)  # the part that is left in half of the transfers
    later: dict[End, float] = field(default_factory=dict)  # µs more
    lost_after: dict[str, int] = field(default_factory=dict)  # meetings that a node lives to see
    programs: int = 0
    meetings: Counter[str] = field(default_factory=Counter)
    busy_s: Counter[tuple[str, str]] = field(default_factory=Counter)  # of each pair, since somebody waited for all

    def slow(self, node: str, device: str, left: float, way: str = "both") -> None:
        """Take a part of what a NIC sends, receives, or both."""
        for table, ways in ((self.sends, ("both", "tx")), (self.receives, ("both", "rx"))):
            if way in ways:
                table[node, device] = left

    def gbps(self, tool: str, server: End, client: End) -> float | None:
        """What one run gives; None: it hangs."""
        ways = [(client, server) if "write" in tool else (server, client)]
        ways += [(server, client)] if tool.endswith("-b") else []
        path = self.paths.get(frozenset((server, client)), 1.0)
        each = [min(self.sends.get(one, 1.0), self.receives.get(other, 1.0), path) for one, other in ways]
        left = sum(each) if min(each) else 0.0
        for part in (self.at_times[end] for end in (server, client) if end in self.at_times):
            left *= part if self.rng.random() < 0.5 else 1.0
        hit = self.rng.random() < self.noise.disturbed
        if left == 0.0 or (hit and self.rng.random() < 0.1):
            return None
        lost = self.rng.uniform(0.05, 0.6) if hit else 0.0
        good = GBPS[tool.partition(" ")[0]] * left
        return float(min(good * self.rng.normal(1, self.noise.spread) * (1 - lost), 399.0 * len(ways)))

    def microseconds(self, tool: str, server: End, client: End) -> float:
        """The latency of one run."""
        places = [self.names.index(end[0]) for end in (server, client)]
        near = self.fabric.leaf(places[0]) == self.fabric.leaf(places[1])
        more = self.later.get(server, 0.0) + self.later.get(client, 0.0)
        lost = self.rng.uniform(0.1, 2.0) if self.rng.random() < self.noise.disturbed else 0.0
        good = MICROSECONDS[tool] * (1.0 if near else FAR) * self.rng.normal(1, self.noise.latency)
        return float(good * (1 + lost) + more)

    def pair(
        self,
        server: perftest_runner.End,
        client: perftest_runner.End,
        what: str,
        links: Sequence[LinkCommands],
        *,
        timeout_s: float,
    ) -> tuple[Ended, ...]:
        """In place of perftest on two nodes: every link has its result."""
        names = server.target.node.name, client.target.node.name
        for each in {*names}:
            self.meetings[each] += 1
            if self.meetings[each] > self.lost_after.get(each, sys.maxsize):
                raise Unreachable("dropped", "the connection broke", next_step="see the node", whose=each)
        ended = tuple(self._ended(*names, what, link, timeout_s) for link in links)
        self.busy_s[names] += START_S + max(each.client.duration_s for each in ended)
        return ended

    def _ended(self, server: str, client: str, tool: str, link: LinkCommands, timeout_s: float) -> Ended:
        self.programs += 1
        ends = [(server, _option(link.server.argv, "-d")), (client, _option(link.client.argv, "-d"))]
        text: str | None
        if server == client and self.fabric.rail_only:
            text = None
        elif tool.endswith("_lat"):
            text = _latency(link.client.argv, self.microseconds(tool, *ends))
        else:
            gbps = self.gbps(tool, *ends)
            text = None if gbps is None else _bandwidth(link.client.argv, gbps)
        head = HEAD.format(device=ends[1][1])
        hung, took = text is None, timeout_s if text is None else float(_option(link.client.argv, "-D") or 3) + 1
        code, printed = None if hung else 0, head + (text or "")
        ran = ProgramRun(tool, link.client.argv, printed, exit_code=code, timed_out=hung, duration_s=took)
        return Ended(ProgramRun(tool, link.server.argv, stdout=HEAD.format(device=ends[0][1])), ran)


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
    """In place of threads: one job after the other. `seconds` is what the fleet would wait for all of them at once."""

    cancelled = False

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.seconds = 0.0

    def begin(self, _what: str, _seconds: float) -> None:
        """Nothing is shown."""

    def at_once(self, jobs: Mapping[str, Callable[[], object]]) -> dict[str, object]:
        """All jobs."""
        found: dict[str, object] = {}
        for name, job in jobs.items():
            found[name] = _done(job)
        self.seconds += max(self.fleet.busy_s.values(), default=0.0)
        self.fleet.busy_s.clear()
        return found


def _done(job: Callable[[], object]) -> object:
    try:
        return job()
    except CannotMeasure as why:
        return why


class Gate:
    """In place of the run's gate: the suspects by the shipped limits."""

    def suspects(
        self, metrics: Mapping[str, object], bounds: Mapping[str, object], *, alone: bool
    ) -> Mapping[str, object]:
        """As in a run of a measurement that needs other nodes, which is never `alone`."""
        del alone
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
    module = suite._import(CHECKS)  # noqa: SLF001 - no node, no session
    return tuple(suite.describe(each, module) for name, each in vars(module).items() if name.startswith("test_"))


@dataclass(frozen=True)
class Judged:
    """What was said of each node, and what the fleet waited for."""

    records: Mapping[str, tuple[Record, ...]]
    seconds: float

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
    folder, pool = Folder(), Pool(fleet)
    targets = [_target(name) for name in fleet.names]
    with wired(fleet):
        Load(folder, targets, pool, Gate())._measure(RDMA_BANDWIDTH, targets)  # type: ignore[arg-type]  # noqa: SLF001
    found = {name: RDMA_BANDWIDTH.of_document(document) for name, document in folder.documents.items()}
    peers = Peers.of({name: (PLATFORM, each.metrics) for name, each in found.items()})
    parts = node_parts(FACTS)
    records = {}
    for name, each in found.items():
        known = {"rdma_bandwidth": each, "baseline": BASELINE, "peers": peers.of_node(name), "rdma": FACTS.rdma}
        records[name] = tuple(judge(check, known.__getitem__, name, parts) for check in checks())
    return Judged(records, pool.seconds)


QUIET = Noise("quiet, 0.3 %", 0.003)
DISTURBED = Noise("0.5 %, 1 % of runs disturbed", 0.005, 0.01)
NOISY = Noise("2 %, 1 % of runs disturbed", 0.02, 0.01)
FLAT = Fabric("one tier")
RAIL_ONLY = Fabric("rails do not reach each other", rail_only=True)


def tiers(*sizes: int) -> Fabric:
    """Leaves of so many nodes; between them a latency 40 % higher."""
    places = [leaf for leaf, size in enumerate(sizes) for _ in range(size)]
    return Fabric("leaves of " + " + ".join(map(str, sizes)), places.__getitem__)


GOOD: tuple[tuple[Fabric, tuple[int, ...]], ...] = (
    (FLAT, (2, 4, 8, 16, 64)),
    (RAIL_ONLY, (4, 16, 64)),
    *((tiers(*sizes), (sum(sizes),)) for sizes in ((5, 3), (10, 6), (12, 4), (14, 2), (15, 1), (4, 4, 4, 4))),
    *((tiers(*sizes), (sum(sizes),)) for sizes in ((40, 24), (32, 16, 8, 8))),
)


def names_of(count: int) -> tuple[str, ...]:
    """The nodes of a fleet."""
    return tuple(f"gpu{at:04}" for at in range(count))


def share(part: int, whole: int) -> str:
    """A share in per cent with its 95 % interval (Wilson 1927)."""
    if not whole:
        return "-"
    z, p = 1.96, part / whole
    middle = (p + z * z / (2 * whole)) / (1 + z * z / whole)
    reach = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole)) / (1 + z * z / whole)
    return f"{100 * p:.2f} [{max(0.0, 100 * (middle - reach)):.2f}-{min(100.0, 100 * (middle + reach)):.2f}]"


def good(quick: bool) -> Iterator[str]:
    """Fleets without a fault: every node that is rejected or not complete is wronged."""
    yield "| fabric | noise of a run | nodes | node-runs | rejected, % [95 %] | not complete | warned, % | minutes |"
    yield "|---|---|---|---|---|---|---|---|"
    total: Counter[Verdict] = Counter()
    for fabric, sizes in GOOD:
        for noise in (QUIET, DISTURBED, NOISY):
            for nodes in sizes:
                said: Counter[Verdict] = Counter()
                fleets, seconds = max(1, (32 if quick else 128) // nodes), 0.0
                for seed in range(fleets):
                    fleet = Fleet(np.random.default_rng([seed, nodes]), names_of(nodes), fabric, noise)
                    judged = run(fleet)
                    seconds += judged.seconds / fleets
                    said.update(judged.worst(name) for name in fleet.names)
                total += said
                runs = said.total()
                row = (fabric.name, noise.name, nodes, runs, share(said[Verdict.FAIL], runs), said[Verdict.ERROR])
                warned = 100 * said[Verdict.WARN] / runs
                yield f"| {' | '.join(map(str, row))} | {warned:.1f} | {seconds / 60:.1f} |"
    yield ""
    runs = total.total()
    yield f"All together: {total[Verdict.FAIL]} of {runs} node-runs rejected, {total[Verdict.ERROR]} not complete."


@dataclass(frozen=True)
class Fault:
    """What is wrong, and when it is named: by which nodes, and by which of their findings."""

    name: str
    make: Callable[[Fleet], None]
    culprits: Callable[[Fleet], Sequence[End]]
    checks: frozenset[str] = frozenset()  # any
    verdicts: tuple[Verdict, ...] = (Verdict.FAIL,)
    smallest: int = 4


ONE, RAIL = "gpu0001", "mlx5_3"


def _nic(left: float, way: str = "both") -> Callable[[Fleet], None]:
    return lambda fleet: fleet.slow(ONE, RAIL, left, way)


def _node(fleet: Fleet) -> None:
    for device in RAILS:
        fleet.slow(ONE, device, 0.7)


def _path(fleet: Fleet) -> None:
    for other in fleet.names:  # two leaves of a half of the fleet each, whose link is bad for this node
        if other != ONE and fleet.names.index(other) % 2:
            fleet.paths[frozenset(((ONE, RAIL), (other, RAIL)))] = 0.5


def _behind_leaf(fleet: Fleet) -> Sequence[End]:
    return [(name, RAIL) for name in fleet.names[: max(4, len(fleet.names) // 4)]]


def _leaf(left: float) -> Callable[[Fleet], None]:
    def make(fleet: Fleet) -> None:
        for name, device in _behind_leaf(fleet):
            fleet.slow(name, device, left)

    return make


def _rail(fleet: Fleet) -> None:
    for name in fleet.names:
        fleet.slow(name, RAIL, 0.95)


def _late(fleet: Fleet) -> None:
    fleet.later[ONE, RAIL] = 1.5


def _at_times(left: float) -> Callable[[Fleet], None]:
    return lambda fleet: fleet.at_times.update({(ONE, RAIL): left})


def _nic_end(_fleet: Fleet) -> Sequence[End]:
    return ((ONE, RAIL),)


OF_PATHS = frozenset({"rdma_bandwidth.path"})
OF_RAILS = frozenset({"rdma_bandwidth.rails"})
FAULTS = (
    Fault("NIC at half speed", _nic(0.5), _nic_end),
    Fault("NIC 15 % slow", _nic(0.85), _nic_end),
    Fault("NIC 7 % slow", _nic(0.93), _nic_end, smallest=8),
    Fault("NIC 7 % slow, sends", _nic(0.93, "tx"), _nic_end, smallest=8),
    Fault("NIC 7 % slow, receives", _nic(0.93, "rx"), _nic_end, smallest=8),
    Fault("NIC at half speed, sends", _nic(0.5, "tx"), _nic_end),
    Fault("NIC at half speed, receives", _nic(0.5, "rx"), _nic_end),
    Fault("NIC hangs", _nic(0.0), _nic_end),
    Fault("NIC hangs in half of its transfers", _at_times(0.0), _nic_end, smallest=8),
    Fault("NIC at half speed in half of them", _at_times(0.5), _nic_end, smallest=8),
    Fault("NIC 1.5 µs late", _late, _nic_end, frozenset({"rdma_bandwidth.latency"}), smallest=8),
    Fault("half of the paths of a NIC at half speed", _path, _nic_end, OF_PATHS, (Verdict.WARN,), 8),
    Fault("all NICs of a node 30 % slow", _node, lambda _fleet: [(ONE, device) for device in RAILS]),
    Fault("leaf of a quarter at half speed", _leaf(0.5), _behind_leaf, OF_RAILS, smallest=16),
    Fault("leaf of a quarter 7 % slow", _leaf(0.93), _behind_leaf, OF_RAILS, smallest=16),
    Fault(
        "a rail 5 % slow on all nodes",
        _rail,
        lambda fleet: [(name, RAIL) for name in fleet.names],
        OF_RAILS,
        (Verdict.WARN, Verdict.FAIL),
        8,
    ),
)


def faulty(quick: bool) -> Iterator[str]:
    """Fleets with one fault: whether it is named, and what is said of the rest."""
    head = "fault | noise of a run | nodes | culprits | named, % [95 %] | other NICs | good rejected | minutes"
    yield f"| {head} |"
    yield "|---|---|---|---|---|---|---|---|"
    for fault in FAULTS:
        for noise in (DISTURBED, NOISY):
            for nodes, fleets in ((4, 3), (8, 3), (16, 2)) if quick else ((4, 12), (8, 8), (16, 5), (64, 1)):
                if nodes >= fault.smallest:
                    yield _row(fault, noise, nodes, fleets)


def _row(fault: Fault, noise: Noise, nodes: int, fleets: int) -> str:
    culprits = named = beside = rejected = rest = 0
    seconds = 0.0
    for seed in range(fleets):
        fleet = Fleet(np.random.default_rng([seed, nodes, 7]), names_of(nodes), FLAT, noise)
        fault.make(fleet)
        judged, ends = run(fleet), fault.culprits(fleet)
        seconds += judged.seconds / fleets
        for node, device in ends:
            told = judged.findings(node, *fault.verdicts)
            named += any(part == device and (not fault.checks or check in fault.checks) for check, part, _ in told)
        sick = {node for node, _ in ends}
        blamed = {(node, part) for node in sick for _, part, _ in judged.findings(node, Verdict.FAIL)}
        culprits, beside = culprits + len(ends), beside + len(blamed - set(ends))
        good_ones = [name for name in fleet.names if name not in sick]
        rejected, rest = (
            rejected + sum(judged.worst(name) is Verdict.FAIL for name in good_ones),
            rest + len(good_ones),
        )
    row = (fault.name, noise.name, nodes, culprits, share(named, culprits), beside, f"{rejected} of {rest}")
    return f"| {' | '.join(map(str, row))} | {seconds / 60:.1f} |"


SECTIONS = {"good": good, "faulty": faulty}


def main() -> None:
    """Print the tables."""
    asked = [word for word in sys.argv[1:] if word != "--quick"]
    for name in asked or SECTIONS:
        began = time.process_time()
        print(f"\n## {name}\n")
        for line in SECTIONS[name]("--quick" in sys.argv):
            print(line, flush=True)
        print(f"\n{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
