"""A device that is slow in more of its looks than disturbances explain, however good the others are."""

import math

from nodegate.metric import Metric, Statistic
from nodegate.numbers.comparison import Comparison, nothing, shown
from nodegate.numbers.gap import HINTS, beyond, limit_of, worse_by
from nodegate.numbers.kin import TOGETHER
from nodegate.numbers.margins import Margins
from nodegate.numbers.peers import NoPeers
from nodegate.numbers.pool import PeerGroup
from nodegate.numbers.table import FAR, LOW
from nodegate.records.verdict import Verdict

UNSTEADY = "unsteady"
_FEWEST = 3  # looks, from which on one of them can be odd
_DISTURBED = 0.01  # choice: of looks at good devices; more where the fleet has more
_HUNG = 0.001  # choice: of launches and transfers at good nodes; a job of 16 nodes with more would hardly end
_REJECTED, _WARNED = 0.001, 0.01  # choice: of good nodes, in a run
_NUMBERS, _JOINED = 200, 10  # by how many that is divided: numbers of a node, and numbers that join several


def compare(metric: Metric, value: float, group: PeerGroup | NoPeers, margins: Margins) -> Comparison:
    """How many looks are low, and whether disturbances explain so many (binomial)."""
    looks = len(metric.values)
    of_partners = metric.statistic is not Statistic.USUAL  # a low look may be the other one's
    if looks < _FEWEST or of_partners or not value or metric.unit in HINTS or metric.unit == "µs":
        return nothing(UNSTEADY)
    scatter = group.scatter if isinstance(group, PeerGroup) and group.scatter else margins.past_noise
    least = value * max(LOW, FAR * scatter)
    low = sum(worse_by(metric, each, value) > least for each in metric.values)
    rate = max(_DISTURBED, _of_others(group, low, looks) if isinstance(group, PeerGroup) else 0.0)
    chance = _at_least(low, looks, rate)
    joined = TOGETHER in metric.conditions
    rejected = _REJECTED / (_JOINED if joined else _NUMBERS)
    if low < 2 or chance > max(margins.warned, rejected):
        doubtful = margins.looking and low >= (1 if joined else 2)
        return Comparison(Verdict.SKIP, UNSTEADY, again=doubtful)
    worst = max(metric.values, key=lambda each: worse_by(metric, each, value))
    bound = limit_of(metric, round(beyond(metric, value, least), 6), "inside")
    said = f"{low} of {looks} looks are low, down to {shown(worst, metric.unit)}, more than disturbances explain"
    return Comparison(Verdict.FAIL if chance <= rejected else Verdict.WARN, UNSTEADY, said, bound)


def of_hung(hung: int, looks: int, among: int = 1) -> Verdict:
    """What so many launches or transfers that hung say of one device of `among`: two of nine fail."""
    return _by_chance(hung, looks, _HUNG, among)


def of_low(low: int, looks: int, among: int = 1) -> Verdict:
    """What so many low or hung transfers say of one device of `among`."""
    return _by_chance(low, looks, _DISTURBED, among)


def _by_chance(bad: int, looks: int, rate: float, among: int) -> Verdict:
    chance = among * _at_least(bad, looks, rate)
    if bad < 2 or chance > _WARNED:
        return Verdict.PASS
    return Verdict.FAIL if chance <= _REJECTED else Verdict.WARN


def _of_others(group: PeerGroup, low: int, looks: int) -> float:
    """The share of low looks at all other parts."""
    others = looks * max(group.judged - 1, 1)
    return (group.disturbed * looks * group.judged - low) / others


def _at_least(low: int, looks: int, rate: float) -> float:
    """The chance of so many low looks or more."""
    return sum(math.comb(looks, each) * rate**each * (1 - rate) ** (looks - each) for each in range(low, looks + 1))
