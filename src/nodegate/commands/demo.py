"""`nodegate demo`: judge the recorded fleet, and compare what was found with what was planted."""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from nodegate.demo.verify import compare, read_faults
from nodegate.files.paths import CHECKS, INVENTORY, suite_folder
from nodegate.records.results import read


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="where the run folder goes (default: reports/<time>-delivery)"
    )


def run(asked: argparse.Namespace) -> int:
    """Run pytest over the demo fleet.

    Returns 0 when exactly the planted faults were found, 1 if not, 2 if the run itself did not finish.
    """
    run_dir: Path | None = asked.run_dir
    folder = suite_folder(INVENTORY)
    inventory = folder / "demo.yaml"
    shown = inventory.relative_to(Path.cwd()) if inventory.is_relative_to(Path.cwd()) else inventory
    quiet = ["-p", "no:cacheprovider"]
    where = ["--run-dir", str(run_dir)] if run_dir else []
    print(f"pytest --inventory {shown}", flush=True)
    # nodegate's checks alone: those of a site do not know these nodes.
    command = [sys.executable, "-m", "pytest", str(suite_folder(CHECKS)), "--inventory", str(shown), *quiet, *where]
    with TemporaryDirectory() as past:  # recorded nodes have no history, and leave none to nodes of the same names
        done = subprocess.run([*command, "--record", f"{past}/fleet.sqlite"], check=False)
    if done.returncode not in (0, 1):  # then `latest` belongs to another run
        print(f"demo: pytest ended with exit code {done.returncode}")
        return 2
    kept = run_dir or Path("reports/latest")
    differences = compare(read(kept), read_faults(folder / "demo" / "faults.yaml"))
    for line in differences.lines():
        print(line)
    print(kept / "report.html")
    return int(bool(differences))
