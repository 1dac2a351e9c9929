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
from nodegate.transport import Options, connect

ADDRESS = "127.211.7.1"


@contextlib.contextmanager
def hostile(folder: Path, serve: Serve, **connection: object) -> Iterator[Node]:
    """A node whose SSH port is served so; its host key is known."""
    fleet, port = Fleet(folder), free_port(ADDRESS)
    with Server(ADDRESS, port, serve, fleet.host_keys[0]):
        fleet.known_hosts.write_text(f"[{ADDRESS}]:{port} {public_key(fleet.host_keys[0])}\n")
        yield changed(fleet.nodes[0], address=ADDRESS, port=port, **connection)


def memory_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_a_packet_of_gigabytes_is_not_kept(tmp_path: Path) -> None:
    before = memory_mib()
    with hostile(tmp_path, servers.huge_packet, connect_timeout_s=20.0) as node:
        began_s = time.monotonic()
        error = refusal(node)
    assert "sent what is not SSH in the key exchange: a packet of" in error.reason
    assert time.monotonic() - began_s < 18
    assert memory_mib() - before < 50


def test_a_greeting_without_an_end_is_read_no_further(tmp_path: Path) -> None:
    with hostile(tmp_path, servers.endless_line, connect_timeout_s=20.0) as node:
        began_s = time.monotonic()
        error = refusal(node)
    assert (error.kind, "is not an SSH server: it sent ....." in error.reason) == ("dropped", True)
    assert time.monotonic() - began_s < 18


def test_an_sshd_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with (
        hostile(tmp_path, servers.deaf) as node,
        contextlib.closing(connect(node, Options(answer_s=2.0))) as session,
        pytest.raises(Unreachable, match="its sshd did not answer within 2 s") as caught,
    ):
        session.run(["true"], timeout_s=600)
    assert caught.value.kind == "timeout"


def test_a_lock_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodegate.transport.guarded.END_S", 0.0)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase "$*" in *nodegate-guard*) exec /usr/bin/python3 "$@";; esac\nexec sleep 60\n')
    python.chmod(0o755)
    with (
        Fleet(tmp_path) as fleet,
        contextlib.closing(connect(changed(fleet.nodes[0], python=str(python)), Options(answer_s=4.0))) as session,
        pytest.raises(Unreachable, match="did not answer within 4 s"),
    ):
        session.hold_lock(str(tmp_path / "lock"))


def test_frames_without_an_end_are_read_no_further(tmp_path: Path) -> None:
    python = tmp_path / "python"
    interpreter = servers.__file__.replace("servers.py", "interpreter.py")
    python.write_text(f'#!/bin/sh\nexec /usr/bin/python3 {interpreter} endless-frames none "$@"\n')
    python.chmod(0o755)
    with (
        Fleet(tmp_path) as fleet,
        contextlib.closing(connect(changed(fleet.nodes[0], python=str(python)), Options())) as session,
        pytest.raises(Unreachable, match="it sent more than 1000000 bytes") as caught,
    ):
        session.run(["true"], timeout_s=600, max_output_bytes=1_000_000)
    assert caught.value.kind == "dropped"
