"""What answers on a node's SSH port, and an sshd that hangs."""

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hostile import servers
from support.hostile.servers import Serve, Server
from support.sshd import Fleet, changed, free_port
from support.unreachable import refusal

from lab.keys import public_key
from nodegate.errors import Unreachable
from nodegate.node import Node
from nodegate.transport import Options, Session, connect

ADDRESS = "127.211.7.1"


@contextlib.contextmanager
def hostile(folder: Path, serve: Serve, **connection: object) -> Iterator[Node]:
    fleet, port = Fleet(folder), free_port(ADDRESS)
    with Server(ADDRESS, port, serve, fleet.host_keys[0]):
        fleet.known_hosts.write_text(f"[{ADDRESS}]:{port} {public_key(fleet.host_keys[0])}\n")
        yield changed(fleet.nodes[0], address=ADDRESS, port=port, **connection)


def memory_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (servers.huge_packet, "sent what is not SSH in the key exchange: a packet of"),
        (servers.endless_line, "is not an SSH server: it sent ....."),
    ],
)
def test_what_is_too_long_is_neither_kept_nor_read_to_its_end(tmp_path: Path, serve: Serve, words: str) -> None:
    before = memory_mib()
    with hostile(tmp_path, serve, connect_timeout_s=20.0) as node:
        began_s = time.monotonic()
        error = refusal(node)
    assert (error.kind, words in error.reason) == ("dropped", True)
    assert time.monotonic() - began_s < 18
    assert memory_mib() - before < 50


def test_an_sshd_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodegate.transport.guarded.GuardedSession.answer_s", 2.0)
    with (
        hostile(tmp_path, servers.deaf) as node,
        contextlib.closing(connect(node, Options())) as session,
        pytest.raises(Unreachable, match="its sshd did not answer within 2 s") as caught,
    ):
        session.run(["true"], timeout_s=600)
    assert caught.value.kind == "timeout"


@contextlib.contextmanager
def with_python(folder: Path, script: str, options: Options) -> Iterator[Session]:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with Fleet(folder) as fleet:
        session = connect(changed(fleet.nodes[0], python=str(python)), options)
        with contextlib.closing(session):
            yield session


def test_a_lock_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodegate.transport.guarded.END_S", 0.0)
    monkeypatch.setattr("nodegate.transport.guarded.GuardedSession.answer_s", 4.0)
    script = 'case "$*" in *nodegate-guard*) exec /usr/bin/python3 "$@";; esac\nexec sleep 60'
    with (
        with_python(tmp_path, script, Options()) as session,
        pytest.raises(Unreachable, match="did not answer within 4 s"),
    ):
        session.hold_lock(str(tmp_path / "lock"))


def test_frames_without_an_end_are_read_no_further(tmp_path: Path) -> None:
    interpreter = servers.__file__.replace("servers.py", "interpreter.py")
    script = f'exec /usr/bin/python3 {interpreter} endless-frames none "$@"'
    with (
        with_python(tmp_path, script, Options()) as session,
        pytest.raises(Unreachable, match="it sent more than 1000000 bytes") as caught,
    ):
        session.run(["true"], timeout_s=600, max_output_bytes=1_000_000)
    assert caught.value.kind == "dropped"
