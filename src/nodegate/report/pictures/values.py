"""Values of one metric by node and part, as the pictures of racks and rails need them; and what they show, in words."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import NamedTuple

from nodegate.inventory.hostlist import natural
from nodegate.records.part import Kind, Part
from nodegate.records.run import NodeReport
from nodegate.records.verdict import Verdict
from nodegate.report.stats import NOT_PASSED, number
from nodegate.text import number as written
from nodegate.words.catalogue import say

_NAMED = 4
# The first that a kind of part has on a platform is shown.
METRICS: Mapping[Kind, Sequence[str]] = {
    Kind.GPU: (
        *(f"burn.{each}_tflops" for each in ("bf16", "fp8", "fp32")),
        *(f"memory.{each}_gb_per_s" for each in ("copy", "host_to_device")),
    ),
    **dict.fromkeys((Kind.NIC, Kind.PORT), tuple(f"rdma.{each}_gbps" for each in ("write", "read", "gpu_write"))),
}
EVERY = dict.fromkeys(each for own in METRICS.values() for each in own)  # metrics; of all more is better
_WORST_FIRST = (*NOT_PASSED, Verdict.NOT_JUDGED, Verdict.PASS)
_STYLES = (*("bad" for _ in NOT_PASSED), "open", "good")


class Value(NamedTuple):
    """A value of a part; of several of one part the least of them counts: the worst verdict, then the lowest."""

    rank: int  # of its verdict, the worst 0
    value: float

    @property
    def style(self) -> str:
        """The class of its shape on the page: it passed, did not, or was held to nothing."""
        return _STYLES[self.rank]


@dataclass(frozen=True)
class Values:
    """One metric of one kind of part on one platform; `found` is it by node, with the parts that have it."""

    platform: str
    quantity: str
    unit: str
    found: list[tuple[str, tuple[Part, ...], Value]]

    @cached_property
    def of(self) -> Mapping[str, Mapping[str, Value]]:
        """[node][part] -> value."""
        every = defaultdict[str, dict[str, Value]](dict)
        for node, parts, new in self.found:
            own = every[node]
            for name in (part.short for part in parts):
                own[name] = min(own.get(name, new), new)
        return every

    @property
    def bad(self) -> list[tuple[Value, str]]:
        """What did not pass, with node and part, the lowest of the worst verdict first."""
        every = ((value, node, part) for node, own in self.of.items() for part, value in own.items())
        return sorted((value, f"{node} {part}") for value, node, part in every if value.style == "bad")

    @cached_property
    def median(self) -> float:
        """Of all parts of all nodes."""
        return median(value.value for own in self.of.values() for value in own.values())


def every_value(nodes: Iterable[NodeReport]) -> dict[tuple[Kind, str, str], Values]:
    """By kind of part, platform and metric."""
    found: dict[tuple[Kind, str, str], Values] = {}
    for node in sorted(nodes, key=lambda node: natural(node.node)):
        for finding in (each for record in node.records for each in record.findings):
            if finding.metric not in EVERY or finding.verdict not in _WORST_FIRST:
                continue
            kind, value = finding.part.kind, number(finding.observed)
            if value is None or finding.metric not in METRICS.get(kind, ()):
                continue
            key = kind, node.platform, finding.metric
            if key not in found:
                found[key] = Values(node.platform, finding.quantity, finding.unit, [])
            found[key].found.append((node.node, finding.parts, Value(_WORST_FIRST.index(finding.verdict), value)))
    return found


def values(found: Mapping[tuple[Kind, str, str], Values]) -> dict[Kind, list[Values]]:
    """By kind of part, for each platform the first of its metrics that it has."""
    platforms = dict.fromkeys((kind, platform) for kind, platform, _ in found)
    chosen: dict[Kind, list[Values]] = {kind: [] for kind in METRICS}
    for kind, platform in platforms:
        chosen[kind].append(
            next(found[kind, platform, each] for each in METRICS[kind] if (kind, platform, each) in found)
        )
    return chosen


def outcome(total: int, passed: int, beyond: int, named: Iterable[tuple[float, str]], unit: str) -> str:
    """What became of values: "2 of 104 did not pass: hgx02 GPU 2 (653), hgx08 GPU 4 (193)".

    `named` are values that did not pass with their places, the worst first, some of `beyond`; of a place that has
    several the first is shown.
    """
    if beyond:
        held, shown = list(named), dict[str, float]()
        for value, where in held:
            if len(shown) < _NAMED:
                shown.setdefault(where, value)
        places = [f"{where} ({written(value, unit)})" for where, value in shown.items()]
        if left := beyond - sum(where in shown for _, where in held):
            places.append(say("{n:,} more", n=left))
        return say("{n:,} of {total:,} did not pass: {places}", n=beyond, total=total, places=", ".join(places))
    if not passed:
        return say("{total:,} values without a limit", total=total)
    return say("{n:,} of {total:,} passed", n=passed, total=total)
