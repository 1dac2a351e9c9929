"""A run that a signal ends.

systemd and batch systems send SIGTERM, a terminal that is closed sends SIGHUP.
"""

import json
import os
import pty
import signal
import subprocess
import sys

import pytest
from support.load_fleet import CHECKS, ROOT, SHORT, LoadFleet

from lab.processes import wait_until
from nodegate.plugin.interrupt import Interrupts

PROCESSES_UNDER_LOAD = 7  # logins, guards and the burn
INTERRUPTED = 2


@pytest.fixture(autouse=True)
def _hangups_are_not_ignored():
    """As in a terminal, also where these tests run under nohup: a child inherits what is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def fleet(tmp_path):
    with LoadFleet(tmp_path / "fleet", 1, with_rdma=0) as fleet:
        fleet["gpu1"].gpu(None, "cuda.hang.cuStreamSynchronize", 1)  # the burn goes on until it is ended
        yield fleet


def burns(fleet, folder):
    """Whether the node's GPUs are under load by now: its facts are in, and programs of ours run on it."""
    facts = folder / "reports/latest/evidence/gpu1/facts.json"
    return lambda: facts.exists() and len(fleet.left()) >= PROCESSES_UNDER_LOAD


def said(folder):
    return json.loads((folder / "reports/latest/report.json").read_text())["run"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_a_signal_ends_the_run_with_a_report(fleet, tmp_path, number):
    folder = tmp_path / "run"
    run = fleet.start(folder, "--hang-after", "60s", asked=("node", "burn"))
    assert wait_until(burns(fleet, folder), 60)
    run.process.send_signal(number)
    outcome = run.outcome()
    assert outcome.exit_code == INTERRUPTED, outcome.stdout + outcome.stderr
    assert wait_until(fleet.is_clear), fleet.left()
    assert said(folder)["interrupted"] is True
    assert "accepted of" not in outcome.stdout
    assert f"the run was ended by {number.name}" in outcome.stdout
    assert (folder / "reports/latest/report.html").exists()


def test_a_closed_terminal_ends_the_run_with_a_report(fleet, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "hosts.yaml").write_text(fleet.inventory())
    checks = [str(CHECKS / f"test_{name}.py") for name in ("node", "burn")]
    command = [sys.executable, "-m", "pytest", "--inventory", "hosts.yaml", *SHORT, "--hang-after", "60s", *checks]
    ours, theirs = pty.openpty()
    about = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    on_it = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    with subprocess.Popen(["setsid", "--ctty", "--wait", *command], **about, **on_it) as run:
        os.close(theirs)
        assert wait_until(burns(fleet, folder), 60)
        os.close(ours)
        assert run.wait(60) == INTERRUPTED
    assert wait_until(fleet.is_clear), fleet.left()
    assert said(folder)["interrupted"] is True


def test_what_is_ignored_stays_ignored_as_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts = Interrupts()
    try:
        interrupts.begin()
        interrupts.take()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        interrupts.give_back()
        signal.signal(signal.SIGHUP, before)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
