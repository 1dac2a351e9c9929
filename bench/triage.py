"""How fast triage reads job logs, beside grep -E and ripgrep with the same strings: python bench/triage.py [MB ...].

`PYTHONPATH=tests python bench/triage.py --planted [MB]` plants the example and each form of every row in a healthy job
log and every kernel rule's in a healthy kernel log (default 1000 MB each), and lists those that triage does not find.

Writes synthetic logs of 64 ranks (iterations, NCCL INFO, loader lines; one error at the end), then measures the CPU
and wall time of one process each, its children included. Files are read once before, so the disk is not measured.
With several sizes (default 100 250 500 1000) it shows how time and memory grow.
"""

from __future__ import annotations

import os
import random
import re
import re._constants as op
import re._parser as parser
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from nodegate.knowledge.signatures import signatures
from nodegate.knowledge.words import Side
from nodegate.triage.scan import TRIGGERS

LOGS = 8
MOST_FOR_PATTERNS_MB = 100  # grep needs ten seconds for these
_CLASSES = {
    op.CATEGORY_DIGIT: "0-9",
    op.CATEGORY_WORD: "A-Za-z0-9_",
    op.CATEGORY_SPACE: "[:space:]",
}


GOAL, MOST_MIB = 0.5, 100  # of the speed of grep -E with the same strings; of memory


class Measured(NamedTuple):
    """What one process needed."""

    cpu_s: float
    wall_s: float
    mib: float


def main() -> None:
    if sys.argv[1:2] == ["--planted"]:
        plant_all(float((sys.argv[2:] or ["1000"])[0]))
        return
    sizes = [int(each) for each in sys.argv[1:]] or [100, 250, 500, 1000]
    print(f"| MB | tool | MB/s of CPU | CPU | wall | memory |{chr(10)}|{'---|' * 6}")
    taken: dict[float, Measured] = {}
    for size_mb in sizes:
        with tempfile.TemporaryDirectory() as name:
            total_mb, of = measure_all(Path(name), size_mb)
        for tool, one in of.items():
            values = (
                f"{total_mb / one.cpu_s:.0f} | {one.cpu_s:.1f} s | {one.wall_s:.1f} s | {one.mib:.0f} MiB"
                if one
                else "not measured | | |"
            )
            print(f"| {total_mb:.0f} | {tool} | {values} |", flush=True)
        triage, grep = of["triage"], of["grep -E, strings"]
        assert triage is not None and grep is not None  # noqa: S101, PT018
        taken[total_mb] = triage
        reached = grep.cpu_s / triage.cpu_s
        print(
            f"{total_mb:.0f} MB: {reached:.2f} of grep -E with the same strings (goal {GOAL}): {said(reached >= GOAL)};"
            f" {grep.wall_s / triage.wall_s:.2f} by wall time"
        )
    most = max(one.mib for one in taken.values())
    print(f"memory: {most:.0f} MiB at most (goal {MOST_MIB}): {said(most <= MOST_MIB)}")
    if len(taken) > 1:
        per_mb = [1000 * one.cpu_s / size for size, one in sorted(taken.items())]
        print("growth: " + ", ".join(f"{each:.1f}" for each in per_mb) + " ms of CPU a MB, from small to large")


def plant_all(size_mb: float) -> None:
    """Print which planted lines triage did not find, and what the same command needed."""
    from support import planted  # noqa: PLC0415 - of tests/, for this alone

    for side, name in ((Side.USER, "job.log"), (Side.KERNEL, "kern-gpu07.log")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            plants = planted.write(path, side, int(size_mb * 1e6))
            missed = planted.missed(path, side, plants)
            cost = measure([sys.executable, "-m", "nodegate.cli", "triage", str(path)])
            size = path.stat().st_size / 1e6
        rows = len({each.row for each in plants})
        print(f"{name}, {size:.0f} MB: {len(plants)} lines of {rows} rows planted, {len(missed)} missed;", end=" ")
        print(f"nodegate triage: {cost.cpu_s:.1f} s of CPU, {cost.mib:.0f} MiB", flush=True)
        print("".join(f"  {each}\n" for each in missed), end="")


def said(reached: bool) -> str:
    return "reached" if reached else "missed"


def measure_all(folder: Path, size_mb: int) -> tuple[float, dict[str, Measured | None]]:
    """The size of the logs in MB, and what each tool needed for them; None: the tool is not installed."""
    logs = [write_log(folder / f"rank_{number}.log", size_mb * 1_000_000 // LOGS, number) for number in range(LOGS)]
    names = [str(log) for log in logs]
    patterns, literal, strings = folder / "patterns", folder / "literal", folder / "strings"
    patterns.write_text("\n".join(extended(s.pattern.pattern) for s in signatures() if s.side is Side.USER) + "\n")
    literal.write_text("\n".join(TRIGGERS) + "\n")
    strings.write_text("\n".join(re.sub(r"([.\[\]{}()*+?^$|\\])", r"\\\1", each) for each in TRIGGERS) + "\n")
    commands = {
        "triage": [sys.executable, "-m", "nodegate.cli", "triage", *names],
        "grep -E, strings": ["grep", "-a", "-c", "-E", "-f", str(strings), *names],
        "grep -E, patterns": ["grep", "-a", "-c", "-E", "-f", str(patterns), *names],
        "ripgrep, strings": ["rg", "-a", "-c", "-j1", "-F", "-f", str(literal), *names],
    }
    subprocess.run(["cat", *names], stdout=subprocess.DEVNULL, check=True)
    total_mb = sum(log.stat().st_size for log in logs) / 1e6
    slow = {"grep -E, patterns"} if size_mb > MOST_FOR_PATTERNS_MB else set()
    return total_mb, {
        tool: measure(command) if tool not in slow and shutil.which(command[0]) else None
        for tool, command in commands.items()
    }


def measure(command: list[str]) -> Measured:
    """The CPU time and the memory of one process and its children."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every run compiles each module
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None  # noqa: S101
    process.stdout.read()
    usage: resource.struct_rusage = os.wait4(process.pid, 0)[2]
    return Measured(usage.ru_utime + usage.ru_stime, time.monotonic() - begin, usage.ru_maxrss / 1024)


def write_log(path: Path, size: int, number: int) -> Path:
    """A healthy log with one error at its end."""
    chance = random.Random(number)  # noqa: S311
    block = "".join(line(chance, step) for step in range(20_000)).encode()
    with path.open("wb") as stream:
        while stream.tell() < size:
            stream.write(block)
        if not number:
            stream.write(b"[rank0]: ValueError: Token IDs outside valid range\n")
    return path


def line(chance: random.Random, step: int) -> str:
    """One healthy line."""
    rank, kind = chance.randrange(64), chance.random()
    clock = f"{step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"
    if kind < 0.3:
        return (
            f"{rank}:  [2026-05-27 {clock}.261551] iteration {step:8}/  500000 | consumed samples: {step * 256:12} |"
            f" elapsed time per iteration (ms): {3000 + chance.random() * 1000:.1f} | lm loss: 7.12E+00 |"
            " grad norm: 1.2 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )
    if kind < 0.7:
        return (
            f"gpu{rank // 8:03}:{1000 + rank}:{2000 + rank} [{rank % 8}] NCCL INFO Channel {step % 32:02}/0 : {rank}"
            f"[{rank % 8}] -> {(rank + 8) % 64}[{rank % 8}] [send] via NET/IB/{rank % 8}/GDRDMA\n"
        )
    return (
        f"{rank}: 2026-05-27 {clock},123 - dataset - WARNING - shard {step} has {step % 77} short documents, packed\n"
    )


def extended(pattern: str) -> str:
    """A pattern of ours in the syntax of grep -E, as near as it gets."""
    return "".join(_piece(kind, value) for kind, value in parser.parse(pattern))


def _piece(kind: object, value: object) -> str:  # noqa: PLR0911 - a table of forms
    if kind is op.LITERAL:
        return re.sub(r"([.\[\]{}()*+?^$|\\])", r"\\\1", chr(value))
    if kind in (op.ANY, op.NOT_LITERAL):
        return "."
    if kind is op.IN:
        return _set(value)
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
        low, high, inner = value
        return f"({''.join(_piece(*part) for part in inner)}){{{low},{'' if high is op.MAXREPEAT else high}}}"
    if kind is op.SUBPATTERN:
        return f"({''.join(_piece(*part) for part in value[3])})"
    if kind is op.BRANCH:
        return "(" + "|".join("".join(_piece(*part) for part in branch) for branch in value[1]) + ")"
    return {op.AT_BEGINNING: "^", op.AT_END: "$", op.AT_BOUNDARY: r"\b"}.get(value, "") if kind is op.AT else ""


def _set(parts: list[tuple[object, object]]) -> str:
    negated, inside = "", ""
    for kind, value in parts:
        if kind is op.NEGATE:
            negated = "^"
        elif kind is op.CATEGORY and value is op.CATEGORY_NOT_SPACE:
            return "[^[:space:]]"
        elif kind is op.CATEGORY:
            inside += _CLASSES[value]
        elif kind is op.RANGE:
            inside += f"{chr(value[0])}-{chr(value[1])}"
        elif chr(value) not in "\n]-^\\":
            inside += chr(value)
    return f"[{negated}{inside}]" if inside else "."


if __name__ == "__main__":
    main()
