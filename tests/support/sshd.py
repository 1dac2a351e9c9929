"""A fleet of real OpenSSH servers on 127.0.0.0/8, one address a node.

    with Fleet(tmp_path, count=64) as fleet:
        session = connect(fleet.nodes[0], Options())

One sshd process listens for 16 nodes (its own limit), so big fleets are cheap. Nodes that must differ (another host
key, another option) are separate fleets. The user's own SSH configuration is never read.
"""

from __future__ import annotations

import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from lab.keys import make_key, public_key
from lab.processes import children_of, name_of, tell, wait_until
from nodegate.node import Connection, Node

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin")
PRIVILEGE_FOLDER = Path("/run/sshd")
NODE_PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else "python3"
ADDRESSES_PER_SERVER = 16  # sshd's MAX_LISTEN_SOCKS


def changed(node, **connection):
    """The node with other connection values: `changed(node, user="bob", port=1)`."""
    return replace(node, connection=replace(node.connection, **connection))


class Fleet:
    """`count` nodes behind real sshds; a context manager.

    Args:
        folder: where keys, configuration and log go (made when missing).
        count: number of nodes, each with its own address and the same port.
        name: nodes are called `<name>1`, `<name>2`, ...
        user: who logs in; another one than ourselves only when we are root.
        host_key_types: one host key of each type.
        sshd_options: lines of sshd_config (`MaxStartups="2:50:4"`), which win over the defaults here.

    Attributes:
        nodes: ready for `connect`: address, port, user, key file and the fleet's own known_hosts in `ssh_args`.
        known_hosts: the fleet's host keys, one line a node and key.
        log: sshd's log at level VERBOSE.
        user_key: the private key that logs in.
        host_keys: the servers' private keys.
        home: $HOME of the logins, empty: write a `.bashrc` into it to make a login noisy.
    """

    def __init__(self, folder, count=1, *, name="node", user="", host_key_types=("ed25519",), **sshd_options):
        self.folder = folder / f"sshd-{name}"
        self.folder.mkdir(parents=True)
        self.home = self.folder / "home"
        self.home.mkdir()
        self.log = self.folder / "sshd.log"
        self.known_hosts = self.folder / "known_hosts"
        self.user_key = make_key(self.folder / "user_key")
        self.host_keys = [make_key(self.folder / f"host_{kind}", kind) for kind in host_key_types]
        self.user = user or getpass.getuser()
        net = random.SystemRandom().randrange(1, 200)
        self.addresses = [f"127.{net}.{1 + i // 250}.{1 + i % 250}" for i in range(count)]
        self.port = free_port(self.addresses[0])
        self._options = sshd_options
        self._servers: list[subprocess.Popen[bytes]] = []
        self._write_known_hosts()
        self.nodes = [self._node(f"{name}{i + 1}", address) for i, address in enumerate(self.addresses)]

    def _node(self, name, address):
        ssh_args = ("-F", "none", "-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "GlobalKnownHostsFile=none")
        return Node(
            name=name,
            connection=Connection(
                address=address,
                port=self.port,
                user=self.user,
                key_files=(str(self.user_key),),
                python=NODE_PYTHON,
                connect_timeout_s=60.0,  # a machine that stands still for some seconds is no node that is down
                ssh_args=(*ssh_args, "-o", "IdentityAgent=none", "-o", "IdentitiesOnly=yes"),
            ),
        )

    def _write_known_hosts(self):
        lines = [f"[{a}]:{self.port} {public_key(key)}\n" for a in self.addresses for key in self.host_keys]
        self.known_hosts.write_text("".join(lines))

    def _write_config(self, addresses):
        authorized = self.folder / "authorized_keys"
        authorized.write_text(public_key(self.user_key) + "\n")
        options = {
            "AuthorizedKeysFile": str(authorized),
            "PidFile": "none",
            "UsePAM": "no",
            "StrictModes": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "LogLevel": "VERBOSE",
            "MaxStartups": "1000",
            "PrintMotd": "no",
            "SetEnv": f"HOME={self.home}",
            "UseDNS": "no",
            "Subsystem": "sftp internal-sftp",
        } | self._options
        lines = [f"Port {self.port}", *(f"ListenAddress {a}" for a in addresses)]
        lines += [f"HostKey {key}" for key in self.host_keys]
        lines += [f"{key} {value}" for key, value in options.items()]
        config = self.folder / f"sshd_config-{addresses[0]}"
        config.write_text("\n".join(lines) + "\n")
        return config

    def __enter__(self):
        if SSHD is None:
            raise FileNotFoundError("sshd: install openssh-server")
        if os.geteuid() == 0:
            PRIVILEGE_FOLDER.mkdir(mode=0o755, exist_ok=True)
        for start in range(0, len(self.addresses), ADDRESSES_PER_SERVER):
            config = self._write_config(self.addresses[start : start + ADDRESSES_PER_SERVER])
            with self.log.open("ab") as log:
                command = [SSHD, "-D", "-e", "-f", str(config)]
                self._servers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log))
        self._wait_until_it_listens()
        return self

    def _wait_until_it_listens(self, limit_s=20.0):
        end = time.monotonic() + limit_s
        while self._log_text().count("Server listening on") < len(self.addresses):
            if time.monotonic() > end or any(server.poll() is not None for server in self._servers):
                self.stop()
                raise RuntimeError(f"sshd did not start: {self._log_text()[-2000:]}")
            time.sleep(0.02)

    def _log_text(self):
        return self.log.read_text(errors="replace")

    def __exit__(self, kind, error, trace):
        self.stop()

    def stop(self):
        """End the servers and every login on them, as a node that loses power does."""
        logins = self.descendants()
        tell([*(server.pid for server in self._servers), *logins], signal.SIGKILL)
        for server in self._servers:
            server.wait()
        wait_until(lambda: not any(name_of(pid) for pid in logins))
        self._servers.clear()

    def descendants(self):
        """Every process that a login on these nodes has running now."""
        return [pid for server in self._servers for pid in children_of(server.pid)]

    def pids(self):
        """Of the servers that listen."""
        return [server.pid for server in self._servers]

    def serving(self):
        """The sshds that serve a connection each, those of a login's user included."""
        return [pid for pid in self.descendants() if name_of(pid).startswith("sshd")]

    def connections(self):
        """How many logins succeeded so far, over all nodes."""
        return self._log_text().count("Accepted publickey")

    def inventory(self):
        """The fleet as an Ansible YAML inventory."""
        first = self.nodes[0].connection
        lines = [
            "all:",
            "  vars:",
            f"    ansible_user: {self.user}",
            f"    ansible_port: {self.port}",
            "    ansible_ssh_timeout: 60",
        ]
        lines += [f"    ansible_python_interpreter: {NODE_PYTHON}"]
        lines += [f"    ansible_ssh_private_key_file: {self.user_key}"]
        lines += [f"    ansible_ssh_common_args: {' '.join(first.ssh_args)!r}", "  hosts:"]
        # All these nodes are the same machine: each has a lock of its own.
        lines += [
            f"    {node.name}: {{ansible_host: {node.address}, nodegate_lock: {self.folder}/{node.name}.lock}}"
            for node in self.nodes
        ]
        return "\n".join(lines) + "\n"


def free_port(address="127.0.0.1"):
    """A port that nothing listens on at `address`, below those of the kernel's outgoing connections and of perftest."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20_000, 26_000)
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
