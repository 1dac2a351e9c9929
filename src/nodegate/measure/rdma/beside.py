"""A rail beside those of others: slow on many nodes, late because its node is further away, or bad now and then."""

import math
from collections import defaultdict
from dataclasses import replace
from statistics import median

from nodegate.baseline.baseline import Baseline
from nodegate.measure.rdma.result import BANDWIDTHS, BOTH_AT_ONCE, ODD, RdmaBandwidth
from nodegate.metric import Metric
from nodegate.numbers.against_others import of_hung, of_low
from nodegate.numbers.assessments import Assessment
from nodegate.numbers.comparison import Margins, PeerGroup
from nodegate.numbers.peers import NodePeers
from nodegate.numbers.spread import reach
from nodegate.records.finding import AT_LEAST, Limit, LimitKind, NumberLimit
from nodegate.records.verdict import Verdict

_RAILS = 4  # of three and fewer it cannot be said which is the odd one
_NODES = 4  # so many slow NICs of one rail are beyond chance, where the other rails have a quarter of them at most
_OF_OTHERS = 4
_WHOLE = 0.75  # of the nodes: then it is the whole rail, and no leaf of several
_MEDIAN = math.sqrt(math.pi / 2)  # the spread of a median of n normal values, in their spread / sqrt(n)
_KINDS = 20  # of numbers that a run judges: by how many the chance of a false alarm is divided
TIER = "rdma.latency_tier_percent"
_SIBLINGS = 3  # other rails of a node that met the same partner, from which on they say how far it is
_FARTHER = "as far as one more tier of switches, on all rails of this node alike"


def shared_rail(metric: Metric, baseline: Baseline, peers: NodePeers) -> tuple[NumberLimit, str] | None:
    """What a node's number would have to reach by the other rails, where many nodes share that it does not.

    And on how many of the nodes it does not, with the median of the other rails. None where the number is good or a
    single one, or where too few tell.
    """
    margins = Margins.of(baseline)
    group, devices = peers.group(metric, margins), peers.of_devices(metric)
    others = [median(each.values()) for device, each in devices.items() if device != metric.device]
    if not isinstance(group, PeerGroup) or not group.device or len(others) + 1 < _RAILS:
        return None
    reference = median(others)
    chance = reach(margins.fleet_wronged / (_KINDS * len(devices)), group.freedom)
    rail_floor = max(margins.fleet_floor, chance * group.spread * _MEDIAN / math.sqrt(group.count + 1))
    own_floor = max(margins.fleet_floor, reach(margins.fleet_doubted) * group.spread)
    bounds = [reference * (1 - floor) for floor in (rail_floor, own_floor)]
    nodes, own = group.nodes + 1, devices[metric.device].values()
    if median(own) < bounds[0] and metric.judged < bounds[0]:
        slow = sum(value < bounds[0] for value in own)
        if slow >= _WHOLE * nodes:
            return _shared(bounds[0], f"the whole rail, on {slow} of {nodes}", reference)
    if metric.judged >= bounds[1]:
        return None
    counts = {device: sum(value < bounds[1] for value in each.values()) for device, each in devices.items()}
    mine = counts.pop(metric.device, 0)
    if mine < _NODES or max(counts.values(), default=0) * _OF_OTHERS > mine:
        return None
    return _shared(bounds[1], f"so on {mine} of {nodes}", reference)


def _shared(bound: float, which: str, reference: float) -> tuple[NumberLimit, str]:
    limit: NumberLimit = Limit(round(bound, 3), "Gb/s", "the other rails", AT_LEAST, LimitKind.FLEET)
    return limit, f"{which} nodes; the other rails reach {reference:.4g} Gb/s"


def nearest(metric: Metric, baseline: Baseline) -> Metric:
    """The number of a device without those of partners that are further away: they make no NIC unsteady."""
    return replace(metric, values=(metric.judged,)) if baseline.statistic is None else metric


def excused(
    measured: RdmaBandwidth, metric: Metric, found: Assessment, baseline: Baseline, peers: NodePeers
) -> Assessment:
    """A rail later than those of other nodes, if its node is only further away from all of them: a warning.

    A whole node may hang on a leaf of its own. Then all its rails are late alike with each partner, and no more than by
    one tier of switches. A rail that is later than its neighbours on the way to the same nodes has that of its own.
    """
    tier = baseline.find_number(TIER)
    group = peers.group(metric, Margins.of(baseline))
    if found.verdict is not Verdict.FAIL or found.comparison != "fleet" or tier is None:
        return found
    by_one_tier = isinstance(group, PeerGroup) and metric.judged <= group.median * (1 + tier.value / 100)
    if not by_one_tier or not _is_alike(measured, metric, baseline):
        return found
    return replace(found, verdict=Verdict.WARN, note=f"{found.note}; {_FARTHER}" if found.note else _FARTHER)


def _is_alike(measured: RdmaBandwidth, metric: Metric, baseline: Baseline) -> bool:
    """Whether the other rails of the node are as late with the partners with which this one is best."""
    by_partner: defaultdict[str, list[float]] = defaultdict(list)
    for run in measured.of(metric.name):
        if run.value is not None and run.device != metric.device:
            by_partner[run.link.peer].append(run.value)
    own = [run for run in measured.of(metric.name, metric.device) if run.value == metric.judged]
    floor = 1 + Margins.of(baseline).latency_floor
    with_others = [by_partner[run.link.peer] for run in own]
    return any(len(each) >= _SIBLINGS and metric.judged <= floor * median(each) for each in with_others)


_FEWEST = 2  # partners with whom it was bad: with one alone it may be that one, or the path


def how_often(found: RdmaBandwidth, device: str, *, hung: bool) -> tuple[Verdict, str]:
    """What it says of a rail in how many transfers it hung, or was slow too: a pass where chance makes so many.

    More than half of its partners have to see it, and it is judged without the partner with which it was worst, which
    may be the unsteady one. And in equal transfers with one partner it has to be both good and bad: a path that is
    bad stays bad.
    """
    own = [run for run in found.runs if run.device == device and run.name in (*BANDWIDTHS, BOTH_AT_ONCE)]
    runs = [run for run in own if run.trouble is None or run.trouble.kind == "link"]
    best: dict[str, float] = {}
    for run in runs:
        best[run.name] = max(run.value or 0.0, best.get(run.name, 0.0))
    bad = [run for run in runs if run.value is None or (not hung and run.value < ODD * best[run.name])]
    partners, seen = {run.partner for run in bad}, {run.partner for run in runs}
    good = {(run.partner, run.name, run.sends) for run in runs if run not in bad}
    comes_and_goes = any((run.partner, run.name, run.sends) in good for run in bad)
    if len(partners) < _FEWEST or 2 * len(partners) <= len(seen) or not comes_and_goes:
        return Verdict.PASS, ""
    most = max(sorted(partners), key=lambda name: sum(run.partner == name for run in bad))
    count, looks = (sum(run.partner != most for run in each) for each in (bad, runs))
    said = (of_hung if hung else of_low)(count, looks, max(len(found.planned), 1))
    what = "hung or ended with an error" if hung else "was a tenth and more below its best, or had no result,"
    return said, f"{what} in {len(bad)} of {len(runs)} transfers, with {len(partners)} of {len(seen)} partners"
