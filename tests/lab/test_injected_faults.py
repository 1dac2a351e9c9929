"""docs/evidence/injected-faults.md is what the lab has shown: a row for each test that injects one."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab.fault_table import LONGEST, Row, page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "injected-faults.md"
ROW = re.compile(r'^\| \[(?P<fault>[^]]+)\]\(\.\./\.\./(?P<file>\S+) "(?P<test>\w+)"\) \|', re.MULTILINE)


def injecting():
    """The tests that note what was said of a fault: those that ask for `told`."""
    files = [*(ROOT / "lab" / "tests").rglob("test_*.py"), *(ROOT / "tests" / "endtoend").glob("test_*.py")]
    return {
        (str(file.relative_to(ROOT)), node.name)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and "told" in {argument.arg for argument in node.args.args}
    }


def test_the_page_has_a_row_for_each_test_that_injects_a_fault_and_no_other():
    assert {(row["file"], row["test"]) for row in ROW.finditer(PAGE.read_text())} == injecting(), (
        "make lab-table writes the page"
    )


@pytest.mark.parametrize("said", ["a | b", "<script>", "w" * 500])
def test_whatever_a_check_says_stays_in_its_cell(said):
    row = Row("lab/tests/test_x.py::test_y", "a fault", "by hand", "rejected", "gpu.lost", "fail", said, 3.2)
    (line,) = [line for line in page([row]).splitlines() if ROW.match(line)]
    head = next(line for line in page([row]).splitlines() if line.startswith("| fault"))
    assert len(re.split(r"(?<!\\)\|", line)) == len(head.split("|"))
    assert "<" not in line
    assert len(line) < LONGEST + 200


def test_what_was_passed_stands_apart_from_what_was_found():
    found = Row("lab/tests/test_x.py::test_y", "a fault", "by hand", "rejected", "gpu.lost", "fail", "lost", 3.2)
    passed = replace(found, fault="no fault", node_verdict="accepted", verdict="pass")
    head, _, harmless = page([passed, found]).partition("## What only looks like a fault")
    assert [row["fault"] for row in ROW.finditer(head)] == ["a fault"]
    assert [row["fault"] for row in ROW.finditer(harmless)] == ["no fault"]
