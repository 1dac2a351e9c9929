"""A run under load over recorded nodes, all measurements judged again: python bench/load.py [NODES] [PYTEST ARGUMENTS].

Time and memory are the controller's alone: no node is contacted. Nodes are recorded in racks that are measured with
each other, so that making them takes no longer than the run.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # the made-up nodes are the tests'
from fleet.load.recordings import recordings
from fleet.machine import Machine

HEAD = "all:\n  vars: {ansible_connection: replay, nodegate_recordings: recordings}\n  hosts:\n"
RACK = 25


def main() -> None:
    count, arguments = int(sys.argv[1] if len(sys.argv) > 1 else "128"), sys.argv[2:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = record(folder, count)
        command = [sys.executable, "-m", "pytest", "--inventory", "hosts.yaml", "-q", "--tb=no", "--no-summary"]
        started = time.monotonic()
        done = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - started
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(next((line for line in done.stdout.splitlines() if re.match(r"\d.* of \d+ nodes?", line)), done.stdout))
        print(f"{count} nodes, {written / 1e6:.0f} MB recorded: {wall_s:.1f} s wall, ", end="")
        print(f"{usage.ru_utime + usage.ru_stime:.1f} s CPU, {usage.ru_maxrss / 1024:.0f} MiB at most, ", end="")
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")


def record(folder: Path, count: int) -> int:
    """Write the recordings and the inventory of so many nodes; their bytes."""
    lines, written = [HEAD], 0
    for first in range(1, count + 1, RACK):
        rack = [Machine.hgx_h100(f"gpu{at:05}", at) for at in range(first, min(first + RACK, count + 1))]
        for node, measured in recordings(rack).items():
            place = folder / "recordings" / node
            place.mkdir(parents=True)
            for measurement, document in measured.items():
                written += (place / f"{measurement}.json").write_text(json.dumps(document))
            lines.append(f"    {node}:\n")
    (folder / "hosts.yaml").write_text("".join(lines))
    return written


if __name__ == "__main__":
    main()
