"""A measured number against its baseline: the conditions, the unit, the limit, and what physics allows."""

from dataclasses import replace
from typing import TypeGuard

from nodegate.baseline.entry import Entry
from nodegate.metric import Metric
from nodegate.numbers.comparison import Comparison, shown
from nodegate.numbers.margins import Margins
from nodegate.numbers.peers import NoPeers
from nodegate.numbers.pool import PeerGroup
from nodegate.records.finding import AT_LEAST, AT_MOST, AnyLimit, Limit, LimitKind, NumberLimit
from nodegate.records.verdict import Verdict

_THOUSAND = 1000.0  # MB/s for GB/s, GFLOPS for TFLOPS, ns for µs
_NEAR = 2.0  # a value in the wrong unit is right in the other one to within this factor
Stored = Entry | AnyLimit | str | None  # what holds for one measurement; text: why the baseline does not


def stored_for(right: Entry | AnyLimit | None, metric: Metric) -> Stored:
    """The entry that holds under the conditions of this measurement, or in words how they differ."""
    if isinstance(right, Entry) and right.value is None:
        return None
    return right.for_conditions(metric.conditions) if isinstance(right, Entry) else right


def derived(metric: Metric, value: float, least: NumberLimit) -> Comparison:
    """A value against a share of what physics allows."""
    good = value >= least.value if metric.better == "higher" else value <= least.value
    return Comparison(Verdict.PASS if good else Verdict.FAIL, "derived", "", least)


def compare(metric: Metric, value: float, right: Stored, group: PeerGroup | NoPeers, margins: Margins) -> Comparison:
    """What the baseline says of a value."""
    if right is None:
        return Comparison(Verdict.SKIP, "baseline", f"no limit {metric.name}")
    if isinstance(right, str):
        return Comparison(Verdict.SKIP, "baseline", f"the baseline is {right}", notable=True)
    limit, reference = _limit(right), right.value
    if right.unit != metric.unit:
        said = f"measured in {metric.unit}, and the baseline is in {right.unit or 'no unit'} ({limit.source})"
        return Comparison(Verdict.ERROR, "baseline", said, limit)
    if not is_number(reference) or not _is_number_limit(limit) or right.direction == "equal":
        said = f"the baseline asks for exactly {reference}, which no measurement gives ({limit.source})"
        return Comparison(Verdict.ERROR, "baseline", said, limit)
    if _slipped(value, reference, group):
        return _slip(metric, value, reference, limit)
    return _held(metric, value, limit, right, group, margins)


def too_good(metric: Metric, right: Stored, top: float, whose: str, *, judged: float | None) -> Comparison:
    """What is said of a best value above the peak, which nothing can exceed.

    Args:
        metric: with such a value.
        right: what the baseline stores for it.
        top: the peak.
        whose: what it is the peak of: "peak of the port".
        judged: the best of the other attempts; None where there is none.
    """
    value = max(metric.values)
    stored = right if isinstance(right, (Entry, Limit)) else None
    limit = _limit(stored) if stored is not None else None
    reference = stored.value if stored is not None else top
    if is_number(reference) and _fits(value / _THOUSAND, reference):
        return _slip(metric, value, reference, limit)
    told = f"{shown(value, metric.unit)} is more than the {shown(top, metric.unit)} that are possible ({whose})"
    if judged is None:
        bound: NumberLimit = Limit(top, metric.unit, whose, AT_MOST, LimitKind.DERIVED)
        return Comparison(Verdict.ERROR, "physics", f"{told}: not believed", bound)
    return Comparison(Verdict.WARN, "physics", f"another attempt gave too much: {told}")


def _held(  # noqa: PLR0917 - one caller, above
    metric: Metric,
    value: float,
    limit: NumberLimit,
    right: Entry | AnyLimit,
    group: PeerGroup | NoPeers,
    margins: Margins,
) -> Comparison:
    word = right.direction or (AT_LEAST if metric.better == "higher" else AT_MOST)
    limit = replace(limit, direction=word)
    good = value >= limit.value if word == AT_LEAST else value <= limit.value
    if not good:
        return Comparison(Verdict.FAIL, "baseline", "", limit)
    judges_alone = isinstance(right, Entry) and not isinstance(group, PeerGroup)
    if judges_alone and metric.better == "higher" and word == AT_LEAST and _is_loose(value, right.value, margins):
        return Comparison(Verdict.WARN, "baseline", "a limit so far below what is measured proves nothing", limit)
    return Comparison(Verdict.PASS, "baseline", "", limit)


def _is_loose(value: float, reference: object, margins: Margins) -> bool:
    return is_number(reference) and value > reference * (1 + margins.loose)


def _limit(right: Entry | AnyLimit) -> AnyLimit:
    return right.limit if isinstance(right, Entry) else right


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a limit's value is a number: switches are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_number_limit(limit: AnyLimit) -> TypeGuard[NumberLimit]:
    return is_number(limit.value)


def _fits(value: float, reference: float) -> bool:
    return reference > 0 and reference / _NEAR <= value <= reference * _NEAR


def _slipped(value: float, reference: float, group: PeerGroup | NoPeers) -> bool:
    """Whether value or baseline is off by 1000.

    A low value is not, where the same tool gives the other nodes what the baseline says: then this node is that slow.
    """
    if _fits(value / _THOUSAND, reference):
        return True
    others_are_right = isinstance(group, PeerGroup) and _fits(group.median, reference)
    return _fits(value * _THOUSAND, reference) and not others_are_right


def _slip(metric: Metric, value: float, reference: float, limit: AnyLimit | None) -> Comparison:
    times = "a thousand times" if value > reference else "a thousandth of"
    source = f" ({limit.source})" if limit else ""
    said = f"{shown(value, metric.unit)} is about {times} the baseline's {shown(reference, metric.unit)}{source}"
    return Comparison(Verdict.ERROR, "unit", f"{said}: one of the two is in the wrong unit", limit)
