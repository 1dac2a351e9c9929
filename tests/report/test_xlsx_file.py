"""The workbook of a run: its sheets say what the run's own tables say, and nothing in it is run by Excel."""

import sys
from pathlib import Path

import openpyxl
import pytest
from support.recorded import run_pytest

from nodegate import cli, open_run
from nodegate.records.manifest import Manifest
from nodegate.report import xlsx_file

INVENTORY = Path(__file__).parents[2] / "inventory" / "demo.yaml"


def sheet(book: openpyxl.Workbook, name: str) -> list[dict[str, object]]:
    head, *rows = book[name].iter_rows(values_only=True)
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_the_sheets_are_the_tables_of_the_run(tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "run.xlsx"
    run_pytest(tmp_path, ["--inventory", str(INVENTORY), "--nodes", "hgx0[5-7]", "--run-dir", str(run)])
    assert cli.main(["report", str(run), "--xlsx", str(file)]) == 0
    book, own = openpyxl.load_workbook(file), open_run(run)
    nodes = {row["node"]: row["verdict"] for row in sheet(book, "nodes")}
    assert nodes == dict(zip(own.nodes["node"], own.nodes["verdict"], strict=True))
    assert [row["what"] for row in sheet(book, "causes")] == own.causes["message"].to_list()
    assert len([row for row in sheet(book, "findings") if row["device"]]) == len(own.findings)
    numbers = {row["value"] for row in sheet(book, "findings") if isinstance(row["value"], float)}
    assert len(numbers & set(own.values["value"])) > 0
    refuted = {row["claim"]: row["refuted on"] for row in sheet(book, "criteria")}
    assert refuted == {claim: sum(claim in each for each in own.nodes["refuted"]) for claim in refuted}
    assert [(row["sha256"], row["file"]) for row in sheet(book, "manifest")][1:] == Manifest(run).lines()


def test_text_is_no_formula_and_no_link(tmp_path: Path) -> None:
    file = tmp_path / "run.xlsx"
    hostile = [("text",), ("=HYPERLINK(1)",), ("https://x.example",), ("\x1b[2J" + "x" * 40_000,), (float("nan"),)]
    with xlsx_file.workbook(file) as book:
        xlsx_file._sheet(book, "t", hostile)
    cells = [row[0] for row in openpyxl.load_workbook(file)["t"].iter_rows(min_row=2)]
    assert [cell.data_type for cell in cells[:3]] == ["s", "s", "s"]
    assert not any(cell.hyperlink for cell in cells)


def test_without_the_extra_it_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    assert cli.main(["report", str(tmp_path), "--xlsx", str(tmp_path / "a.xlsx")]) == cli.CANNOT_TELL
    assert "pip install 'nodegate[xlsx]'" in capsys.readouterr().err
