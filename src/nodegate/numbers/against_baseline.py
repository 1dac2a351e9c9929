"""A measured number against its baseline: the conditions, the unit, the limit, and what physics allows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.baseline.baseline_file import Entry
from nodegate.finding import AT_MOST, AnyLimit, Limit
from nodegate.numbers.comparison import Comparison, shown
from nodegate.numbers.peers import PeerGroup
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate.metric import Metric
    from nodegate.numbers.margins import Margins
    from nodegate.numbers.peers import NoPeers

_THOUSAND = 1000.0  # MB/s for GB/s, GFLOPS for TFLOPS, ns for µs
_NEAR = 2.0  # a value in the wrong unit is right in the other one to within this factor
Stored = Entry | AnyLimit | str | None  # what holds for one measurement; text: why the baseline does not


def stored_for(right: Entry | AnyLimit | None, metric: Metric) -> Stored:
    """The entry that holds under the conditions of this measurement, or in words how they differ."""
    return right.for_conditions(metric.conditions) if isinstance(right, Entry) else right


def peak(right: Entry | AnyLimit | None, stored: Stored) -> float | None:
    """What physics allows: it holds under other conditions too."""
    if isinstance(stored, Entry):
        return stored.peak
    peaks = [each.peak for each in (*right.variants, right)] if isinstance(right, Entry) else []
    return None if None in peaks else max((each for each in peaks if each is not None), default=None)


def compare(metric: Metric, value: float, right: Stored, group: PeerGroup | NoPeers, margins: Margins) -> Comparison:
    """What the baseline says of a value."""
    if right is None:
        return Comparison(Verdict.SKIP, "baseline", f"no baseline has {metric.name}")
    if isinstance(right, str):
        return Comparison(Verdict.SKIP, "baseline", f"the baseline is {right}", notable=True)
    if right.unit != metric.unit:
        said = f"but the baseline is in {right.unit or 'no unit'} ({_limit(right).source})"
        return Comparison(Verdict.ERROR, "baseline", said, _limit(right))
    reference = right.value
    if (
        isinstance(reference, bool)
        or not isinstance(reference, (int, float))
        or getattr(right, "direction", "") == "equal"
    ):
        said = f"but the baseline asks for exactly {reference}, which no measurement gives ({_limit(right).source})"
        return Comparison(Verdict.ERROR, "baseline", said, _limit(right))
    if _slipped(value, reference, group):
        return _slip(value, reference, _limit(right))
    return _held(metric, value, right, group, margins)


def too_good(metric: Metric, value: float, right: Stored, top: float) -> Comparison:
    """What is said of a value above the peak, which nothing can exceed."""
    limit = _limit(right) if isinstance(right, (Entry, Limit)) else None
    reference = right.value if isinstance(right, (Entry, Limit)) else top
    if isinstance(reference, (int, float)) and _fits(value / _THOUSAND, reference):
        return _slip(value, reference, limit)
    said = f"too good to be true: physics allows {shown(top, metric.unit)}"
    return Comparison(
        Verdict.WARN,
        "physics",
        said,
        Limit(top, metric.unit, f"peak, {limit.source if limit else 'baseline'}", AT_MOST),
    )


def _held(
    metric: Metric, value: float, right: Entry | AnyLimit, group: PeerGroup | NoPeers, margins: Margins
) -> Comparison:
    limit = _limit(right)
    word = getattr(right, "direction", "") or ("at least" if metric.better == "higher" else "at most")
    bound = float(str(limit.value))
    good = value >= bound if word == "at least" else value <= bound
    limit = replace(limit, direction=word)
    if not good:
        return Comparison(Verdict.FAIL, "baseline", "", limit)
    if isinstance(right, Entry) and word == "at least" and not isinstance(group, PeerGroup):
        reference = float(str(right.value))
        if metric.better == "higher" and value > reference * (1 + margins.loose):
            said = f"but a baseline of {shown(reference, metric.unit)} is too loose to prove anything ({limit.source})"
            return Comparison(Verdict.WARN, "baseline", said, limit)
    return Comparison(Verdict.PASS, "baseline", "", limit)


def _limit(right: Entry | AnyLimit) -> AnyLimit:
    return right.limit if isinstance(right, Entry) else right


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


def _slip(value: float, reference: float, limit: AnyLimit | None) -> Comparison:
    times = "a thousand times" if value > reference else "a thousandth of"
    source = f" ({limit.source})" if limit else ""
    unit = limit.unit if limit else ""
    said = f"about {times} the baseline's {shown(reference, unit)}: one of them is in the wrong unit{source}"
    return Comparison(Verdict.ERROR, "unit", said, limit)
