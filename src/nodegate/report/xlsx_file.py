"""A run as one workbook for Excel: nodes, criteria, causes, every finding, and the manifest of its evidence."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nodegate.errors import UsageError
from nodegate.records.manifest import MANIFEST, Manifest
from nodegate.records.verdict import Verdict
from nodegate.report import csv_file
from nodegate.report.cause_rows import cause_rows
from nodegate.report.claim_rows import claim_rows
from nodegate.report.json_file import load
from nodegate.report.model import Report
from nodegate.text import visible

_MOST_ROWS = 1_048_576  # of a sheet, and characters of a cell: Excel's own limits
_MOST_LETTERS = 32_767
_CRITERIA = ("claim", "title", "proven on", "refuted on", "not proven on", "signed for on", "shown", "reasons")
_CAUSES = ("severity", "class", "nodes", "racks", "part", "what", "action", "waiver", "findings that follow")


def write(run: Path, file: Path) -> None:
    """Write the workbook of a run folder; text is never a formula or a link.

    Raises:
        UsageError: XlsxWriter is missing, the run cannot be read, or the file cannot be written.
    """
    with workbook(file) as book:
        report, manifest = load(run), Manifest(run)
        itself = [(manifest.sha256, MANIFEST)] if manifest.exists else []
        sheets = {
            "nodes": csv_file.node_rows(report),
            "criteria": _criteria(report),
            "causes": _causes(report),
            "findings": csv_file.finding_rows(report, frozenset(Verdict)),
            "manifest": (("sha256", "file"), *itself, *manifest.lines()),
        }
        for name, rows in sheets.items():
            _sheet(book, name, rows)


@contextlib.contextmanager
def workbook(file: Path) -> Iterator[Any]:
    """A workbook in which text is text, written at the end.

    Raises:
        UsageError: XlsxWriter is missing, or the file cannot be written.
    """
    try:
        import xlsxwriter  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError("a workbook needs XlsxWriter", hint="pip install 'nodegate[xlsx]'") from None
    plain = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}
    try:
        with xlsxwriter.Workbook(str(file), plain) as book:
            yield book
    except (OSError, xlsxwriter.exceptions.FileCreateError) as broken:
        raise UsageError(f"cannot be written: {broken}", file=str(file)) from broken


def _sheet(book: Any, name: str, rows: Iterable[tuple[object, ...]]) -> None:
    """One table, on as many sheets as its rows need, each with the header."""
    bold = book.add_format({"bold": True})
    head: tuple[object, ...] = ()
    sheet, at, number = None, 0, 0
    for row in rows:
        head = head or row
        if sheet is None or at == _MOST_ROWS:
            number += 1
            sheet = book.add_worksheet(name if number == 1 else f"{name} {number}")
            sheet.freeze_panes(1, 1)
            sheet.set_column(0, len(head), 16)
            sheet.write_row(0, 0, head, bold)
            at = 1
        if row is not head:
            sheet.write_row(at, 0, [_cell(value) for value in row])
            at += 1


def _cell(value: object) -> object:
    if isinstance(value, (bool, int, float)):
        return value
    return visible("" if value is None else str(value))[:_MOST_LETTERS]


def _criteria(report: Report) -> Iterator[tuple[object, ...]]:
    yield _CRITERIA
    for row in claim_rows(report):
        open_on = [len(gap.nodes) for gap in row.gaps if not gap.signed]
        signed = [len(gap.nodes) for gap in row.gaps if gap.signed]
        why = "; ".join(f"{gap.why} ({', '.join(gap.nodes)})" for gap in row.gaps)
        yield (row.claim, row.title, len(row.proven), len(row.refuted), sum(open_on), sum(signed), row.amounts, why)


def _causes(report: Report) -> Iterator[tuple[object, ...]]:
    yield _CAUSES
    for row in cause_rows(report):
        where = ("; ".join(row.nodes), "; ".join(row.racks))
        yield (row.severity, row.sort, *where, row.part, row.what, row.action, row.waiver, row.follow_count)
