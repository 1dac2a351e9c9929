"""A measured number against others of its kind: the other nodes, the other devices of its node.

A robust deviation alone calls someone odd in every healthy fleet, so each comparison has a relative floor: half of the
effect that is sought, for a limit at the effect itself finds it half the time (simulated in
tests/numbers/test_slow_nodes_simulated.py).
"""

from dataclasses import dataclass

from nodegate.metric import Metric
from nodegate.numbers.comparison import Comparison, nothing, shown
from nodegate.numbers.gap import HINTS, beyond, floor_of, gap, limit_of, scale_of, worse_by
from nodegate.numbers.margins import Margins
from nodegate.numbers.peers import NoPeers
from nodegate.numbers.pool import PeerGroup
from nodegate.numbers.split import Split
from nodegate.numbers.spread import reach
from nodegate.records.finding import NumberLimit
from nodegate.records.verdict import Verdict

_KINDS = 40  # of numbers that a run judges, each on its whole fleet: by how many the chance of a false alarm is divided
_SOUGHT = 2.0  # the effect that is sought, in floors
_NOTABLE = 0.5  # of the floor: less than that is not worth a word, however sure


@dataclass(frozen=True)
class Reference:
    """The median of `count` other values, in the metric's unit; `of` says whose: "other GPUs of this node".

    `spread` is how far good ones lie from it, as a part of it, known with `freedom` degrees of freedom from the
    `judged` values of its kind; 0 where that is not known, and only the floor counts.
    """

    median: float
    count: int
    of: str
    spread: float = 0.0
    freedom: float = 1.0
    judged: int = 1


def fleet(metric: Metric, value: float, group: PeerGroup | NoPeers, margins: Margins) -> Comparison:
    """Against the other nodes: worse than their median by more than the floor, and by more than chance explains.

    Beyond what one good value of a whole fleet reaches by chance it is a fail. Beyond what a good value reaches by
    itself it is doubtful, and measured again; what stays there is warned of. So is what lies within the floor and is
    nevertheless beyond chance: small but sure. Where it is about more looks, the limit is what needs none.
    """
    if isinstance(group, NoPeers):
        return _few_launches(metric, value, group, margins)
    floor = floor_of(metric, margins.fleet_floor, margins)
    least = floor * scale_of(metric, group.median)
    sure, doubtful = _by_chance(group, margins)
    behind_by = worse_by(metric, value, group.median)
    behind = f"{gap(metric, value, group.median)} the median {shown(group.median, metric.unit)} of {_whose(group)}"
    most = max(least, sure)
    settled = max(least * _NOTABLE, _SOUGHT * least - _luck(group, margins)) if margins.looking else most
    limit = limit_of(metric, round(beyond(metric, group.median, min(most, settled)), 6), "fleet")
    if behind_by > most:
        return Comparison(Verdict.WARN if metric.unit in HINTS else Verdict.FAIL, "fleet", behind, limit)
    if group.split and _in_slow_part(metric, value, group.split, floor, margins):
        return _in_two_parts(metric, group.split, limit)
    doubts = {
        ", which their spread may explain": behind_by > max(least, doubtful),
        ": little, but beyond chance": behind_by > max(sure, least * _NOTABLE) and sure > 0 and not _is_rough(metric),
        ": a slow one may be as lucky": behind_by > settled,
    }
    if why := next((words for words, applies in doubts.items() if applies), ""):
        return Comparison(Verdict.WARN, "fleet", f"{behind}{why}", limit)
    return Comparison(Verdict.PASS, "fleet", f"median {shown(group.median, metric.unit)} of {_whose(group)}", limit)


def _few_launches(metric: Metric, value: float, nobody: NoPeers, margins: Margins) -> Comparison:
    """Two racks cannot say which one is slow, but that one is: told, and judged by the rails' rate."""
    top = max(nobody.launches, default=0.0) if metric.better == "higher" else 0.0
    if top - value <= margins.inside_floor * top:
        return Comparison(Verdict.SKIP, "fleet", nobody.reason)
    said = f"{gap(metric, value, top)} the {shown(top, metric.unit)} of another launch over as many nodes"
    bound = round(beyond(metric, top, margins.inside_floor * top), 6)
    return Comparison(Verdict.WARN, "fleet", said, limit_of(metric, bound, "fleet"))


def inside(metric: Metric, value: float, others: Reference | None, margins: Margins, *, proven: bool) -> Comparison:
    """Against the other devices of the same node; for where there is no fleet, which knows what a slot may do."""
    if others is None:
        return nothing("inside")
    floor = floor_of(metric, margins.inside_floor, margins) * scale_of(metric, others.median)
    behind_by = worse_by(metric, value, others.median)
    sure, doubtful = _by_chance(others, margins)
    if behind_by <= max(floor, doubtful):
        return nothing("inside")
    said = f"{gap(metric, value, others.median)} the median {shown(others.median, metric.unit)} of "
    said += f"{others.count} {others.of}"
    hint = proven or metric.unit in HINTS or behind_by <= sure
    bound = round(beyond(metric, others.median, max(floor, doubtful if hint else sure)), 6)
    return Comparison(Verdict.WARN if hint else Verdict.FAIL, "inside", said, limit_of(metric, bound, "inside"))


def _by_chance(others: PeerGroup | Reference, margins: Margins) -> tuple[float, float]:
    """How far below the median no good value of a whole fleet lies, and how far no good value of a node does."""
    spread = others.spread * abs(others.median)
    if not spread:
        return 0.0, 0.0
    of_the_fleet = margins.wronged / (_KINDS * max(others.judged, 1))
    return spread * reach(of_the_fleet, others.freedom), spread * reach(margins.warned, others.freedom)


def _luck(group: PeerGroup, margins: Margins) -> float:
    """By how much a slow one may look better than it is."""
    return group.spread * abs(group.median) * reach(margins.doubted)


def _is_rough(metric: Metric) -> bool:
    """Whether small differences of such a number are of no interest: heat, power, times of a few µs."""
    return metric.unit in HINTS or metric.unit == "µs"


def _whose(group: PeerGroup) -> str:
    return f"{group.nodes} other nodes" + (f", {group.device} of each" if group.device else "")


def _in_slow_part(metric: Metric, value: float, split: Split, floor: float, margins: Margins) -> bool:
    """Whether a value is of the slow part: nearer to its middle, and further from the fast one than a good one lies."""
    apart, behind_by = worse_by(metric, split.slow, split.fast), worse_by(metric, value, split.fast)
    least = max(apart / 2, reach(margins.warned) * split.inside)
    return apart > floor * scale_of(metric, split.fast) and behind_by > least


def _in_two_parts(metric: Metric, split: Split, limit: NumberLimit) -> Comparison:
    slow, fast = shown(split.slow, metric.unit), shown(split.fast, metric.unit)
    said = f"one of {split.slow_nodes} slow nodes at about {slow}, while {split.fast_nodes} reach about {fast}"
    if split.slow_nodes >= split.fast_nodes:
        said += ": the median hides them"
    return Comparison(Verdict.WARN, "fleet", said, limit)
