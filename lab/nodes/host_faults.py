"""Faults of what a node gives to logins and jobs: limits, file systems, sudo, shells; see faults.py."""

from __future__ import annotations

import os
import struct
import threading
from typing import TYPE_CHECKING

from lab.nodes.fault import added, holding
from lab.taken_back import Broken, taken_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.nodes.node import LabNode

LIMITS = "etc/security/limits.d/gpu-node.conf"
BANNER = 'echo "*** Welcome to the cluster: maintenance on Friday ***"\necho "no quota file" >&2\n'
_FUSE_INIT_ANSWER = struct.pack("=IIIIHHII", 7, 31, 65536, 0, 12, 10, 4096, 1) + b"\0" * 32


@taken_back
def little_locked_memory(node: LabNode) -> Broken:
    """Logins and jobs may lock 64 KiB of memory, as old distributions have it."""
    both = "".join(f"{who} - nofile 16384\n{who} - memlock 64\n" for who in ("*", "root"))
    with holding(node.root / LIMITS, both):
        yield {}


@taken_back
def full_disks(node: LabNode) -> Broken:
    """/tmp and /var/tmp are full to the last byte."""
    with _full(node, "/tmp"), _full(node, "/var/tmp"):
        yield {}


@taken_back
def dead_file_server(node: LabNode) -> Broken:
    """The server of /mnt takes every question and answers none: who asks cannot be killed."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    node.run("mount", "-i", "-t", "fuse.hung", "-o", options, "storage:/data", "/mnt", keep=(device,))
    (number,) = struct.unpack_from("=Q", os.read(device, 1 << 16), 8)
    os.write(device, struct.pack("=IiQ", 16 + len(_FUSE_INIT_ANSWER), 0, number) + _FUSE_INIT_ANSWER)
    server = threading.Thread(target=_swallow, args=(device,), daemon=True)
    server.start()
    yield {}
    node.run("umount", "--force", "--lazy", "/mnt")  # ends the connection: whoever waits is told so
    server.join(timeout=10)
    os.close(device)


@taken_back
def sudo_complains(node: LabNode) -> Broken:
    """/etc/hosts lacks the node's own name: sudo says so on stderr, and works."""
    with holding(node.root / "etc/hosts", "127.0.0.1 localhost\n"):
        yield {"ansible_user": "ops", "ansible_become": "true"}


@taken_back
def noisy_login(node: LabNode) -> Broken:
    """Every shell of a login prints a banner, on stdout and on stderr."""
    with added(node.root / "root/.bashrc", BANNER), added(node.root / "etc/profile.d/banner.sh", BANNER):
        yield {}


@taken_back
def _full(node: LabNode, folder: str) -> Iterator[None]:
    node.run("mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "full", folder)
    node.run("sh", "-c", f"cat /dev/zero >{folder}/core 2>/dev/null", check=False)
    yield
    node.run("umount", "--lazy", folder)


def _swallow(device: int) -> None:
    """Take every question until the connection is ended."""
    try:
        while os.read(device, 1 << 20):
            pass
    except OSError:
        pass
