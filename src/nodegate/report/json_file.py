"""report.json for other programs: run, causes, nodes and statistics, schema `nodegate.report/3`."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import IO, TYPE_CHECKING

from nodegate.records.claim import State
from nodegate.records.verdict import Verdict
from nodegate.report import jsonl, policy_json
from nodegate.report.cause_rows import cause_rows
from nodegate.report.model import check_ids, node_counts, worst_first
from nodegate.report.results_file import RESULTS, TABLES, fingerprint
from nodegate.report.stats import measurements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from nodegate.files.source import Source
    from nodegate.records.claim import Shown
    from nodegate.records.part import Part
    from nodegate.report.model import NodeReport, Report, Run
    from nodegate.report.stats import Measurement

SCHEMA = "nodegate.report/3"


@dataclass(frozen=True)
class Details:
    """Where the results are: the fingerprints of results.jsonl and its tables, and how many lines it has."""

    results_sha256: str
    tables_sha256: str
    lines: int

    @classmethod
    def of(cls, folder: Path) -> Details:
        """Those of a run folder.

        Raises:
            OSError: its results cannot be read.
        """
        sha256, lines = fingerprint(folder / RESULTS)
        tables = folder / TABLES
        return cls(sha256, fingerprint(tables)[0] if tables.exists() else "", lines)

    def to_json(self) -> dict[str, object]:
        """As report.json has it."""
        return {
            "results": RESULTS,
            "tables": TABLES,
            "tables_sha256": self.tables_sha256,
            "lines": self.lines,
        }


def write(report: Report, file: IO[str], details: Details, fleet: Sequence[Measurement] | None = None) -> None:
    """Write the report as JSON, a line per node, so that `grep` and `diff` work on it.

    `fleet` are the report's measurements, where they are at hand.
    """
    found = measurements(report.nodes) if fleet is None else fleet
    claims: dict[str, tuple[str, ...]] = {}
    for shown in (shown for node in report.nodes for shown in node.claims):
        claims.setdefault(shown.claim, shown.by)
    parts: list[tuple[str, Iterable[str]]] = [
        ("nodes", (_dumps(_node(node, claims)) for node in worst_first(report.nodes))),
        ("causes", map(_dumps, _causes(report))),
        ("fleet", (_dumps(_measurement(entry)) for entry in found)),
        ("drift", map(_dumps, _drift(report))),
        ("checks", map(_dumps, _checks(report))),
    ]
    counts = {verdict.value: count for verdict, count in node_counts(report).items()}
    head: dict[str, object] = {
        "schema": SCHEMA,
        "results_sha256": details.results_sha256,
        "details": details.to_json(),
        "run": _run(report.run),
        "counts": counts,
    }
    head["claims"] = {name: list(by) for name, by in claims.items()}
    head |= policy_json.to_json(report)
    file.write("{" + _dumps(head)[1:-1])
    for key, entries in parts:
        file.write(f',\n"{key}":[')
        separator = "\n"
        for entry in entries:
            file.write(separator + entry)
            separator = ",\n"
        file.write("]")
    file.write("}\n")


def utc(epoch_s: float) -> str:
    """2026-11-21T08:15:00Z; empty for a time that no calendar holds."""
    try:
        return datetime.fromtimestamp(epoch_s, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return ""


def _run(run: Run) -> dict[str, object]:
    return {
        "id": run.id,
        "profile": run.profile,
        "started": utc(run.started_epoch_s),
        "finished": utc(run.finished_epoch_s),
        "started_epoch_s": run.started_epoch_s,
        "finished_epoch_s": run.finished_epoch_s,
        "suite_version": run.suite_version,
        "command": run.command,
        "host": run.host,
        "user": run.user,
        "inventory": _sources(run.inventory),
        "baselines": _sources(run.baselines),
        "interrupted": run.interrupted,
        "selection": run.selection,
        "answer": run.answer,
        "manifest_sha256": run.manifest_sha256,
        "evidence": run.evidence,
        "notes": list(run.notes),
        "versions": dict(run.versions),
    }


def _sources(sources: tuple[Source, ...]) -> list[dict[str, str]]:
    return [{"path": source.path, "sha256": source.sha256} for source in sources]


def _node(node: NodeReport, claims: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
    def having(verdict: Verdict) -> list[str]:
        return [record.check for record in node.records if record.verdict is verdict and not record.waiver]

    return {
        "node": node.node,
        "verdict": node.verdict.value,
        "platform": node.platform,
        "rack": node.rack,
        "serials": dict(node.serials),
        "identity": [list(row) for row in node.identity],
        "gpus": node.gpus,
        "unreachable": node.unreachable,
        "checks": Counter(record.verdict.value for record in node.records),
        "failed": having(Verdict.FAIL),
        "errors": having(Verdict.ERROR),
        "waived": [record.check for record in node.records if record.waiver],
        "not_judged": having(Verdict.NOT_JUDGED),
        "claims": [_claim(shown, claims[shown.claim]) for shown in node.claims],
    }


def _claim(shown: Shown, usual: tuple[str, ...]) -> dict[str, object]:
    """A claim of a node; `by` stands in it only where it is not what the run says of the claim."""
    entry: dict[str, object] = {"claim": shown.claim, "state": shown.state.value}
    entry |= {"why": shown.why} if shown.why else {}
    entry |= {"by": list(shown.by)} if shown.by != usual else {}
    if shown.state is State.NOT_PROVEN:
        entry |= {"signed": shown.signed, "left_out": shown.left_out, "waived": shown.is_waived}
        entry |= {"ended": True} if shown.is_ended else {}
    if shown.amounts:
        entry["amounts"] = [asdict(each) for each in shown.amounts]
    return entry


def _causes(report: Report) -> Iterator[dict[str, object]]:
    """The causes of the run, worst first; an id that two of them have is numbered, as in report.html."""
    for cause, row in zip(report.causes, cause_rows(report), strict=True):
        yield {
            "id": row.anchor,
            **({"node": cause.nodes[0]} if len(cause.nodes) == 1 else {}),
            "nodes": list(cause.nodes),
            "place": cause.place,
            "part": _part(cause.part),
            "parts": [
                {"node": each.nodes[0], **_part(part)} for each in cause.members or (cause,) for part in each.parts
            ],
            "class": cause.sort.value,
            "severity": cause.severity.value,
            "verdict": cause.verdict.value,
            "condition": cause.condition,
            "message": row.what,
            "action": cause.action,
            "waiver": cause.waiver,
            "decisive": {"check": cause.decisive.check, **jsonl.finding_to_json(cause.decisive.finding)},
            "follows": len(cause.follows),
            "findings": [
                {"node": each.nodes[0], "check": found.check, "device": jsonl.device(found.finding)}
                for each in cause.members or (cause,)
                for found in each.findings
            ],
        }


def _part(part: Part) -> dict[str, object]:
    """What a cause is about: the whole part as `part`, with the serial number of the board that is replaced."""
    whole = part.of or part
    return {
        "kind": part.kind.value,
        "name": part.name or part.short,
        "index": part.index,
        "address": whole.address,
        "serial": whole.serial,
        "label": part.label,
    }


def _measurement(entry: Measurement) -> dict[str, object]:
    return {
        "platform": entry.platform,
        "check": entry.check,
        "metric": entry.metric,
        "unit": entry.unit,
        "count": len(entry.values),
        "nodes": entry.nodes,
        "lowest": entry.lowest,
        "lowest_at": entry.lowest_at,
        "median": entry.median,
        "mad": entry.mad,
        "highest": entry.highest,
        "highest_at": entry.highest_at,
        "limit": entry.limit,
    }


def _drift(report: Report) -> Iterator[dict[str, object]]:
    for row in report.drift:
        yield {
            "platform": row.platform,
            "characteristic": row.characteristic,
            "majority": row.majority,
            "count": row.count,
            "total": row.total,
            "others": {value: list(nodes) for value, nodes in row.others.items()},
        }


def _checks(report: Report) -> Iterator[dict[str, object]]:
    for check in check_ids(report):
        info = report.checks.get(check)
        yield {
            "check": check,
            "title": info.title if info else "",
            "failure_modes": list(info.failure_modes) if info else [],
        }


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
