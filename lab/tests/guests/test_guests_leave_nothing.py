"""However a lab ends, none of its processes, sockets, mounts or files is left on this machine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.guests.guests import why_not
from lab.processes import command_lines, wait_until
from lab.run import ROOT

SCRIPT = """
import sys, time
from lab.guests.guests import Guests
with Guests(1) as lab:
    print("up", lab.guests[0].process.pid, lab.guests[0].ssh_port, flush=True)
    {then}
"""
FOR_EVER = "time.sleep(600)"


class Running:
    """A process of its own that has a lab of one guest."""

    def __init__(self, then: str) -> None:
        self._before = set(Path("/tmp").glob("nodegate-lab-*"))
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT.format(then=then)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        assert words[:1] == ["up"], self.end(signal.SIGKILL)
        self.qemu, self.port = int(words[1]), int(words[2])

    def end(self, number: signal.Signals | None = None) -> str:
        """Send it a signal (none: it ends by itself) and wait for its end; what it wrote to stderr."""
        if number is not None:
            self._process.send_signal(number)
        return self._process.communicate(timeout=60)[1]

    def left(self) -> dict[str, list[str]]:
        """What there is of it, and what was not there before it."""
        listening = subprocess.run(["ss", "-Hltn", f"sport = {self.port}"], capture_output=True, text=True, check=True)
        return {
            "processes": [each for each in command_lines().get(self.qemu, []) if "qemu-system" in each],
            "sockets": listening.stdout.splitlines(),
            "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if "nodegate-lab" in line],
            "files": sorted(map(str, set(Path("/tmp").glob("nodegate-lab-*")) - self._before)),
        }


@pytest.fixture
def start() -> Callable[[str], Running]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    return Running


def is_clear(running: Running) -> bool:
    return wait_until(lambda: not any(running.left().values()), limit_s=20.0)


def test_a_running_lab_is_seen_and_its_end_leaves_nothing(start: Callable[[str], Running]) -> None:
    lab = start("sys.stdin.read()")  # communicate() of its end closes that
    found = lab.left()
    assert found["processes"]
    assert found["sockets"]
    lab.end()
    assert is_clear(lab), lab.left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_a_signal_leaves_nothing(start: Callable[[str], Running], number: signal.Signals) -> None:
    lab = start(FOR_EVER)
    lab.end(number)
    assert is_clear(lab), lab.left()


def test_a_failure_leaves_nothing(start: Callable[[str], Running]) -> None:
    lab = start("raise ValueError('a test failed')")
    assert "a test failed" in lab.end()
    assert is_clear(lab), lab.left()
