"""A node over a command: what it may print and return, and the lease where its end is not the end of the program."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from nodegate.errors import Unreachable, UsageError
from nodegate.inventory import inventory
from nodegate.node import Connection, Node
from nodegate.transport import Options, connect

# As srun does it: when the client is gone, the program there is not, and its standard input does not end.
OUTLIVES = 'echo noise of a prolog; exec 3<&0; (cat <&3; sleep 20) | setsid "$@" & wait $!; exit 9'
CONTROLLER = """\
import sys
from nodegate.node import Connection, Node
from nodegate.transport import Options, connect
words = ("sh", "-c", sys.argv[1], "there")
session = connect(Node("there", Connection(transport="command", command=words, lease_s=3.0)), Options())
try:
    print(session.run(["sleep", sys.argv[2]], timeout_s=100))
except Exception as said:
    print(said, flush=True)
    try:
        session.run(["true"], timeout_s=10)
    except Exception as said:
        print(said)
"""


@contextlib.contextmanager
def by(*words, lease_s=30.0):
    node = Node("there", Connection(transport="command", command=words, lease_s=lease_s))
    with contextlib.closing(connect(node, Options())) as session:
        yield session


def running(seconds):
    return subprocess.run(["pgrep", "-fx", f"sleep {seconds}"], stdout=subprocess.DEVNULL, check=False).returncode == 0


def becomes(seconds, *, there, within_s):
    end = time.monotonic() + within_s
    while running(seconds) != there:
        assert time.monotonic() < end, f"sleep {seconds}: still {not there}"
        time.sleep(0.1)


@contextlib.contextmanager
def controller(seconds):
    command = [sys.executable, "-c", CONTROLLER, OUTLIVES, seconds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        becomes(seconds, there=True, within_s=20)
        yield process


def test_the_end_frame_counts_and_not_the_exit_code_of_the_command():
    with by("sh", "-c", 'echo noise of a prolog; "$@"; exit 9', "there") as session:
        output = session.run(["sh", "-c", "cat; exit 3"], timeout_s=10, stdin=b"\0\n\r" * 50_000)
        assert (output.stdout, output.exit_code) == (b"\0\n\r" * 50_000, 3)
    with by("sh", "-c", '"$@" | head -c 60; exit 0', "there") as session, pytest.raises(Unreachable) as caught:
        session.run(["echo", "x" * 100], timeout_s=10)
    assert caught.value.kind == "dropped"


def test_what_the_lease_ends_leaves_nothing_when_everything_here_is_killed(seconds):
    with controller(seconds) as process:
        subprocess.run(["pkill", "-9", "-s", str(process.pid)], check=False)
        subprocess.run(["pkill", "-9", "-P", str(process.pid)], check=False)
        becomes(seconds, there=False, within_s=12)


@pytest.mark.long
def test_a_controller_that_was_stopped_says_so_and_starts_nothing_more(seconds):
    with controller(seconds) as process:
        process.send_signal(signal.SIGSTOP)
        becomes(seconds, there=False, within_s=12)
        process.send_signal(signal.SIGCONT)
        said = process.communicate(timeout=20)[0].splitlines()
    assert len(said) == 2
    assert all(line.startswith("there: the controller was silent for ") for line in said), said


@pytest.mark.long
def test_a_busy_controller_keeps_its_lease():
    """Threads that compute without a pause, more than there are processors."""
    ended = threading.Event()

    def compute():
        while not ended.is_set():
            sum(number * number for number in range(20_000))

    threads = [threading.Thread(target=compute, daemon=True) for _ in range(4 * (os.cpu_count() or 1))]
    with by("env", lease_s=7.0) as session:
        for thread in threads:
            thread.start()
        try:
            assert session.run(["sleep", "14"], timeout_s=60).exit_code == 0
        finally:
            ended.set()


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("echo 'srun: error: Invalid job id 7' >&2; exit 1", "dropped", "has ended"),
        ("echo 'srun: error: Task launch failed: Socket timed out on send/recv' >&2; exit 140", "timeout", "slurmd"),
        ("echo 'slurmstepd-n1: error: execve(): python3: No such file or directory' >&2; exit 2", "no-python", "3.6"),
        ("echo 'srun: error: Requested node configuration is not available' >&2; exit 1", "unresolved", "slurm_name"),
        ("exit 1", "configuration", "try it by hand"),
    ],
)
def test_what_the_command_says_is_named(script, kind, words, tmp_path):
    program = tmp_path / "srun"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with by(str(program)) as session, pytest.raises(Unreachable) as caught:
        session.run(["true"], timeout_s=10)
    assert caught.value.kind == kind
    assert words in caught.value.next_step


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ("nodegate_command='srun --jobid={job} -w {node}' nodegate_job=7", ("srun", "--jobid=7", "-w", "n1")),
        ("nodegate_command='x {node}' ansible_host=10.0.0.1", ("x", "10.0.0.1")),
        ("""nodegate_command="a 'b c' {other} ; $HOME" """, ("a", "b c", "{other}", ";", "$HOME")),
        ("nodegate_command='x {pod}'", "has {pod}, and nodegate_pod is not set"),
        ("nodegate_command='x {job}' nodegate_job='7;reboot'", "is not a name"),
        ("", "command needs nodegate_command"),
        ("nodegate_command=x nodegate_lease=5", "not a whole number from 15"),
    ],
)
def test_the_inventory_says_the_command(variables, words, tmp_path):
    (tmp_path / "hosts.ini").write_text(f"[all]\nn1 ansible_connection=command {variables}\n")
    if isinstance(words, str):
        with pytest.raises(UsageError, match=words):
            _ = inventory.read([str(tmp_path / "hosts.ini")]).nodes
        return
    (node,) = inventory.read([str(tmp_path / "hosts.ini")]).nodes
    assert (node.connection.command, node.connection.lease_s) == (words, 30.0)
