"""Limits from physics for a number without a stored value: a peak that nothing exceeds, and a share of it.

The shares are wide: they find what is broken, on every platform whose peaks are known, also where a whole fleet is slow
alike. A stored value is closer and wins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.baseline.entry import Entry
from nodegate.metric import BOUNCE, Metric
from nodegate.records.finding import AT_LEAST, Limit, LimitKind, NumberLimit
from nodegate.text import with_unit

if TYPE_CHECKING:
    from nodegate.baseline.baseline import Baseline

_PROVES_FROM_PERCENT = 50.0  # of what physics allows
_OWN_KERNELS = "ptx"  # the path of a burn without cuBLAS
_HOST = "memory.host_to_device_gb_per_s"  # its peak is what the PCIe link carries in one direction
_BOTH_WAYS = "memory.host_both_ways_gb_per_s"
_MEMORY = "memory.device_gb_per_s"
_BY_KERNELS = ("memory.read_gb_per_s", "memory.copy_gb_per_s", "memory.triad_gb_per_s")
_PEERS, _ALL_REDUCE = "memory.peer_gb_per_s", "nccl.all_reduce_gb_per_s"
_OF_CUBLAS = {  # a number of the burn -> its share; the others have derived.cublas_percent
    "burn.fp8_tflops": "derived.cublas_fp8_percent",
    "burn.fp4_tflops": "derived.cublas_fp4_percent",
}
_OF_EACH = {  # a number -> the number whose peak bounds it, and the key of the share that a good device reaches
    _MEMORY: (_MEMORY, "derived.memory_percent"),
    **dict.fromkeys(_BY_KERNELS, (_MEMORY, "derived.memory_kernels_percent")),
    _HOST: (_HOST, "derived.host_copies_percent"),
    "memory.device_to_host_gb_per_s": ("memory.device_to_host_gb_per_s", "derived.host_copies_percent"),
    _BOTH_WAYS: (_HOST, "derived.host_both_ways_percent"),
    "memory.host_to_device_at_once_gb_per_s": (_HOST, "derived.host_copies_at_once_percent"),
    "memory.device_to_host_at_once_gb_per_s": (_HOST, "derived.host_copies_at_once_percent"),
    _PEERS: (_PEERS, "derived.peers_percent"),
    _ALL_REDUCE: (_ALL_REDUCE, "derived.collectives_percent"),
    "nccl.apart_all_reduce_gb_per_s": (_ALL_REDUCE, "derived.collectives_percent"),
    "nccl.all_reduce_ring_gb_per_s": (_PEERS, "derived.collectives_percent"),
    "nccl.all_gather_gb_per_s": (_PEERS, "derived.collectives_percent"),
    "nccl.reduce_scatter_gb_per_s": (_PEERS, "derived.collectives_percent"),
    "nccl.alltoall_gb_per_s": (_PEERS, "derived.collectives_percent"),
    "nccl.sendrecv_gb_per_s": (_PEERS, "derived.collectives_percent"),
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
    top = _peak(baseline, bounding)
    if metric.name == _BOTH_WAYS and top is not None:
        top *= 2
    least = None if top is None else _least(baseline, bounding, top, share, metric.unit)
    if least and metric.name.startswith("burn.") and metric.conditions.get("path") == _OWN_KERNELS:
        least = replace(least, kind=LimitKind.FLOOR)  # no GPU has run them yet: what a good one reaches is not known
    if metric.conditions.get("path") == BOUNCE:
        least = None  # what encryption leaves is unknown
    if metric.name in (_BOTH_WAYS, *_BY_KERNELS):
        return Physics(top, _origin(baseline, bounding), least)
    return Physics(_peak(baseline, metric.name), _origin(baseline, metric.name), least)


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
    """The number whose peak bounds a metric, and the key of the share of it; GPUs without NVLink use PCIe."""
    if metric.name.startswith("burn.") and metric.unit == "TFLOPS":
        if metric.conditions.get("path") != _OWN_KERNELS:
            return metric.name, _OF_CUBLAS.get(metric.name, "derived.cublas_percent")
        fp64 = metric.name == "burn.fp64_tflops"
        return metric.name, "derived.own_kernels_fp64_percent" if fp64 else "derived.own_kernels_percent"
    bounding, share = _OF_EACH.get(metric.name, ("", ""))
    if bounding in {_PEERS, _ALL_REDUCE} and baseline.entry(_PEERS) is None:
        return _HOST, f"derived.{'peers' if metric.name == _PEERS else 'collectives'}_over_pcie_percent"
    if bounding == _ALL_REDUCE and baseline.entry(_ALL_REDUCE) is None:
        return _PEERS, share
    return bounding, share


def _least(baseline: Baseline, key: str, top: float, share: str, unit: str) -> NumberLimit | None:
    entry = baseline.entry(key)
    whose = f"the peak of {entry.origin_of_peak}" if entry else "the peak"
    return share_of(baseline, share, top, unit, whose) if share else None


def _peak(baseline: Baseline, key: str) -> float | None:
    entry = baseline.entry(key)
    return entry.most if isinstance(entry, Entry) else None


def _origin(baseline: Baseline, key: str) -> str:
    entry = baseline.entry(key)
    return f"peak of {entry.origin_of_peak}" if entry else ""
