"""Limits that say what is right: stored in a baseline, or a share of what physics allows, which nothing exceeds.

The shares are wide: they find what is broken, on every platform whose peaks are known, also where a whole fleet is slow
alike. A stored value is closer and wins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from nodegate.baseline.entry import Entry
from nodegate.baseline.entry import is_plain_number as is_number
from nodegate.metric import BOUNCE, Metric
from nodegate.numbers.comparison import Comparison, Margins, NoPeers, PeerGroup, direction_of, shown
from nodegate.numbers.quantities import OF
from nodegate.records.finding import AT_LEAST, AT_MOST, AnyLimit, Limit, LimitKind, NumberLimit
from nodegate.records.verdict import Verdict
from nodegate.text import with_unit

if TYPE_CHECKING:
    from nodegate.baseline.baseline import Baseline

Stored = Entry | AnyLimit | str | None  # what holds for one measurement; text: why the baseline does not
_THOUSAND = 1000.0  # MB/s for GB/s, GFLOPS for TFLOPS, ns for µs
_NEAR = 2.0  # a value in the wrong unit is right in the other one to within this factor
_PROVES_FROM_PERCENT = 50.0  # of what physics allows
_OWN_KERNELS = "ptx"  # the path of a burn without cuBLAS
_HOST = "memory.host_to_device_gb_per_s"  # its peak is what the PCIe link carries in one direction
_BOTH_WAYS = "memory.host_both_ways_gb_per_s"
_MEMORY = "memory.device_gb_per_s"
_BY_KERNELS = ("memory.read_gb_per_s", "memory.copy_gb_per_s", "memory.triad_gb_per_s")
_PEERS, _ALL_REDUCE = "memory.peer_gb_per_s", "nccl.all_reduce_gb_per_s"
_BY_LINKS = ("all_reduce_ring", "all_gather", "reduce_scatter", "alltoall", "sendrecv")
_OF_CUBLAS = {"burn.fp8_tflops": "cublas_fp8", "burn.fp4_tflops": "cublas_fp4"}  # the others have cublas
_OF_EACH = {  # a number -> the number whose peak bounds it, and the share that a good device reaches (derived.*)
    _MEMORY: (_MEMORY, "memory"),
    **dict.fromkeys(_BY_KERNELS, (_MEMORY, "memory_kernels")),
    _HOST: (_HOST, "host_copies"),
    "memory.device_to_host_gb_per_s": ("memory.device_to_host_gb_per_s", "host_copies"),
    _BOTH_WAYS: (_HOST, "host_both_ways"),
    "memory.host_to_device_at_once_gb_per_s": (_HOST, "host_copies_at_once"),
    "memory.device_to_host_at_once_gb_per_s": (_HOST, "host_copies_at_once"),
    _PEERS: (_PEERS, "peers"),
    _ALL_REDUCE: (_ALL_REDUCE, "collectives"),
    **{f"nccl.{each}_gb_per_s": (_PEERS, "collectives") for each in _BY_LINKS},
}


@dataclass(frozen=True)
class Physics:
    """What bounds a number: `peak`, which `whose` names and nothing exceeds; `least`, which a good device reaches."""

    peak: float | None = None
    whose: str = ""
    least: NumberLimit | None = None


def of_platform(metric: Metric, baseline: Baseline) -> Physics:
    """The limits that the peaks of its platform give a metric; none on an unknown platform."""
    bounding, share = _bound(metric, baseline)
    top, whose = _peak(baseline, bounding)
    if metric.name == _BOTH_WAYS and top is not None:
        top *= 2
    named = whose.removeprefix("peak of ")
    least = None
    if top is not None and share and metric.conditions.get("path") != BOUNCE:  # what encryption leaves is unknown
        least = share_of(baseline, f"derived.{share}_percent", top, metric.unit, f"the peak of {named}")
    if least and metric.name.startswith("burn.") and metric.conditions.get("path") == _OWN_KERNELS:
        least = replace(least, kind=LimitKind.FLOOR)  # no GPU has run them yet: what a good one reaches is not known
    if metric.name in (_BOTH_WAYS, *_BY_KERNELS):
        return Physics(top, whose, least)
    return Physics(*_peak(baseline, metric.name), least)


def share_of(baseline: Baseline, key: str, top: float, unit: str, whose: str) -> NumberLimit | None:
    """So many percent of what physics allows, as a limit that says it is derived; None where no share is stored.

    Less than half is a floor: what keeps it may still have lost half of its lanes, or a link of two.
    """
    share = baseline.find_number(key)
    if share is None:
        return None
    source = f"derived: {share.value:g} % of {whose} of {with_unit(top, unit)}; {share.source}"
    kind = LimitKind.DERIVED if share.value >= _PROVES_FROM_PERCENT else LimitKind.FLOOR
    return Limit(round(top * share.value / 100, 3), unit, source, AT_LEAST, kind)


def _bound(metric: Metric, baseline: Baseline) -> tuple[str, str]:
    """The number whose peak bounds a metric, and the share of it; GPUs without NVLink use PCIe."""
    if metric.name.startswith("burn.") and metric.unit == "TFLOPS":
        if metric.conditions.get("path") != _OWN_KERNELS:
            return metric.name, _OF_CUBLAS.get(metric.name, "cublas")
        return metric.name, "own_kernels_fp64" if metric.name == "burn.fp64_tflops" else "own_kernels"
    bounding, share = _OF_EACH.get(metric.name, ("", ""))
    if bounding in {_PEERS, _ALL_REDUCE} and baseline.entry(_PEERS) is None:
        return _HOST, "peers_over_pcie" if metric.name == _PEERS else "collectives_over_pcie"
    if bounding == _ALL_REDUCE and baseline.entry(_ALL_REDUCE) is None:
        return _PEERS, share
    return bounding, share


def _peak(baseline: Baseline, key: str) -> tuple[float | None, str]:
    entry = baseline.entry(key)
    return (entry.most, f"peak of {entry.origin_of_peak}") if entry else (None, "")


def stored_for(right: Entry | AnyLimit | None, metric: Metric) -> Stored:
    """The entry that holds under the conditions of this measurement, or in words how they differ."""
    if isinstance(right, Entry) and right.value is None:
        return None
    return right.for_conditions(metric.conditions) if isinstance(right, Entry) else right


def of_a_node(figure: Metric, stored: Entry | AnyLimit | None, margins: Margins) -> Entry | None:
    """What the median of a node's devices is held to: the value that was measured, less than a device's tolerance.

    None where the baseline has no such value, or a policy or the inventory says what counts: then each device is held
    to its own limit alone.
    """
    found = stored.for_conditions(figure.conditions) if isinstance(stored, Entry) and not stored.clause else None
    if not isinstance(found, Entry) or found.tolerance <= margins.node_tolerance or found.direction != AT_LEAST:
        return None
    return replace(found, tolerance=margins.node_tolerance)


def derived(metric: Metric, value: float, least: NumberLimit) -> Comparison:
    """A value against a share of what physics allows."""
    good = value >= least.value if metric.better == "higher" else value <= least.value
    return Comparison(Verdict.PASS if good else Verdict.FAIL, "derived", "", least)


def by_baseline(
    metric: Metric, value: float, right: Stored, group: PeerGroup | NoPeers, margins: Margins
) -> Comparison:
    """What the baseline says of a value."""
    if right is None:
        return Comparison(Verdict.SKIP, "baseline", f"no limit {metric.name}")
    if isinstance(right, str):
        return Comparison(Verdict.SKIP, "baseline", f"the baseline is {right}", notable=True)
    limit, reference, wrong = _limit(right), right.value, ""
    if right.unit != metric.unit:
        wrong = f"measured in {metric.unit}, and the baseline is in {right.unit or 'no unit'} ({limit.source})"
    elif not is_number(reference) or not is_number(limit.value) or right.direction == "equal":
        wrong = f"the baseline asks for exactly {reference}, which no measurement gives ({limit.source})"
    elif _slipped(value, reference, group):
        return _slip(metric, value, reference, limit)
    else:
        held_to = cast("NumberLimit", limit)
        return _held(metric, value, held_to, right, isinstance(group, PeerGroup), margins)
    return Comparison(Verdict.ERROR, "baseline", wrong, limit)


def _held(  # noqa: PLR0917 - one caller, above
    metric: Metric, value: float, limit: NumberLimit, right: Entry | AnyLimit, has_peers: bool, margins: Margins
) -> Comparison:
    word, entry = right.direction or direction_of(metric), right if isinstance(right, Entry) else None
    good = value >= limit.value if word == AT_LEAST else value <= limit.value
    of_node, verdict, said = OF in metric.conditions, Verdict.PASS if good else Verdict.FAIL, ""
    if not good and of_node and entry and entry.best_value is None:
        verdict, said = Verdict.WARN, "measured elsewhere: other software may explain a part"
    judges_alone = good and entry and not has_peers and not of_node
    loosest = right.value * (1 + margins.loose) if is_number(right.value) else math.inf
    if judges_alone and metric.better == "higher" and word == AT_LEAST and value > loosest:
        verdict, said = Verdict.WARN, "a limit so far below what is measured proves nothing"
    return Comparison(verdict, "baseline", said, replace(limit, direction=word))


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


def _limit(right: Entry | AnyLimit) -> AnyLimit:
    return right.limit if isinstance(right, Entry) else right


def _fits(value: float, reference: float) -> bool:
    return reference > 0 and reference / _NEAR <= value <= reference * _NEAR


def _slipped(value: float, reference: float, group: PeerGroup | NoPeers) -> bool:
    """Whether value or baseline is off by 1000.

    A low value is not, where the same tool gives the other nodes what the baseline says: then this node is that slow.
    """
    others_are_right = isinstance(group, PeerGroup) and _fits(group.median, reference)
    return _fits(value / _THOUSAND, reference) or (_fits(value * _THOUSAND, reference) and not others_are_right)


def _slip(metric: Metric, value: float, reference: float, limit: AnyLimit | None) -> Comparison:
    times = "a thousand times" if value > reference else "a thousandth of"
    source = f" ({limit.source})" if limit else ""
    said = f"{shown(value, metric.unit)} is about {times} the baseline's {shown(reference, metric.unit)}{source}"
    return Comparison(Verdict.ERROR, "unit", f"{said}: one of the two is in the wrong unit", limit)
