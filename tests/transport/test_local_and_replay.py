"""This machine as a node, and nodes that were recorded."""

import contextlib
import time
from pathlib import Path

import pytest

from nodegate.errors import CannotMeasure, Unreachable
from nodegate.node import Connection, Node
from nodegate.transport import NodeLock, Options, connect
from nodegate.transport.command import CommandSession
from nodegate.transport.guarded import CLOSE_S
from nodegate.transport.replay import ReplaySession

# Many nodes have an older Python than we need ourselves: the oldest and the newest that this machine has.
PYTHONS = sorted(
    {Path("/usr/bin/python3"), *Path.home().glob(".pyenv/versions/3.*/bin/python3")},
    key=lambda path: [int(word) for word in path.parts[-3].split(".") if word.isdigit()],
)


@pytest.mark.parametrize("python", dict.fromkeys([PYTHONS[0], *PYTHONS[1:2], PYTHONS[-1]]), ids=str)
def test_every_python_since_3_6_can_guard(python, tmp_path):
    node = Node("here", Connection(transport="local", python=str(python)))
    with contextlib.closing(connect(node, Options())) as session:
        output = session.run(["sh", "-c", "cat; exit 5"], timeout_s=30, stdin=b"hello")
        assert (output.stdout, output.exit_code) == (b"hello", 5)
        assert session.run(["sh", "-c", "trap '' TERM; sleep 60"], timeout_s=0.5).timed_out
        assert isinstance(session.hold_lock(str(tmp_path / "lock")), NodeLock)


@pytest.mark.skipif(not (Path.home() / ".pyenv/versions/2.7.18/bin/python").exists(), reason="no Python 2 here")
def test_python_2_is_refused_by_name():
    python = str(Path.home() / ".pyenv/versions/2.7.18/bin/python")
    stub = Node("here", Connection(transport="local", python=python))
    with contextlib.closing(connect(stub, Options())) as session, pytest.raises(Unreachable) as caught:
        session.run(["true"], timeout_s=10)
    assert caught.value.kind == "no-python"


def replayed(folder, name="gpu001"):
    session = connect(Node(name, Connection(transport="replay", recordings=str(folder))), Options())
    assert isinstance(session, ReplaySession)
    return session


def test_a_recording_is_read(tmp_path):
    (tmp_path / "gpu001").mkdir()
    (tmp_path / "gpu001" / "facts.json").write_bytes(b'{"schema": "nodegate.probe/1"}')
    assert replayed(tmp_path).recording("facts") == b'{"schema": "nodegate.probe/1"}'


def test_what_was_not_recorded_cannot_be_measured(tmp_path):
    with pytest.raises(CannotMeasure, match="gpu_burn was not recorded"):
        replayed(tmp_path).recording("gpu_burn")


@pytest.mark.parametrize("name", ["../facts", "a/b", "", "..", ".hidden"])
def test_a_recording_lies_in_its_folder(tmp_path, name):
    (tmp_path / "facts.json").write_text("{}")
    with pytest.raises(CannotMeasure, match="cannot be the name of a recording"):
        replayed(tmp_path).recording(name)
    with pytest.raises(CannotMeasure, match="cannot be the name of a recording"):
        replayed(tmp_path, name or "/").recording("facts")


def test_a_huge_recording_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("nodegate.transport.replay.MAX_RECORDING_BYTES", 10)
    (tmp_path / "gpu001").mkdir()
    (tmp_path / "gpu001" / "facts.json").write_bytes(b"x" * 11)
    with pytest.raises(CannotMeasure, match="record it again, capped"):
        replayed(tmp_path).recording("facts")


def test_a_recorded_node_runs_nothing_and_is_always_free(tmp_path):
    session = replayed(tmp_path)
    with pytest.raises(CannotMeasure, match=r"a recorded node cannot run programs \(nvidia-smi\)"):
        session.run(["nvidia-smi"], timeout_s=10)
    with session.hold_lock() as lock:
        assert isinstance(lock, NodeLock)
    session.close()


@pytest.mark.long
def test_a_node_that_does_not_take_our_program_leaves_nothing_to_wait_for(tmp_path, monkeypatch):
    monkeypatch.setattr(CommandSession, "answer_s", 0.5)
    reads_nothing = tmp_path / "python3"
    reads_nothing.write_text("#!/bin/sh\nexec sleep 100\n")
    reads_nothing.chmod(0o755)
    session = CommandSession(Node("here", Connection(transport="local", python=str(reads_nothing))))
    with pytest.raises(Unreachable, match="did not accept nodegate's program"):
        session.run(["true"], timeout_s=30, stdin=b"x" * (1 << 20))
    began_s = time.monotonic()
    session.close()
    assert time.monotonic() - began_s < CLOSE_S / 2
