"""A run as tables of pandas: what `nodegate.open_run` gives. docs/guide/api.md lists the columns."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.records.claim import State
from nodegate.records.finding import Finding, Record
from nodegate.records.part import Part
from nodegate.records.results import RESULTS, read
from nodegate.records.run import NodeReport
from nodegate.records.run_folder import RunFolder
from nodegate.records.verdict import Verdict
from nodegate.report.cause_rows import cause_rows
from nodegate.report.json_file import load
from nodegate.report.looks import Looks
from nodegate.report.model import Report, worst_first
from nodegate.report.stats import number

if TYPE_CHECKING:
    import pandas as pd

_TEXT, _COUNT, _NUMBER, _ANY = "string", "Int64", "float64", "object"
NODES = {
    **dict.fromkeys(("node", "verdict", "platform", "rack", "unreachable"), _TEXT),
    **dict.fromkeys(("gpus", "causes"), _COUNT),
    **dict.fromkeys((verdict.name.lower() for verdict in Verdict), _COUNT),
    "waived": _COUNT,
    **dict.fromkeys((state.name.lower() for state in State), _ANY),
    **dict.fromkeys(("serials", "identity"), _ANY),
}
CAUSES = {
    "id": _TEXT,
    "nodes": _ANY,
    **dict.fromkeys(("place", "part", "kind", "serial", "class", "severity", "verdict", "condition"), _TEXT),
    **dict.fromkeys(("message", "action", "waiver", "check"), _TEXT),
    **dict.fromkeys(("findings", "follows"), _COUNT),
}
FINDINGS = {
    **dict.fromkeys(("node", "check", "verdict", "part", "kind"), _TEXT),
    "index": _COUNT,
    **dict.fromkeys(("pci", "serial"), _TEXT),
    "also": _ANY,
    "quantity": _TEXT,
    "observed": _ANY,
    "unit": _TEXT,
    "metric": _TEXT,
    "limit": _ANY,
    **dict.fromkeys(("limit_unit", "direction", "limit_kind", "limit_source"), _TEXT),
    "share": _NUMBER,
    **dict.fromkeys(("text", "note", "action", "code", "why", "blocked_by", "lacks", "waiver", "message"), _TEXT),
}
VALUES = {
    **dict.fromkeys(("node", "part", "serial", "quantity", "metric"), _TEXT),
    "value": _NUMBER,
    "unit": _TEXT,
    "look": _COUNT,
    **dict.fromkeys(("check", "verdict"), _TEXT),
}


class OpenedRun:
    """A run that was read from its folder. Each table is a pandas DataFrame, built when it is first asked for.

    `ended` is False where the run was killed: then `findings` and `values` have the nodes that were judged until then.
    """

    def __init__(self, folder: Path, report: Report | None, records: Iterable[Record]) -> None:
        self.folder, self.ended = folder, report is not None
        self._report, self._records = report, tuple(records)

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """A row a node, the worst first.

        Raises:
            UsageError: the run was killed.
        """
        report = self._whole()
        causes = {node: len(own) for node, own in report.node_causes.items()}
        return _frame((_node(node, causes[node.node]) for node in worst_first(report.nodes)), NODES)

    @cached_property
    def causes(self) -> pd.DataFrame:
        """A row a cause, the worst first; equal ones of several nodes are one, with all of their names in `nodes`.

        Raises:
            UsageError: the run was killed.
        """
        return _frame(_causes(self._whole()), CAUSES)

    @cached_property
    def findings(self) -> pd.DataFrame:
        """A row a finding, those that passed too."""
        rows = (_finding(record, each) for record in self._records for each in record.findings)
        return _frame(rows, FINDINGS)

    @cached_property
    def values(self) -> pd.DataFrame:
        """A row a number and part: what was measured under load, and what was read as a number."""
        looks = Looks(RunFolder(self.folder))
        by_node = groupby(self._records, key=lambda record: record.node)
        return _frame((row for _, own in by_node for row in _values(own, looks)), VALUES)

    def _whole(self) -> Report:
        if self._report is None:
            said = "there is no report.json: the run did not come to its end, and nothing is decided of its nodes"
            hint = "use `findings` and `values`, or continue the run (pytest --resume)"
            raise UsageError(said, file=str(self.folder), hint=hint)
        return self._report


def opened(folder: Path) -> OpenedRun:
    """The run of a folder, as `nodegate.open_run` says."""
    if (folder / RESULTS).exists() and not (folder / "report.json").exists():
        said = f"{folder}: the run did not come to its end, and has only what was judged until then"
        warnings.warn(said, stacklevel=3)
        return OpenedRun(folder, None, read(folder))
    report = load(folder)
    return OpenedRun(folder, report, (record for node in report.nodes for record in node.records))


def _frame(rows: Iterable[tuple[object, ...]], columns: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - heavy

    listed = list(rows)
    by_column = zip(*listed, strict=True) if listed else ((),) * len(columns)
    untyped = pd.DataFrame(dict(zip(columns, map(list, by_column), strict=True)), dtype=object)
    frame: pd.DataFrame = untyped.astype(dict(columns))
    return frame


def _node(node: NodeReport, causes: int) -> tuple[object, ...]:
    counts = Counter(record.verdict for record in node.records if not record.waiver)
    claims = [tuple(each.claim for each in node.claims if each.state is state) for state in State]
    about = (node.node, node.verdict.value, node.platform, node.rack, node.unreachable, node.gpus, causes)
    waived = sum(bool(record.waiver) for record in node.records)
    return (*about, *(counts[each] for each in Verdict), waived, *claims, dict(node.serials), dict(node.identity))


def _causes(report: Report) -> Iterator[tuple[object, ...]]:
    for cause, row in zip(report.causes, cause_rows(report), strict=True):
        what = (row.part, cause.part.kind.value, _serial(cause.part), row.sort, row.severity, cause.verdict.value)
        said = (cause.condition, row.what, cause.action, cause.waiver, cause.decisive.check)
        yield (row.anchor, cause.nodes, cause.place, *what, *said, len(cause.findings), len(cause.follows))


def _finding(record: Record, finding: Finding) -> tuple[object, ...]:
    part, limit = finding.part, finding.limit
    whole = part.of or part
    held_to = (limit.value, limit.unit, limit.direction, limit.kind.value, limit.source) if limit else (None, *[""] * 4)
    why = finding.why.value if finding.why else ""
    return (
        *(record.node, record.check, finding.verdict.value),
        *(part.short, part.kind.value, part.index, whole.pci, whole.serial, tuple(each.short for each in finding.also)),
        *(finding.quantity, finding.observed, finding.unit, finding.metric, *held_to, finding.share),
        *(finding.text, finding.note, finding.action, finding.code, why, finding.blocked_by, finding.lacks),
        *(record.waiver, finding.message),
    )


def _values(records: Iterable[Record], looks: Looks) -> Iterator[tuple[object, ...]]:
    """The numbers of a node; one that was measured and is in a second finding without its metric counts once."""
    found = [(record, finding) for record in records for finding in record.findings]
    measured = {_number(finding) for _, finding in found if finding.metric}
    for record, finding in found:
        value = number(finding.observed)
        is_again = not finding.metric and _number(finding) in measured
        if value is None or is_again or not (finding.metric or finding.quantity):
            continue
        look = looks.of(record, finding)
        rest = (finding.quantity, finding.metric, value, finding.unit, look, record.check, finding.verdict.value)
        yield from ((record.node, part.short, _serial(part), *rest) for part in finding.parts)


def _number(finding: Finding) -> tuple[object, ...]:
    return finding.part, finding.quantity, finding.observed, finding.unit


def _serial(part: Part) -> str:
    """The serial number of what is replaced: of a port its NIC's."""
    return (part.of or part).serial
