"""What a command costs: wall time, CPU and memory of all its processes, what it printed and what it left on disk.

The command runs below a process that adopts whatever it leaves behind (as `ssh` with ControlPersist does), ends that
and adds up its CPU. Nodes are not below it, so their CPU is not in the figures. Memory is the most that its processes
held at one look, each shared page counted once (PSS).

    python measured.py RESULT LIMIT_S COMMAND...      called by `measure`
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY_S = 0.1  # and never more than a twentieth of the time is spent on looking
AT_FIRST_S = 0.01  # for the first two seconds: short commands are all start
FAREWELL_S = 5.0


@dataclass(frozen=True)
class Cost:
    """One run of a command."""

    wall_s: float
    cpu_s: float
    memory_mib: float
    written_mb: float
    load: float  # of the machine, when it began


@dataclass(frozen=True)
class Run:
    """A command that has ended."""

    cost: Cost
    exit_code: int
    said: str


class NotMeasured(Exception):  # noqa: N818 - reads as the sentence that it raises
    """There is no figure, and why."""


def measure(command: Sequence[object], folder: Path, *, limit_s: float = 1200, **variables: str) -> Run:
    """Run a command in a folder.

    Raises:
        NotMeasured: it did not end in time.
    """
    before = _bytes(folder)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile() as out:
        result = Path(name, "cost.json")
        words = [sys.executable, __file__, str(result), str(limit_s), *map(str, command)]
        environment = {**os.environ, "LC_ALL": "C.UTF-8", **variables}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each run compiles every module
        watcher = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            watcher.wait()
        finally:  # when the bench itself is ended, too
            watcher.terminate()
            watcher.wait()
        out.seek(0)
        said = out.read().decode("utf-8", "replace")
        if watcher.returncode:
            raise NotMeasured(f"{Path(str(command[0])).name} could not be run: {said[-300:]}")
        found = json.loads(result.read_text())
    if found["over"]:
        raise NotMeasured(f"it took more than {limit_s:.0f} s")
    written = (_bytes(folder) - before + len(said)) / 1e6
    return Run(Cost(found["wall_s"], found["cpu_s"], found["memory_mib"], written, load), found["exit_code"], said)


def as_dict(cost: Cost) -> dict[str, float]:
    """For JSON, rounded as far as it means something."""
    return {name: round(value, 4) for name, value in asdict(cost).items()}


def _bytes(folder: Path) -> int:
    """Of all files below a folder."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size if path.is_file() and not path.is_symlink() else 0
    return total


def _watch(result: Path, limit_s: float, command: Sequence[str]) -> None:
    """Run the command and write down what it cost."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _ended)
    started = time.monotonic()
    process = subprocess.Popen(command)
    most = 0
    while process.poll() is None:
        looked = time.monotonic()
        if looked - started > limit_s:
            break
        most = max(most, sum(map(_memory_kb, _below(os.getpid()))))
        with contextlib.suppress(subprocess.TimeoutExpired):
            every_s = AT_FIRST_S if looked - started < 2 else LOOK_EVERY_S
            process.wait(max(every_s, 20 * (time.monotonic() - looked)))
    wall_s = time.monotonic() - started
    over = process.returncode is None
    _end_all()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of what is short there are few looks: the most that one process held, which is no less than this one's own 15 MiB.
    memory_mib = max(most, usage.ru_maxrss if wall_s < 20 * AT_FIRST_S else 0) / 1024
    found = {"wall_s": wall_s, "cpu_s": usage.ru_utime + usage.ru_stime, "memory_mib": memory_mib}
    result.write_text(json.dumps({**found, "exit_code": process.returncode, "over": over}))


def _below(pid: int) -> Iterator[int]:
    """The descendants of a process."""
    for task in _children_files(pid):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from _below(child)


def _children_files(pid: int) -> list[Path]:
    try:
        return [task / "children" for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []


def _memory_kb(pid: int) -> int:
    """PSS of a process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def _ended(*_: object) -> None:
    _end_all()
    os._exit(1)


def _end_all() -> None:
    """End what the command left behind, and wait for each, so that its CPU is counted."""
    end = time.monotonic() + FAREWELL_S
    for pid in list(_below(os.getpid())):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        except ChildProcessError:
            return
        if time.monotonic() > end:
            for pid in list(_below(os.getpid())):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
