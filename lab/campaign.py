"""Real `pytest --inventory hosts.yaml` runs over the guests of a lab, and what they said."""

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
from nodegate.node import Connection, Node
from nodegate.probe.collect import collect
from nodegate.report.jsonl import read
from nodegate.transport import Options, connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from lab.guest import Guest
    from lab.together import Lab
    from nodegate.judge.verdict import Record

ROOT = Path(__file__).parent.parent
CHECKS = ROOT / "checks" / "test_rdma_bandwidth.py"
BASELINE = Path(__file__).with_name("baseline.yaml")
LIMIT_S = 900.0


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    exit_code: int
    output: str
    folder: Path
    took_s: float

    @property
    def records(self) -> list[Record]:
        """Everything that it said."""
        return read(self.folder / "results.jsonl")

    def record(self, node: str, check: str) -> Record:
        """What it said of a node."""
        return next(record for record in self.records if (record.node, record.check) == (node, check))

    def verdict(self, node: str, check: str) -> str:
        """The verdict of a check on a node; empty where it has none."""
        found = (record.verdict.value for record in self.records if (record.node, record.check) == (node, check))
        return next(found, "")

    def words(self, node: str, check: str) -> str:
        """All that a check said of a node."""
        record = self.record(node, check)
        return "\n".join([record.message, *(f"{each.subject}: {each.message}" for each in record.findings)])

    def ran(self, node: str) -> list[dict[str, Any]]:
        """What ran on a node for the measurement, all attempts."""
        return [ran for attempt in self._measured(node)["attempts"] for ran in attempt]

    def values(self, node: str) -> dict[tuple[str, str], float]:
        """(metric, device) -> the best value that was measured on a node."""
        return {(each["metric"], each["device"]): max(each["values"]) for each in self._measured(node)["values"]}

    def _measured(self, node: str) -> dict[str, Any]:
        written = json.loads((self.folder / "evidence" / node / "rdma_bandwidth.json").read_text())
        found: dict[str, Any] = written["document"]
        return found


class Campaign:
    """One run, started at once; `outcome` waits for its end."""

    def __init__(self, lab: Lab, folder: Path, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        known_hosts = folder / "known_hosts"
        known_hosts.write_text(lab.known_hosts())
        (folder / "hosts.yaml").write_text(lab.inventory(known_hosts))
        command = [sys.executable, "-m", "pytest", "-p", "lab.patience", str(CHECKS), "--inventory", "hosts.yaml"]
        self.folder, self._begun_s = folder, time.monotonic()
        self.process = subprocess.Popen(
            [*command, "--baseline", str(BASELINE), "-q", "--tb=short", *arguments],
            cwd=folder,
            env={**os.environ, "PY_COLORS": "0", "COLUMNS": "200", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def outcome(self, limit_s: float = LIMIT_S) -> Outcome:
        """What it left behind.

        Raises:
            subprocess.TimeoutExpired: it did not end in time.
        """
        output, _ = self.process.communicate(timeout=limit_s)
        took_s = time.monotonic() - self._begun_s
        return Outcome(self.process.returncode, output, self.folder / "reports" / "latest", took_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End it, if it still runs."""
        self.process.kill()
        self.process.communicate()

    def wait_for(self, true: Callable[[], bool], limit_s: float = 180.0) -> None:
        """Wait for something while the run goes on.

        Raises:
            RuntimeError: the run ended before, or it did not come true.
        """
        end_s = time.monotonic() + limit_s
        while not true():
            if self.process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"it did not happen during the run: {self.outcome().output[-2000:]}")
            time.sleep(0.1)


def facts(guest: Guest, folder: Path) -> NodeFacts:
    """What nodegate's probe reads on a guest, over SSH."""
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(guest.known_host())
    connection = Connection(
        address="127.0.0.1",
        port=guest.ssh_port,
        user="root",
        key_files=(str(guest.image.user_key),),
        python="/usr/bin/python3",
        ssh_args=("-F", "none", "-o", f"UserKnownHostsFile={known_hosts}", "-o", "IdentityAgent=none"),
    )
    session = connect(Node(guest.name, connection=connection), Options())
    try:
        return NodeFacts(collect(session))
    finally:
        session.close()
