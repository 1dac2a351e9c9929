"""A container as a node: `podman exec` as the command of a connection; nothing is left in it when podman is killed."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab import needs
from lab.nodes.image import image
from lab.nodes.nodes import why_not
from lab.processes import naming, odd_seconds, running, wait_until
from nodegate.errors import Unreachable
from nodegate.node import Connection, Node
from nodegate.transport import Options, connect
from nodegate.transport.session import Busy, NodeLock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodegate.transport import Session

# crun wants either kind of cgroups, and not both, as some machines have them.
_ALONE = "mount --make-rprivate /; umount -l /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; echo; read line"

LIMIT_S = 40.0


@pytest.fixture
def podman() -> Iterator[str]:
    """A podman with a container `n1`, which has a Debian with python3 as its root."""
    needs.require(why_not() or needs.why_not("containers", ["podman", "crun"]))
    words = ["unshare", "-m", "sh", "-c", _ALONE]
    with (
        tempfile.TemporaryDirectory(prefix="ng", dir="/tmp") as here,  # podman wants a short name
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as own,
    ):
        assert own.stdout is not None
        own.stdout.readline()
        program = Path(here) / "podman"
        options = f"--root {here}/root --runroot {here}/run --cgroup-manager=cgroupfs --runtime crun"
        program.write_text(f'#!/bin/sh\nexec nsenter -t {own.pid} -m {shutil.which("podman")} {options} "$@"\n')
        program.chmod(0o755)
        limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]
        words = [str(program), "run", "-d", "--rm", "--name=n1", "--network=none", "--cgroups=disabled", *limits]
        subprocess.run([*words, "--rootfs", f"{image()}:O", "sleep", "1000"], check=True, stdout=subprocess.DEVNULL)
        try:
            yield str(program)
        finally:
            subprocess.run([program, "rm", "-f", "-t", "0", "n1"], check=True, stdout=subprocess.DEVNULL)
            assert wait_until(lambda: not naming(Path(here)), LIMIT_S)  # what cleans up after a container
            own.communicate()


def by(podman: str, name: str = "n1") -> contextlib.closing[Session]:
    command = (podman, "exec", "-i", name)
    return contextlib.closing(
        connect(Node(name, Connection(transport="command", command=command, lease_s=15)), Options())
    )


def test_podman_as_a_command(podman: str) -> None:
    with by(podman) as session, by(podman) as other:
        output = session.run(["sh", "-c", "cat; exit 3"], timeout_s=30, stdin=bytes(range(256)) * 4000)
        assert (output.stdout, output.exit_code) == (bytes(range(256)) * 4000, 3)
        assert session.run(["sleep", "60"], timeout_s=1.0).timed_out
        assert isinstance(session.hold_lock(), NodeLock)
        assert isinstance(other.hold_lock(), Busy)
    with by(podman, "n2") as session, pytest.raises(Unreachable) as caught:
        session.run(["true"], timeout_s=10)
    assert caught.value.kind == "refused", str(caught.value)


def test_a_killed_podman_leaves_nothing(podman: str) -> None:
    with by(podman) as session:
        seconds = odd_seconds()
        program = session.start(["sh", "-c", f"setsid sleep {seconds} & sleep {seconds}"], timeout_s=300)
        assert wait_until(lambda: len(running(seconds)) == 2, LIMIT_S)
        subprocess.run(["pkill", "-9", "-f", f"{podman.rpartition('/')[0]}.*exec -i n1"], check=True)
        assert wait_until(lambda: not running(seconds), LIMIT_S)
        with pytest.raises(Unreachable):
            program.stop()
