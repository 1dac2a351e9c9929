"""A booted guest, stored once for an image: from it others go on in seconds, where a boot takes half a minute."""

from __future__ import annotations

import shlex
import subprocess
import time
from typing import TYPE_CHECKING

from lab import cache
from lab.guests import qemu
from lab.guests.guest import HARDWARE, NETWORKS, Guest, Snapshot
from lab.guests.switch import Switch

if TYPE_CHECKING:
    from pathlib import Path

    from lab.guests.image import Image

STORE_LIMIT_S = 300.0
# Read into memory before it is stored, so that each guest finds it there.
_WARM = """
systemctl is-system-running --wait
lspci -vv; dmesg; rdma link; ibv_devinfo; ip -brief link; journalctl -n 1; ss -ltn; sudo -n true
for tool in ib_write_bw ib_read_bw ib_write_lat ib_read_lat; do $tool --version; $tool --help; done
python3 -c 'import base64, glob, json, platform, pty, select, socket, subprocess, termios, zlib'
ssh -V; /usr/sbin/sshd -t; sync
"""


def snapshot(image: Image) -> Snapshot:
    """The snapshot of an image, made where the cache has none.

    Raises:
        RuntimeError: the guest did not come up, or could not be stored.
    """
    key = cache.key(str(image.folder), str(qemu.tree()), HARDWARE, _WARM)
    return Snapshot(cache.kept(f"snapshot-{image.folder.name}", key, lambda folder: _make(image, folder)))


def _make(image: Image, folder: Path) -> None:
    fresh = Snapshot(folder)
    folder.mkdir(mode=0o700)
    create = ["create", "-q", "-f", "qcow2", "-b", str(image.disk), "-F", "raw", str(fresh.disk)]
    subprocess.run([*qemu.program("qemu-img"), *create], check=True, capture_output=True)
    switch = Switch()
    guest = Guest(0, image, {network: switch.plug(network, 0) for network in NETWORKS}, disk=fresh.disk)
    try:
        guest.start()
        guest.wait()
        guest.run(_WARM, limit_s=STORE_LIMIT_S, check=False)
        _store(guest, fresh.state)
    finally:
        guest.stop()
        switch.stop()


def _store(guest: Guest, state: Path) -> None:
    guest.qmp.tell("stop")
    guest.qmp.tell("migrate", uri=f"exec:zstd -q -1 -T2 > {shlex.quote(str(state))}")
    end_s = time.monotonic() + STORE_LIMIT_S
    while (status := guest.qmp.tell("query-migrate").get("status")) != "completed":
        if status == "failed" or time.monotonic() > end_s:
            raise RuntimeError(f"the guest's memory was not stored: {status}")
        time.sleep(0.1)
    guest.qmp.tell("quit")
    if guest.process is not None:
        guest.process.wait(timeout=30)
