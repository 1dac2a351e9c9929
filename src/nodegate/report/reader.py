"""A report read back from a run folder: to render it again, redact it, compare it or send it on."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.bounded import read_whole
from nodegate.records.finding import Record
from nodegate.records.results import RESULTS, fingerprint, is_cut, read
from nodegate.records.run import CheckInfo, NodeReport, shared
from nodegate.records.store import from_bytes
from nodegate.report.json_file import SCHEMA, ReportFile
from nodegate.report.model import Report, by_check

MOST_BYTES = 1 << 28  # 1,250 nodes have ten megabytes
_OTHER = "another release wrote it: judge its evidence again (pytest --replay FOLDER)"


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
    return _report(found, _results(found, folder))


def _results(known: ReportFile, folder: Path) -> Iterable[Record]:
    """The results beside it, if they are those that the report was made from."""
    if known.details.results == RESULTS and fingerprint(folder) != (known.results_sha256, known.details.lines):
        hint = "continue the run (pytest --resume), or judge its evidence again (pytest --replay)"
        said = "is cut off" if is_cut(folder) else "does not belong to this report.json"
        raise UsageError(said, file=str(folder / RESULTS), hint=hint)
    return read(folder)


def _report(found: ReportFile, results: Iterable[Record]) -> Report:
    checks = {row.check: CheckInfo(row.title, row.failure_modes) for row in found.checks}
    by_node = groupby(sorted(results, key=lambda record: record.node), key=lambda record: record.node)
    records = {node: tuple(by_check(own, checks)) for node, own in by_node}
    nodes = tuple(NodeReport(**shared(row, NodeReport), records=records.get(row.node, ())) for row in found.nodes)
    return Report(found.run, nodes, found.drift, checks, found.policy)
