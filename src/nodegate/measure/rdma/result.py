"""The RDMA measurements of one node: each run of each rail, its number or its trouble, and its partner."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from nodegate.errors import CannotMeasure, tried
from nodegate.measure.measurement import ByName
from nodegate.measure.program_run import count_asked, reason
from nodegate.measure.rdma.asked import AT_ONCE, SIZE, fabric_asked, is_unconfirmed, sends, unlike_asked, unlike_counted
from nodegate.metric import Metric, Statistic
from nodegate.records.program_run import Attempt, LinkNotes, LinkPlan, Memory, Path, ProgramRun, Role
from nodegate.tools import perftest
from nodegate.tools.perftest import Report, Trouble

BANDWIDTHS = ("rdma.write_gbps", "rdma.read_gbps")  # between nodes, from host memory
WAYS = {True: "rdma.sends_gbps", False: "rdma.receives_gbps"}  # of the writes: those in which a device sent the data
INSIDE = "rdma.inside_gbps"
BOTH_AT_ONCE = "rdma.both_ways_gbps"  # of both directions together
_MAY_PASS = ("link", "number")  # troubles that may not happen again
EVEN = 0.92  # share of what both ends reach with others, from which on a run is not odd
ODD = 0.9  # of what it reaches with others: a NIC pair below it, in every look, is a bad path
LIKE = 0.95  # of one another: what two ends reach that are as slow as each other
UNEVEN = 0.8  # share of the other direction's: write and read differ by less on good links
_NAMES = {
    ("ib_write_bw", Memory.HOST, Path.BETWEEN): "rdma.write_gbps",
    ("ib_read_bw", Memory.HOST, Path.BETWEEN): "rdma.read_gbps",
    ("ib_write_lat", Memory.HOST, Path.BETWEEN): "rdma.write_latency_us",
    ("ib_read_lat", Memory.HOST, Path.BETWEEN): "rdma.read_latency_us",
    ("ib_write_bw", Memory.GPU, Path.BETWEEN): "rdma.gpu_write_gbps",
    ("ib_write_bw", Memory.HOST, Path.INSIDE): INSIDE,
    (f"ib_write_bw {AT_ONCE}", Memory.HOST, Path.BETWEEN): BOTH_AT_ONCE,
}
NEAR = {"place": "near the NICs"}  # a condition of numbers from programs at both ends that were
_BY_HAND = "run it between the two nodes by hand"
_HUNG_STEP = "check both ends: cable, port counters and kernel log, PFC on the switch"

_TCP_STEP = "let TCP through between the nodes, or give nodegate_fabric_address in the inventory"


@dataclass(frozen=True)
class LinkRun:
    """One program of perftest over one link, from the side of this node's `device`.

    `value` is Gb/s or µs, None if the run has none: then `trouble` says why, of kind `link` (hung, or ended by
    completion errors: this end, the other or the path) or `setup` (it could not be run, which says nothing on either).
    """

    name: str  # the metric: "rdma.write_gbps"
    attempt: int
    link: LinkPlan
    notes: LinkNotes
    value: float | None
    trouble: Trouble | None = None
    lost: bool = False  # the connection to this node broke, not that to the other one
    server_died: bool = False  # the server ended by itself before it listened: a trouble of its node, not of the link
    unconfirmed: bool = False  # the ports' own counters cannot tell whether it is true
    conditions: tuple[tuple[str, str], ...] = ()
    over_runs: tuple[tuple[str, str], ...] = ()

    @property
    def device(self) -> str:
        """The NIC of this node."""
        return self.link.device

    @property
    def partner(self) -> str:
        """The other end, for a message."""
        return f"{self.link.peer} {self.link.peer_device}"

    @property
    def near(self) -> bool:
        """Whether both programs ran near their NICs: a number from the other socket says little."""
        return bool(self.notes.client.near and self.notes.server.near)

    @property
    def unbound(self) -> str:
        """Why a program did not, this node's first; empty if both did, or none asked for it."""
        ours, theirs = self.notes.client.unbound, self.notes.server.unbound
        if self.link.role is Role.SERVER:
            ours, theirs = theirs, ours
        return ours or (f"on {self.link.peer}: {theirs}" if theirs else "")

    @property
    def sends(self) -> bool:
        """Whether this device sent the data."""
        return sends(self.link.role, self.name)


@dataclass(frozen=True)
class RdmaBandwidth(ByName):
    """All runs of a node. `planned` are the rails that were to be measured; `partners` how many nodes it could meet.

    `missing` are rails in service that could not be measured, with the reason; `failed` says why an attempt as a whole
    has no result. `left_out` are NICs that are not measured by rule, with the reason.
    """

    runs: tuple[LinkRun, ...]
    planned: frozenset[str]
    partners: int
    missing: Mapping[str, CannotMeasure]
    failed: tuple[CannotMeasure, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str, device: str = "") -> tuple[LinkRun, ...]:
        """The runs of one metric, of one device or of all."""
        return tuple(run for run in self.runs if run.name == name and device in ("", run.device))

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The best round of each device, once for each attempt; of writes also the best in each way.

        The best, because both ends of a pair are slow when one is: a good rail that met a bad one is fast elsewhere.
        """
        best: defaultdict[tuple[str, str], dict[int, LinkRun]] = defaultdict(dict)
        for run in self.runs:
            for name in (run.name, *self._ways_of(run)):
                rounds = best[name, run.device]
                if run.value is not None and (run.attempt not in rounds or better(run, rounds[run.attempt])):
                    rounds[run.attempt] = run
        return tuple(_metric(name, device, rounds) for (name, device), rounds in best.items() if rounds)

    def _ways_of(self, run: LinkRun) -> tuple[str, ...]:
        """The way for which a write counts; none where the other end was the slow one."""
        if run.name != BANDWIDTHS[0] or run.value is None:
            return ()
        others = (value for peer, value in self._by_way[run.device, run.sends] if peer != run.partner)
        well_with_others = max(others, default=0.0) * LIKE > run.value
        is_partner = run.notes.peer_best_way is not None and run.notes.peer_best_way * LIKE <= run.value
        return () if is_partner and well_with_others else (WAYS[run.sends],)

    @cached_property
    def _by_way(self) -> Mapping[tuple[str, bool], Sequence[tuple[str, float]]]:
        """What each device sent to whom and received from whom, writing and reading."""
        found: defaultdict[tuple[str, bool], list[tuple[str, float]]] = defaultdict(list)
        for run in self.runs:
            if run.name in BANDWIDTHS and run.value is not None:
                found[run.device, run.sends].append((run.partner, run.value))
        return found


def better(run: LinkRun, other: LinkRun) -> bool:
    """Whether a run's number is better than another's: more Gb/s, or less µs."""
    if run.value is None or other.value is None:
        return other.value is None and run.value is not None
    return run.value < other.value if is_latency(run.name) else run.value > other.value


def is_latency(name: str) -> bool:
    """Whether less of it is better."""
    return name.endswith("_us")


def parse(attempts: Sequence[Attempt]) -> RdmaBandwidth:
    """The result of the attempts on one node. Raises CannotMeasure: not one link was tried; the last reason."""
    failed = tuple(reason(attempt) for attempt in attempts if attempt.cannot)
    planned = [attempt for attempt in attempts if attempt.rails]
    if not planned:
        nothing = CannotMeasure("no RDMA link was measured", next_step="measure this node again")
        raise failed[-1] if failed else nothing
    return RdmaBandwidth(
        runs=tuple(_runs(attempts)),
        planned=frozenset(planned[0].rails),
        partners=max(attempt.partners for attempt in planned),
        missing={rail.device: reason(rail) for attempt in attempts for rail in attempt.missing if not rail.by_rule},
        failed=failed,
        left_out={rail.device: rail.why_not for attempt in attempts for rail in attempt.missing if rail.by_rule},
    )


def doubtful(attempts: Sequence[Attempt]) -> bool:
    """Whether a rail only hung or failed when it was last tried, or its best sending and receiving differ much.

    A second attempt distinguishes a bad rail from a disturbance.
    """
    try:
        runs = parse(attempts[-1:]).runs
    except CannotMeasure:
        return False
    good = {(run.name, run.device) for run in runs if run.value is not None}
    broken = {(run.name, run.device) for run in runs if run.trouble is not None and run.trouble.kind in _MAY_PASS}
    if good and INSIDE not in {name for name, _ in good}:
        broken = {each for each in broken if each[0] != INSIDE}  # a network whose rails do not reach each other
    best: defaultdict[str, dict[bool, float]] = defaultdict(lambda: {True: 0.0, False: 0.0})
    for run in runs:
        if run.name in BANDWIDTHS and run.value is not None:
            best[run.device][run.sends] = max(best[run.device][run.sends], run.value)
    return bool(broken - good) or any(0.0 < min(ways.values()) < UNEVEN * max(ways.values()) for ways in best.values())


def number(ran: ProgramRun) -> float | None:
    """What a client measured, Gb/s or µs; None if it printed no readable number."""
    report = tried(lambda: perftest.parse(ran.stdout))
    if isinstance(report, CannotMeasure) or unlike_asked(ran, report) or unlike_counted(ran, report):
        return None
    return _value(ran, report)


def _runs(attempts: Sequence[Attempt]) -> Iterable[LinkRun]:
    for place, attempt in enumerate(attempts):
        servers = {(ran.what, ran.plan.link): ran for ran in attempt.runs if ran.link.program is Role.SERVER}
        for ran in attempt.runs:
            link = ran.plan.link
            name = _NAMES.get((ran.what, link.memory, link.path)) if link else None
            if link and name and ran.link.program is Role.CLIENT and link.device:
                yield _run(name, place, ran, link, servers.get((ran.what, link)))


def _run(name: str, attempt: int, ran: ProgramRun, link: LinkPlan, server: ProgramRun | None) -> LinkRun:
    report, notes = tried(lambda: perftest.parse(ran.stdout)), ran.link
    trouble = _trouble(ran, server, report)
    if trouble and link.of_another_rail:
        trouble = replace(trouble, kind="setup")  # in some fabrics the rails do not reach each other
    value = None if trouble or isinstance(report, CannotMeasure) else _value(ran, report)
    if value is None and trouble is None:  # perftest divides by a CPU clock that it has measured
        clock = next((line.strip() for line in ran.stderr.splitlines() if "Correlation coefficient" in line), "")
        why = f": its measurement of the CPU clock failed ({clock[:80]})" if clock else ""
        trouble = Trouble("number", f"a result without a number{why}", _BY_HAND)
    return LinkRun(
        name=name,
        attempt=attempt,
        link=link,
        notes=notes,
        value=value,
        trouble=trouble,
        lost=notes.lost not in {"", link.peer},
        server_died=bool(ran.cannot) and server is not None and server.exit_code is not None,
        unconfirmed=not isinstance(report, CannotMeasure) and is_unconfirmed(ran, report),
        over_runs=tuple({**(NEAR if notes.client.near and notes.server.near else {}), **fabric_asked(ran)}.items()),
        conditions=() if value is None or isinstance(report, CannotMeasure) else _conditions(ran, link, report),
    )


def _trouble(ran: ProgramRun, server: ProgramRun | None, report: Report | CannotMeasure) -> Trouble | None:
    """What went wrong with a run; None if it has a number."""
    if ran.cannot:
        return Trouble("setup", ran.why_not, ran.next_step)
    both = [perftest.trouble(each.stdout, each.stderr) for each in (ran, server) if each]
    said = next((each for each in both if each and each.kind == "link"), next(filter(None, both), None))
    if isinstance(report, CannotMeasure):
        return said or _silence(ran, server, report)
    if report.stalled:
        return Trouble("link", "stalled: 0 iterations, it lost its peer", _HUNG_STEP)
    if said and said.kind == "link":
        return said
    differs = unlike_asked(ran, report) or unlike_counted(ran, report)
    return Trouble("number", f"not believed: {differs}", _BY_HAND) if differs else None


def _silence(ran: ProgramRun, server: ProgramRun | None, why: CannotMeasure) -> Trouble:
    """The trouble of a program without a result and without a reason."""
    if not ran.timed_out:
        return Trouble("setup", why.reason, why.next_step)
    # Both ends print their settings once they have met by TCP, and not before.
    if any("Link type" in each.stdout for each in (ran, server) if each):
        return Trouble("link", f"hung: no result within {ran.duration_s:.0f} s", _HUNG_STEP)
    return Trouble("setup", f"the two programs did not connect by TCP within {ran.duration_s:.0f} s", _TCP_STEP)


def _value(ran: ProgramRun, report: Report) -> float | None:
    """The average of the size that was asked for; the median latency."""
    if report.stalled:
        return None
    if report.bandwidth:
        asked = count_asked(ran, SIZE) or max(row.size_bytes for row in report.bandwidth)
        found = next((row.average_gbps for row in report.bandwidth if row.size_bytes == asked), 0.0)
    else:
        found = next((row.typical_us or row.average_us or 0.0 for row in report.latency), 0.0)
    return found if math.isfinite(found) and found > 0 else None


def _conditions(ran: ProgramRun, link: LinkPlan, report: Report) -> tuple[tuple[str, str], ...]:
    sizes = [row.size_bytes for row in report.bandwidth] + [row.size_bytes for row in report.latency]
    found = {"tool": ran.what, "tool_version": ran.plan.version}
    found |= {"size_bytes": str(count_asked(ran, SIZE) or max(sizes)), "qps": report.settings.get("Number of qps", "")}
    found |= {"memory": link.memory.value, "path": link.path.value}
    return tuple((name, value) for name, value in found.items() if value)


def _metric(name: str, device: str, rounds: Mapping[int, LinkRun]) -> Metric:
    latency, first = is_latency(name), rounds[min(rounds)]
    return Metric(
        name=name,
        values=tuple(run.value for _, run in sorted(rounds.items()) if run.value is not None),
        unit="µs" if latency else "Gb/s",
        device=device,
        better="lower" if latency else "higher",
        conditions=dict(first.conditions),
        over_runs=dict(first.over_runs),
        statistic=Statistic.BEST,
    )
