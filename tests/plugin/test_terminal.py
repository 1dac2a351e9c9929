"""What a run reads from and writes to: standard input, a terminal, a log, a pipe whose reader has gone."""

import os
import pty
import socket
import subprocess
import sys

import pytest
from fleet.machine import Machine
from support import warm
from support.recorded import run_pytest, write_fleet

PYTEST = [sys.executable, "-m", "pytest", "--tb=no", "-q", "-k", "link_width"]


@pytest.fixture
def fleet(tmp_path):
    return write_fleet(tmp_path, [Machine.hgx_h100(f"gpu{number:04}", number) for number in (1, 2)])


@pytest.mark.parametrize("more", [[], ["-n", "2"], ["-s"]])
def test_an_inventory_comes_from_standard_input(fleet, more):
    command = [*PYTEST, "--inventory", "-", "--run-dir", "run", *more]
    done = warm.run(
        command, cwd=fleet.parent, input=fleet.read_text(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 incomplete of 2 nodes" in done.stdout


@pytest.mark.parametrize(("stdin", "words"), [("<&-", "there is no standard input"), ("< /bin/true", "<stdin>")])
def test_no_inventory_on_standard_input_is_one_message(fleet, stdin, words):
    command = ["sh", "-c", f"exec {sys.executable} -m pytest --inventory - {stdin}"]
    done = subprocess.run(command, cwd=fleet.parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4, done.stdout
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def on_a_terminal(folder, *arguments):
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execve(sys.executable, [*PYTEST, *arguments], {**os.environ, "COLUMNS": "120", "PY_COLORS": "0"})  # noqa: S606
    written = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the child has closed it
            break
        if not part:
            break
        written += part
    os.waitpid(child, 0)
    os.close(terminal)
    return written.decode()


def shown(line):
    """What is left of a line after its carriage returns and erasures."""
    return line.rpartition("\r\x1b[K")[2]


@pytest.fixture
def slow(fleet):
    """One node takes its time: it is asked over SSH, the connection stands, and nobody answers for five seconds."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        told = f"{{ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: {port}, ansible_ssh_timeout: 5}}"
        fleet.write_text(fleet.read_text().replace("    gpu0002:", f"    gpu0002: {told}"))
        yield fleet


BY_FORK = pytest.mark.skipif(sys.version_info >= (3, 12), reason="fork() warns in a process with threads")


@pytest.mark.long
@BY_FORK
def test_the_live_line_is_gone_when_the_dots_come(slow):
    written = on_a_terminal(slow.parent, "--inventory", "hosts.yaml", "-rA")
    assert "facts: 1 of 2 nodes" in written
    left = "\n".join(shown(line) for line in written.split("\n"))
    assert "facts:" not in left
    assert "\x1b" not in left
    assert left.startswith(".E")


@pytest.mark.long
@BY_FORK
def test_the_live_line_is_gone_when_the_answer_comes(slow):
    written = on_a_terminal(slow.parent, "--inventory", "hosts.yaml")
    left = [shown(line).rstrip("\r") for line in written.split("\n")]
    assert "\x1b" not in "".join(left)
    said = "1 unreachable, 1 incomplete of 2 nodes (0 of 8 GPUs accepted)"
    assert [line for line in left if line][1].startswith(said)


@pytest.mark.long
@BY_FORK
def test_under_n_there_is_no_live_line_to_wipe_the_dots(slow):
    assert "\r\x1b[Kfacts:" not in on_a_terminal(slow.parent, "--inventory", "hosts.yaml", "-n", "2")


@pytest.mark.parametrize(("option", "lines"), [("-v", 1), ("-v", 9), ("", 1)])
def test_a_reader_that_goes_leaves_no_traceback_and_no_success(fleet, option, lines):
    script = f"set -o pipefail; {sys.executable} -m pytest --inventory hosts.yaml {option} | head -{lines}"
    command = ["bash", "-c", script]
    done = subprocess.run(command, cwd=fleet.parent, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_it_runs_without_pytests_terminal(fleet):
    outcome = run_pytest(fleet.parent, ["--inventory", "hosts.yaml", "-p", "no:terminal"])
    assert outcome.exit_code == 0, outcome.stderr
    assert (outcome.folder / "report.html").exists()
