"""Real `pytest --inventory hosts.yaml` runs in the network of a lab, and what they said of its nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from support.recorded import PytestOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from support.node_faults import Fault
    from support.nspawn import Lab, LabNode

    from nodegate.judge.verdict import Record

LIMIT_S = 120.0


class NodeRun:
    """One run over some nodes of the lab, started at once; `outcome` waits for its end."""

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        nodes: Sequence[LabNode],
        *arguments: str,
        variables: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        (folder / "hosts.yaml").write_text(lab.inventory([node.name for node in nodes], variables or {}))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--inventory",
            "hosts.yaml",
            "--passive",
            "-q",
            "--tb=no",
            *arguments,
        ]
        self.folder = folder
        self.process = subprocess.Popen(
            lab.in_network(*command),
            cwd=folder,
            env={**os.environ, "PY_COLORS": "0", "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._outcome: PytestOutcome | None = None

    def outcome(self) -> PytestOutcome:
        """What it left behind."""
        if self._outcome is None:
            stdout, stderr = self.process.communicate(timeout=LIMIT_S)
            code = self.process.returncode
            self._outcome = PytestOutcome(code, stdout, stderr, self.folder / "reports" / "latest")
        return self._outcome

    def kill(self) -> None:
        """As `kill -9` by hand."""
        self.process.kill()
        self.process.communicate()


def run_with_faults(lab: Lab, folder: Path, faults: Mapping[str, Fault]) -> PytestOutcome:
    """A run over the nodes named in `faults`, each with its fault for as long as the run takes."""
    nodes = [node for node in lab.nodes if node.name in faults]
    with ExitStack() as broken:
        variables = {node.name: broken.enter_context(faults[node.name](node)) for node in nodes}
        return NodeRun(lab, folder, nodes, variables=variables).outcome()


def records_of(outcome: PytestOutcome, node: str) -> dict[str, Record]:
    """Check -> what it says of the node."""
    return {record.check: record for record in outcome.records if record.node == node}


def words_of(record: Record) -> str:
    """All that a record says, its findings' lines included."""
    return "\n".join([record.message, *(f"{finding.subject}: {finding.message}" for finding in record.findings)])
