"""A program that is started and not waited for: it runs beside others, and ends when we have had our use of it."""

import threading

import pytest

from lab.processes import running, wait_until
from nodegate.errors import Unreachable


def test_a_server_runs_while_other_programs_do_and_ends_when_it_is_stopped(session, seconds):
    script = f"echo ready; echo later; trap '' TERM; setsid sleep {seconds} & sleep {seconds}"
    server = session.start(["sh", "-c", script], timeout_s=60)
    assert server.line() == "ready"
    assert session.run(["echo", "client"], timeout_s=20).stdout == b"client\n"
    assert not server.ended(0)
    assert wait_until(lambda: len(running(seconds)) == 2)
    output = server.stop()
    assert (output.stdout, output.exit_code, output.timed_out) == (b"ready\nlater\n", None, False)
    assert server.stop() is output
    assert running(seconds) == []


def test_a_server_that_ends_by_itself_says_how(session):
    server = session.start(["sh", "-c", "cat; echo bad >&2; exit 3"], timeout_s=60, stdin=b"asked")
    assert server.ended(30)
    output = server.stop()
    assert (output.stdout, output.stderr, output.exit_code) == (b"asked", b"bad\n", 3)


def test_a_server_that_writes_no_line_has_an_empty_one(session):
    server = session.start(["true"], timeout_s=60)
    assert server.line() == ""
    assert server.stop().exit_code == 0


def test_a_server_that_nobody_stops_ends_at_its_time_limit(session, seconds):
    server = session.start(["sleep", seconds], timeout_s=1)
    assert server.ended(30)
    assert running(seconds) == []
    assert server.stop().timed_out


def test_closing_ends_a_server_too(session, seconds, monkeypatch):
    monkeypatch.setattr("nodegate.transport.guarded.CLOSE_S", 60.0)
    server = session.start(["sleep", seconds], timeout_s=60)
    assert wait_until(lambda: len(running(seconds)) == 1)
    closing = threading.Thread(target=session.close)
    closing.start()
    assert wait_until(lambda: not running(seconds))
    assert server.stop().exit_code is None
    closing.join(60)
    with pytest.raises(Unreachable, match="the session is closed"):
        session.start(["true"], timeout_s=10)
