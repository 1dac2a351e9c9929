"""Values of one metric by node and part, as the pictures of racks and rails need them; and what they show, in words."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from nodegate.inventory.hostlist import natural
from nodegate.records.part import Kind
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
_WORST_FIRST = (*NOT_PASSED, Verdict.NOT_JUDGED, Verdict.PASS)


@dataclass(frozen=True, order=True, slots=True)
class Value:
    """A value of a part; of several of one part the least of them counts: the worst verdict, then the lowest."""

    rank: int  # of its verdict, the worst 0
    value: float

    @property
    def style(self) -> str:
        """The class of its shape on the page: it passed, did not, or was held to nothing."""
        verdict = _WORST_FIRST[self.rank]
        return "bad" if verdict in NOT_PASSED else "good" if verdict is Verdict.PASS else "open"


@dataclass(slots=True)
class Values:
    """One metric of one kind of part on one platform: [node][part] -> value."""

    platform: str
    quantity: str
    unit: str
    of: dict[str, dict[str, Value]] = field(default_factory=lambda: defaultdict(dict))

    def __iter__(self) -> Iterator[tuple[Value, str]]:
        """Each value with node and part; what did not pass first, the lowest before."""
        every = ((value, f"{node} {part}") for node, own in self.of.items() for part, value in own.items())
        return iter(sorted(every))

    @property
    def median(self) -> float:
        """Of all parts of all nodes."""
        return median(each.value for each, _ in self)


def every_value(nodes: Iterable[NodeReport]) -> dict[tuple[Kind, str, str], Values]:
    """By kind of part, platform and metric."""
    found: dict[tuple[Kind, str, str], Values] = {}
    for node in sorted(nodes, key=lambda node: natural(node.node)):
        for finding in (each for record in node.records for each in record.findings):
            if (
                not finding.metric
                or finding.metric not in METRICS.get(kind := finding.part.kind, ())
                or finding.verdict not in _WORST_FIRST
            ):
                continue
            if (value := number(finding.observed)) is None:
                continue
            new, key = Value(_WORST_FIRST.index(finding.verdict), value), (kind, node.platform, finding.metric)
            own = found.setdefault(key, Values(node.platform, finding.quantity, finding.unit)).of[node.node]
            own.update((part.short, min(own.get(part.short, new), new)) for part in finding.parts)
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
