"""The namespaces that a lab's nodes live in: processes, mounts and networks that end with us.

Their first process waits at a pipe of ours. However we end, kill -9 included, the pipe closes, the kernel ends every
process in them, and networks, mounts and files are gone with them.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from lab.nodes import cgroups
from lab.processes import first_process

FOLDER = "/run/nodes"
# The first process inside waits for the end of our pipe; the one that holds it from outside clears up after it.
_WAIT = f"mount -t tmpfs lab /run && mkdir -p /run/netns {FOLDER} && echo ready && exec cat"
# Each systemd and its services watch files with seven inotify instances, of which a kernel gives a user 128. A lab adds
# what it needs and takes it away again, so that several can run at once.
_WATCHES, _WATCHES_A_NODE = "/proc/sys/fs/inotify/max_user_instances", 8
_HOLD = (
    f"need=$1; shift; echo $(($(cat {_WATCHES}) + need)) >{_WATCHES}; "
    f'unshare "$@"; echo $(($(cat {_WATCHES}) - need)) >{_WATCHES}; '
    f"set -- {' '.join(map(str, cgroups.groups('$$')))}; {cgroups.REMOVE}"
)


class Space:
    """Namespaces with room for `nodes` systemds. `holder` is the process outside that ends them with us.

    `booted_s`: when their clocks began, in seconds of this machine's own uptime.
    """

    def __init__(self, nodes: int) -> None:
        self.booted_s = float(int(time.clock_gettime(time.CLOCK_BOOTTIME)) - 1)
        clocks = [f"--{clock}=-{self.booted_s:.0f}" for clock in ("boottime", "monotonic")]  # their uptime starts now
        spaces = ["--mount", "--net", "--pid", "--time", *clocks, "--propagation=private", "--mount-proc"]
        self._process = subprocess.Popen(
            [
                "sh",
                "-c",
                _HOLD,
                "sh",
                str(_WATCHES_A_NODE * nodes),
                *spaces,
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                _WAIT,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.holder = self._process.pid
        self._first = 0

    def wait(self) -> None:
        """Until they are there.

        Raises:
            RuntimeError: the kernel gives us none.
        """
        ready = self._process.stdout
        if ready is None or ready.readline() != b"ready\n":
            raise RuntimeError("no namespaces here: see above what unshare or mount said")
        while not self._first:
            self._first = first_process("cat", below=self.holder)

    def entered(self, *argv: str) -> list[str]:
        """The command that runs a program among the nodes' processes, mounts and networks."""
        return ["nsenter", "-t", str(self._first), "-m", "-n", "-p", "-T", "--", *argv]

    def in_network(self, *argv: str) -> list[str]:
        """The command that runs a program of this machine in the nodes' network; the process number stays the same."""
        return ["nsenter", f"--net=/proc/{self._first}/ns/net", "--", *argv]

    def inside(self, *argv: str) -> None:
        """Run a program inside.

        Raises:
            RuntimeError: it failed.
        """
        done = subprocess.run(self.entered(*argv), capture_output=True, text=True, timeout=30, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")

    def folder(self, name: str) -> Path:
        """A node's folder as this machine sees it; inside it is FOLDER/name."""
        return Path(f"/proc/{self._first}/root{FOLDER}/{name}")

    def end(self) -> None:
        """End all of it."""
        self._process.communicate()
