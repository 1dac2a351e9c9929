"""What a run over recorded nodes costs the controller: CPU, memory, bytes; of several sizes, so that the slope is seen.

    python bench/scale.py 64 256 1250                      facts alone (--passive)
    python bench/scale.py --load 64 256                    with the evidence of a run under load
    python bench/scale.py 64 --before ../earlier/checkout  each run with both checkouts, by turns
    python bench/scale.py --keep /var/tmp/fleet 1250       leave recordings and runs there, and use them again

No node is contacted: `pytest --inventory hosts.yaml` reads recordings, then `pytest --replay` judges its run folder
again. Nodes are recorded in racks that are measured with each other, so that making them takes no longer than the run.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # the made-up nodes are the tests'
from fleet.load.recordings import recordings
from fleet.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
HEAD = "all:\n  vars: {ansible_connection: replay, nodegate_recordings: recordings}\n  hosts:\n"
RACK = 25
PYTEST = ("-m", "pytest", "-q", "--tb=no")
FILES = (
    *(
        "results.jsonl",
        "results.tables.jsonl",
        "results.jsonl.gz",
        "report.json",
        "report.html",
        "nodes.csv",
        "findings.csv",
    ),
    *("junit.xml", "metrics.prom", "manifest.sha256", "evidence"),
)


@dataclass(frozen=True)
class Cost:
    """What one run cost. `cpu_s` and `memory_mib` are of the pytest process alone."""

    cpu_s: float
    wall_s: float
    memory_mib: float
    run: Path
    said: str

    def megabytes(self, name: str) -> float:
        """Bytes of a file of the run folder, or of all files below a folder of it; 0 of what it does not have."""
        path = self.run / name
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        return sum(file.stat().st_size for file in files) / 1e6


def main() -> None:
    asked = _asked()
    checkouts = {"before": asked.before.resolve(), "after": ROOT} if asked.before else {"": ROOT}
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    print("| nodes | run | version | CPU s | CPU ms a node | memory MiB | " + " | ".join(FILES) + " | run folder MB |")
    print("|" + "---|" * (7 + len(FILES)))
    costs: dict[tuple[str, str], dict[int, float]] = {}
    arguments = [*asked.arguments, *([] if asked.load else ["--passive"])]
    with _folder(asked.keep) as folder:
        for count in asked.nodes:
            place = folder / f"{'load' if asked.load else 'passive'}-{count}"
            record(place, count, under_load=asked.load)
            for version, checkout in checkouts.items():
                first = run(place, checkout, ["--inventory", "hosts.yaml", *arguments])
                again = run(place, checkout, ["--replay", str(first.run), *arguments])
                for name, cost in (("recorded", first), ("replay", again)):
                    _row(count, name, version, cost)
                    costs.setdefault((name, version), {})[count] = cost.cpu_s
                print(f"  {first.said}")
                for done in (first.run, again.run):
                    shutil.rmtree(done)
    for (name, version), cpu_s in costs.items():
        for line in _slopes(cpu_s):
            print(f"{name} {version}: {line}")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=[64])
    parser.add_argument("--load", action="store_true", help="with the evidence of a run under load")
    parser.add_argument("--before", type=Path, help="another checkout of nodegate to compare with")
    parser.add_argument("--keep", type=Path, help="where recordings stay; default: deleted at the end")
    asked, asked.arguments = parser.parse_known_args()
    return asked


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def record(folder: Path, count: int, *, under_load: bool) -> None:
    """Write the recordings and the inventory of so many nodes, if they are not there."""
    if (folder / "hosts.yaml").exists():
        return
    lines = [HEAD]
    for first in range(1, count + 1, RACK):
        rack = [Machine.hgx_h100(f"gpu{at:05}", at) for at in range(first, min(first + RACK, count + 1))]
        of_rack = recordings(rack) if under_load else {node.name: {"facts": node.document()} for node in rack}
        for node, measured in of_rack.items():
            place = folder / "recordings" / node
            place.mkdir(parents=True)
            for measurement, document in measured.items():
                (place / f"{measurement}.json").write_text(json.dumps(document))
            lines.append(f"    {node}:\n")
    (folder / "hosts.yaml").write_text("".join(lines))


def run(folder: Path, checkout: Path, arguments: list[str]) -> Cost:
    """Run pytest of a checkout in a folder; the cost of that process alone."""
    started = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PY_COLORS": "0", "COLUMNS": "200"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every run compiles each module
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [sys.executable, *PYTEST, *arguments], cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
        _, process.returncode, usage = os.wait4(process.pid, 0)
        out.seek(0)
        said = out.read().decode()
    summary = next((line for line in said.splitlines() if re.match(r"\d.* of \d+ nodes?", line)), said)
    ran = (folder / "reports" / "latest").resolve()
    wall_s = time.monotonic() - started
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024, ran, summary)


def _row(count: int, name: str, version: str, cost: Cost) -> None:
    sizes = " | ".join(f"{cost.megabytes(file):.2f}" for file in FILES)
    print(
        f"| {count:,} | {name} | {version} | {cost.cpu_s:.1f} | {1000 * cost.cpu_s / count:.0f} "
        f"| {cost.memory_mib:.0f} | {sizes} | {cost.megabytes('.'):.1f} |",
        flush=True,
    )


def _slopes(cpu_s: dict[int, float]) -> Iterator[str]:
    """What each further node costs between two sizes."""
    sizes = sorted(cpu_s)
    for small, large in itertools.pairwise(sizes):
        slope = 1000 * (cpu_s[large] - cpu_s[small]) / (large - small)
        yield f"{slope:.1f} ms of CPU for each further node from {small:,} to {large:,}"


if __name__ == "__main__":
    main()
