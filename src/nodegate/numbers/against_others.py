"""A measured number against others of its kind: the other nodes, its batch, its place, its node, its own looks.

A robust deviation alone calls someone odd in every healthy fleet, so each comparison has a relative floor: half of the
effect that is sought, for a limit at the effect itself finds it half the time.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from nodegate.metric import Metric, Statistic
from nodegate.numbers.comparison import (
    HINTS,
    Comparison,
    FewPeers,
    Margins,
    NoPeers,
    PeerGroup,
    floor_of,
    gap,
    limit_of,
    shown,
    worse_by,
)
from nodegate.numbers.parts import OF_BATCH, Batch, Split
from nodegate.numbers.quantities import FAR, LOW, TOGETHER
from nodegate.numbers.spread import reach
from nodegate.records.finding import AT_LEAST, Limit, LimitKind
from nodegate.records.verdict import Verdict

UNSTEADY = "unsteady"
_KINDS = 40  # of numbers that a run judges, each on its whole fleet: by how many the chance of a false alarm is divided
_SOUGHT = 2.0  # the effect that is sought, in floors
_NOTABLE = 0.5  # of the floor: less than that is not worth a word, however sure
_FEWEST_LOOKS = 3  # from which on one of them can be odd
_DISTURBED = 0.01  # choice: of looks at good devices; more where the fleet has more
_HUNG = 0.001  # choice: of launches and transfers at good nodes; a job of 16 nodes with more would hardly end
_REJECTED, _WARNED = 0.001, 0.01  # choice: of good nodes, in a run
_FEWEST_PLACES = 4  # of one kind, from which on one can be odd
_MOST_PLACES = 0.25  # are behind, or the node is built so
_OF_PLACES = frozenset({"GB/s", "TFLOPS"})  # units of what one place does as well as the next; rails have a check
_NUMBERS, _JOINED = 200, 10  # by how many that is divided: numbers of a node, and numbers that join several


@dataclass(frozen=True)
class Reference:
    """The median of other values, in the metric's unit."""

    median: float
    count: int
    of: str  # whose they are: "other GPUs of this node"
    spread: float = 0.0  # how far good ones lie from it, as a part of it; 0: not known, only the floor counts
    freedom: float = 1.0  # its degrees of freedom
    judged: int = 1  # values of the kind


def fleet(
    metric: Metric, value: float, group: PeerGroup | NoPeers, margins: Margins, batches: Sequence[Batch] = ()
) -> Comparison:
    """Against the other nodes; what the node's batch is behind is the batch's, which has a finding of its own.

    With other software than the others a value has more room before it fails.
    """
    if isinstance(group, NoPeers):
        return (_few(metric, value, group.few, margins) if group.few else None) or _launches(
            metric, value, group, margins
        )
    found = _by_fleet(metric, value, group, margins)
    if found.verdict is not Verdict.PASS and batches:
        lifted = value * math.prod(batch.factor for batch in batches)
        if _by_fleet(metric, lifted, group, margins).verdict is Verdict.PASS:
            said = f"as the other nodes of {' and of '.join(batch.name for batch in batches)}"
            return replace(found, verdict=Verdict.PASS, said=said, limit=None)
    if not group.unequal:
        return found
    near = worse_by(metric, value, group.median) <= margins.unequal_floor * abs(group.median)
    verdict = Verdict.WARN if found.verdict is Verdict.FAIL and near else found.verdict
    return replace(found, verdict=verdict, said=f"{found.said}; measured with {group.unequal}")


def _by_fleet(metric: Metric, value: float, group: PeerGroup, margins: Margins) -> Comparison:
    """Worse than the median of the others by more than the floor, and by more than chance explains, is a fail.

    Beyond what a good value reaches by itself it is doubtful, and measured again; what stays there is warned of. So is
    what lies within the floor and is nevertheless beyond chance: small but sure. Where it is about more looks, the
    limit is what needs none.
    """
    least = floor_of(metric, group.median, margins.fleet_floor, margins)
    sure, doubtful = _by_chance(group, margins)
    behind_by = worse_by(metric, value, group.median)
    most = max(least, sure)
    settled = most
    if margins.looking:  # by how much a slow one may look better than it is
        luck = group.spread * abs(group.median) * reach(margins.fleet_doubted)
        settled = max(least * _NOTABLE, _SOUGHT * least - luck)
    limit = limit_of(metric, group.median, min(most, settled), "fleet")
    middle = f"median {shown(group.median, metric.unit)} of {group.nodes} other nodes"
    middle += f", {group.device} of each" if group.device else ""
    if behind_by <= min(most, settled, least * _NOTABLE) and not group.split:
        return Comparison(Verdict.PASS, "fleet", middle, limit)  # nearly all
    behind = f"{gap(metric, value, group.median)} the {middle}"
    if behind_by > most:
        return Comparison(Verdict.WARN if metric.unit in HINTS else Verdict.FAIL, "fleet", behind, limit)
    if group.split and _in_slow_part(metric, value, group.split, margins):
        split = group.split
        said = f"one of {split.slow_nodes} slow nodes at about {shown(split.slow, metric.unit)}, while "
        said += f"{split.fast_nodes} reach about {shown(split.fast, metric.unit)}"
        said += ": the median hides them" if split.slow_nodes >= split.fast_nodes else ""
        return Comparison(Verdict.WARN, "fleet", said, limit)
    rough = metric.unit in HINTS or metric.unit == "µs"  # small differences are of no interest
    doubts = {
        ", which their spread may explain": behind_by > max(least, doubtful),
        ": little, but beyond chance": behind_by > max(sure, least * _NOTABLE) and sure > 0 and not rough,
        ": a slow one may be as lucky": behind_by > settled,
    }
    if why := next((words for words, applies in doubts.items() if applies), ""):
        return Comparison(Verdict.WARN, "fleet", f"{behind}{why}", limit)
    return Comparison(Verdict.PASS, "fleet", middle, limit)


def _by_chance(others: PeerGroup | Reference, margins: Margins) -> tuple[float, float]:
    """How far below the median no good value of a whole fleet lies, and how far no good value of a node does."""
    spread = others.spread * abs(others.median)
    if not spread:
        return 0.0, 0.0
    of_the_fleet = margins.fleet_wronged / (_KINDS * max(others.judged, 1))
    return spread * reach(of_the_fleet, others.freedom), spread * reach(margins.fleet_warned, others.freedom)


def _in_slow_part(metric: Metric, value: float, split: Split, margins: Margins) -> bool:
    """Whether a value is of the slow part: nearer to its middle, and further from the fast one than a good one lies."""
    floor = floor_of(metric, split.fast, margins.fleet_floor, margins)
    apart, behind_by = worse_by(metric, split.slow, split.fast), worse_by(metric, value, split.fast)
    return apart > floor and behind_by > max(apart / 2, reach(margins.fleet_warned) * split.inside)


def _few(metric: Metric, value: float, others: FewPeers, margins: Margins) -> Comparison | None:
    """Against the other nodes where they are too few to prove anything: None where they find no fault.

    More than half of all nodes must be ahead by the floor and by more than chance explains. Where it is just half of
    them, it is a warning: of two nodes one is slow, or the other one is not what it is taken for.
    """
    nodes, usual = len(others.values) + 1, abs(median(others.values or (0.0,)))
    if metric.unit in HINTS or nodes < 2 or not usual:
        return None
    chance = reach(margins.fleet_wronged / (_KINDS * nodes), others.freedom) * others.spread * math.sqrt(2)
    least = max(floor_of(metric, usual, margins.inside_floor, margins), chance * usual)
    behind = sorted((worse_by(metric, value, each), each) for each in others.values)
    ahead = [each for by, each in behind if by > least]
    if 2 * len(ahead) < nodes:
        doubtful = sum(by > least * _NOTABLE for by, _ in behind)
        again = margins.looking and 2 * doubtful >= nodes
        return Comparison(Verdict.SKIP, "fleet", again=True) if again else None
    said = f"{gap(metric, value, ahead[0])} the {shown(ahead[0], metric.unit)} that "
    said += f"{len(ahead)} of {nodes - 1} other nodes reach" if nodes > 2 else "the other node reaches"
    half = 2 * len(ahead) == nodes
    said += ": one of the two is not right" if nodes == 2 else ": which half is right is not known" if half else ""
    limit = limit_of(metric, ahead[0], least, "fleet")
    return Comparison(Verdict.WARN if half else Verdict.FAIL, "fleet", said, limit)


def _launches(metric: Metric, value: float, nobody: NoPeers, margins: Margins) -> Comparison:
    """Two racks cannot say which one is slow, but that one is: told, and judged by the rails' rate."""
    top = max(nobody.launches, default=0.0) if metric.better == "higher" else 0.0
    least = margins.inside_floor * top
    if top - value <= least:
        return Comparison(Verdict.SKIP, "fleet", nobody.reason)
    said = f"{gap(metric, value, top)} the {shown(top, metric.unit)} of another launch over as many nodes"
    return Comparison(Verdict.WARN, "fleet", said, limit_of(metric, top, least, "fleet"))


def inside(
    metric: Metric, value: float, others: Reference | None, margins: Margins, *, proven: bool
) -> Comparison | None:
    """Against the other devices of the same node; for where there is no fleet, which knows what a slot may do."""
    if others is None:
        return None
    floor = floor_of(metric, others.median, margins.inside_floor, margins)
    behind_by = worse_by(metric, value, others.median)
    sure, doubtful = _by_chance(others, margins)
    if behind_by <= max(floor, doubtful):
        return None
    said = f"{gap(metric, value, others.median)} the median {shown(others.median, metric.unit)} of "
    said += f"{others.count} {others.of}"
    hint = proven or metric.unit in HINTS or behind_by <= sure
    limit = limit_of(metric, others.median, max(floor, doubtful if hint else sure), "inside")
    return Comparison(Verdict.WARN if hint else Verdict.FAIL, "inside", said, limit)


def of_batch(metric: Metric, batch: Batch, margins: Margins) -> Comparison:
    """What is said of all nodes of a batch alike: they are slower than the rest, by how much, and what they share.

    Slower by the effect that is sought they fail, where they are fewer than the rest; else it is a warning, for they
    are as good as each other, and which of the two parts is right the fleet cannot know.
    """
    most = margins.unequal_floor if batch.unequal else margins.batch_floor
    verdict = Verdict.FAIL if batch.behind > most and batch.of <= batch.others else Verdict.WARN
    least = most if verdict is Verdict.FAIL else max(batch.bound, margins.fleet_floor)
    count = str(batch.nodes) if batch.nodes == batch.of else f"{batch.nodes} of {batch.of}"
    said = f"{batch.name}: {count} nodes {gap(metric, batch.median, batch.rest)} the other {batch.others}"
    said += ", measured with other software" if batch.unequal else ""
    limit = limit_of(metric, batch.rest, least * batch.rest, "fleet")
    return Comparison(verdict, f"{OF_BATCH}{batch.names[0]}", said, limit)


@dataclass(frozen=True)
class Slot:
    """A place that is behind the others on the nodes of a platform: its median, and that of the other places."""

    median: float
    others: float
    places: int
    nodes: int


def find_slot(
    device: str, values: Mapping[str, Sequence[float]], like: Collection[str], margins: Margins
) -> Slot | None:
    """The place of this name, if it is behind the others that are like it; None if it is not, or if that is unknown.

    Four places of eight that are slower than the rest are how the machine is built (the far socket), one or two not.
    `values` are those of each place, `like` the places that should do as well: of the same physical limit.
    """
    middles = {name: median(values[name]) for name in like if len(values.get(name, ())) >= max(margins.peers_min, 2)}
    if device not in middles or len(middles) < _FEWEST_PLACES:
        return None
    top = median(sorted(middles.values())[len(middles) // 2 :])
    behind = [name for name, middle in middles.items() if middle < top * (1 - margins.inside_floor)]
    if device not in behind or len(behind) > max(1, _MOST_PLACES * len(middles)):
        return None
    others = median(middle for name, middle in middles.items() if name not in behind)
    return Slot(middles[device], others, len(middles) - len(behind), len(values[device]))


def is_place(metric: Metric) -> bool:
    """Whether places should give the same number of it."""
    return bool(metric.device) and metric.better == "higher" and metric.unit in _OF_PLACES


def place(metric: Metric, value: float, slot: Slot | None, margins: Margins) -> Comparison | None:
    """A value beside the other places of the fleet. It warns: which of the two is right, the fleet cannot know."""
    if slot is None or value >= slot.others * (1 - margins.inside_floor):
        return None
    said = f"this place is slow on {slot.nodes} nodes: its median {shown(slot.median, metric.unit)} is "
    said += f"{100 * (1 - slot.median / slot.others):.1f} % below the {shown(slot.others, metric.unit)} of "
    said += f"{slot.places} other places of the same nodes"
    bound = round(slot.others * (1 - margins.inside_floor), 6)
    limit = Limit(bound, metric.unit, "the other places", AT_LEAST, LimitKind.FLEET)
    return Comparison(Verdict.WARN, "slot", said, limit)


def steady(metric: Metric, value: float, group: PeerGroup | NoPeers, margins: Margins) -> Comparison | None:
    """How many looks are low, and whether disturbances explain so many (binomial), however good the others are."""
    looks = len(metric.values)
    of_partners = metric.statistic is not Statistic.USUAL  # a low look may be the other one's
    if looks < _FEWEST_LOOKS or of_partners or not value or metric.unit in HINTS or metric.unit == "µs":
        return None
    scatter, others = group.scatter, 0.0
    if isinstance(group, NoPeers):
        scatter = max(scatter, margins.past_noise)
    least = value * max(LOW, FAR * (scatter or margins.past_noise))
    low = sum(worse_by(metric, each, value) > least for each in metric.values)
    if isinstance(group, PeerGroup):  # the share of low looks at all other parts
        others = (group.disturbed * looks * group.judged - low) / (looks * max(group.judged - 1, 1))
    chance, joined = _at_least(low, looks, max(_DISTURBED, others)), TOGETHER in metric.conditions
    rejected = _REJECTED / (_JOINED if joined else _NUMBERS)
    if low < 2 or chance > max(margins.fleet_warned, rejected):
        doubtful = margins.looking and low >= (1 if joined else 2)
        return Comparison(Verdict.SKIP, UNSTEADY, again=True) if doubtful else None
    worst = max(metric.values, key=lambda each: worse_by(metric, each, value))
    said = f"{low} of {looks} looks are low, down to {shown(worst, metric.unit)}, more than disturbances explain"
    limit = limit_of(metric, value, least, "inside")
    return Comparison(Verdict.FAIL if chance <= rejected else Verdict.WARN, UNSTEADY, said, limit)


def of_hung(hung: int, looks: int, among: int = 1) -> Verdict:
    """What so many launches or transfers that hung say of one device of `among`: two of nine fail."""
    return _of_bad(hung, looks, _HUNG, among)


def of_low(low: int, looks: int, among: int = 1) -> Verdict:
    """What so many low or hung transfers say of one device of `among`."""
    return _of_bad(low, looks, _DISTURBED, among)


def _of_bad(bad: int, looks: int, rate: float, among: int) -> Verdict:
    chance = among * _at_least(bad, looks, rate)
    if bad < 2 or chance > _WARNED:
        return Verdict.PASS
    return Verdict.FAIL if chance <= _REJECTED else Verdict.WARN


def _at_least(low: int, looks: int, rate: float) -> float:
    """The chance of so many low looks or more."""
    return sum(math.comb(looks, each) * rate**each * (1 - rate) ** (looks - each) for each in range(low, looks + 1))
