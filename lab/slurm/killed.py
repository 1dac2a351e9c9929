"""Runs over nodes of the cluster that are killed (SIGKILL): what each leaves, and what the next start does."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.run import Run
from nodegate.scheduler.hold import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lab.nodes.node import LabNode
    from lab.slurm.cluster import Cluster

ASKED = ("-k", "burn", "--burn", "1s", "--tb=no")
MOST_HELD_S = 3600.0  # half an hour, and one and a half times the load
_CLEAN_LIMIT_S = 60.0
_LATE_S = 120.0  # Slurm looks at the limits of jobs every half a minute, and gives whole minutes
_HOLD = """
import time
from nodegate.scheduler.slurm import SlurmHold
SlurmHold({names}).hold(list({names}), time.time() + {limit_s})
time.sleep(600)
"""
_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/root", "/run/lock", "/var/lib/nodegate")


@dataclass(frozen=True)
class Killed:
    """One run. Seconds count from its start (`at_s`), its end (`clean_s`), or the next start (`given_back_s`).

    `held`: nodes that Slurm keeps for it, `held_s` for how long yet at most; `wrong` is whatever must not be.
    """

    at_s: float
    clean_s: float
    held: int
    held_s: float
    evidence: int
    given_back_s: float
    wrong: tuple[str, ...]


class Site:
    """All workers of a cluster, and a folder in which run follows run; Slurm's programs are in the PATH."""

    def __init__(self, slurm: Cluster, folder: Path) -> None:
        self.slurm, self.folder = slurm, folder
        self.names = [node.name for node in slurm.workers]
        self._inventory = slurm.lab.inventory(self.names, {name: {"nodegate_hold": "slurm"} for name in self.names})
        self.whole_s = self.start().outcome().took_s
        self._files = {node.name: _files(node) for node in slurm.workers}

    def start(self, *more: str) -> Run:
        """A run over all of them."""
        within = self.slurm.lab.space.in_network()
        return Run(self.folder / "site", self._inventory, *ASKED, *more, within=within)

    def kill(self, share: float) -> Killed:
        """Kill a run after this share of its time, look at what is there, and let the next start go on to the end."""
        at_s = share * self.whole_s
        runs, folders = _runs(self._record), self._folders()
        with self.start() as run:
            time.sleep(at_s)
            ended = run.process.poll() is not None
        begun = time.monotonic()
        is_clean, clean_s = self._is_clean(), time.monotonic() - begun
        held = self._holds()
        folder = next(iter(self._folders() - folders), None)
        kept = _evidence(folder)
        wrong = self._left(is_clean=is_clean, held=held, runs=runs)
        given_back_s, output = self._next(None if ended else folder)
        wrong += self._afterwards(output, was_held=bool(held))
        wrong += [f"{name} is lost" for name, text in kept.items() if _evidence(folder).get(name) != text]
        return Killed(at_s, clean_s, len(held), max(held.values(), default=0.0), len(kept), given_back_s, tuple(wrong))

    def _left(self, *, is_clean: bool, held: Mapping[str, float], runs: Mapping[str, int]) -> list[str]:
        """What a killed run has left that it must not."""
        nodes = self.slurm.workers
        found = [] if is_clean else [f"left on nodes: {[node.processes() for node in nodes]}"]
        found += [f"files on {node.name}: {new}" for node in nodes if (new := _files(node) - self._files[node.name])]
        found += [f"{job} is held for {left_s:.0f} s" for job, left_s in held.items() if left_s > MOST_HELD_S]
        return found + [f"{run} is gone from the record" for run in runs if run not in _runs(self._record)]

    def _afterwards(self, output: str, *, was_held: bool) -> list[str]:
        """What is wrong once the next start has come to its end."""
        found = [f"not given back: {output[-800:]}"] if was_held and "given back what" not in output else []
        found += ["a node could not be held again"] if "cannot be held" in output else []
        found += ["held after the end"] if self._holds() else []
        counts = set(_runs(self._record).values())
        return found + ([f"runs with {counts} nodes in the record"] if counts != {len(self.names)} else [])

    def held_to_its_end(self, limit_s: float) -> float:
        """Seconds until Slurm itself ends a hold of so many, whose holder was killed."""
        names = {name: name for name in self.names}
        with subprocess.Popen([sys.executable, "-c", _HOLD.format(names=names, limit_s=limit_s)]) as holder:
            begun = time.monotonic()
            self.slurm.wait_for(lambda: str(len(self._holds())), str(len(names)))
            holder.kill()
        self.slurm.wait_for(lambda: str(self._holds()), "{}", limit_s + _LATE_S)
        return time.monotonic() - begun

    def _next(self, folder: Path | None) -> tuple[float, str]:
        """Go on with the run of this folder, or begin another; when the old holds were gone, and what it printed."""
        old, given_back_s, begun = set(self._holds()), 0.0, time.monotonic()
        with self.start(*(["--resume", str(folder)] if folder else [])) as run:
            while run.process.poll() is None:
                if old and not given_back_s and not old & set(self._holds()):
                    given_back_s = time.monotonic() - begun
                time.sleep(0.1)
            outcome = run.outcome()
        if folder is None:
            self.whole_s = outcome.took_s  # a machine with other work is not always as fast
        return given_back_s, outcome.output

    @property
    def _record(self) -> Path:
        return self.folder / "site/reports/fleet.sqlite"

    def _folders(self) -> set[Path]:
        return {each for each in (self.folder / "site/reports").glob("*Z-*") if (each / "run.json").exists()}

    def _is_clean(self) -> bool:
        """Wait until no login of ours is on a node, nor anything below it: a node has no other Python."""
        end = time.monotonic() + _CLEAN_LIMIT_S
        while time.monotonic() < end:
            listed = [words for node in self.slurm.workers for words in node.processes().values()]
            if not any("python3" in words or words.startswith("sshd: root") for words in listed):
                return all(_is_free(node) for node in self.slurm.workers)
            time.sleep(0.1)
        return False

    def _holds(self) -> dict[str, float]:
        """Our jobs in Slurm, and for how many seconds each may run yet."""
        listed = self.slurm.controller.run("squeue", "-h", "-n", NAME, "-t", "PD,R", "-O", "JobID,TimeLeft")
        return {job: _seconds(left) for job, left in map(str.split, listed.splitlines())}


def _seconds(left: str) -> float:
    """[DAYS-][HOURS:]MINUTES:SECONDS of squeue; infinite for anything else (UNLIMITED)."""
    days, _, clock = left.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in (*parts, days or "0")):
        return float("inf")
    return 86400.0 * int(days or 0) + sum(60.0**place * int(part) for place, part in enumerate(reversed(parts)))


def _is_free(node: LabNode) -> bool:
    return node.run("flock", "-n", "/run/lock/nodegate.lock", "echo", "free", check=False).strip() == "free"


def _files(node: LabNode) -> set[str]:
    listed = node.run("find", *_PLACES, "-xdev", check=False).splitlines()
    return {each for each in listed if "/systemd-private-" not in each}


def _runs(record: Path) -> dict[str, int]:
    """Each run of the record, which must open, with the number of its nodes."""
    with contextlib.closing(sqlite3.connect(record)) as base:
        if base.execute("pragma integrity_check").fetchall() != [("ok",)]:
            raise RuntimeError(f"{record} is damaged")
        return dict(base.execute("select name, count(node) from runs left join decisions on run = id group by name"))


def _evidence(folder: Path | None) -> dict[str, str]:
    """What was measured without an error, by its file, with which a resumed run goes on."""
    if folder is None:
        return {}
    found = {str(file.relative_to(folder)): file.read_text() for file in sorted(folder.glob("evidence/*/*.json"))}
    return {name: text for name, text in found.items() if not json.loads(text).get("error")}


def spread(count: int, seed: int) -> list[float]:
    """So many moments as shares of a run, one in each part of it, in any order."""
    chance = random.Random(seed)  # noqa: S311
    return chance.sample([(number + chance.random()) / count for number in range(count)], count)
