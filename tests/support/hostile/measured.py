"""A run over a fleet of sshds, and what it cost the controller: for the test of the hostile fleet and for the bench."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.run import ROOT
from nodegate.files.gz import content

LOOK_EVERY_S = 0.2
_MOST_BYTES = 64 << 20  # of one file of evidence


@dataclass(frozen=True)
class Measured:
    """One run. `cpu_s`, `memory_mib` and `threads` (the most at one look) are of the pytest process alone."""

    pid: int
    exit_code: int
    said: str
    cpu_s: float
    wall_s: float
    memory_mib: float
    threads: int
    folder: Path  # the run folder

    def report(self):
        """The content of report.json."""
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return found

    def facts(self):
        """The evidence of the facts of each node."""
        files = self.folder.glob("evidence/*/facts.json*")
        return {file.parent.name: json.loads(content(file, file.read_bytes(), _MOST_BYTES)) for file in files}


def run(folder, arguments):
    """Run pytest over `hosts.yaml` of a folder, in a session of its own."""
    began_s = time.monotonic()
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "--inventory", "hosts.yaml", *arguments],
            cwd=folder,
            env={**os.environ, "PY_COLORS": "0", "COLUMNS": "200", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        looks: list[int] = []
        ended = threading.Event()
        looking = threading.Thread(target=_look, args=(process.pid, looks, ended))
        looking.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began_s
        ended.set()
        looking.join()
    return Measured(
        process.pid,
        process.returncode,
        (folder / "said").read_text(),
        usage.ru_utime + usage.ru_stime,
        wall_s,
        usage.ru_maxrss / 1024,
        max(looks, default=0),
        (folder / "reports" / "latest").resolve(),
    )


def _look(pid, looks, ended):
    """Count the threads of a process until it has ended."""
    with contextlib.suppress(OSError):
        while not ended.wait(LOOK_EVERY_S):
            looks.append(sum(1 for _ in Path(f"/proc/{pid}/task").iterdir()))
