"""One node: a real systemd with its own journald, sshd and sudo in namespaces of its own (systemd-nspawn)."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.nodes import cgroups
from lab.nodes.space import FOLDER
from lab.processes import first_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.nodes.space import Space

BOOT_LIMIT_S = 300.0
# A kernel message as /dev/kmsg gives it: priority, number, microseconds since boot, flags; the text.
_KMSG = "{priority},{number},{time_us:.0f},-;{text}\n"
_NOTICE = 5


@dataclass
class LabNode:
    """One node. Paths below `root` are its files; `first` is the number of its systemd as this machine counts."""

    name: str
    address: str
    folder: Path
    host_key: Path
    space: Space = field(repr=False)
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

    def run(self, *argv: str, check: bool = True, limit_s: float = 30, keep: Sequence[int] = ()) -> str:
        """What a program on the node prints; it runs as root, past sshd. `keep`: descriptors that it gets."""
        command = ["nsenter", "-t", str(self.first), "-m", "-u", "-i", "-n", "-p", "-T", "--", *argv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False, pass_fds=keep)
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def processes(self) -> dict[int, str]:
        """The command line of each process on the node, by its number there."""
        lines = [line.split(None, 1) for line in self.run("ps", "-wweo", "pid=,args=").splitlines()]
        return {int(pid): args for pid, args in lines if not args.startswith("ps -wweo")}

    def kernel_says(self, text: str, limit_s: float = 30.0) -> None:
        """Print a kernel message: the node's own journald takes it from /dev/kmsg, as it takes the kernel's."""
        end = time.monotonic() + limit_s
        time_us = (time.clock_gettime(time.CLOCK_BOOTTIME) - self.space.booted_s) * 1e6
        record = _KMSG.format(priority=_NOTICE, number=self._messages, time_us=time_us, text=text)
        self._messages += 1  # from 0 on: journald says of every number that it does not see that it was missed
        os.write(self._kmsg, record.encode())
        while struct.unpack("i", fcntl.ioctl(self._kmsg, termios.FIONREAD, bytes(4)))[0]:
            if time.monotonic() > end:
                raise RuntimeError(f"{self.name}: its journald does not read /dev/kmsg")
            time.sleep(0.002)
        self.run("journalctl", "--sync")  # read is not yet written

    def set_link(self, state: str) -> None:
        """Plug its network cable (`up`) or pull it (`down`), at the other end."""
        self.space.inside("ip", "link", "set", self.name, state)

    def boot(self) -> None:
        """Start it; `wait` tells when it is up."""
        os.mkfifo(self.folder / "kmsg", 0o600)
        # Held open for reading and writing: a FIFO without readers blocks its writers, systemd among them.
        self._kmsg = os.open(self.folder / "kmsg", os.O_RDWR | os.O_NONBLOCK)
        here = f"{FOLDER}/{self.name}"
        nspawn = ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe"]
        nspawn += [f"--directory={here}/root", f"--machine={self.name}", f"--hostname={self.name}"]
        nspawn += [f"--network-namespace-path=/run/netns/{self.name}", "--link-journal=no", "--resolv-conf=off"]
        nspawn += ["--timezone=off", f"--bind={here}/kmsg:/dev/kmsg", f"--bind-ro={here}/hardware:/hardware"]
        groups = " ".join(f"{folder}/cgroup.procs" for folder in cgroups.made(self.space.holder, self.name))
        script = f'for file in {groups}; do echo $$ >"$file"; done; exec "$@"'
        with self.console.open("wb") as console:
            self.started = subprocess.Popen(
                ["sh", "-c", script, "sh", *self.space.entered(*nspawn)],
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
        return first_process("systemd", below=self.started.pid) if self.started else 0

    def close(self) -> None:
        """Forget it; its processes end with the lab."""
        if self._kmsg >= 0:
            os.close(self._kmsg)
            self._kmsg = -1
