"""However the tests end, nothing of their nodes with systemd is left on the machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab import needs
from lab.nodes import cgroups
from lab.nodes.image import image
from lab.nodes.nodes import why_not
from lab.processes import in_session, name_of, running, wait_until

FOR_EVER = "time.sleep(600)"
ROOT = Path(__file__).parents[2]
# A lab of two nodes, then what the test is about.
SCRIPT = """
import sys, time
from pathlib import Path
from lab.nodes.image import image
from lab.nodes.gpus import prepare
from lab.nodes.nodes import Nodes
with Nodes(image(), 2, Path(sys.argv[1]), prepare) as lab:
    print("up", lab.nodes[0].run("systemctl", "is-system-running"), lab.space.holder, flush=True)
    {then}
"""


class Running:
    """A process of its own that has a lab."""

    def __init__(self, folder, then):
        command = [sys.executable, "-c", SCRIPT.format(then=then), str(folder)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        words = (self._process.stdout.readline() + self._process.stdout.readline()).split()
        assert words[:2] == ["up", "running"], self.end(signal.SIGKILL)
        self.holder = int(words[2])

    def end(self, number=None):
        """Send it a signal (none: it ends by itself) and wait for its end; what it wrote to stderr."""
        if number is not None:
            self._process.send_signal(number)
        return self._process.communicate(timeout=30)[1]


@pytest.fixture
def start(tmp_path):
    needs.require(why_not())
    image()
    return lambda then: Running(tmp_path, then)


def left(holder):
    """What there is on this machine of the lab that the process `holder` held."""
    spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout.splitlines()
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return {
        "network namespaces": [line for line in spaces if line.startswith("gpu-")],
        "loop devices": [line for line in loops if "nodegate" in line],
        "mounts": [line for line in mounts if "/run/nodes" in line or "nodegate-lab" in line],
        "control groups": [str(group) for group in cgroups.groups(holder) if group.exists()],
        "processes": [f"{pid} {name_of(pid)}" for pid in in_session(holder)],
    }


def is_clear(holder):
    return not any(left(holder).values())


@pytest.mark.parametrize("ended", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_a_signal_leaves_nothing(start, ended):
    lab = start(FOR_EVER)
    lab.end(ended)
    assert wait_until(lambda: is_clear(lab.holder)), left(lab.holder)


def test_a_failure_in_a_test_leaves_nothing(start):
    lab = start("raise ValueError('a test failed')")
    assert "a test failed" in lab.end()
    assert is_clear(lab.holder), left(lab.holder)


def test_the_groups_of_a_holder_that_was_killed_go_with_the_next_lab(start):
    lab = start(FOR_EVER)
    os.kill(lab.holder, signal.SIGKILL)
    lab.end(signal.SIGKILL)
    assert left(lab.holder)["control groups"]
    assert wait_until(lambda: not Path("/proc", str(lab.holder)).exists())
    cgroups.sweep()
    assert not left(lab.holder)["control groups"]
    assert wait_until(lambda: is_clear(lab.holder)), left(lab.holder)


def test_kill_9_of_the_command_line_leaves_no_folder_and_no_command(start):
    script = 'echo "$INVENTORY"; exec sleep 4711'
    command = [sys.executable, "-m", "lab", "run", "--nodes", "1", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as lab:
        assert lab.stdout is not None
        inventory = Path(lab.stdout.readline().strip())
        assert "gpu-1" in inventory.read_text()
        lab.kill()
    assert wait_until(lambda: not running("4711"))
    assert wait_until(lambda: not inventory.parent.exists())


def test_without_root_the_tests_are_skipped_with_the_reason_and_fail_in_ci(monkeypatch):
    monkeypatch.setattr(needs.os, "geteuid", lambda: 1000)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="need root"):
        needs.require(why_not())
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="need root"):
        needs.require(why_not())
