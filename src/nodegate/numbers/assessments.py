"""The numbers of one node, each judged with what it is compared with; and who is measured again before a verdict."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from nodegate.baseline.baseline import Baseline
from nodegate.baseline.entry import Entry
from nodegate.baseline.entry import is_plain_number as is_number
from nodegate.errors import NotJudged
from nodegate.metric import Metric, Statistic
from nodegate.numbers import against_others, limits
from nodegate.numbers.against_others import UNSTEADY, Reference, Slot
from nodegate.numbers.comparison import Comparison, Margins, NoPeers, PeerGroup, believable, direction_of, number
from nodegate.numbers.limits import Physics, of_a_node, of_platform
from nodegate.numbers.parts import OF_BATCH, Batch
from nodegate.numbers.past import Past, Pasts
from nodegate.numbers.past import history as by_past
from nodegate.numbers.peers import Earlier, Measured, NodePeers, Peers
from nodegate.numbers.quantities import key_of_devices, node_figures
from nodegate.records import part
from nodegate.records.finding import AnyLimit, Limit
from nodegate.records.verdict import Verdict, worst

Bounds = Callable[[Metric, Baseline], Physics]
Suspects = Mapping[str, "tuple[Doubt, ...]"]  # by node; none where it gave no number at all

BEHIND = 0.8  # of the best pair: good pairs are closer together than that, by far
_SAID = (Verdict.WARN, Verdict.FAIL)
_MIN_DEVICES = 3  # of two other devices that differ, either may be the odd one
_CODES = {UNSTEADY: UNSTEADY, "physics": "more than possible", "unit": "wrong unit", "slot": "slot"}


@dataclass(slots=True)  # not frozen: a fleet has half a million
class Assessment:
    """What is found of one metric of one device."""

    verdict: Verdict
    comparison: str  # what decided
    value: float  # what was judged: by the looks that can be believed, or the one that a policy asks for
    note: str = ""  # what the limit does not say; of an `error` the reason
    limit: AnyLimit | None = None  # what it was held to by the comparison that decided
    share: float | None = None  # what is left of what the other nodes have, or of what the limit asks for
    text: str = ""  # what was seen, where that is more than the value
    kept: AnyLimit | None = None  # an absolute limit that is kept, whatever else decided
    again: bool = False  # it has to be measured again, although nothing is said of it yet
    whole: bool = False  # it is about the node, by the median of its devices or by several numbers together
    worst: str = ""  # of these the one that has lost most
    enough: float | None = None  # what keeps all limits, whichever decided

    @property
    def code(self) -> str:
        """What is the matter, where it is not that the value is a bad one."""
        if self.is_of_batch:
            return self.comparison
        if self.whole and self.verdict in _SAID:
            return "node"
        said = self.verdict in (Verdict.WARN, Verdict.ERROR) or self.comparison == UNSTEADY
        return _CODES.get(self.comparison, "") if said else ""

    @property
    def is_of_batch(self) -> bool:
        """Whether it is about all nodes of a batch, this one among them."""
        return self.comparison.startswith(OF_BATCH)


class Beside(NamedTuple):
    """What a number is held to besides what is stored and the other nodes.

    What is possible, the other devices of the node, its own past, the batches of the node and the place of the device
    where these are behind; and which of the looks is judged, where a policy asks for another one than the metric does.
    """

    physics: Physics = Physics()
    inside: Reference | None = None
    history: Past | None = None
    batches: Sequence[Batch] = ()
    slot: Slot | None = None
    statistic: Statistic | None = None


def assess(
    metric: Metric,
    right: Entry | AnyLimit | None,
    group: PeerGroup | NoPeers,
    margins: Margins,
    beside: Beside = Beside(),  # noqa: B008 - it cannot change
) -> Assessment:
    """Judge a metric; the worst comparison decides, and without baseline and peers nothing is ever a pass.

    `right` is the baseline's entry or the inventory's limit, `group` the other nodes or why there are none.
    """
    if not all(map(believable, metric.values)):
        sent = ", ".join(map(number, metric.values))
        return Assessment(Verdict.ERROR, "physics", 0.0, f"{sent} {metric.unit} cannot be a measurement")
    stored = limits.stored_for(right, metric)
    physics, statistic = beside.physics, beside.statistic
    believed = [value for value in metric.values if physics.peak is None or value <= physics.peak]
    best = (statistic or metric.statistic).of(believed, better=metric.better)
    told = [] if best is None else _compared(metric, best, right, group, margins, beside)
    if physics.peak is not None and len(believed) < len(metric.values):
        told.append(limits.too_good(metric, stored, physics.peak, physics.whose, judged=best))
    found = _concluded(metric, metric.judged if best is None else best, told, group)
    if statistic is None or len(believed) < 2:
        return found
    said = f"the {statistic.value} of {len(believed)} attempts"
    return replace(found, note=f"{found.note}; {said}" if found.note else said)


def _compared(  # noqa: PLR0917 - one caller, above
    metric: Metric,
    value: float,
    right: Entry | AnyLimit | None,
    group: PeerGroup | NoPeers,
    margins: Margins,
    beside: Beside,
) -> list[Comparison]:
    """What each comparison says; those with the node itself only find faults: they prove no health."""
    stored, least = limits.stored_for(right, metric), beside.physics.least
    is_stored = isinstance(stored, (Entry, Limit)) or (isinstance(right, Entry) and right.clause)  # a policy's words
    by_baseline = limits.by_baseline(metric, value, stored, group, margins)
    by_fleet = against_others.fleet(metric, value, group, margins, beside.batches)
    proven = Verdict.PASS in (by_baseline.verdict, by_fleet.verdict)
    others = beside.inside if isinstance(group, NoPeers) else None
    like_others = by_fleet.verdict is Verdict.PASS and not beside.batches
    found = (
        None if is_stored or least is None else limits.derived(metric, value, least),
        by_baseline,
        by_fleet,
        against_others.inside(metric, value, others, margins, proven=proven),
        against_others.steady(metric, value, group, margins),
        against_others.place(metric, value, beside.slot, margins),
        by_past(metric, value, beside.history, margins, proven=proven, like_others=like_others),
    )
    return [each for each in found if each]


def of_batch(metric: Metric, batch: Batch, margins: Margins) -> Assessment:
    """What is said of a batch of nodes that this one is of, by one number of each."""
    told = against_others.of_batch(metric, batch, margins)
    left = min(batch.median, batch.rest) / max(batch.median, batch.rest)
    return Assessment(told.verdict, told.comparison, metric.judged, told.said, told.limit, left)


def _concluded(metric: Metric, value: float, told: Sequence[Comparison], group: PeerGroup | NoPeers) -> Assessment:
    verdict = worst(each.verdict for each in told)
    decisive = [each for each in told if each.verdict is verdict]
    notes = [each.said for each in decisive if each.said]
    limit = decisive[0].limit
    if verdict is Verdict.PASS:
        notes += [each.said for each in told if each.verdict is Verdict.SKIP and each.notable]
    if verdict is Verdict.SKIP:
        verdict, notes = Verdict.NOT_JUDGED, [", and ".join(notes)]
    found = Assessment(verdict, decisive[0].comparison, value, "; ".join(notes), limit)
    if verdict is not Verdict.PASS:
        found.share = _share(metric, value, limit, group)
    direction, enough = direction_of(metric), []
    for each in told:
        found.again |= each.again
        if each.limit and each.limit.direction == direction and is_number(each.limit.value):
            enough.append(float(each.limit.value))
        if found.kept is None and each.verdict is Verdict.PASS and each.limit and each.limit.kind.is_absolute:
            found.kept = each.limit
    found.enough = (max if metric.better == "higher" else min)(enough, default=None)
    return found


def _share(metric: Metric, value: float, limit: AnyLimit | None, group: PeerGroup | NoPeers) -> float | None:
    right = group.median if isinstance(group, PeerGroup) else limit.value if limit else None
    if metric.better != "higher" or not is_number(right):
        return None
    return value / right if 0 <= value < right else None


def assessments(
    metrics: Sequence[Metric],
    *,
    baseline: Baseline,
    peers: NodePeers,
    physics: Bounds = of_platform,
    for_a_look: bool = False,
) -> Iterator[tuple[Metric, Assessment]]:
    """Each metric of a node with what is said of it; then the node as a whole, and what it is part of.

    The node as a whole is mentioned where it is behind the others or held to a stored value, its rack or batch where
    that is behind. `for_a_look` is as strict as for measuring again, instead of for a verdict.

    Raises:
        NotJudged: the baseline lacks a margin (measured.*).
    """
    margins = replace(Margins.of(baseline), looking=for_a_look)  # whether it is about more looks
    bounds = [(metric, physics(metric, baseline)) for metric in metrics]
    alike: defaultdict[object, list[Metric]] = defaultdict(list)
    like: defaultdict[object, list[str]] = defaultdict(list)
    for metric, bound in bounds:
        alike[metric.key].append(metric)
        like[metric.key, bound.peak].append(metric.device)
    places = {key: frozenset(devices) for key, devices in like.items()}
    pasts = {key: Pasts(group, peers.earlier) for key, group in alike.items()}
    kept: defaultdict[object, list[AnyLimit | None]] = defaultdict(list)
    for metric, bound in bounds:
        group, stored = peers.group(metric, margins, baseline.statistic), right(baseline, metric.name)
        inside = None if isinstance(group, PeerGroup) else _inside(metric, alike[metric.key], peers)
        past, batches = pasts[metric.key].of(metric, group, margins), peers.peers.batches(peers.node, metric, margins)
        slot = peers.peers.slot(peers.node, metric, places[metric.key, bound.peak], margins)
        beside = Beside(bound, inside, past, batches, slot, baseline.statistic)
        found = assess(metric, stored, group, margins, beside)
        kept[metric.name].append(found.kept)
        yield metric, found
    for metric, found in _of_the_whole(metrics, pasts, peers, margins, baseline):
        held = kept.get(metric.name, [None])
        yield metric, found if found.kept else replace(found, kept=held[0] if all(held) else None)


def _of_the_whole(
    metrics: Sequence[Metric], pasts: Mapping[object, Pasts], peers: NodePeers, margins: Margins, baseline: Baseline
) -> Iterator[tuple[Metric, Assessment]]:
    """What is said of the node, and of its batches, where it is bad."""
    figures = node_figures(metrics)
    for figure in figures:
        group, least = peers.group(figure, margins), of_a_node(figure, right(baseline, figure.name), margins)
        if isinstance(group, PeerGroup) or group.few or least:
            past = pasts[key_of_devices(figure)].of_node(figure, group, margins)
            beside = Beside(history=past, batches=peers.peers.batches(peers.node, figure, margins))
            found = assess(figure, least, group, margins, beside)
            if found.verdict in _SAID or found.kept or (margins.looking and found.again):
                yield figure, replace(found, whole=True)
    names = {metric.name for metric in metrics}
    for joined in peers.joined():
        group = peers.group(joined.metric, margins)
        if joined.worst in names and (isinstance(group, PeerGroup) or group.few):
            found = assess(joined.metric, None, group, margins)
            if found.again or found.verdict in _SAID:
                yield joined.metric, replace(found, whole=True, worst=joined.worst)
    for whole in (*figures, *(metric for metric in metrics if not metric.device)):
        for batch in peers.peers.batches(peers.node, whole, margins):
            yield whole, of_batch(whole, batch, margins)


def right(baseline: Baseline, name: str) -> Entry | AnyLimit | None:
    """What the baseline says of a metric: the inventory's word first, else the entry with peak and parameters."""
    return baseline.overrides.get(name) or baseline.entry(name)


def _inside(metric: Metric, alike: Sequence[Metric], peers: NodePeers) -> Reference | None:
    others = [each.judged for each in alike if each.device != metric.device]
    if not metric.device or len(others) < _MIN_DEVICES:
        return None
    kind = "GPUs" if part.named(metric.device).kind is part.Kind.GPU else "NICs"
    return Reference(median(others), len(others), f"other {kind} of this node", *peers.peers.inside(metric, peers.node))


@dataclass(frozen=True)
class Doubt:
    """A number that would not pass, and what it would have to reach, in its own unit; None where only others tell."""

    metric: Metric
    enough: float | None = None

    @property
    def far_off(self) -> float:
        """The value that was judged and what is enough, as a ratio: above 1 it is not reached; 1 if unknown."""
        if not self.enough or not self.metric.judged:
            return 1.0
        ratio = self.enough / self.metric.judged
        return 1 / ratio if self.metric.better == "lower" else ratio


def suspects(
    measured: Measured,
    baselines: Mapping[str, Baseline],
    bounds: Mapping[str, Bounds] | None = None,
    earlier: Callable[[str], Earlier | None] = lambda _node: None,
) -> dict[str, tuple[Doubt, ...]]:
    """The nodes with a number that would not pass, for whose sake more looks are taken, and those numbers.

    A number that cannot be judged (no baseline and too few peers), or is in a wrong unit, would be the same the next
    time; but a pair of nodes well below the best pair has a good node in it, perhaps, that deserves another partner. A
    node that gave no number is measured again if others gave one; if none did, the cause is common.

    `bounds` says what physics allows on each node, where that is not what its platform says.
    """
    peers, best = Peers.of(measured), dict[object, float]()
    for platform, metrics in measured.values():
        for pair in _pairs(metrics):
            best[platform, pair.key] = max(pair.judged, best.get((platform, pair.key), pair.judged))
    anyone = any(metrics for _, metrics in measured.values())
    found: dict[str, tuple[Doubt, ...]] = {}
    for node, (platform, metrics) in measured.items():
        of_node, physics = peers.of_node(node, earlier(node)), (bounds or {}).get(node, of_platform)
        try:
            judged = list(
                assessments(metrics, baseline=baselines[node], peers=of_node, physics=physics, for_a_look=True)
            )
        except NotJudged:
            judged = []
        doubts = [Doubt(metric, each.enough) for metric, each in judged if each.again or each.verdict in _SAID]
        known = {id(doubt.metric) for doubt in doubts}
        pairs = (each for each in _pairs(metrics) if id(each) not in known)
        doubts += [Doubt(each) for each in pairs if each.judged < BEHIND * best[platform, each.key]]
        if doubts or (anyone and not metrics):
            found[node] = tuple(doubts)
    return found


def with_their_like(found: Suspects, measured: Measured) -> dict[str, tuple[Doubt, ...]]:
    """The suspects, and all other nodes of their platforms: like is compared with like, by as many looks at each.

    All of them run at once, so it takes no longer than the suspects alone.
    """
    doubted = {measured[node][0] for node in found if node in measured}
    return {**{node: () for node, (platform, _) in measured.items() if platform in doubted}, **found}


def _pairs(metrics: Iterable[Metric]) -> Iterator[Metric]:
    return (each for each in metrics if each.better == "higher" and each.conditions.get("group") == "pair")
