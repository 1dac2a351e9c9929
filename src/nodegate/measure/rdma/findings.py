"""RDMA measurements between nodes: when a run is a good one, and where the fault of a bad one is.

Both ends of a pair are slow when one is. A part that is slow with all partners is at fault; one that is slow with only
one partner is not: then it is that partner, if it is slow with others too, else the path between the two.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeGuard

from nodegate.baseline.baseline import Baseline
from nodegate.measure.rdma.rails import is_bond
from nodegate.measure.rdma.result import BANDWIDTHS, BOTH_AT_ONCE, ODD, WAYS, LinkRun, RdmaBandwidth, is_latency
from nodegate.metric import Metric
from nodegate.metric_names import words
from nodegate.numbers.assessments import Assessment, Bounds, assessments
from nodegate.numbers.limits import Physics, of_platform
from nodegate.numbers.peers import NodePeers
from nodegate.probe.rdma import Rdma, RdmaPort
from nodegate.records.finding import AT_LEAST, AnyLimit, Limit, LimitKind, NumberLimit
from nodegate.records.verdict import Verdict
from nodegate.tools.perftest import Trouble
from nodegate.unknown import Unknown


class Fault(str, Enum):
    """Where the fault is, as seen from one part (a NIC); what says most against it comes first."""

    HERE = "here"  # it is bad with all partners, or its only partner is good with others
    EITHER = "either end"  # one partner, which is unknown
    UNPROVEN = "unproven"  # only partners that are themselves bad
    PATH = "path"  # both are good with others, and bad with each other
    PATH_OR_PARTNER = "path or partner"  # it is good with others; the partner is unknown
    PARTNER = "partner"  # it is good with others, its partner is not
    NONE = "none"
    UNTRIED = "untried"


@dataclass(frozen=True)
class Trial:
    """One measurement with a partner. `partner_good`: whether the partner is good with others; None if unknown."""

    partner: str
    good: bool
    partner_good: bool | None = None


@dataclass(frozen=True)
class FaultLocation:
    """Where the fault is, the partners with which there was one, and those with which there was none."""

    fault: Fault
    bad_with: tuple[str, ...] = ()
    good_with: tuple[str, ...] = ()


def locate_fault(trials: Sequence[Trial]) -> FaultLocation:
    """Where the fault is. A partner with which one of several trials was good is a good one: a disturbance passes."""
    good = tuple(dict.fromkeys(trial.partner for trial in trials if trial.good))
    bad = tuple(dict.fromkeys(trial.partner for trial in trials if not trial.good and trial.partner not in good))
    known = [trial.partner_good for trial in trials if trial.partner in bad]
    if not trials:
        return FaultLocation(Fault.UNTRIED)
    if not bad:
        return FaultLocation(Fault.NONE, good_with=good)
    alone = Fault.HERE if len(bad) > 1 else Fault.EITHER
    faults = (Fault.PATH, Fault.PATH_OR_PARTNER, Fault.PARTNER) if good else (Fault.HERE, alone, Fault.UNPROVEN)
    return FaultLocation(faults[0 if True in known else 1 if None in known else 2], bad, good)


SHARE = "rdma.share_of_rate_percent"
SHARE_OF_BOTH = "rdma.both_ways_share_of_rate_percent"
GPU_WRITE = "rdma.gpu_write_gbps"
BETWEEN = BANDWIDTHS
# Slow with so many partners, and nobody in a run of so many nodes is not: then it is what they share. Were it single
# nodes, all but one of four would have to be sick on the same rail: of four, three partners are all the others.
_PARTNERS, _NODES = 3, 4


def port_of(rdma: Rdma, device: str) -> RdmaPort | None:
    """The port that a measured device stands for: "mlx5_0" is its port 1, "mlx5_0:2" its port 2."""
    name, _, number = device.partition(":")
    ports = (port for port in rdma.ports if port.device == name)
    return next((port for port in ports if str(port.port) == (number or "1")), None)


def device_of(port: RdmaPort) -> str:
    """The word under which a port is measured."""
    return port.device if port.port == 1 else f"{port.device}:{port.port}"


def how_measured(found: RdmaBandwidth, device: str) -> str:
    """That a device was measured, and whether its port's own counters could bear it out."""
    numbers = [run for run in found.runs if run.device == device and run.name in BETWEEN and run.value is not None]
    counted = "; the ports' own counters cannot confirm it" if any(run.unconfirmed for run in numbers) else ""
    far = unbound(found, device)
    return f"measured{counted}{f'; not bound to CPUs near the NIC: {far}' if far else ''}"


def test_of(run: LinkRun) -> str:
    """The test that a run was, in words: "RDMA write", "RDMA write latency"."""
    return words(run.name).replace(" bandwidth", "")


def share_of_rate(rdma: Rdma, device: str, baseline: Baseline, name: str = "") -> NumberLimit | Unknown | None:
    """The least bandwidth of a device by its own link's rate, in Gb/s; None without a limit for the share."""
    share, port = baseline.find_number(SHARE_OF_BOTH if name == BOTH_AT_ONCE else SHARE), port_of(rdma, device)
    if share is None or port is None:
        return None
    if isinstance(port.rate_gbps, Unknown):
        return port.rate_gbps
    source = f"{share.value:g} % of the link's {port.rate_gbps:g} Gb/s; {share.source}"
    return Limit(port.rate_gbps * share.value / 100, "Gb/s", source, kind=LimitKind.DERIVED)


def bounds_of(rdma: Rdma, *, in_check: bool = False) -> Bounds:
    """What the rates of the ports say: nothing is faster, and a good rail carries a share of it.

    In a check a number below its share is judged by rdma_bandwidth.share_of_rate alone, which knows whose fault it is.
    """

    def bounds(metric: Metric, baseline: Baseline) -> Physics:
        port = port_of(rdma, metric.device)
        real = any(each.name == metric.device.partition(":")[0] and each.address for each in rdma.devices)
        if is_latency(metric.name) or not real or port is None or isinstance(port.rate_gbps, Unknown):
            return of_platform(metric, baseline)
        limit = share_of_rate(rdma, metric.device, baseline, metric.name)
        judged_here = isinstance(limit, Limit) and not (in_check and metric.judged < limit.value)
        least = replace(limit, direction=AT_LEAST) if isinstance(limit, Limit) and judged_here else None
        ways, bonds = 2 if metric.name == BOTH_AT_ONCE else 1, 2 if is_bond(port.device, port.netdev) else 1
        whose = metric.device + (" in both directions" if ways > 1 else "") + (" of two ports" if bonds > 1 else "")
        return Physics(ways * bonds * port.rate_gbps, f"rate of {whose}", least)

    return bounds


def least(rdma: Rdma, name: str, device: str, baseline: Baseline) -> NumberLimit | None:
    """What one run must reach to be a good one: the platform's limit for this metric, else the share of the rate."""
    limit = baseline.find_number(name)
    if limit is None and not is_latency(name):
        share = share_of_rate(rdma, device, baseline, name)
        limit = None if isinstance(share, Unknown) else share
    return limit


def blamed(measured: RdmaBandwidth, name: str, device: str, limit: NumberLimit | None) -> FaultLocation:
    """Where the fault is in the runs of one metric of one device; without a limit only failed runs are bad ones."""
    runs = [run for run in measured.of(name, device) if run.trouble is None or run.trouble.kind == "link"]
    return locate_fault([Trial(run.partner, _good(run.value, run, limit), _partner_good(run, limit)) for run in runs])


def blamed_one_way(
    measured: RdmaBandwidth, device: str, rdma: Rdma, baseline: Baseline, *, sends: bool
) -> FaultLocation:
    """Where the fault is in all runs in which data left a device, or reached it, whoever was the client."""
    trials = []
    for run in (run for name in BETWEEN for run in measured.of(name, device)):
        limit = least(rdma, run.name, device, baseline)
        if limit is not None and run.sends is sends and run.value is not None:
            trials.append(Trial(run.partner, _good(run.value, run, limit), _partner_good(run, limit, one_way=True)))
    return locate_fault(trials)


def on_the_path(measured: RdmaBandwidth, device: str, rdma: Rdma, baseline: Baseline) -> frozenset[str]:
    """The partners with which a device is slow in one way or both, while both are good that way with others.

    A NIC that only sends slowly is good in every transfer that it receives: that is no path.
    """
    found = [blamed_one_way(measured, device, rdma, baseline, sends=sends) for sends in (True, False)]
    bad = {partner for blame in found if blame.fault is Fault.PATH for partner in blame.bad_with}
    return frozenset(partner for partner in bad if _is_odd(measured, device, partner))


def _is_odd(measured: RdmaBandwidth, device: str, partner: str) -> bool:
    """Whether a device is well below with one partner what it reaches with others: not just at the edge of a limit."""
    for name in BETWEEN:
        best = {True: 0.0, False: 0.0}
        for run in measured.of(name, device):
            best[run.partner == partner] = max(best[run.partner == partner], run.value or 0.0)
        if best[True] < ODD * best[False]:
            return True
    return False


def unproven(measured: RdmaBandwidth, metric: Metric, limit: AnyLimit | Unknown | None) -> str:
    """Why a bad number of this device proves nothing against it; empty where the number is good, or does."""
    if not _is_number(limit) or metric.judged >= limit.value:
        return ""
    found = blamed(measured, metric.name, metric.device, limit)
    if found.fault is Fault.EITHER:
        return f"measured with {found.bad_with[0]} alone: either end or the path between them may be slow"
    if found.fault is Fault.UNPROVEN:
        return f"measured only with partners that are slow with others too ({', '.join(found.bad_with)})"
    return ""


def unplaced(measured: RdmaBandwidth, metric: Metric, limit: AnyLimit | Unknown | None) -> str:
    """Why a number from host memory below its limit may be the way between two sockets; empty where it is not."""
    if not _is_number(limit) or metric.judged >= limit.value or metric.name not in (*BETWEEN, BOTH_AT_ONCE):
        return ""
    return unbound(measured, metric.device, metric.name)


def one_port_of_bond(rdma: Rdma, metric: Metric, limit: AnyLimit | Unknown | None) -> bool:
    """Whether a bond carries at least half of its limit, and not all of it: as much as one of its two ports."""
    port = port_of(rdma, metric.device)
    if port is None or not is_bond(port.device, port.netdev) or not _is_number(limit):
        return False
    return limit.value / 2 <= metric.judged < limit.value


def unbound(measured: RdmaBandwidth, device: str, *names: str) -> str:
    """Why no number of a device is from programs near their NICs; empty where one is, or that was not requested."""
    runs = [run for run in measured.runs if run.device == device and run.name in (names or BETWEEN)]
    told = [run for run in runs if run.value is not None]
    return "" if any(run.near for run in told) else next((run.unbound for run in told if run.unbound), "")


def slow_everywhere(
    measured: RdmaBandwidth, metric: Metric, limit: AnyLimit | Unknown | None, peers: NodePeers
) -> bool:
    """Whether no node of the run reaches this limit on this rail, with any of several partners."""
    if not _is_number(limit):
        return False
    found = blamed(measured, metric.name, metric.device, limit)
    all_nodes = peers.of_devices(metric).get(metric.device, {})
    tried = found.fault is Fault.UNPROVEN and len(found.bad_with) >= _PARTNERS and len(all_nodes) >= _NODES
    return tried and max(all_nodes.values()) < limit.value


def slow_partners_inside(measured: RdmaBandwidth, metric: Metric, rdma: Rdma, baseline: Baseline) -> str:
    """The NICs of this node that a device was measured with inside it, where they are slow and the device is not.

    Empty if one of them is good between nodes, if the device itself is not, or if that is unknown.
    """
    partners = sorted({run.link.peer_device for run in measured.of(metric.name, metric.device)})

    def does_well_between(device: str) -> bool | None:
        """Whether a device carries its share of the rate between nodes; None if unknown."""
        limit = share_of_rate(rdma, device, baseline)
        values = [each.judged for each in measured.named(*BETWEEN) if each.device == device]
        return min(values) >= limit.value if values and isinstance(limit, Limit) else None

    bad = [does_well_between(device) is False for device in partners]
    return ", ".join(partners) if partners and all(bad) and does_well_between(metric.device) is True else ""


def slow_ways(
    measured: RdmaBandwidth, baseline: Baseline, peers: NodePeers
) -> Mapping[str, Sequence[tuple[Metric, Assessment]]]:
    """For each device the ways that are behind those of the other nodes; where both are, the other checks say so."""
    found: defaultdict[str, list[tuple[Metric, Assessment]]] = defaultdict(list)
    at_best = [replace(metric, values=(metric.judged,)) for metric in measured.named(*WAYS.values())]
    for metric, said in assessments(at_best, baseline=baseline, peers=peers):
        if metric.device and said.verdict in (Verdict.WARN, Verdict.FAIL):
            found[metric.device].append((metric, said))
    return found


def is_bad(metric: Metric, rdma: Rdma, baseline: Baseline, peers: NodePeers) -> bool:
    """Whether a number fails by itself: by its share of the rate, by its limit, or beside the same rail elsewhere."""
    judged = assessments((metric,), baseline=baseline, peers=peers, physics=bounds_of(rdma))
    return any(said.verdict is Verdict.FAIL for _, said in judged)


def best_with(measured: RdmaBandwidth, metric: Metric, partners: Collection[str]) -> str:
    """What was reached at best with each of these partners, in words."""
    best: dict[str, float] = {}
    for run in measured.of(metric.name, metric.device):
        if run.partner in partners and run.value is not None:
            best[run.partner] = max(run.value, best.get(run.partner, 0.0))
    return ", ".join(f"{value:g} Gb/s with {partner}" for partner, value in best.items())


def only_link_troubles(runs: Sequence[LinkRun]) -> bool:
    """Whether all of these runs were started at both ends, and failed between them."""
    return all(run.trouble is not None and run.trouble.kind == "link" for run in runs)


def lost(measured: RdmaBandwidth) -> Trouble | None:
    """Why the connection to this node broke, after which it gave nothing more; None where it gave numbers since."""
    last = next((run for run in reversed(measured.runs) if run.lost or run.value is not None), None)
    return last.trouble if last is not None and last.lost else None


def _is_number(limit: AnyLimit | Unknown | None) -> TypeGuard[NumberLimit]:
    return isinstance(limit, Limit) and isinstance(limit.value, (int, float)) and not isinstance(limit.value, bool)


def _good(value: float | None, run: LinkRun, limit: NumberLimit | None) -> bool:
    if value is None:
        return False
    if limit is None:
        return True
    return value <= limit.value if is_latency(run.name) else value >= limit.value


def _partner_good(run: LinkRun, limit: NumberLimit | None, *, one_way: bool = False) -> bool | None:
    """Whether the other end is good with others, or good in the way of this transfer."""
    notes = run.notes
    if notes.peer_passed or notes.peer_failed:
        return notes.peer_passed
    reached = notes.peer_best_way if one_way and notes.peer_best_way is not None else notes.peer_best
    return None if reached is None else _good(reached, run, limit)
