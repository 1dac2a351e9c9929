"""Every way in which a node cannot be reached has its own kind, says what is wrong and what to do."""

import contextlib
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.sshd import Fleet, changed, free_port, make_key
from support.unreachable import refusal

from lab.processes import running, wait_until
from nodegate.errors import Unreachable
from nodegate.transport import Options, connect


def test_what_the_inventory_has_wrong_is_told_with_its_name(fleet, node, tmp_path):
    port, stranger, locked = free_port(node.address), make_key(tmp_path / "stranger"), make_key(tmp_path / "locked")
    subprocess.run(["ssh-keygen", "-q", "-p", "-f", locked, "-P", "", "-N", "secret"], check=True)
    wrong: list[tuple[dict[str, object], str, str]] = [
        ({"address": "no-such-host.invalid"}, "unresolved", "no-such-host.invalid"),
        ({"port": port}, "refused", f"{node.address}:{port} refused the connection"),
        ({"key_files": (str(stranger),)}, "authentication", f"{fleet.user}@"),
        ({"key_files": (str(stranger),)}, "authentication", f"refused: {stranger}"),
        ({"key_files": ("/no/key",)}, "authentication", "no key was available (/no/key: no such file)"),
        ({"key_files": (str(locked),)}, "authentication", f"{locked}: has a passphrase and is not loaded in the agent"),
        *(
            ({"address": hostile}, "configuration", "is not a host name or address")
            for hostile in ("-oProxyCommand=touch /tmp/x", "a b", "node;reboot", "$(reboot)")
        ),
    ]
    for connection, kind, said in wrong:
        error = refusal(changed(node, **connection))
        assert (error.kind, said in error.reason) == (kind, True), error


def test_small_packets_are_sent_at_once(node):
    with contextlib.closing(connect(node, Options())) as session:
        sock = session._client.transport.sock
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_server_that_turns_many_away_is_tried_again(tmp_path, caplog):
    with Fleet(tmp_path, MaxStartups="2:50:4") as fleet, ThreadPoolExecutor(20) as pool:
        options, barrier = Options(), threading.Barrier(20)
        patient = changed(fleet.nodes[0], retries=6)

        def one(_):
            barrier.wait()
            with contextlib.closing(connect(patient, options)) as session:
                return session.run(["true"], timeout_s=30).exit_code

        assert list(pool.map(one, range(20))) == [0] * 20
        assert fleet.connections() == 20
    assert "closed the connection before its SSH banner; it is tried again, at most" in caplog.text


def test_a_node_that_takes_passwords_only(tmp_path):
    with Fleet(tmp_path, PubkeyAuthentication="no", PasswordAuthentication="yes") as fleet:
        error = refusal(fleet.nodes[0])
    assert error.kind == "authentication"
    assert "it does not accept keys, only password" in error.reason
    assert "ssh-binary" in error.next_step


def test_a_user_certificate_logs_in(tmp_path):
    authority = make_key(tmp_path / "ca")
    with Fleet(tmp_path, AuthorizedKeysFile="none", TrustedUserCAKeys=f"{authority}.pub") as fleet:
        assert refusal(fleet.nodes[0]).kind == "authentication"
        sign = ["ssh-keygen", "-q", "-s", authority, "-I", "test", "-n", fleet.user, f"{fleet.user_key}.pub"]
        subprocess.run(sign, check=True)
        connect(fleet.nodes[0], Options()).close()


def test_the_agent_logs_in(node, fleet, tmp_path, monkeypatch):
    path = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        assert wait_until(lambda: subprocess.run(["ssh-add", "-q", fleet.user_key], check=False).returncode == 0)
        args = ("-F", "none", "-o", f"UserKnownHostsFile={fleet.known_hosts}")
        assert (
            refusal(changed(node, key_files=(), ssh_args=(*args, "-o", "IdentityAgent=none"))).kind == "authentication"
        )
        connect(changed(node, key_files=(), ssh_args=args), Options()).close()
    finally:
        agent.terminate()
        agent.wait()


def test_a_server_that_stops_listening_to_keys(tmp_path):
    keys = tuple(str(make_key(tmp_path / f"key{i}")) for i in range(4))
    with Fleet(tmp_path, MaxAuthTries="2") as fleet:
        error = refusal(changed(fleet.nodes[0], key_files=keys))
    assert error.kind == "authentication"
    assert "it closed the connection after" in error.reason


def test_no_python_on_the_node(node):
    lost = changed(node, python="/nonexistent/python3")
    with contextlib.closing(connect(lost, Options())) as session, pytest.raises(Unreachable) as caught:
        session.run(["true"], timeout_s=10)
    assert caught.value.kind == "no-python"
    assert "/nonexistent/python3 did not start there (exit 127" in caught.value.reason
    assert "ansible_python_interpreter" in caught.value.next_step


def test_a_node_that_goes_down_while_it_works(tmp_path, seconds):
    def go_down():
        wait_until(lambda: running(seconds))
        fleet.stop()

    with Fleet(tmp_path) as fleet, contextlib.closing(connect(fleet.nodes[0], Options())) as session:
        threading.Thread(target=go_down).start()
        with pytest.raises(Unreachable) as caught:
            session.run(["sleep", seconds], timeout_s=60)
        assert caught.value.kind == "dropped"
        assert "the connection broke while it ran sleep" in caught.value.reason
        with pytest.raises(Unreachable) as again:
            session.run(["true"], timeout_s=10)
        assert again.value.kind == "dropped"


def test_many_threads_share_one_connection(fleet, node):
    """More at once than sshd's MaxSessions of 10: the others wait for their turn."""
    before = fleet.connections()
    with contextlib.closing(connect(node, Options())) as session, ThreadPoolExecutor(24) as pool:

        def echo(number):
            return session.run(["cat"], timeout_s=30, stdin=b"%d" % number * 20_000).stdout

        assert list(pool.map(echo, range(48))) == [b"%d" % number * 20_000 for number in range(48)]
    assert fleet.connections() - before == 1


def test_a_node_that_runs_nothing(tmp_path):
    with (
        Fleet(tmp_path, MaxSessions="0") as fleet,
        contextlib.closing(connect(fleet.nodes[0], Options())) as session,
        pytest.raises(Unreachable, match="does not run programs") as caught,
    ):
        session.run(["true"], timeout_s=10)
    assert caught.value.kind == "configuration"
