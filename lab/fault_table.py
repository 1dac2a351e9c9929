"""What a test has shown of an injected fault: a row of docs/evidence/injected-faults.md.

    def test_a_stopped_manager_fails(told: Told) -> None:
        ...
        told.run("fabric manager stopped", "systemctl stop", outcome=outcome, node="gpu-2", check="fabric.manager",
                 words="service inactive")

Rows are written where NODEGATE_LAB_TABLE names a file; `python -m lab table` makes the page of them.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nodegate.claims.verdict import node_verdict
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.run import Outcome

FILE = "NODEGATE_LAB_TABLE"
LONGEST = 160
_HEAD = f"""# Injected faults

Written by `make lab-table` from what the lab's tests saw: in each row a fault was injected on a
real node or guest, and `pytest --inventory`, or the hook that is named, had to find it. The words
are the check's own, cut at {LONGEST} characters. Seconds count from the fault, or from the start of
the run if the fault was there before, to the end of the run with its report; on two processor
cores, with other tests running.
"""
_COLUMNS = """
| fault | injected by | node | check | verdict | its words | seconds |
|---|---|---|---|---|---|---|
"""
_HARMLESS = """
## What only looks like a fault

Such a node is fit, and an alarm would be a false one.
"""


@dataclass(frozen=True)
class Row:
    """One fault and what was said of it."""

    test: str
    fault: str
    injected: str
    node_verdict: str
    check: str
    verdict: str
    words: str
    seconds: float


class Told:
    """Notes what was said of an injected fault, and asserts that it was said."""

    def __init__(self, test: str) -> None:
        self._test = test

    def run(
        self, fault: str, injected: str, *, outcome: Outcome, node: str, check: str, words: str, since_s: float = 0.0
    ) -> None:
        """A check of a run has these words. `since_s`: seconds from the run's start to the fault."""
        line = _line(outcome.words(node, check), words)
        said = outcome.of(node)
        reached = "node.reachable" not in said or said["node.reachable"].verdict is not Verdict.ERROR
        node_said = node_verdict(said.values(), reachable=reached).value
        took_s = outcome.took_s - since_s
        self._write(fault, injected, node_said, check, outcome.verdict(node, check), line, took_s)

    def hook(
        self, fault: str, injected: str, *, hook: str, node_state: str, said: str, words: str, seconds: float
    ) -> None:
        """A hook of a scheduler has these words, and the scheduler has put the node in this state."""
        self._write(fault, injected, node_state, hook, "", _line(said, words), seconds)

    def _write(self, *cells: object) -> None:
        row = Row(self._test, *cells)  # type: ignore[arg-type]
        if os.environ.get(FILE):
            with Path(os.environ[FILE]).open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")


def _line(said: str, words: str) -> str:
    found = next((line.strip() for line in said.splitlines() if words in line), None)
    assert found is not None, f"it does not say {words!r}: {said}"  # noqa: S101 - a test's own
    return found


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Told:
    """Where a test notes what it has seen."""
    return Told(request.node.nodeid.partition("[")[0])


def page(rows: Iterable[Row]) -> str:
    """The page of these rows, in their tests' order; what was rightly passed has its own table."""
    lines: dict[bool, list[str]] = {False: [], True: []}
    for row in rows:
        lines[row.verdict == "pass"].append(f"| {' | '.join(map(_cell, _cells(row)))} |\n")
    return "".join([_HEAD, _COLUMNS, *lines[False], _HARMLESS, _COLUMNS, *lines[True]])


def _cells(row: Row) -> list[str]:
    file, _, test = row.test.rpartition("::")
    words = row.words if len(row.words) <= LONGEST else row.words[: LONGEST - 3] + "..."
    fault = f'[{row.fault}](../../{file} "{test}")'
    return [fault, row.injected, row.node_verdict, row.check, row.verdict, words, f"{row.seconds:.0f}"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def read(file: Path) -> list[Row]:
    """The rows of a file, the last of each (test, fault)."""
    rows = [Row(**json.loads(line)) for line in file.read_text().splitlines()]
    return list({(row.test, row.fault): row for row in rows}.values())
