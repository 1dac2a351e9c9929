"""Real `pytest --inventory hosts.yaml` runs over the lab's machines, and what they said of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodegate.facts import NodeFacts
from nodegate.probe.document import document_of
from nodegate.records.results import read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from nodegate.records.finding import Record

ROOT = Path(__file__).parent.parent
LIMIT_S = 900.0


@dataclass(frozen=True)
class Outcome:
    """What a run left behind: `output` is what it printed, `folder` its run folder."""

    exit_code: int
    output: str
    folder: Path
    took_s: float

    @property
    def records(self) -> list[Record]:
        """Everything that it said."""
        return read(self.folder)

    def of(self, node: str) -> dict[str, Record]:
        """Check -> what it said of a node."""
        return {record.check: record for record in self.records if record.node == node}

    def record(self, node: str, check: str) -> Record:
        """What a check said of a node."""
        return next(record for record in self.records if (record.node, record.check) == (node, check))

    def verdict(self, node: str, check: str) -> str:
        """The verdict of a check on a node; empty where it has none."""
        found = (record.verdict.value for record in self.records if (record.node, record.check) == (node, check))
        return next(found, "")

    def words(self, node: str, check: str) -> str:
        """All that a check said of a node."""
        return words_of(self.record(node, check))

    def facts(self, node: str) -> NodeFacts:
        """What the probe read on a node."""
        written = json.loads((self.folder / "evidence" / node / "facts.json").read_text())
        return NodeFacts(document_of(written["document"]))

    def ran(self, node: str, measurement: str) -> list[dict[str, Any]]:
        """What ran on a node for a measurement, all attempts."""
        return [ran for attempt in self._measured(node, measurement)["attempts"] for ran in attempt["runs"]]

    def values(self, node: str, measurement: str) -> dict[tuple[str, str], float]:
        """(metric, device) -> the best value that was measured on a node."""
        written = self._measured(node, measurement)["values"]
        return {(each["metric"], each["device"]): max(each["values"]) for each in written}

    def _measured(self, node: str, measurement: str) -> dict[str, Any]:
        written = json.loads((self.folder / "evidence" / node / f"{measurement}.json").read_text())
        found: dict[str, Any] = written["document"]
        return found


def words_of(record: Record) -> str:
    """All that a record says, its findings' lines included."""
    return "\n".join([record.message, *(finding.message for finding in record.findings)])


class Run:
    """One run in a folder of its own, started at once; `outcome` waits for its end, a `with` block ends it.

    `inventory`: the text of its hosts.yaml. `within`: a program that runs another where the machines are reached.
    """

    def __init__(self, folder: Path, inventory: str, *arguments: str, within: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts.yaml").write_text(inventory)
        command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest"]  # who runs nodegate does not have it
        command += ["--inventory", "hosts.yaml", "-q", "--tb=short", *arguments]
        self.folder, self._begun_s = folder, time.monotonic()
        self._outcome: Outcome | None = None
        self.process = subprocess.Popen(
            [*within, *command],
            cwd=folder,
            env={**os.environ, "PY_COLORS": "0", "COLUMNS": "200", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def elapsed_s(self) -> float:
        """Since its start."""
        return time.monotonic() - self._begun_s

    def outcome(self, limit_s: float = LIMIT_S) -> Outcome:
        """What it left behind.

        Raises:
            subprocess.TimeoutExpired: it did not end in time.
        """
        if self._outcome is None:
            output, _ = self.process.communicate(timeout=limit_s)
            took_s = time.monotonic() - self._begun_s
            self._outcome = Outcome(self.process.returncode, output, self.folder / "reports" / "latest", took_s)
        return self._outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """End it as `kill -9` by hand, if it still runs."""
        self.process.kill()
        if self._outcome is None:
            self.process.communicate()

    def wait_for(self, true: Callable[[], bool], limit_s: float = 180.0, step_s: float = 0.1) -> None:
        """Wait for something while the run goes on.

        Raises:
            RuntimeError: the run ended before, or it did not come true.
        """
        end_s = time.monotonic() + limit_s
        while not true():
            if self.process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"it did not happen during the run: {self.outcome().output[-2000:]}")
            time.sleep(step_s)
