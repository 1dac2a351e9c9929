"""report.json, schema `nodegate.report/4`, written and read: run, policy, claims, nodes, causes and statistics."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import IO, TypedDict

from nodegate.claims.table import titles
from nodegate.errors import UsageError
from nodegate.files.bounded import read_whole
from nodegate.policy.policy import DefectClass, Policy
from nodegate.records.cause import CheckFinding
from nodegate.records.claim import Shown
from nodegate.records.part import Part
from nodegate.records.results import RESULTS, fingerprint, is_cut, read
from nodegate.records.run import CheckInfo, Drift, NodeReport, Run, shared
from nodegate.records.store import from_bytes, to_bytes
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.cause_rows import cause_rows
from nodegate.report.fleet_result import Defect, fleet_result
from nodegate.report.model import Report, by_check, check_ids, node_counts, worst_first
from nodegate.report.stats import Measurement

SCHEMA = "nodegate.report/4"
MOST_BYTES = 1 << 28  # 1,250 nodes have ten megabytes
_OTHER = "another release wrote it: judge its evidence again (pytest --replay FOLDER)"


@dataclass(frozen=True, slots=True)
class PartRow:
    """What a cause is about: the whole part as `part`, with the serial number of the board that is replaced."""

    kind: str
    name: str
    index: int | None
    pci: str
    serial: str
    label: str
    node: str


# With a key that is a word of Python: rows that are written for others and never read back.
CauseRow = TypedDict(
    "CauseRow",
    {
        "id": str, "node": str, "nodes": list[str], "place": str, "part": PartRow, "parts": list[PartRow],
        "class": str, "severity": str, "verdict": str, "condition": str, "message": str, "action": str, "waiver": str,
        "decisive": CheckFinding, "follows": int, "findings": list[dict[str, str]],
    },
)  # fmt: skip
DefectRow = TypedDict(
    "DefectRow",
    {
        "claim": str, "title": str, "class": str, "clause": str, "measured": bool,
        "refuted": tuple[str, ...], "open": tuple[str, ...], "signed": tuple[str, ...], "until": str,
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Details:
    """Where the results are: a file of the same folder, and how many lines it has."""

    results: str
    lines: int


@dataclass(frozen=True, slots=True)
class FleetRow:
    """What the nodes come to under the policy, and the claims that do not hold on every node."""

    result: str
    why: str
    policy: str
    is_part: bool
    nodes: Mapping[DefectClass, tuple[str, ...]]
    defects: tuple[DefectRow, ...]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node: what it is, what was shown of each claim, and the checks that have no good verdict on it."""

    node: str
    verdict: NodeVerdict
    platform: str
    rack: str
    serials: Mapping[str, str]
    identity: tuple[tuple[str, str], ...]
    gpus: int
    unreachable: str
    checks: Mapping[Verdict, int]
    failed: tuple[str, ...]
    errors: tuple[str, ...]
    waived: tuple[str, ...]
    not_judged: tuple[str, ...]
    claims: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class MeasurementRow:
    """One measured number over the nodes of a platform; `mad` is the median absolute deviation."""

    platform: str
    check: str
    metric: str
    unit: str
    count: int
    nodes: int
    lowest: float
    lowest_at: str
    median: float
    mad: float
    highest: float
    highest_at: str
    limit: float | None


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check of the run: its first sentence, and the failure modes that it finds."""

    check: str
    title: str
    failure_modes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportFile:
    """report.json: the run as a whole.

    `results_sha256` is over the sorted lines of the results (`LC_ALL=C sort`). `started` and `finished` are UTC,
    `counts` are nodes by verdict, `claims` are titles by name.
    """

    schema: str
    results_sha256: str
    details: Details
    started: str
    finished: str
    run: Run
    counts: Mapping[NodeVerdict, int]
    claims: Mapping[str, str]
    policy: Policy | None
    fleet_result: FleetRow | None
    nodes: tuple[NodeRow, ...]
    causes: tuple[CauseRow, ...]
    fleet: tuple[MeasurementRow, ...]
    drift: tuple[Drift, ...]
    checks: tuple[CheckRow, ...]


def write(report: Report, file: IO[bytes], results: tuple[str, int], fleet: Sequence[Measurement]) -> None:
    """Write the report as JSON, a line per node, so that `grep` and `diff` work on it.

    `results` are the fingerprint and the lines of its results, `fleet` its measurements.
    """
    sha256, lines = results
    shown = {each.claim for node in report.nodes for each in node.claims}
    whole = ReportFile(
        SCHEMA,
        sha256,
        Details(RESULTS, lines),
        utc(report.run.started_epoch_s),
        utc(report.run.finished_epoch_s),
        report.run,
        node_counts(report),
        {name: title for name, title in titles().items() if name in shown},
        report.policy,
        _fleet_row(report),
        tuple(map(_node, worst_first(report.nodes))),
        tuple(_causes(report)),
        tuple(MeasurementRow(**shared(entry, MeasurementRow), count=len(entry.values)) for entry in fleet),
        report.drift,
        tuple(
            CheckRow(check, info.title, info.failure_modes)
            for check in check_ids(report)
            for info in [report.checks.get(check, CheckInfo(""))]
        ),
    )
    separator = b"{"
    for each in fields(ReportFile):
        value = getattr(whole, each.name)
        file.write(separator + to_bytes(each.name) + b":")
        separator = b",\n"
        if not isinstance(value, tuple):
            file.write(to_bytes(value))
            continue
        file.write(b"[" + b",".join(b"\n" + to_bytes(row) for row in value) + b"]")
    file.write(b"}\n")


def utc(epoch_s: float) -> str:
    """2026-11-21T08:15:00Z; empty for a time that no calendar holds."""
    try:
        return datetime.fromtimestamp(epoch_s, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return ""


def _fleet_row(report: Report) -> FleetRow | None:
    policy, result = report.policy, fleet_result(report)
    if policy is None or result is None:
        return None
    nodes = {each: result.of_class(each) for each in DefectClass}
    defects = tuple(map(_defect, result.defects))
    return FleetRow(result.verdict.value, result.why, policy.name, result.is_part, nodes, defects)


def _defect(defect: Defect) -> DefectRow:
    return {
        "claim": defect.item.claim,
        "title": defect.title,
        "class": defect.item.defect_class.value,
        "clause": defect.item.clause,
        "measured": defect.item.is_measured,
        "refuted": defect.refuted,
        "open": defect.open,
        "signed": defect.signed,
        "until": defect.until,
    }


def _node(node: NodeReport) -> NodeRow:
    def having(verdict: Verdict) -> tuple[str, ...]:
        return tuple(record.check for record in node.records if record.verdict is verdict and not record.waiver)

    return NodeRow(
        **shared(node, NodeRow),
        checks=Counter(record.verdict for record in node.records),
        failed=having(Verdict.FAIL),
        errors=having(Verdict.ERROR),
        waived=tuple(record.check for record in node.records if record.waiver),
        not_judged=having(Verdict.NOT_JUDGED),
    )


def _causes(report: Report) -> Iterator[CauseRow]:
    """The causes of the run, worst first; an id that two of them have is numbered, as in report.html."""
    for cause, row in zip(report.causes, cause_rows(report), strict=True):
        members = cause.members or (cause,)
        yield {
            "id": row.anchor,
            "node": cause.nodes[0] if len(cause.nodes) == 1 else "",
            "nodes": list(cause.nodes),
            "place": cause.place,
            "part": _part(cause.part, cause.nodes[0] if len(cause.nodes) == 1 else ""),
            "parts": [_part(part, each.nodes[0]) for each in members for part in each.parts],
            "class": cause.sort.value,
            "severity": cause.severity.value,
            "verdict": cause.verdict.value,
            "condition": cause.condition,
            "message": row.what,
            "action": cause.action,
            "waiver": cause.waiver,
            "decisive": cause.decisive,
            "follows": len(cause.follows),
            "findings": [
                {"node": each.nodes[0], "check": found.check, "parts": found.finding.parts_in_words}
                for each in members
                for found in each.findings
            ],
        }


def _part(part: Part, node: str) -> PartRow:
    whole, name = part.of or part, part.name or part.short
    return PartRow(part.kind.value, name, part.index, whole.pci, whole.serial, part.label, node)


def load(folder: Path) -> Report:
    """The report of a run folder; its nodes are worst first, as in report.json.

    Raises:
        UsageError: a file is missing, is not a report of this schema, or was changed.
    """
    file = folder / "report.json"
    try:
        raw = read_whole(file, MOST_BYTES)
    except OSError as error:
        hint = "name the folder of a finished run"
        raise UsageError(f"cannot be read ({error.strerror})", file=str(file), hint=hint) from error
    try:
        found = from_bytes(ReportFile, raw.replace(b"\n", b""), MOST_BYTES)
    except ValueError as error:
        raise UsageError(f"not a report of schema {SCHEMA}: {error}", file=str(file), hint=_OTHER) from error
    if found.schema != SCHEMA:
        raise UsageError(f"not a report of schema {SCHEMA}", file=str(file), hint=_OTHER)
    if found.details.results == RESULTS and fingerprint(folder) != (found.results_sha256, found.details.lines):
        hint = "continue the run (pytest --resume), or judge its evidence again (pytest --replay)"
        said = "is cut off" if is_cut(folder) else "does not belong to this report.json"
        raise UsageError(said, file=str(folder / RESULTS), hint=hint)
    checks = {row.check: CheckInfo(row.title, row.failure_modes) for row in found.checks}
    by_node = groupby(sorted(read(folder), key=lambda record: record.node), key=lambda record: record.node)
    records = {node: tuple(by_check(own, checks)) for node, own in by_node}
    nodes = tuple(NodeReport(**shared(row, NodeReport), records=records.get(row.node, ())) for row in found.nodes)
    return Report(found.run, nodes, found.drift, checks, found.policy)
