"""Guests that belong together, from their start to their end, and the inventory by which they are reached."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lab import needs
from lab.guests.guest import HARDWARE, NETWORKS, Guest
from lab.guests.image import SUITES, image
from lab.guests.snapshot import snapshot
from lab.guests.switch import Port, Switch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

    from lab.guests.guest import Snapshot
    from lab.guests.image import Image

PROGRAMS = ("busybox", "cpio", "mke2fs", "mmdebstrap", "nice", "setpriv", "zstd")


def why_not() -> str:
    """Why this machine cannot have such guests; empty when it can."""
    return needs.why_not("guests", PROGRAMS)


class Guests:
    """Guests 1 to `count`, each from the snapshot of its suite; `suites` are taken in turn.

    `lab.guests[0].run("rdma link")` asks the first; `lab.port("rail0", 2).cut()` cuts a cable of the second.
    """

    def __init__(self, count: int, suites: Sequence[str] = SUITES[:1], hardware: tuple[str, ...] = HARDWARE) -> None:
        self.switch = Switch()
        self.guests: list[Guest] = []
        self.started_s = 0.0
        self._count, self._suites, self._hardware = count, suites, hardware

    def __enter__(self) -> Self:
        reason = why_not()
        if reason:
            raise RuntimeError(reason)
        images = [image(suite) for suite in self._suites]
        usual = self._hardware == HARDWARE
        snapshots = [snapshot(each) if usual else None for each in images]
        begun_s = time.monotonic()
        try:
            self._boot(images, snapshots)
        except RuntimeError:
            if usual:
                raise
            # With several CPUs, QEMU's software emulation now and then loses a timer of a booting guest on a busy
            # machine: its kernel says "timer wakeup didn't happen" and waits for ever.
            self._boot(images, snapshots)
        self.started_s = time.monotonic() - begun_s
        return self

    def _boot(self, images: Sequence[Image], snapshots: Sequence[Snapshot | None]) -> None:
        """All of them, from new, until each answers; none is left where one does not."""
        self.switch, self.guests = Switch(), []
        try:
            for number in range(1, self._count + 1):
                cables = {network: self.switch.plug(network, number) for network in NETWORKS}
                place = (number - 1) % len(images)
                guest = Guest(number, images[place], cables, snapshots[place], hardware=self._hardware)
                self.guests.append(guest)
            self.switch.start()
            for guest in self.guests:
                guest.start()
            for guest in self.guests:
                guest.wait()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def port(self, network: str, guest: int) -> Port:
        """The switch's port that a guest's NIC hangs on."""
        return self.switch.ports[network, guest]

    def panicked(self) -> list[str]:
        """The guests whose kernel has panicked."""
        return [guest.name for guest in self.guests if "Kernel panic" in guest.console()]

    def stop(self) -> None:
        """End all of it. May be called twice."""
        for guest in self.guests:
            guest.stop()
        self.switch.stop()

    def known_hosts(self) -> str:
        """The guests' host keys."""
        return "".join(guest.known_host() for guest in self.guests)

    def inventory(self, known_hosts: Path) -> str:
        """The guests as an Ansible YAML inventory."""
        words = f"-F none -o UserKnownHostsFile={known_hosts} -o GlobalKnownHostsFile=none -o IdentityAgent=none"
        lines = ["all:", "  vars:", "    ansible_user: root", "    ansible_host: 127.0.0.1"]
        lines += ["    ansible_python_interpreter: /usr/bin/python3", "    ansible_ssh_timeout: 40"]
        lines += [f"    ansible_ssh_common_args: {words!r}", "    nodegate_platform: lab", "  hosts:"]
        for guest in self.guests:
            own = f"ansible_port: {guest.ssh_port}, ansible_ssh_private_key_file: {guest.image.user_key}"
            lines.append(f"    {guest.name}: {{{own}, nodegate_fabric_address: {guest.address}}}")
        return "\n".join(lines) + "\n"
