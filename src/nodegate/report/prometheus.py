"""metrics.prom, for node_exporter's textfile collector. docs/guide/metrics.md has the table of its series."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from nodegate.past.questions import LastVerdict
from nodegate.probe.hooks import HookVerdict
from nodegate.records.finding import AT_MOST, Finding
from nodegate.records.part import Part
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.model import Report, gpu_counts, node_counts
from nodegate.report.stats import number
from nodegate.text import visible

_Series = tuple[dict[str, str], float]  # labels and value
MOST_PARTS = 50_000  # values of a run: node_exporter serves them at each scrape, 450,000 series in 6 s and 1.4 GB
_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_BELIEVED = (Verdict.NOT_JUDGED, Verdict.PASS, Verdict.WARN, Verdict.FAIL)  # the best first


@dataclass(frozen=True)
class Beside:
    """What a run knows of its nodes and report.json does not hold.

    `earlier`: the last verdict that the fleet's record has of a node before this run. `hooks`: the last one of the
    node's hooks.
    """

    earlier: Mapping[str, LastVerdict] = field(default_factory=dict)
    hooks: Mapping[str, HookVerdict] = field(default_factory=dict)


def write(report: Report, file: IO[str], beside: Beside) -> None:
    """Write what was decided of each node and when, why, and what was measured. No series is there twice."""
    run, (accepted, gpus) = report.run, gpu_counts(report)
    families: list[tuple[str, str, Iterable[_Series]]] = [
        ("node_verdict", "The verdict of the node in the latest run: 1.",
         (({"node": node.node, "verdict": node.verdict.value}, 1) for node in report.nodes)),
        ("node_last_verdict_timestamp_seconds",
         "When a run last judged the node, by the fleet's record; a node that was busy has its old time.",
         _last_verdicts(report, beside)),
        ("check_verdict", "Number of checks of the node by verdict; a waived failure counts as waived.",
         (({"node": node.node, "verdict": verdict}, count) for node in report.nodes for verdict, count in sorted(
             Counter("waived" if each.waiver else each.verdict.value for each in node.records).items()))),
        ("claim", "What the run has shown of a claim on a node: 1. signed: the site accepts that it is not proven.",
         (({"node": node.node, "claim": each.claim, "state": each.state.value,
            "signed": "yes" if each.signed else "no"}, 1) for node in report.nodes for each in node.claims)),
        ("cause", "A cause that affects a node: 1.", _causes(report)),
        *_measured(report),
        ("hook_verdict", "The last verdict of Slurm's hooks on the node that looked at it: 1.",
         (({"node": node, "hook": each.hook, "answer": each.answer}, 1) for node, each in beside.hooks.items())),
        ("hook_verdict_timestamp_seconds", "When that hook looked, in seconds since the epoch.",
         (({"node": node, "hook": each.hook}, each.epoch_s) for node, each in beside.hooks.items())),
        ("gpus", "Number of GPUs in nodes that were judged, by whether their node is accepted.",
         [({"accepted": "yes"}, accepted), ({"accepted": "no"}, gpus - accepted)]),
        ("nodes", "Number of nodes by verdict.",
         (({"verdict": verdict.value}, count) for verdict, count in node_counts(report).items())),
        ("run_timestamp_seconds", "When the run finished, in seconds since the epoch.", [({}, run.finished_epoch_s)]),
        ("run_duration_seconds", "How long the run took, in seconds.",
         [({}, max(0.0, run.finished_epoch_s - run.started_epoch_s))]),
        ("run_interrupted", "1 when the run was interrupted, else 0.", [({}, run.interrupted)]),
        ("run_info", "The run and the version of the suite: 1.",
         [({"run": run.id, "profile": run.profile, "version": run.suite_version}, 1)]),
    ]  # fmt: skip
    for name, text, series in families:
        file.write(f"# HELP nodegate_{name} {text}\n# TYPE nodegate_{name} gauge\n")
        lines = {_labels(labels): value for labels, value in series}
        form = ".3f" if name.endswith("_seconds") else ".12g"
        file.writelines(f"nodegate_{name}{labels} {value:{form}}\n" for labels, value in lines.items())


def _last_verdicts(report: Report, beside: Beside) -> Iterator[_Series]:
    """Of a node that was never judged, as far as is known, nothing. Who judges old evidence again looks at no node."""
    for node in report.nodes:
        known = beside.earlier.get(node.node)
        if node.verdict is not NodeVerdict.NOT_JUDGED and not report.run.evidence:
            known = LastVerdict(node.verdict.value, report.run.finished_epoch_s)
        if known is not None:
            yield {"node": node.node, "verdict": known.verdict}, known.epoch_s


def _causes(report: Report) -> Iterator[_Series]:
    """One series a cause and node; several parts of a node with one cause are one series, named by the first."""
    for node, causes in report.node_causes.items():
        for cause in causes:
            part, serial = cause.part.short, (cause.part.of or cause.part).serial
            what = {"condition": cause.condition, "severity": cause.severity.value, "class": cause.sort.value}
            yield {"node": node, "part": part, "serial": serial, **what, "waived": "yes" if cause.waiver else "no"}, 1


def _measured(report: Report) -> list[tuple[str, str, list[_Series]]]:
    """The values and their limits, with labels by which one finds the other."""
    values: list[_Series] = []
    limits: list[_Series] = []
    for each in measured(report):
        labels = {"node": each.node, "part": each.part, "serial": each.serial, "quantity": each.quantity,
                  "unit": each.unit}  # fmt: skip
        values.append((labels, each.value))
        if each.limit is not None:
            limits.append(({**labels, "direction": each.direction, "kind": each.kind}, each.limit))
    return [
        ("measured", "What was measured under load; of a large fleet the part nearest to its limit alone.", values),
        ("measured_limit", "The limit that the value of the same node, part and quantity was held to.", limits),
    ]


def _labels(labels: Mapping[str, str]) -> str:
    said = ",".join(f'{name}="{visible(value).translate(_ESCAPED)}"' for name, value in labels.items())
    return f"{{{said}}}" if said else ""


@dataclass(frozen=True, slots=True)
class Measured:
    """One value. `quantity` is the key of its limit ("burn.bf16_tflops"); `limit` is None where it has no number."""

    node: str
    part: str
    serial: str
    quantity: str
    unit: str
    value: float
    limit: float | None
    direction: str
    kind: str


def measured(report: Report) -> list[Measured]:
    """A value for each node, part and quantity; of a larger fleet the part nearest to its limit alone.

    Of several values of one part the nearest to its limit counts, of several limits the one that is nearest.
    """
    for by_part in (True, False):
        found = [each for node in report.nodes for each in _of_node(node, by_part=by_part)]
        if len(found) <= MOST_PARTS:
            break
    return found


def _of_node(node: NodeReport, *, by_part: bool) -> list[Measured]:
    worst: dict[tuple[str, str], tuple[tuple[int, float], Measured]] = {}
    for finding, part, value in _numbers(node):
        limit = number(finding.limit.value) if finding.limit else None
        said = finding.limit if limit is not None else None
        row = Measured(
            *(node.node, part.short, (part.of or part).serial, finding.metric, finding.unit, value, limit),
            *((said.direction, said.kind.value) if said else ("", "")),
        )
        near = 0.0  # the greater, the nearer to its limit or the further beyond it
        if limit is not None:
            above, below = (value, limit) if row.direction == AT_MOST else (limit, value)
            near = above / below if below else float(above > 0)
        key, rank = (part.short if by_part else "", finding.metric), (_BELIEVED.index(finding.verdict), near)
        if key not in worst or rank > worst[key][0]:
            worst[key] = rank, row
    return [row for _, row in worst.values()]


def _numbers(node: NodeReport) -> Iterator[tuple[Finding, Part, float]]:
    """A number that cannot be true (an error) is none."""
    for record in node.records:
        for finding in record.findings:
            value = number(finding.observed)
            if finding.metric and value is not None and finding.verdict in _BELIEVED:
                yield from ((finding, part, value) for part in finding.parts)
