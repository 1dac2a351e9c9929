"""The way to a node is the user's own SSH configuration: files with Include and Match, jump hosts, ProxyCommand."""

import contextlib
import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.sshd import NODE_PYTHON, Fleet, changed, free_port
from support.unreachable import refusal

from lab.processes import wait_until
from nodegate.node import Connection, Node
from nodegate.transport import Options, connect
from nodegate.transport.ssh_config import resolve


def says_hello(node: Node, options: Options) -> bytes:
    with contextlib.closing(connect(node, options)) as session:
        return session.run(["echo", "hello"], timeout_s=20).stdout


class Site:
    """Nodes, two jump hosts, and the user's configuration that leads there."""

    def __init__(self, folder: Path, nodes: Fleet, outer: Fleet, inner: Fleet) -> None:
        self.folder, self.nodes, self.outer, self.inner = folder, nodes, outer, inner
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text("".join(f.known_hosts.read_text() for f in (nodes, outer, inner)))
        self._numbers = itertools.count()

    def write(self, *lines: str) -> Options:
        """The configuration: these lines, then one host entry for each jump host."""
        common = [f"UserKnownHostsFile {self.known_hosts}", "GlobalKnownHostsFile none", "IdentityAgent none"]
        entries = [
            line
            for name, fleet in (("outer", self.outer), ("inner", self.inner))
            for line in (
                f"Host {name}",
                f"HostName {fleet.addresses[0]}",
                f"Port {fleet.port}",
                f"IdentityFile {fleet.user_key}",
            )
        ]
        self.config = self.folder / f"config-{next(self._numbers)}"  # what ssh says of a file is asked once
        self.config.write_text("\n".join([*lines, *entries, "Host *", *common]) + "\n")
        return Options(ssh_config=self.config)

    def node(self, index: int = 0, **connection: object) -> Node:
        """A node for which the inventory gives address, port and key, and the configuration the way."""
        plain = self.nodes.nodes[index]
        return changed(plain, **({"ssh_args": ()} | connection))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with (
        Fleet(folder, count=12, name="node") as nodes,
        Fleet(folder, name="outer") as outer,
        Fleet(folder, name="inner") as inner,
    ):
        yield Site(folder, nodes, outer, inner)


def test_a_jump_host(site: Site) -> None:
    options = site.write("Host 127.*", "ProxyJump outer")
    before = site.outer.connections()
    assert says_hello(site.node(), options) == b"hello\n"
    assert site.outer.connections() == before + 1


def test_two_jump_hosts_in_the_inventory(site: Site) -> None:
    options = site.write()
    before = site.outer.connections(), site.inner.connections()
    assert says_hello(site.node(ssh_args=("-J", "outer,inner")), options) == b"hello\n"
    assert (site.outer.connections(), site.inner.connections()) == (before[0] + 1, before[1] + 1)


def test_a_jump_host_that_has_its_own_jump_host(site: Site) -> None:
    options = site.write("Host 127.*", "ProxyJump inner", "Host inner", "ProxyJump outer")
    before = site.outer.connections()
    assert says_hello(site.node(), options) == b"hello\n"
    assert site.outer.connections() == before + 1


def test_jump_hosts_that_lead_in_a_circle(site: Site) -> None:
    circle = ["Host inner", "ProxyJump outer", "Host outer", "ProxyJump inner"]
    options = site.write("Host 127.*", "ProxyJump inner", *circle)
    error = refusal(site.node(), options)
    assert error.kind == "configuration"
    assert "loop" in error.next_step


def test_all_nodes_behind_a_jump_host_share_one_connection_to_it(site: Site) -> None:
    options = site.write("Host 127.*", "ProxyJump outer")
    before = site.outer.connections()
    nodes = [site.node(index) for index in range(12)]
    with ThreadPoolExecutor(12) as pool:
        sessions = list(pool.map(lambda node: connect(node, options), nodes))
        assert {session.run(["true"], timeout_s=20).exit_code for session in sessions} == {0}
        assert site.outer.connections() == before + 1
    assert site.outer.descendants()
    for session in sessions:
        session.close()
    assert wait_until(lambda: not site.outer.descendants()), (
        "the connection to the jump host ends with the last node behind it"
    )


def test_a_jump_host_that_is_down(site: Site) -> None:
    port = free_port("127.0.0.1")
    options = site.write("Host 127.0.0.1", "ProxyJump none", "Host 127.*", f"ProxyJump 127.0.0.1:{port}")
    start = time.monotonic()
    for _ in range(3):
        error = refusal(site.node(), options)
        assert error.kind == "jump-host"
        assert f"127.0.0.1:{port} refused the connection" in error.reason
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(("transport", "jumps"), [("ssh", False), ("ssh-binary", False), ("ssh-binary", True)])
def test_a_bastion_that_takes_few_logins_at_once_lets_every_node_through(
    site: Site, tmp_path: Path, transport: str, *, jumps: bool
) -> None:
    # Each node has a connection to the bastion of its own here, and its sshd drops what is too much.
    with Fleet(tmp_path, name="bastion", MaxStartups="2:60:4") as bastion, ThreadPoolExecutor(12) as pool:
        site.write(
            "Host bastion",
            f"HostName {bastion.addresses[0]}",
            f"Port {bastion.port}",
            f"IdentityFile {bastion.user_key}",
            f"UserKnownHostsFile {bastion.known_hosts}",
        )
        by = "ProxyJump=bastion" if jumps else f"ProxyCommand=ssh -F {site.config} -W %h:%p bastion"
        way = ("-F", str(site.config), "-o", by)
        nodes = [site.node(index, transport=transport, ssh_args=way) for index in range(12)]
        options = Options()
        assert list(pool.map(lambda node: says_hello(node, options), nodes)) == [b"hello\n"] * 12
        assert bastion.connections() == 12


def test_a_node_that_its_jump_host_cannot_reach(site: Site) -> None:
    options = site.write("Host 127.*", "ProxyJump outer")
    error = refusal(site.node(port=free_port("127.0.0.1")), options)
    assert error.kind == "jump-host"
    assert "it could not connect to" in error.reason


def test_a_jump_host_that_may_not_forward(site: Site, tmp_path: Path) -> None:
    with Fleet(tmp_path, name="closed", AllowTcpForwarding="no") as closed:
        options = site.write(
            "Host 127.*",
            "ProxyJump closed",
            "Host closed",
            f"HostName {closed.addresses[0]}",
            f"Port {closed.port}",
            f"IdentityFile {closed.user_key}",
            f"UserKnownHostsFile {closed.known_hosts}",
        )
        error = refusal(site.node(), options)
    assert error.kind == "jump-host"
    assert "AllowTcpForwarding" in error.next_step


def test_a_jump_host_with_an_unknown_key(site: Site, tmp_path: Path) -> None:
    options = site.write("Host 127.*", "ProxyJump outer")
    site.config.write_text(site.config.read_text().replace(str(site.known_hosts), str(tmp_path / "none")))
    error = refusal(site.node(), options)
    assert error.kind == "jump-host"
    assert "is not known" in error.reason


RELAY = """
import os, socket, sys, threading
server = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    for data in iter(lambda: os.read(0, 65536), b""):
        server.sendall(data)
threading.Thread(target=up, daemon=True).start()
for data in iter(lambda: server.recv(65536), b""):
    os.write(1, data)
"""


def test_a_proxy_command(site: Site) -> None:
    options = site.write()
    (site.folder / "relay.py").write_text(RELAY)
    command = f"{NODE_PYTHON} {site.folder}/relay.py %h %p"
    assert says_hello(site.node(ssh_args=("-o", f"ProxyCommand={command}")), options) == b"hello\n"


def test_a_proxy_command_that_fails(site: Site) -> None:
    error = refusal(site.node(ssh_args=("-o", "ProxyCommand=echo no way >&2")), site.write())
    assert error.kind == "jump-host"
    assert "the ProxyCommand to" in error.reason
    assert "ended: no way" in error.reason


def test_include_match_and_aliases(site: Site, tmp_path: Path) -> None:
    fleet = site.nodes
    (tmp_path / "nodes.conf").write_text(
        f"Match host gpu-0*\n  HostName {fleet.addresses[3]}\n  Port {fleet.port}\n"
        f"Host gpu-03\n  HostKeyAlias {fleet.addresses[3]}\n"
        f"Match host gpu-0*,127.* user {fleet.user}\n  IdentityFile {fleet.user_key}\n  IdentitiesOnly yes\n"
    )
    options = site.write(f"Include {tmp_path}/*.conf")
    alias = site.known_hosts.read_text().replace(f"[{fleet.addresses[3]}]:{fleet.port}", fleet.addresses[3])
    site.known_hosts.write_text(site.known_hosts.read_text() + alias)
    node = Node("gpu-03", Connection(python=NODE_PYTHON))
    assert says_hello(node, options) == b"hello\n"


def test_the_inventory_wins_over_the_configuration(site: Site) -> None:
    options = site.write("Host 127.*", "Port 1", "User nobody", "IdentityFile /nonexistent")
    assert says_hello(site.node(), options) == b"hello\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "Prot=22"), "Bad configuration option: prot"),
        (("-F", "/nonexistent/config"), "Can't open user config file /nonexistent/config"),
        (("stray",), "'stray' is not an option"),
        (("-?",), "option -? not recognized"),
    ],
)
def test_a_bad_ssh_configuration_is_told_in_ssh_s_words(site: Site, words: tuple[str, ...], said: str) -> None:
    error = refusal(site.node(ssh_args=words))
    assert error.kind == "configuration"
    assert said in error.reason


def test_a_bad_line_of_the_configuration_is_named(site: Site) -> None:
    error = refusal(site.node(), site.write("HostNmae x"))
    assert f"{site.config}: line 1: Bad configuration option: hostnmae" in error.reason


def test_without_an_ssh_program_the_plain_parts_still_count(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    options = site.write("Host 127.*", f"IdentityFile {site.nodes.user_key}", f"User {site.nodes.user}")
    monkeypatch.setenv("PATH", "/nonexistent")
    resolve.cache_clear()
    assert says_hello(site.node(key_files=(), user=None), options) == b"hello\n"
