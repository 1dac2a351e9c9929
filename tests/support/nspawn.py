"""Nodes with a real systemd, journald, sshd and sudo, each with its own processes, mounts, network and host name.

    with Lab(image(), count=4, folder=tmp_path) as lab:
        lab.run(["ssh", ...])           # a program in the nodes' network
        lab.nodes[0].run("systemctl", "stop", "nvidia-fabricmanager")

All of it lives in namespaces whose first process waits at a pipe of ours. However we end, kill -9 included, the pipe
closes, the kernel ends every process of the lab, and its networks, mounts and files are gone with them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import cgroups
from support.sshd import children_of, make_key, public_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

BOOT_LIMIT_S = 60.0
PROGRAMS = ("ip", "mmdebstrap", "nsenter", "ssh", "ssh-keygen", "systemd-nspawn", "unshare")
NODES_FOLDER = "/run/nodes"
# The first process inside waits for the end of our pipe; the one that holds it from outside clears up after it.
_WAIT = f"mount -t tmpfs lab /run && mkdir -p /run/netns {NODES_FOLDER} && echo ready && exec cat"
_HOLD = f'unshare "$@"; set -- {" ".join(map(str, cgroups.groups("$$")))}; {cgroups.REMOVE}'
# A kernel message as /dev/kmsg gives it: priority, number, microseconds since boot, flags; the text.
_KMSG = "{priority},{number},{time_us:.0f},-;{text}\n"
_NOTICE = 5
# What tests/nodes/root/etc/security/limits.d and a kernel's default give; real GPU nodes have more.
LIMITS = "{host.open_files_min: 16384, host.locked_memory_min_gib: 0.007}"


def why_not() -> str:
    """Why this machine cannot run such nodes; empty when it can."""
    if os.geteuid() != 0:
        return "nodes with systemd need root (namespaces, mounts): run the tests as root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"missing programs: {', '.join(missing)} (tests/system_packages.sh)" if missing else ""


def require() -> None:
    """End the test where the machine cannot run such nodes: in CI it fails, elsewhere it is skipped with the reason."""
    reason = why_not()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)


@dataclass
class LabNode:
    """One node. Paths below `root` are its files; `first` is the number of its systemd as this machine counts."""

    name: str
    address: str
    folder: Path
    host_key: Path
    lab: Lab = field(repr=False)
    first: int = 0
    started: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _kmsg: int = -1
    _messages: int = 0

    @property
    def root(self) -> Path:
        """Its root folder."""
        return self.folder / "root"

    @property
    def hardware(self) -> Path:
        """What it shows in /sys, /proc and /dev besides the kernel's own."""
        return self.folder / "hardware"

    def run(self, *argv: str, check: bool = True, limit_s: float = 30) -> str:
        """What a program on the node prints; it runs as root, past sshd."""
        command = ["nsenter", "-t", str(self.first), "-m", "-u", "-i", "-n", "-p", "-T", "--", *argv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def processes(self) -> dict[int, str]:
        """The command line of each process on the node, by its number there."""
        lines = [line.split(None, 1) for line in self.run("ps", "-eo", "pid=,args=").splitlines()]
        return {int(pid): args for pid, args in lines if not args.startswith("ps -eo")}

    def kernel_says(self, text: str, limit_s: float = 30.0) -> None:
        """Print a kernel message: the node's own journald takes it from /dev/kmsg, as it takes the kernel's."""
        end = time.monotonic() + limit_s
        self._messages += 1
        time_us = (time.clock_gettime(time.CLOCK_BOOTTIME) - self.lab.booted_s) * 1e6
        record = _KMSG.format(priority=_NOTICE, number=self._messages, time_us=time_us, text=text)
        os.write(self._kmsg, record.encode())
        while struct.unpack("i", fcntl.ioctl(self._kmsg, termios.FIONREAD, bytes(4)))[0]:
            if time.monotonic() > end:
                raise RuntimeError(f"{self.name}: its journald does not read /dev/kmsg")
            time.sleep(0.002)

    def set_link(self, state: str) -> None:
        """Plug its network cable (`up`) or pull it (`down`), at the other end."""
        self.lab.inside("ip", "link", "set", self.name, state)

    def boot(self) -> None:
        """Start it; `wait` tells when it is up."""
        os.mkfifo(self.folder / "kmsg", 0o600)
        # Held open for reading and writing: a FIFO without readers blocks its writers, systemd among them.
        self._kmsg = os.open(self.folder / "kmsg", os.O_RDWR | os.O_NONBLOCK)
        here = f"{NODES_FOLDER}/{self.name}"
        nspawn = ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe"]
        nspawn += [f"--directory={here}/root", f"--machine={self.name}", f"--hostname={self.name}"]
        nspawn += [f"--network-namespace-path=/run/netns/{self.name}", "--link-journal=no", "--resolv-conf=off"]
        nspawn += ["--timezone=off", f"--bind={here}/kmsg:/dev/kmsg", f"--bind-ro={here}/hardware:/hardware"]
        groups = " ".join(f"{folder}/cgroup.procs" for folder in cgroups.made(self.lab.holder, self.name))
        script = f'for file in {groups}; do echo $$ >"$file"; done; exec "$@"'
        with self.console.open("wb") as console:
            self.started = subprocess.Popen(
                ["sh", "-c", script, "sh", *self.lab.entered(*nspawn)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    @property
    def console(self) -> Path:
        """What it printed while it started."""
        return self.folder / "console"

    def wait(self, limit_s: float = BOOT_LIMIT_S) -> None:
        """Wait until everything that it starts has started, and worked."""
        end = time.monotonic() + limit_s
        state = ""
        while state != "running":
            if time.monotonic() > end or state == "degraded" or self.started is None or self.started.poll() is not None:
                failed = self.run("systemctl", "--failed", "--no-legend", check=False) if self.first else ""
                said = self.console.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{self.name} did not start: {state} {failed} {said}")
            self.first = self.first or self._init()
            if self.first:
                state = self.run("systemctl", "is-system-running", "--wait", check=False, limit_s=limit_s).strip()
            if state != "running":
                time.sleep(0.02)

    def _init(self) -> int:
        """Its systemd, once there is one."""
        return _first_process("systemd", below=self.started.pid) if self.started else 0

    def close(self) -> None:
        """Forget it; its processes end with the lab."""
        if self._kmsg >= 0:
            os.close(self._kmsg)
            self._kmsg = -1


def _first_process(name: str, below: int) -> int:
    """The process of this name that is number 1 of its own namespace, among the descendants of another; 0: none yet."""
    for pid in children_of(below):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        if fields["NSpid"].split()[-1] == "1" and fields["Name"].strip() == name:
            return pid
    return 0


class Lab:
    """`count` nodes gpu-1, gpu-2, ... on one network; a context manager.

    Args:
        image: their root file system (`support.node_image`), which stays as it is.
        count: how many, at most 250.
        folder: where keys and known_hosts go.
        prepare: what else a node gets before it boots.
    """

    def __init__(self, image: Path, count: int, folder: Path, prepare: Callable[[LabNode], None] | None = None) -> None:
        self.image, self.folder = image, folder
        self.nodes: list[LabNode] = []
        self.booted_s = 0.0
        self._count, self._prepare = count, prepare
        self._holder: subprocess.Popen[bytes] | None = None
        self.holder = 0
        self._inner = 0  # the first process inside

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

    def entered(self, *argv: str) -> list[str]:
        """The command that runs a program among the nodes' processes, mounts and networks."""
        return ["nsenter", "-t", str(self._inner), "-m", "-n", "-p", "-T", "--", *argv]

    def in_network(self, *argv: str) -> list[str]:
        """The command that runs a program of this machine in the nodes' network; the process number stays the same."""
        return ["nsenter", f"--net=/proc/{self._inner}/ns/net", "--", *argv]

    def inside(self, *argv: str) -> None:
        """Run a program inside the lab."""
        done = subprocess.run(self.entered(*argv), capture_output=True, text=True, timeout=30, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")

    def stop(self) -> None:
        """End all of it."""
        for node in self.nodes:
            node.close()
        if self._holder is not None:
            self._holder.communicate()
            for node in self.nodes:
                if node.started:
                    node.started.wait(timeout=10)

    def _start(self) -> None:
        self.booted_s = float(int(time.clock_gettime(time.CLOCK_BOOTTIME)) - 1)
        clocks = [f"--{clock}=-{self.booted_s:.0f}" for clock in ("boottime", "monotonic")]  # their uptime starts now
        spaces = ["--mount", "--net", "--pid", "--time", *clocks, "--propagation=private", "--mount-proc"]
        self._holder = subprocess.Popen(
            ["sh", "-c", _HOLD, "sh", *spaces, "--fork", "--kill-child", "sh", "-c", _WAIT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            raise RuntimeError("no namespaces here: see above what unshare or mount said")
        self.holder = self._holder.pid
        while not self._inner:
            self._inner = _first_process("cat", below=self.holder)
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
        folder = Path(f"/proc/{self._inner}/root{NODES_FOLDER}/{name}")
        for part in ("root", "hardware", "upper", "work"):
            (folder / part).mkdir(parents=True)
        return LabNode(name, f"192.0.2.{number}", folder, make_key(self.folder / f"{name}_host_key"), self)

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
        self.inside("sh", "-ec", "\n".join(script))

    def _furnish(self, node: LabNode) -> None:
        here = f"{NODES_FOLDER}/{node.name}"
        layers = f"lowerdir={self.image},upperdir={here}/upper,workdir={here}/work"
        self.inside("mount", "-t", "overlay", "-o", layers, node.name, f"{here}/root")
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
        lines += [f"    ansible_ssh_private_key_file: {self.user_key}", "    ansible_ssh_timeout: 3"]
        lines += [f"    ansible_ssh_common_args: {' '.join(words)!r}", f"    nodegate_limits: {LIMITS}", "  hosts:"]
        for node in self.nodes:
            if node.name in names:
                own = {"ansible_host": node.address, **variables.get(node.name, {})}
                lines.append(f"    {node.name}: {{{', '.join(f'{key}: {value}' for key, value in own.items())}}}")
        return "\n".join(lines) + "\n"
