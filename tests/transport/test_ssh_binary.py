"""The ssh program as transport: the same errors, told from its words; one master connection, gone when we are."""

import contextlib
import os
import shutil

import pytest
from support.sshd import changed, free_port, make_key, public_key
from support.unreachable import refusal, with_known_hosts

from lab.processes import naming
from nodegate.transport import Options, connect


def by_ssh(node):
    return changed(node, transport="ssh-binary")


def test_one_connection_serves_every_program(fleet, node):
    before = fleet.connections()
    with contextlib.closing(connect(by_ssh(node), Options())) as session:
        for _ in range(3):
            assert session.run(["true"], timeout_s=20).exit_code == 0
    assert fleet.connections() - before == 1


def test_nothing_of_it_is_left_on_this_machine(node):
    session = connect(by_ssh(node), Options())
    folder = session._master.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert naming(folder)
    session.close()
    session.close()
    assert not folder.exists()
    assert naming(folder) == []


def test_errors_have_the_same_kinds(fleet, node, tmp_path):
    ssh = by_ssh(node)
    assert refusal(changed(ssh, address="no-such-host.invalid")).kind == "unresolved"
    assert refusal(changed(ssh, port=free_port(node.address))).kind == "refused"
    assert refusal(changed(ssh, key_files=(str(make_key(tmp_path / "stranger")),))).kind == "authentication"
    assert refusal(changed(ssh, ssh_args=("-o", "Prot=22"))).kind == "configuration"
    assert refusal(with_known_hosts(ssh, tmp_path / "none")).kind == "host-key-unknown"
    jump = ("-F", "none", "-J", f"127.0.0.1:{free_port()}")
    assert refusal(changed(ssh, ssh_args=jump)).kind in {"jump-host", "refused"}

    file = tmp_path / "known_hosts"
    file.write_text(f"[{node.address}]:{fleet.port} {public_key(make_key(tmp_path / 'other'))}\n")
    changed_key = refusal(with_known_hosts(ssh, file))
    assert changed_key.kind == "host-key-changed"
    assert "SHA256:" in changed_key.reason


@pytest.mark.long
def test_a_server_that_talks_without_end_before_the_login_is_left(node, tmp_path, monkeypatch):
    ssh, talks = shutil.which("ssh"), tmp_path / "ssh"
    talks.write_text(f'#!/bin/sh\ncase "$*" in *-G*) exec {ssh} "$@";; esac\nyes "a banner" >&2\nexit 1\n')
    talks.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    error = refusal(changed(node, transport="ssh-binary", retries=0))
    assert error.kind == "dropped"
    assert "printed more than 1048576 bytes" in error.reason
