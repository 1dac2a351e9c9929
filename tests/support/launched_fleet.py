"""A fleet whose launches over several nodes are drawn, not made: what breaks which launch, noise, and a clock.

It shares nothing with the judging. Real code of the suite decides what is launched, who is measured again and what is
said; only what a launch gives is drawn here.
"""

import random
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from unittest import mock

from fleet.machine import Machine, facts_of
from support.judging import baseline_of
from support.nccl_fleet import table

from nodegate import suite
from nodegate.errors import CannotMeasure, Unreachable
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.groups import launch as launching
from nodegate.measure.groups import tour
from nodegate.measure.groups.launch import plan_of
from nodegate.measure.groups.result import NcclGroups
from nodegate.measure.groups.run import NCCL_GROUPS
from nodegate.measure.measurement import Target
from nodegate.node import Node
from nodegate.numbers.assessments import suspects
from nodegate.numbers.peers import Peers
from nodegate.profile import Profile
from nodegate.records.finding import Record
from nodegate.records.program_run import ProgramRun
from nodegate.run.load import Load
from nodegate.toolbox.toolbox import Tool

CHECKS = tuple(f"nccl_groups.{name}" for name in ("data", "hang", "all_reduce", "collectives", "wide", "share_of_rate"))
GOOD_GB_PER_S = {"all_reduce": 385.0, "alltoall": 46.0, "sendrecv": 47.0}  # of an alltoall, what leaves the node
GPUS = 8
GOOD_S = 20.0  # a launch that succeeds, start and end included
FACTS = facts_of(Machine.hgx_h100())


@dataclass(frozen=True)
class Sick:
    """A node that spoils launches over `least` nodes and more: "hang", "cuda", "wrong" (data), or the share left."""

    node: str
    how: str | float
    only: str = ""  # one collective
    least: int = 2
    chance: float = 1.0  # of launches with it, the share that it spoils

    def spoils(self, nodes):
        return self.node in nodes and len(nodes) >= self.least


@dataclass(frozen=True)
class Path:
    """What lies between two sets of nodes: a path, a rack's uplink (all others on the other side), a trunk."""

    one: frozenset[str]
    other: frozenset[str]
    how: str | float
    only: str = ""

    def spoils(self, nodes):
        return not (nodes.isdisjoint(self.one) or nodes.isdisjoint(self.other))


@dataclass
class Fabric:
    """What launches over the nodes give. `across`: the share that is left between racks, where all is well.

    `uplink`: the share that uplinks carry at most, which hides nodes that are less slow.
    `lost`: after so many launches a node is not reached any more.
    """

    racks: Mapping[str, Sequence[str]]
    faults: Sequence[Sick | Path] = ()
    noise: float = 0.01
    disturbed: float = 0.0
    across: float = 1.0
    uplink: float = 1.0
    seed: int = 0
    lost: tuple[str, int] | None = None
    version: str = "2.17.5"  # of nccl-tests; from 2.19.4 on each node is launched by itself too
    launches: int = 0
    rounds: int = 0  # launches at the same time are one
    clock_s: float = 0.0
    log: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.draw = random.Random(f"fabric {self.seed}")  # noqa: S311 - noise
        self.names = [name for names in self.racks.values() for name in names]
        self._rack_of = {name: rack for rack, names in self.racks.items() for name in names}
        self._took: list[float] = []

    def at_once(self, jobs):
        """As a run's pool; the clock goes on by the longest launch."""
        self._took = [0.0]
        done: dict[str, object] = {}
        for name, job in jobs.items():
            try:
                done[name] = job()
            except CannotMeasure as why:  # noqa: PERF203 - as a pool
                done[name] = why
        self.clock_s += max(self._took)
        self.rounds += len(self._took) > 1
        return done

    cancelled = False

    def begin(self, *_):
        """What a progress line would say."""

    def run_group(self, launch, group, members, mark):
        """In place of a launch: what nccl-tests would print."""
        what, limit_s = launch.collective, launch.limit_s
        nodes = frozenset(member.name for member in members)
        self.launches += 1
        size = launch.sweep.judged_bytes
        plan = plan_of(launch, group, members)
        gone = self.lost is not None and self.launches > self.lost[1] and self.lost[0] in nodes
        if gone:
            self._took.append(limit_s)
            raise Unreachable("lost", "the connection broke", next_step="see its sshd", whose=self.lost[0])
        spoilt = [each.how for each in self.faults if each.only in ("", what) and self._is_spoilt(each, nodes)]
        hangs, wrong = "hang" in spoilt, "wrong" in spoilt
        took_s = limit_s if hangs else GOOD_S
        self._took.append(took_s)
        self.log.append(f"{self.clock_s / 60:5.1f} {what} {group.name} {spoilt or ''}")
        ranks = sum(member.gpus for member in members)
        speed = self._speed(what, nodes, spoilt)
        text = table(what, ranks, speed, 3 if wrong else 0, size=size, version=self.version)
        if hangs:
            text = text[: text.index("NCCL version")]
        if "cuda" in spoilt:
            text, wrong = "gpu9: Test CUDA failure common.cu:303 'uncorrectable ECC error encountered'\n", True
        code = None if hangs else int(wrong)
        return ProgramRun(what, stdout=text, exit_code=code, timed_out=hangs, duration_s=took_s, plan=plan)

    def _is_spoilt(self, by, nodes):
        chance = by.chance if isinstance(by, Sick) else 1.0
        return by.spoils(nodes) and (chance == 1.0 or self.draw.random() < chance)

    def _speed(self, what, nodes, spoilt):
        share = min([1.0, *(each for each in spoilt if isinstance(each, float))])
        if len({self._rack_of[name] for name in nodes}) > 1:
            share = min(share * self.across, self.uplink)
        good = GOOD_GB_PER_S[what] * share
        if what == "alltoall":  # what stays in a node comes on top
            ranks = GPUS * len(nodes)
            good *= (ranks - 1) / max(ranks - GPUS, 1)
        if self.draw.random() < self.disturbed:
            good *= 1.0 - self.draw.uniform(0.05, 0.30)
        return max(good * self.draw.gauss(1.0, self.noise), 0.01)


@dataclass(frozen=True)
class Judged:
    """What the checks say of each node, what the measurement found, and what it cost."""

    records: Mapping[str, Sequence[Record]]
    found: Mapping[str, NcclGroups]
    launches: int
    minutes: float

    def verdicts(self, name):
        return {str(record.verdict.value) for record in self.records[name]}

    def are(self, verdict):
        """The nodes of which a check says this."""
        return {name for name in self.records if verdict in self.verdicts(name)}

    @property
    def accepted(self):
        """The nodes of which every check says pass, warn or skip."""
        return {name for name in self.records if self.verdicts(name) <= {"pass", "warn", "skip"}}

    def said(self, name):
        """All that is said of a node."""
        return " | ".join(record.message for record in self.records[name])


class _Node:
    """A session and a toolbox of a node on which nothing runs."""

    def find(self, *names):
        return Tool(names[0], (f"/opt/{names[0]}",), "the test's")

    def run(self, *_, **__):
        return SimpleNamespace(stdout=b"launcher mpirun (Open MPI) 4.1.6\nprogram abc\nnccl def\n")

    def start(self, *_, **__):
        return SimpleNamespace(line=lambda: "kept\n", stop=lambda: None)


class _Folder:
    """Keeps the documents in place of evidence files."""

    def __init__(self):
        self.documents: dict[str, Mapping[str, object]] = {}

    def write_evidence(self, evidence):
        if evidence.document is not None:
            self.documents[evidence.node] = evidence.document


def measured(fabric, limits=None, durations=OF_PROFILE[Profile.DELIVERY]):
    """A whole run: first and second looks, then all checks on all nodes."""
    racks = {name: rack for rack, names in fabric.racks.items() for name in names}
    nodes = {name: Node(name, expected={"rack": racks[name]} if racks[name] else {}) for name in fabric.names}
    targets = [Target(node, _Node(), FACTS, _Node(), durations) for node in nodes.values()]
    baseline = baseline_of(FACTS, nodes[fabric.names[0]], limits)
    baselines = dict.fromkeys(nodes, baseline)
    gate = SimpleNamespace(
        refusal=lambda *_: None,
        suspects=lambda metrics, bounds, **_: suspects(
            {name: (baseline.platform, each) for name, each in metrics.items()}, baselines, bounds
        ),
    )
    folder = _Folder()
    with _drawn(fabric):
        Load(folder, targets, fabric, gate).run([NCCL_GROUPS], keep=False)
    found = {name: NCCL_GROUPS.of_document(folder.documents[name]) for name in nodes}
    peers = Peers.of({name: (baseline.platform, each.metrics) for name, each in found.items()})
    parts = node_parts(FACTS)

    def judged_by(check, name):
        known = {"nccl_groups": found[name], "baseline": baseline, "rdma": FACTS.rdma, "peers": peers.of_node(name)}
        return judge(suite.check(check), known.__getitem__, name, parts)

    records = {name: [judged_by(check, name) for check in CHECKS] for name in nodes}
    return Judged(records, found, fabric.launches, fabric.clock_s / 60.0)


@contextmanager
def _drawn(fabric):
    clock = SimpleNamespace(monotonic=lambda: fabric.clock_s)
    with mock.patch.object(launching, "run_group", fabric.run_group), mock.patch.object(tour, "time", clock):
        yield


def racks_of(count, size):
    """So many racks of so many nodes."""
    return {f"r{rack + 1:02}": [f"gpu{rack * size + at + 1:03}" for at in range(size)] for rack in range(count)}
