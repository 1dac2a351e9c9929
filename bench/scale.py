"""How long a run over recorded nodes takes, and what it writes: python bench/scale.py [NODES] [PYTEST ARGUMENTS]."""

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
from fleet.machine import Machine

LINES = "all:\n  vars: {ansible_connection: replay, nodegate_recordings: recordings}\n  hosts:\n"


def main() -> None:
    count, arguments = int(sys.argv[1] if len(sys.argv) > 1 else "128"), sys.argv[2:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [LINES]
        for number in range(1, count + 1):
            machine = Machine.hgx_h100(f"gpu{number:05}", number)
            file = folder / "recordings" / machine.name / "facts.json"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps(machine.document()))
            lines.append(f"    {machine.name}:\n")
        (folder / "hosts.yaml").write_text("".join(lines))
        command = [sys.executable, "-m", "pytest", "--inventory", "hosts.yaml", "-q", "--tb=no", "--no-summary"]
        started = time.monotonic()
        done = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - started
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(next((line for line in done.stdout.splitlines() if re.match(r"\d.* of \d+ nodes?", line)), done.stdout))
        print(f"{count} nodes: {wall_s:.1f} s wall, {usage.ru_utime + usage.ru_stime:.1f} s CPU, ", end="")
        print(f"{usage.ru_maxrss / 1024:.0f} MiB at most, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        for file in sorted((folder / "reports" / "latest").iterdir()):
            if file.is_file():
                print(f"  {file.name:<16} {file.stat().st_size / 1e6:8.2f} MB")


if __name__ == "__main__":
    main()
