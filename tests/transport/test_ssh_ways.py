"""The way to a node is the user's own SSH configuration: files with Include and Match, jump hosts, ProxyCommand."""

import contextlib
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.sshd import NODE_PYTHON, Fleet, changed, free_port
from support.unreachable import refusal

from lab.processes import wait_until
from nodegate.node import Connection, Node
from nodegate.transport import Options, connect
from nodegate.transport.ssh_config import resolve


def says_hello(node, options):
    with contextlib.closing(connect(node, options)) as session:
        return session.run(["echo", "hello"], timeout_s=20).stdout


class Site:
    """Nodes, two jump hosts, and the user's configuration that leads there."""

    def __init__(self, folder, nodes, outer, inner):
        self.folder, self.nodes, self.outer, self.inner = folder, nodes, outer, inner
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text("".join(f.known_hosts.read_text() for f in (nodes, outer, inner)))
        self._numbers = itertools.count()

    def write(self, *lines, **more):
        """The configuration: these lines, then one host entry for each jump host."""
        common = [f"UserKnownHostsFile {self.known_hosts}", "GlobalKnownHostsFile none", "IdentityAgent none"]
        entries = [
            f"Host {name}\n HostName {fleet.addresses[0]}\n Port {fleet.port}\n IdentityFile {fleet.user_key}\n"
            f" UserKnownHostsFile {self.known_hosts} {fleet.known_hosts}"
            for name, fleet in {"outer": self.outer, "inner": self.inner, **more}.items()
        ]
        self.config = self.folder / f"config-{next(self._numbers)}"  # what ssh says of a file is asked once
        self.config.write_text("\n".join([*lines, *entries, "Host *", *common]) + "\n")
        return Options(ssh_config=self.config)

    def node(self, index=0, **connection):
        plain = self.nodes.nodes[index]
        return changed(plain, **({"ssh_args": ()} | connection))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    with (
        Fleet(folder, count=12, name="node") as nodes,
        Fleet(folder, name="outer") as outer,
        Fleet(folder, name="inner") as inner,
    ):
        yield Site(folder, nodes, outer, inner)


@pytest.mark.parametrize(
    ("lines", "arguments", "inner"),
    [
        (["Host 127.*", "ProxyJump outer"], (), 0),
        ([], ("-J", "outer,inner"), 1),
        (["Host 127.*", "ProxyJump inner", "Host inner", "ProxyJump outer"], (), 1),  # which has its own
    ],
)
def test_a_way_over_jump_hosts(site, lines, arguments, inner):
    options = site.write(*lines)
    before = site.outer.connections(), site.inner.connections()
    assert says_hello(site.node(ssh_args=arguments), options) == b"hello\n"
    assert (site.outer.connections(), site.inner.connections()) == (before[0] + 1, before[1] + inner)


CIRCLE = ["Host 127.*", "ProxyJump inner", "Host inner", "ProxyJump outer", "Host outer", "ProxyJump inner"]


@pytest.mark.parametrize(
    ("lines", "connection", "kind", "words"),
    [
        (CIRCLE, {}, "configuration", "whether they form a loop"),
        (["Host 127.*", "ProxyJump outer"], {"port": free_port("127.0.0.1")}, "jump-host", "it could not connect to"),
        ([], {"ssh_args": ("-o", "ProxyCommand=echo no way >&2")}, "jump-host", "ended: no way"),
        (["HostNmae x"], {}, "configuration", ": line 1: Bad configuration option: hostnmae"),
        ([], {"ssh_args": ("-o", "Prot=22")}, "configuration", "Bad configuration option: prot"),
        ([], {"ssh_args": ("-F", "/nonexistent/config")}, "configuration", "Can't open user config file /nonexistent"),
        ([], {"ssh_args": ("stray",)}, "configuration", "'stray' is not an option"),
        ([], {"ssh_args": ("-?",)}, "configuration", "option -? not recognized"),
    ],
)
def test_a_way_that_leads_nowhere_is_told(site, lines, connection, kind, words):
    error = refusal(site.node(**connection), site.write(*lines))
    assert (error.kind, words in f"{error.reason} {error.next_step}") == (kind, True), error


def test_all_nodes_behind_a_jump_host_share_one_connection_to_it(site):
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


def test_a_jump_host_that_is_down(site):
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
        site.write(bastion=bastion)
        by = "ProxyJump=bastion" if jumps else f"ProxyCommand=ssh -F {site.config} -W %h:%p bastion"
        way = ("-F", str(site.config), "-o", by)
        nodes = [site.node(index, transport=transport, ssh_args=way) for index in range(12)]
        options = Options()
        assert list(pool.map(lambda node: says_hello(node, options), nodes)) == [b"hello\n"] * 12
        assert bastion.connections() == 12


def test_a_jump_host_that_may_not_forward(site, tmp_path):
    with Fleet(tmp_path, name="closed", AllowTcpForwarding="no") as closed:
        error = refusal(site.node(), site.write("Host 127.*", "ProxyJump closed", closed=closed))
    assert error.kind == "jump-host"
    assert "AllowTcpForwarding" in error.next_step


def test_a_jump_host_with_an_unknown_key(site, tmp_path):
    options = site.write("Host 127.*", "ProxyJump outer")
    for known in (site.known_hosts, site.outer.known_hosts):
        site.config.write_text(site.config.read_text().replace(str(known), str(tmp_path / "none")))
    error = refusal(site.node(), options)
    assert error.kind == "jump-host"
    assert "is not known" in error.reason


def test_include_match_and_aliases(site, tmp_path):
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


def test_the_inventory_wins_over_the_configuration(site):
    options = site.write("Host 127.*", "Port 1", "User nobody", "IdentityFile /nonexistent")
    assert says_hello(site.node(), options) == b"hello\n"


def test_without_an_ssh_program_the_plain_parts_still_count(site, monkeypatch):
    options = site.write("Host 127.*", f"IdentityFile {site.nodes.user_key}", f"User {site.nodes.user}")
    monkeypatch.setenv("PATH", "/nonexistent")
    resolve.cache_clear()
    assert says_hello(site.node(key_files=(), user=None), options) == b"hello\n"
