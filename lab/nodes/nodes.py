"""Nodes with a real systemd, journald, sshd and sudo, each with its own processes, mounts, network and host name.

    with Nodes(image(), count=4, folder=tmp_path, prepare=gpus.prepare) as lab:
        subprocess.run(lab.space.in_network("ssh", ...))  # a program in the nodes' network
        lab.nodes[0].run("systemctl", "stop", "nvidia-fabricmanager")

All of it ends with us, however we end (`lab.nodes.space`).
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lab import needs
from lab.keys import make_key, public_key
from lab.nodes import cgroups
from lab.nodes.node import LabNode
from lab.nodes.space import FOLDER, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

PROGRAMS = ("ip", "mmdebstrap", "nsenter", "ssh", "ssh-keygen", "systemd-nspawn", "unshare")
# What lab/nodes/recipe/root/etc/security/limits.d and a kernel's default give; real GPU nodes have more.
LIMITS = "{host.open_files_min: 16384, host.locked_memory_min_gib: 0.007}"


def why_not() -> str:
    """Why this machine cannot run such nodes; empty when it can."""
    return needs.why_not("nodes with systemd", PROGRAMS)


class Nodes:
    """`count` nodes gpu-1, gpu-2, ... on one network; a context manager.

    Args:
        image: their root file system (`lab.nodes.image`), which stays as it is.
        count: how many, at most 250.
        folder: where keys and known_hosts go.
        prepare: what else a node gets before it boots.
    """

    def __init__(self, image: Path, count: int, folder: Path, prepare: Callable[[LabNode], None] | None = None) -> None:
        self.image, self.folder = image, folder
        self.nodes: list[LabNode] = []
        self._count, self._prepare = count, prepare
        self._space: Space | None = None

    @property
    def space(self) -> Space:
        """What they live in.

        Raises:
            RuntimeError: it is not there yet.
        """
        if self._space is None:
            raise RuntimeError("the lab was not started")
        return self._space

    def __enter__(self) -> Self:
        reason = why_not()
        if reason:
            raise RuntimeError(reason)
        cgroups.sweep()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all of it."""
        for node in self.nodes:
            node.close()
        if self._space is not None:
            self._space.end()
            for node in self.nodes:
                if node.started:
                    node.started.wait(timeout=10)

    def _start(self) -> None:
        self._space = Space(self._count)
        self._space.wait()
        self.user_key = make_key(self.folder / "user_key")
        self.nodes = [self._node(number) for number in range(1, self._count + 1)]
        self._connect()
        for node in self.nodes:
            self._furnish(node)
            node.boot()
        with ThreadPoolExecutor(self._count) as threads:
            list(threads.map(LabNode.wait, self.nodes))
        for node in self.nodes:
            node.kernel_says(f"Linux version {os.uname().release}")

    def _node(self, number: int) -> LabNode:
        name = f"gpu-{number}"
        folder = self.space.folder(name)
        for part in ("root", "hardware", "upper", "work"):
            (folder / part).mkdir(parents=True)
        return LabNode(name, f"192.0.2.{number}", folder, make_key(self.folder / f"{name}_host_key"), self.space)

    def _connect(self) -> None:
        """A bridge, and a cable from it to each node."""
        lines = ["link set lo up", "link add hub type bridge", "link set hub up", "addr add 192.0.2.254/24 dev hub"]
        for node in self.nodes:
            lines += [f"netns add {node.name}", f"link add {node.name} type veth peer name eth0 netns {node.name}"]
            lines += [f"link set {node.name} master hub up"]
        script = [f"ip -batch - <<'END'\n{chr(10).join(lines)}\nEND"]
        for node in self.nodes:
            own = f"link set lo up\naddr add {node.address}/24 dev eth0\nlink set eth0 up"
            script.append(f"ip -n {node.name} -batch - <<'END'\n{own}\nEND")
        self.space.inside("sh", "-ec", "\n".join(script))

    def _furnish(self, node: LabNode) -> None:
        here = f"{FOLDER}/{node.name}"
        layers = f"lowerdir={self.image},upperdir={here}/upper,workdir={here}/work"
        self.space.inside("mount", "-t", "overlay", "-o", layers, node.name, f"{here}/root")
        etc = node.root / "etc"
        (etc / "hostname").write_text(f"{node.name}\n")
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {node.name}\n")
        (etc / "ssh/authorized_keys").write_text(public_key(self.user_key) + "\n")
        shutil.copy(node.host_key, etc / "ssh/ssh_host_ed25519_key")
        if self._prepare:
            self._prepare(node)

    def known_hosts(self) -> Path:
        """The host keys of all nodes."""
        file = self.folder / "known_hosts"
        file.write_text("".join(f"{node.address} {public_key(node.host_key)}\n" for node in self.nodes))
        return file

    def inventory(self, names: Sequence[str], variables: Mapping[str, Mapping[str, str]]) -> str:
        """The nodes of `names` as an Ansible YAML inventory, with what `variables` has for single ones."""
        words = ["-F", "none", "-o", f"UserKnownHostsFile={self.known_hosts()}", "-o", "GlobalKnownHostsFile=none"]
        words += ["-o", "IdentityAgent=none", "-o", "IdentitiesOnly=yes"]
        lines = ["all:", "  vars:", "    ansible_user: root", "    ansible_python_interpreter: /usr/bin/python3"]
        lines += [f"    ansible_ssh_private_key_file: {self.user_key}", "    ansible_ssh_timeout: 30"]
        lines += [f"    ansible_ssh_common_args: {' '.join(words)!r}", f"    nodegate_limits: {LIMITS}", "  hosts:"]
        for node in self.nodes:
            if node.name in names:
                own = {"ansible_host": node.address, **variables.get(node.name, {})}
                lines.append(f"    {node.name}: {{{', '.join(f'{key}: {value}' for key, value in own.items())}}}")
        return "\n".join(lines) + "\n"
