"""The numbers that the programs gave, each beside what the baselines expect of this board."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.baseline.entry import Entry
from nodegate.errors import CannotMeasure
from nodegate.measure.burn import run as burn
from nodegate.measure.copies import result as copies
from nodegate.numbers.limits import of_platform
from nodegate.records.program_run import Attempt
from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.baseline.baseline import Baseline
    from nodegate.facts import NodeFacts
    from nodegate.metric import Metric
    from nodegate.records.program_run import ProgramRun

NO_YAML = "no limits to compare with: this Python has no PyYAML, which reads baselines/*.yaml"


@dataclass(frozen=True)
class Number:
    """A measured number; `limit` and `peak` are those of the board, None where the baselines have none, and why."""

    metric: Metric
    expected: float | None = None
    limit: float | None = None
    peak: float | None = None
    source: str = ""

    @property
    def believed(self) -> bool:
        """Whether it is above nothing and below what physics allows."""
        return self.metric.best > 0 and (self.peak is None or self.metric.best <= self.peak)

    @property
    def remark(self) -> str:
        """How it compares, in words."""
        if not self.believed:
            return "IMPOSSIBLE"
        if self.limit is None:
            return ""
        lower_is_better = self.metric.better == "lower"
        bad = self.metric.best > self.limit if lower_is_better else self.metric.best < self.limit
        return "beyond the limit" if bad else "within"

    def to_json(self) -> dict[str, object]:
        """Its form in the report."""
        named = {"expected": self.expected, "limit": self.limit, "peak": self.peak, "source": self.source}
        return {**self.metric.to_json(), **named, "remark": self.remark}


def metrics(programs: Sequence[ProgramRun]) -> tuple[Metric, ...]:
    """What the parsers make of the programs' output."""
    found: list[Metric] = []
    for what, parse in ((burn.OWN, burn.parse), (copies.OWN, copies.parse)):
        for ran in (each for each in programs if each.what == what):
            with contextlib.suppress(CannotMeasure):  # it was refused or failed: its step says so
                found += parse([Attempt((ran,))]).metrics
    return tuple(found)


def beside(found: Sequence[Metric], baseline: Baseline | str) -> list[Number]:
    """Each number with the limit that holds under its conditions."""
    return [_one(each, baseline) for each in found]


def baseline_of(facts: NodeFacts) -> Baseline | str:
    """The limits of this board, or why there are none."""
    try:
        from nodegate.baseline.baseline import Baselines  # noqa: PLC0415 - a machine with a GPU may have no PyYAML
    except ImportError:
        return NO_YAML
    from nodegate.node import Node  # noqa: PLC0415

    pci = host = None
    with contextlib.suppress(CannotMeasure):
        pci = facts.pci
    with contextlib.suppress(CannotMeasure):
        host = facts.host
    return Baselines.read().for_node(Node("localhost"), facts.gpus, pci, host)


def board(facts: NodeFacts) -> str:
    """The GPUs in words: "8 x NVIDIA H100 80GB HBM3", "NVIDIA H200"."""
    names = [str(gpu.name) for gpu in facts.gpus.devices if not isinstance(gpu.name, Unknown)]
    kinds = dict.fromkeys(names)
    return " and ".join(f"{names.count(each)} x {each}" if names.count(each) > 1 else each for each in kinds)


def _one(metric: Metric, baseline: Baseline | str) -> Number:
    if isinstance(baseline, str):
        return Number(metric, source=baseline)
    physics, entry = of_platform(metric, baseline), baseline.entry(metric.name)
    fitting = (
        entry.for_conditions(metric.conditions) if entry else f"no limit for {baseline.platform or baseline.reason}"
    )
    if isinstance(fitting, Entry) and fitting.value is not None:
        return Number(metric, _number(fitting.value), _number(fitting.limit.value), physics.peak, fitting.source)
    if physics.least is not None:
        return Number(metric, None, physics.least.value, physics.peak, physics.least.source)
    return Number(metric, peak=physics.peak, source=fitting if isinstance(fitting, str) else fitting.source)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def rows(numbers: Sequence[Number]) -> list[str]:
    """The table: found, expected, limit, and how it compares."""
    lines: list[Mapping[str, str]] = []
    for each in numbers:
        metric = each.metric
        lines.append(
            {
                "part": metric.device,
                "what": f"{metric.name} {metric.conditions.get('path', '')}".strip(),
                "found": f"{metric.best:.4g} {metric.unit}",
                "expected": "" if each.expected is None else f"{each.expected:g}",
                "limit": "" if each.limit is None else f"{each.limit:.4g}",
                "peak": "" if each.peak is None else f"{each.peak:g}",
                "remark": each.remark or each.source[:60],
            }
        )
    if not lines:
        return []
    lines.insert(0, {name: name for name in lines[0]})
    widths = {name: max(len(line[name]) for line in lines) for name in lines[0]}
    return ["  ".join(line[name].ljust(widths[name]) for name in line).rstrip() for line in lines]
