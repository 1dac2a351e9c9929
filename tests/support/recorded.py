"""A recorded fleet on disk, and real pytest runs over it."""

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from fleet.load.recordings import recordings
from support import warm

from nodegate.records.results import read


def write_fleet(folder, machines):
    """Everything that is recorded of these machines, and an inventory that replays them; returns the inventory."""
    lines = ["all:", "  vars:", "    ansible_connection: replay", "    nodegate_recordings: recordings", "  hosts:"]
    for name, found in recordings(tuple(machines)).items():
        (folder / "recordings" / name).mkdir(parents=True)
        for measurement, document in found.items():
            (folder / "recordings" / name / f"{measurement}.json").write_text(json.dumps(document))
        lines.append(f"    {name}:")
    inventory = folder / "hosts.yaml"
    inventory.write_text("\n".join(lines) + "\n")
    return inventory


def copied_run(ended, to):
    """A copy of the run of this folder beside a copy of its inventory, which a resumed run finds."""
    for name in ("recordings", "run"):
        shutil.copytree(ended / name, to / name)
    shutil.copy(ended / "hosts.yaml", to)
    kept = json.loads((to / "run/run.json").read_text())
    kept["asked"]["inventory"] = [str(to / "hosts.yaml")]
    (to / "run/run.json").write_text(json.dumps(kept))
    return to / "run"


@dataclass(frozen=True)
class PytestOutcome:
    """What a pytest run left behind."""

    exit_code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def records(self):
        """The lines of its results.jsonl."""
        return read(self.folder)

    def verdicts(self, check):
        """Node -> verdict of one check."""
        return {record.node: record.verdict.value for record in self.records if record.check == check}


def run_pytest(where, arguments, *, timeout_s=120, cold=False, **environment):
    """`python -m pytest ARGUMENTS` in a folder of its own, as a user would type it; `cold`: in a new interpreter."""
    done = warm.run(
        [sys.executable, "-m", "pytest", *arguments],
        cold=cold,
        cwd=where,
        env={**os.environ, "PY_COLORS": "0", "COLUMNS": "200", **environment},
        stdin=warm.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return PytestOutcome(done.returncode, done.stdout, done.stderr, where / "reports" / "latest")
