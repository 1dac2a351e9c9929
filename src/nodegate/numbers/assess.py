"""One measured number judged: by physics, the baseline, the fleet, the rest of its node, and its own past."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nodegate.baseline.entry import Entry
from nodegate.metric import Metric, Statistic
from nodegate.numbers import against_baseline, against_levels, against_others, against_past, slots, unsteady
from nodegate.numbers.against_baseline import Stored, is_number
from nodegate.numbers.against_others import Reference
from nodegate.numbers.batches import OF_BATCH, Batch
from nodegate.numbers.comparison import Comparison, believable, number
from nodegate.numbers.derived import Physics
from nodegate.numbers.gap import direction_of
from nodegate.numbers.margins import Margins
from nodegate.numbers.own_past import Past
from nodegate.numbers.peers import NoPeers
from nodegate.numbers.pool import PeerGroup
from nodegate.numbers.slots import Slot
from nodegate.records.finding import AnyLimit, Limit, NumberLimit
from nodegate.records.verdict import Verdict, worst

UNBOUNDED = Physics()
_CODES = {unsteady.UNSTEADY: unsteady.UNSTEADY, "physics": "more than possible", "unit": "wrong unit", "slot": "slot"}


@dataclass(frozen=True)
class Assessment:
    """What is found of one metric of one device. `comparison` names what decided.

    `value` is what was judged, in the metric's unit: by the looks that can be believed, or the one that a
    policy asks for. `limit` is what it was held to by the comparison that decided; None where there was none. `note`
    says what the limit does not: how far from the other nodes, why nothing judges it; of an `error` it is the reason.
    `text` is what was seen, where that is more than the value. `share` is the part that is left of what the other nodes
    have, or else of what the limit asks for; None where nothing is missing. `kept` is an absolute limit that is kept,
    whatever else decided. `again`: it has to be measured again, although nothing is said of it yet. `whole`: it is
    about the node, by the median of its devices, or by several numbers together, of which `worst` has lost most.
    `enough` is what keeps all limits, whichever decided; None where there is none.
    """

    verdict: Verdict
    comparison: str
    value: float
    note: str = ""
    limit: AnyLimit | None = None
    share: float | None = None
    text: str = ""
    kept: AnyLimit | None = None
    again: bool = False
    whole: bool = False
    worst: str = ""
    enough: float | None = None

    @property
    def code(self) -> str:
        """What is the matter, where it is not that the value is a bad one."""
        if self.is_of_batch:
            return self.comparison
        if self.whole and self.verdict in (Verdict.WARN, Verdict.FAIL):
            return "node"
        said = self.verdict in (Verdict.WARN, Verdict.ERROR) or self.comparison == unsteady.UNSTEADY
        return _CODES.get(self.comparison, "") if said else ""

    @property
    def is_of_batch(self) -> bool:
        """Whether it is about all nodes of a batch, this one among them."""
        return self.comparison.startswith(OF_BATCH)


def assess(
    metric: Metric,
    right: Entry | AnyLimit | None,
    group: PeerGroup | NoPeers,
    margins: Margins,
    *,
    physics: Physics = UNBOUNDED,
    inside: Reference | None = None,
    history: Past | None = None,
    statistic: Statistic | None = None,
    batches: Sequence[Batch] = (),
    slot: Slot | None = None,
) -> Assessment:
    """Judge a metric; the worst comparison decides, and without baseline and peers nothing is ever a pass.

    The mean of the best two thirds of the looks is judged: a slow device is slow in most of them, a disturbed run is
    one of the worst third. A policy may ask for the median or the worst.

    Args:
        metric: what was measured.
        right: the baseline's entry, or the limit that the inventory sets; None when nothing says what is right.
        group: the other nodes, or why there are none.
        margins: how far apart is too far.
        physics: what is possible, and the share of it that judges where nothing stored does.
        inside: the other devices of this node.
        history: this device's own earlier values.
        statistic: which of the looks is judged, where a policy asks for another one than the metric does.
        batches: the batches of this node that are behind the rest of the fleet.
        slot: the place of this device, where it is behind the other places on all nodes.
    """
    if not all(map(believable, metric.values)):
        sent = ", ".join(map(number, metric.values))
        return Assessment(Verdict.ERROR, "physics", 0.0, f"{sent} {metric.unit} cannot be a measurement")
    stored = against_baseline.stored_for(right, metric)
    top = physics.peak
    believed = [value for value in metric.values if top is None or value <= top]
    best = (statistic or metric.statistic).of(believed, better=metric.better)
    doubt = []
    if top is not None and len(believed) < len(metric.values):
        doubt = [against_baseline.too_good(metric, stored, top, physics.whose, judged=best)]
    if best is None:
        return _concluded(metric, metric.judged, doubt, group)
    agreed = isinstance(right, Entry) and right.clause  # what a policy asks for is not proven by physics
    least = None if agreed or isinstance(stored, (Entry, Limit)) else physics.least
    compared = _Comparisons(metric, stored, least, group, margins, inside, history, batches, slot)
    found = _concluded(metric, best, compared.all_with(best) + doubt, group)
    return found if statistic is None else _as_asked(found, statistic, len(believed))


@dataclass(frozen=True)
class _Comparisons:
    """All that a value is compared with."""

    metric: Metric
    stored: Stored
    least: NumberLimit | None
    group: PeerGroup | NoPeers
    margins: Margins
    inside: Reference | None
    history: Past | None
    batches: Sequence[Batch]
    slot: Slot | None

    def all_with(self, value: float) -> list[Comparison]:
        """What each comparison says. Those with the node itself only find faults: they prove no health."""
        by_baseline = against_baseline.compare(self.metric, value, self.stored, self.group, self.margins)
        by_fleet = against_levels.fleet(self.metric, value, self.group, self.margins, self.batches)
        comparisons = [by_baseline, by_fleet]
        if self.least is not None:
            comparisons.insert(0, against_baseline.derived(self.metric, value, self.least))
        proven = Verdict.PASS in (by_baseline.verdict, by_fleet.verdict)
        if by_fleet.verdict is Verdict.SKIP:
            comparisons.append(against_others.inside(self.metric, value, self.inside, self.margins, proven=proven))
        comparisons.append(unsteady.compare(self.metric, value, self.group, self.margins))
        comparisons.append(slots.compare(self.metric, value, self.slot, self.margins))
        like_others = by_fleet.verdict is Verdict.PASS and not self.batches
        comparisons.append(
            against_past.history(self.metric, value, self.history, self.margins, proven=proven, like_others=like_others)
        )
        return comparisons


def of_batch(metric: Metric, batch: Batch, margins: Margins) -> Assessment:
    """What is said of a batch of nodes that this one is of, by one number of each."""
    told = against_levels.of_batch(metric, batch, margins)
    left = min(batch.median, batch.rest) / max(batch.median, batch.rest)
    return Assessment(told.verdict, told.comparison, metric.judged, told.said, told.limit, left, kept=None)


def _concluded(metric: Metric, value: float, told: Sequence[Comparison], group: PeerGroup | NoPeers) -> Assessment:
    verdict = worst(each.verdict for each in told)
    decisive = [each for each in told if each.verdict is verdict]
    notes = [each.said for each in decisive if each.said]
    limit = decisive[0].limit
    if verdict is Verdict.PASS:
        notes += [each.said for each in told if each.verdict is Verdict.SKIP and each.notable]
    if verdict is Verdict.SKIP:
        verdict, notes = Verdict.NOT_JUDGED, [", and ".join(notes)]
    share = None if verdict is Verdict.PASS else _share(metric, value, limit, group)
    kept = [each.limit for each in told if each.verdict is Verdict.PASS and each.limit and each.limit.kind.is_absolute]
    absolute, again = kept[0] if kept else None, any(each.again for each in told)
    strictest = max if metric.better == "higher" else min
    return Assessment(
        verdict,
        decisive[0].comparison,
        value,
        "; ".join(notes),
        limit,
        share,
        kept=absolute,
        again=again,
        enough=strictest(_held_to(metric, told), default=None),
    )


def _held_to(metric: Metric, told: Sequence[Comparison]) -> list[float]:
    """The limits that bound the metric from its bad side."""
    limits = [each.limit for each in told if each.limit and each.limit.direction == direction_of(metric)]
    return [float(limit.value) for limit in limits if is_number(limit.value)]


def _as_asked(found: Assessment, statistic: Statistic, attempts: int) -> Assessment:
    """What is said of a value that is not the best of its attempts."""
    said = f"the {statistic.value} of {attempts} attempts" if attempts > 1 else ""
    return replace(found, note="; ".join(filter(None, (found.note, said))))


def _share(metric: Metric, value: float, limit: AnyLimit | None, group: PeerGroup | NoPeers) -> float | None:
    right = group.median if isinstance(group, PeerGroup) else limit.value if limit else None
    if metric.better != "higher" or not is_number(right):
        return None
    return value / right if 0 <= value < right else None
