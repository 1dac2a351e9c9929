"""`nodegate demo`: judge the recorded fleet, and compare what was found with what was planted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nodegate.demo.verify import compare, read_faults
from nodegate.paths import INVENTORY, suite_folder
from nodegate.report.jsonl import read


def show(run_dir: Path | None) -> int:
    """Run pytest over the demo fleet. Returns 0 when exactly the planted faults were found, 1 otherwise."""
    folder = suite_folder(INVENTORY)
    inventory = folder / "demo.yaml"
    shown = inventory.relative_to(Path.cwd()) if inventory.is_relative_to(Path.cwd()) else inventory
    command = ["-m", "pytest", "--inventory", str(shown), "-q", "--tb=no", "--no-summary", "-p", "no:cacheprovider"]
    where = ["--run-dir", str(run_dir)] if run_dir else []
    print(f"pytest --inventory {shown}", flush=True)
    subprocess.run([sys.executable, *command, *where], check=False)
    run = run_dir or Path("reports/latest")
    differences = compare(read(run / "results.jsonl"), read_faults(folder / "demo" / "faults.yaml"))
    for line in differences.lines():
        print(line)
    print(run / "report.html")
    return int(bool(differences))
