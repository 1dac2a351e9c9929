"""Two runs never burn one node together."""

import fcntl
import os

import pytest

from nodegate.errors import CannotMeasure
from nodegate.transport import Busy, NodeLock, Options, connect, guarded


def test_the_second_is_told_who_has_the_node(session, node, tmp_path):
    path = str(tmp_path / "node.lock")
    other = connect(node, Options())
    held = session.hold_lock(path, who="alice, delivery run 7")
    assert isinstance(held, NodeLock)
    assert held.path == path
    assert other.hold_lock(path) == Busy("alice, delivery run 7")

    held.release()
    held.release()
    with other.hold_lock(path) as again:
        assert isinstance(again, NodeLock)
        assert isinstance(session.hold_lock(path), Busy)
    other.close()


def test_the_lock_ends_with_its_session(session, node, tmp_path):
    path = str(tmp_path / "node.lock")
    lock = session.hold_lock(path)
    session.close()
    lock.release()
    other = connect(node, Options())
    assert isinstance(other.hold_lock(path), NodeLock)
    other.close()


def test_the_holder_says_who_it_is(session, tmp_path):
    path = str(tmp_path / "node.lock")
    with session.hold_lock(path):
        busy = session.hold_lock(path)
    assert isinstance(busy, Busy)
    assert " pid " in busy.holder
    assert " since 20" in busy.holder


def test_a_holder_s_words_are_made_printable(session, tmp_path):
    path = tmp_path / "node.lock"
    path.write_bytes(b"\x1b[2Jmallory\xff" + b"x" * 1000)
    path.chmod(0o600)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # by a program that is not ours
        busy = session.hold_lock(str(path))
    assert isinstance(busy, Busy)
    assert busy.holder.isprintable()
    assert "mallory" in busy.holder
    assert len(busy.holder) <= 200


def test_a_holder_is_known_before_its_name_is_in_the_file(session, tmp_path):
    path = tmp_path / "node.lock"
    with session.hold_lock(str(path), who="this run"):
        for early in (b"", b"the run before"):
            path.write_bytes(early)
            busy = session.hold_lock(str(path), who="this run")
            assert isinstance(busy, Busy)
            assert busy.holder == "this run"


@pytest.fixture
def spare(tmp_path, monkeypatch):
    """Where the lock goes when its usual place cannot be used, in a folder of our own here."""
    source = guarded.node_source("lock")
    place = f"{tmp_path}/spare-"
    assert "/tmp/nodegate-" in source
    monkeypatch.setattr(guarded, "node_source", lambda _: source.replace("/tmp/nodegate-", place))
    return place


def test_without_the_usual_place_the_lock_is_in_tmp(session, spare, tmp_path):
    nowhere = str(tmp_path / "nowhere" / "node.lock")
    with session.hold_lock(nowhere) as lock:
        assert isinstance(lock, NodeLock)
        assert lock.path == f"{spare}{os.getuid()}.lock"
        assert isinstance(session.hold_lock(nowhere), Busy)


def test_a_planted_link_is_not_followed(session, spare, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "node.lock").symlink_to(victim)
    with session.hold_lock(str(tmp_path / "node.lock")) as lock:
        assert isinstance(lock, NodeLock)
        assert lock.path.startswith(spare)
    assert victim.read_text() == "precious"


def test_no_place_for_a_lock_is_said(session, monkeypatch, tmp_path):
    nowhere = tmp_path / "nowhere"
    source = guarded.node_source("lock").replace("/tmp/nodegate-", f"{nowhere}/")
    monkeypatch.setattr(guarded, "node_source", lambda _: source)
    with pytest.raises(CannotMeasure, match=f"the lock file could not be opened: {nowhere}/node"):
        session.hold_lock(f"{nowhere}/node.lock")
