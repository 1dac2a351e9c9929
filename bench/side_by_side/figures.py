"""The figures: a JSON file that is written after each measurement, so that what was measured is not measured again."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from typing import TYPE_CHECKING, Any

from bench.side_by_side.measured import NotMeasured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SCHEMA = "nodegate.bench.side_by_side/1"
JUDGED_BY = ("src", "checks", "baselines", "policies")  # what a figure of nodegate depends on


class Figures:
    """What was measured, by key ("fleet/clush/64"): a list of runs, each a mapping of numbers; or why there is none.

    `as_they_are`: for the page; else figures of another version of nodegate are left out.
    """

    def __init__(self, file: Path, root: Path, *, as_they_are: bool = False) -> None:
        self._file = file
        self._refused: set[str] = set()
        self.value: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        if as_they_are and self.value.get("schema") == SCHEMA:
            return
        now = revision(root)
        if self.value.get("schema") != SCHEMA or self.value.get("revision") != now:
            if self.value:
                print(f"{file.name} is of another version of nodegate: everything is measured again")
            self.value = {"schema": SCHEMA, "revision": now, "about": {}, "runs": {}, "not_measured": {}}

    def about(self, **said: Any) -> None:
        """What the page says of machine and peers."""
        self.value["about"].update(said)
        self._save()

    def wants(self, key: str, most: int) -> bool:
        """Whether one more run is to be made. Of what takes minutes there are fewer, so that the whole ends in an hour.

        What could not be measured is not tried again in this call.
        """
        if key in self._refused:
            return False
        done = self.value["runs"].get(key, [])
        longest = max((run.get("wall_s", 0.0) for run in done), default=0.0)
        return len(done) < min(most, 1 if longest > 100 else 2 if longest > 40 else most)

    def measure(self, key: str, once: Callable[[], Mapping[str, float]]) -> None:
        """Make one run and keep what it gives."""
        try:
            run = dict(once())
        except NotMeasured as why:
            self.refuse(key, str(why))
        else:
            self.value["runs"].setdefault(key, []).append(run)
            self.value["not_measured"].pop(key, None)
            print(f"{key}: {shown(run)}", flush=True)
            self._save()

    def refuse(self, key: str, why: str) -> None:
        """There is no figure, and the page says why."""
        print(f"{key}: not measured: {why}", flush=True)
        self._refused.add(key)
        self.value["not_measured"][key] = " ".join(why.split())[:300]
        self._save()

    def runs(self, key: str) -> list[dict[str, float]]:
        """What was measured under a key; empty if nothing was."""
        found: list[dict[str, float]] = self.value["runs"].get(key, [])
        return found

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_name(self._file.name + ".new")
        fresh.write_text(json.dumps(self.value, indent=1, sort_keys=True) + "\n")
        fresh.replace(self._file)


def shown(run: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in run.items())


def median(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def spread(runs: list[dict[str, float]], name: str) -> tuple[float, float]:
    """The smallest and the largest."""
    values = [run[name] for run in runs]
    return min(values), max(values)


def revision(root: Path) -> str:
    """Names what nodegate is here: git's hashes of what its figures depend on, and whether it was changed since."""
    git = ["git", "-C", str(root)]
    try:
        trees = _said([*git, "rev-parse", *(f"HEAD:{folder}" for folder in JUDGED_BY)]).split()
        changed = _said([*git, "status", "--porcelain", "--", *JUDGED_BY])
    except (OSError, subprocess.SubprocessError):
        return "not a checkout"
    return " ".join(tree[:12] for tree in trees) + (" with changes" if changed else "")


def commit(root: Path) -> str:
    """The commit, for the page."""
    try:
        return _said(["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"])
    except (OSError, subprocess.SubprocessError):
        return "not a checkout"


def machine() -> dict[str, Any]:
    """Processor, memory, kernel, Python."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    kb = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(kb / 2**20),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:  # noqa: PTH123
            return file.read().splitlines()
    except OSError:
        return []


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
