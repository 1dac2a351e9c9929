"""What a test has shown of an injected fault: a row of docs/injected-faults.md.

    def test_a_stopped_manager_fails(told, ...):
        ...
        told("fabric manager stopped", "systemctl stop", outcome, "gpu-2", "fabric.manager", "service inactive")

Rows are written where NODEGATE_LAB_TABLE names a file; `python -m lab table` makes the page of them.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nodegate.judge.verdict import node_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lab.run import Outcome

FILE = "NODEGATE_LAB_TABLE"
LONGEST = 160
_HEAD = """# Injected faults

Written by `make lab-table` from what the lab's tests saw: each row is one test, in which a fault was injected on a real
node or guest and `pytest --inventory` (or the hook that is named) had to find it. The words are the check's own, cut
at {longest} characters. Seconds count from the fault, or from the start of the run where it stood before, to the end of
the run with its report; machines of two cores, with other tests beside it.

| fault | injected by | node | check | verdict | its words | seconds |
|---|---|---|---|---|---|---|
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


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Notes what a check said of an injected fault, and asserts that it said these words."""

    def note(
        fault: str, injected: str, outcome: Outcome, node: str, check: str, words: str, *, seconds: float | None = None
    ) -> None:
        said = outcome.words(node, check)
        line = next((line for line in said.splitlines() if words in line), None)
        assert line is not None, f"{check} of {node} does not say {words!r}: {said}"  # noqa: S101 - it is a test's
        verdict = node_verdict(outcome.of(node).values()).value
        took_s = outcome.took_s if seconds is None else seconds
        test = request.node.nodeid.partition("[")[0]
        write(Row(test, fault, injected, verdict, check, outcome.verdict(node, check), line, took_s))

    return note


def write(row: Row) -> None:
    """Add a row to the file that was asked for, if one was."""
    if os.environ.get(FILE):
        with Path(os.environ[FILE]).open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def page(rows: Iterable[Row]) -> str:
    """The page of these rows, in their tests' order."""
    lines = []
    for row in rows:
        words = row.words if len(row.words) <= LONGEST else row.words[: LONGEST - 3] + "..."
        cells = [row.fault, row.injected, row.node_verdict, row.check, row.verdict, words, f"{row.seconds:.0f}"]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return _HEAD.format(longest=LONGEST) + "\n".join(lines) + "\n"


def read(file: Path) -> list[Row]:
    """The rows of a file, the last of each (test, fault)."""
    rows = [Row(**json.loads(line)) for line in file.read_text().splitlines()]
    return list({(row.test, row.fault): row for row in rows}.values())
