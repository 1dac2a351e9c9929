"""`python -m fuzz --seconds 3600`: every target for its share of the time, in turns, each in a process of its own."""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.seeds import ROOT
from fuzz.table import every_target, module_of

if TYPE_CHECKING:
    from fuzz.target import Target

TURN_S = 90
RSS_LIMIT_MB = 1500
HANG_S = 120  # one input that takes longer ends its process, which is a finding
_STATS = re.compile(r"stat::(\w+):\s+([0-9]+)")
_COVERAGE = re.compile(r"cov: ([0-9]+)")


@dataclass
class Tally:
    """What a target came to: inputs that were run, inputs that were new, and the edges that they reached."""

    seconds: float = 0.0
    executions: int = 0
    new: int = 0
    seeds: int = 0
    first_edges: int = 0
    edges: int = 0
    ended: int = 0


def main() -> int:
    """The command; 1 when there are findings."""
    asked = _arguments()
    targets = every_target()
    names = [name for name in targets if not asked.target or any(word in name for word in asked.target)]
    folder = Path(asked.folder or tempfile.mkdtemp(prefix="nodegate-fuzz-"))
    (folder / "findings").mkdir(parents=True, exist_ok=True)
    tallies = {name: Tally(seeds=_seed(targets[name], folder / "inputs" / name)) for name in names}
    share = asked.seconds * asked.jobs / len(names)
    turns = max(1, round(share / TURN_S))
    _say(f"{len(names)} targets, {turns} turns of {share / turns:.0f} s each, {asked.jobs} at once; all in {folder}")
    for turn in range(turns):
        with ThreadPoolExecutor(asked.jobs) as crew:
            list(crew.map(partial(_turn, folder=folder, seconds=share / turns, turn=turn), names, tallies.values()))
        _table(tallies, folder)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    _say(f"{used.ru_utime + used.ru_stime:.0f} s of processor time in all")
    return 1 if any((folder / "findings").iterdir()) else 0


def _arguments() -> argparse.Namespace:
    command = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    command.add_argument("--seconds", type=float, default=600, help="for everything together (default 600)")
    command.add_argument("--target", action="append", help="a name, or a part of names; may be given again")
    command.add_argument("--jobs", type=int, default=1, help="processes at once")
    command.add_argument("--folder", help="where inputs and findings are kept, to go on with later; outside git")
    return command.parse_args()


def _seed(target: Target, inputs: Path) -> int:
    inputs.mkdir(parents=True, exist_ok=True)
    count = 0
    for count, data in enumerate(dict.fromkeys(target.seeds()), 1):
        (inputs / f"seed-{count:04}").write_bytes(data)
    return count


def _turn(name: str, tally: Tally, *, folder: Path, seconds: float, turn: int) -> None:
    started = time.monotonic()
    while (left := seconds - (time.monotonic() - started)) > 3 or not tally.seconds:
        before = time.monotonic()
        said = _process(name, folder, max(3, int(left)), turn)
        tally.seconds += time.monotonic() - before
        stats = dict(_STATS.findall(said))
        tally.executions += int(stats.get("number_of_executed_units", 0))
        tally.new += int(stats.get("new_units_added", 0))
        covered = [int(number) for number in _COVERAGE.findall(said)]
        tally.first_edges = tally.first_edges or next(iter(covered), 0)
        tally.edges = max([tally.edges, *covered])
        if "stat::" not in said or "ERROR: libFuzzer" in said:
            tally.ended += 1
            if tally.ended > 5:  # it cannot be started, or always ends: the log says why
                return


def _process(name: str, folder: Path, seconds: int, turn: int) -> str:
    """Fuzz one target for so long; returns what libFuzzer said."""
    inputs, findings = folder / "inputs" / name, folder / "findings"
    limits = [f"-max_total_time={seconds}", f"-rss_limit_mb={RSS_LIMIT_MB}", f"-timeout={HANG_S}", "-max_len=60000"]
    limits += ["-print_final_stats=1", "-verbosity=1", f"-artifact_prefix={findings}/{name}-"]
    command = [sys.executable, "-m", "fuzz.one", module_of(name), name, str(findings), *limits, str(inputs)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds + 300,
        check=False,
    )
    said = done.stdout.decode(errors="replace")
    (folder / f"{name}.{turn}.log").write_text(said[-200_000:], errors="replace")
    return said


def _table(tallies: dict[str, Tally], folder: Path) -> None:
    found = sorted(path.name for path in (folder / "findings").iterdir() if path.suffix != ".txt")
    rows = [f"{'target':26}{'seconds':>8}{'runs':>10}{'seeds':>7}{'new':>7}{'edges':>14}  findings"]
    for name, tally in tallies.items():
        edges = f"{tally.first_edges}->{tally.edges}"
        count = sum(each.startswith(f"{name}-") for each in found)
        row = f"{name:26}{tally.seconds:8.0f}{tally.executions:10}{tally.seeds:7}{tally.new:7}{edges:>14}  "
        rows.append(row + f"{count or ''}" + (f" ({tally.ended} processes ended early)" if tally.ended else ""))
    total = sum(tally.seconds for tally in tallies.values())
    rows.append(f"{'all':26}{total:8.0f}{sum(tally.executions for tally in tallies.values()):10}")
    text = "\n".join([*rows, *(f"finding: {folder / 'findings' / name}" for name in found)])
    (folder / "table.txt").write_text(text + "\n")
    _say(text)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
