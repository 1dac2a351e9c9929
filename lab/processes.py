"""What runs on this machine, and what was started on it."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # a process may end between any two looks at it; psutil has an answer for each of them

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "NODEGATE_TEST_MARK"  # an environment variable: whoever has it was started by us
_NUMBERS = itertools.count(random.SystemRandom().randrange(10**6, 10**8) * 100)


def odd_seconds() -> str:
    """A number of seconds to sleep, so odd that it is nobody else's: whoever is `running` with it is ours alone."""
    return str(next(_NUMBERS))


def command_lines() -> dict[int, list[str]]:
    """The arguments of each process; those that ended and wait for their parent left out."""
    found = {process.pid: process.info["cmdline"] for process in psutil.process_iter(["cmdline"])}
    return {pid: words for pid, words in found.items() if words}


def running(word: str) -> list[int]:
    """The processes that have this word among their arguments."""
    return [pid for pid, words in command_lines().items() if word in words]


def naming(folder: Path) -> list[str]:
    """The processes that name something in this folder among their arguments: `number arguments`."""
    lines = [f"{pid} {' '.join(words)}" for pid, words in command_lines().items()]
    return [line for line in lines if f"{folder}/" in line]


def marked(value: str) -> list[int]:
    """The processes that were started with this value of MARK in their environment."""
    found = psutil.process_iter(["environ"])
    return [process.pid for process in found if (process.info["environ"] or {}).get(MARK) == value]


def in_session(leader: int) -> list[int]:
    """The processes of a session, those that ended and wait for their parent among them."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError):
            found += [pid] if os.getsid(pid) == leader else []
    return found


def children_of(pid: int) -> list[int]:
    """All descendants of a process."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def tell(pids: Iterable[int], number: int) -> None:
    """Send each of these processes a signal; one that has ended by then, often because of the first, is passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def first_process(name: str, below: int) -> int:
    """The process of this name that is number 1 of its own namespace, among the descendants of another; 0: none yet."""
    for pid in children_of(below):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        if fields["NSpid"].split()[-1] == "1" and fields["Name"].strip() == name:
            return pid
    return 0


def name_of(pid: int) -> str:
    """What a process is called; empty when it has ended."""
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else process.name()
    except psutil.NoSuchProcess:
        return ""


def wait_until(true: object, limit_s: float = 30.0) -> bool:
    """Whether `true()` came true in time."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False
