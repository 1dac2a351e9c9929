"""One guest: a QEMU process, its control channel, its shell and its SSH port.

Every channel is one end of a socket pair and the disk's changes are in a file without a name, so nothing lies about on
this machine; QEMU gets SIGKILL when the process that started it ends, however that happens.
"""

from __future__ import annotations

import base64
import re
import select
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from lab.guests import qemu
from lab.guests.qmp import Qmp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lab.guests.image import Image

MEMORY_MIB = 512
NICENESS = "3"  # after people at work here; much more, and a guest on a busy machine misses every time limit
BOOT_LIMIT_S = 300.0
RUN_LIMIT_S = 60.0
# Where a NIC hangs, and the part of its first hardware address by which the guest tells it from the others.
_NICS = {"lan": ("addr=0x7", "bb"), "rail0": ("bus=slot0", "c0"), "rail1": ("bus=slot1", "c1")}
NETWORKS = tuple(_NICS)
_SLOTS = ("slot0", "slot1")  # PCIe slots of their own for the rails, so that they have links
_KERNEL_WORDS = (
    "console=ttyS0 quiet loglevel=5 panic=-1 mitigations=off nokaslr no_timer_check tsc=reliable "
    "rcupdate.rcu_expedited=1 random.trust_cpu=on nowatchdog audit=0 systemd.show_status=0 net.ifnames=0"
)
_MTU = 4200  # leaves room for a RoCE MTU of 4096 bytes


def _hardware(*, sockets: int = 1) -> tuple[str, ...]:
    """Software emulation always: a /dev/kvm that is there need not work.

    Of two sockets, each with two CPUs and half of the memory, each has one of the rails behind it.
    """
    words = ["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-append", _KERNEL_WORDS]
    words += ["-M", "q35,smm=off,hpet=off,usb=off,vmport=off", "-accel", "tcg,thread=multi,tb-size=256"]
    words += ["-cpu", "max", "-smp", "1" if sockets == 1 else f"{2 * sockets},sockets={sockets}", "-m", str(MEMORY_MIB)]
    for socket_ in range(sockets if sockets > 1 else 0):
        words += ["-object", f"memory-backend-ram,id=memory{socket_},size={MEMORY_MIB // sockets}M"]
        words += ["-numa", f"node,nodeid={socket_},memdev=memory{socket_},cpus={2 * socket_}-{2 * socket_ + 1}"]
    words += ["-device", "virtio-blk-pci,drive=disk,addr=0x3", "-device", "virtio-rng-pci,addr=0x4"]
    words += ["-device", "virtio-serial-pci,addr=0x5", "-device", "virtserialport,chardev=shell,name=lab"]
    words += ["-device", "virtio-net-pci,netdev=mgmt,mac=52:54:00:aa:00:01,addr=0x6,romfile="]
    for place, slot in enumerate(_SLOTS):
        root = "pcie.0" if sockets == 1 else f"root{place}"
        if sockets > 1:
            words += ["-device", f"pxb-pcie,id={root},bus=pcie.0,bus_nr={64 * (place + 1)},numa_node={place}"]
        port = f"pcie-root-port,id={slot},bus={root},chassis={place + 1},slot={place + 1},addr={8 + place:#x}"
        words += ["-device", f"{port},x-speed=16,x-width=16"]
    for network, (where, part) in _NICS.items():
        bus = "" if sockets == 1 or where.startswith("bus=") else "bus=pcie.0,"
        nic = f"virtio-net-pci,netdev={network},id={network}-nic,mac=52:54:00:{part}:00:01,{bus}{where}"
        words += ["-device", f"{nic},romfile=,host_mtu={_MTU}"]
    return tuple(words)


HARDWARE = _hardware()
TWO_SOCKETS = _hardware(sockets=2)


@dataclass(frozen=True)
class Snapshot:
    """A booted guest without a name: its disk and its memory."""

    folder: Path

    @property
    def disk(self) -> Path:
        """Changes over the image's disk."""
        return self.folder / "disk.qcow2"

    @property
    def state(self) -> Path:
        """Memory and devices, compressed."""
        return self.folder / "state.zst"


@dataclass
class Guest:
    """One guest.

    `cables` are its ends of the switch's ports, by network. `disk`: a disk that keeps what the guest writes; without
    one nothing is kept. `hardware` other than the usual: it boots, for a snapshot is of one machine.
    """

    number: int
    image: Image
    cables: Mapping[str, socket.socket]
    snapshot: Snapshot | None = None
    disk: Path | None = None
    hardware: tuple[str, ...] = field(default=HARDWARE, repr=False)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    ssh_port: int = 0
    ready_s: float = 0.0
    _qmp: Qmp | None = field(default=None, repr=False)
    _shell: socket.socket | None = field(default=None, repr=False)
    _heard: bytes = field(default=b"", repr=False)
    _awaited: int = field(default=0, repr=False)  # answers: what came too late for one command is not the next one's
    _console: IO[bytes] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Its host name."""
        return f"gpu-{self.number}"

    @property
    def address(self) -> str:
        """Where the other guests reach it by TCP, beside the rails."""
        return f"192.0.2.{self.number}"

    @property
    def qmp(self) -> Qmp:
        """QEMU's control channel."""
        if self._qmp is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._qmp

    def start(self) -> None:
        """Start QEMU; `wait` tells when the guest is up. Call it from a thread that lives as long as the guest."""
        control, their_control = socket.socketpair()
        self._shell, their_shell = socket.socketpair()
        self._console = tempfile.TemporaryFile()  # noqa: SIM115 - closed in stop()
        theirs = [their_control, their_shell, *self.cables.values()]
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "nice", "-n", NICENESS, *self._qemu(their_control, their_shell)],
            stdin=subprocess.DEVNULL,
            stdout=self._console,
            stderr=subprocess.STDOUT,
            pass_fds=[end.fileno() for end in theirs],
        )
        for end in theirs:
            end.close()
        self._qmp = Qmp(control)

    def wait(self) -> None:
        """Until it answers, then tell it who it is.

        Raises:
            RuntimeError: QEMU ended, or the guest did not come up.
        """
        begun_s = time.monotonic()
        try:
            self.qmp.greet()
            if self.snapshot is not None:
                self._go_on()
            self.run("true", limit_s=BOOT_LIMIT_S)
        except (OSError, RuntimeError) as why:
            raise RuntimeError(f"{self.name} did not come up: {why}: {self.console()[-1500:]}") from None
        if self.number:
            self.become()
        listed = self.qmp.monitor("info usernet")
        found = re.search(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", listed)
        self.ssh_port = int(found[1]) if found else 0
        self.ready_s = time.monotonic() - begun_s

    def become(self) -> None:
        """Tell it its number and the time: after a boot, a restored snapshot or a reset."""
        self.run(f"lab-node {self.number} {time.time():.3f}")

    def run(self, script: str, *, limit_s: float = RUN_LIMIT_S, check: bool = True) -> str:
        """What a shell script prints in the guest, as root, past its network and sshd.

        Raises:
            RuntimeError: it failed, or gave no answer in time.
        """
        if self._shell is None:
            raise RuntimeError(f"{self.name} was not started")
        self._shell.sendall(base64.b64encode(script.encode()) + b"\n")
        code, _, output = self._answer(limit_s).partition(b" ")
        said = base64.b64decode(output).decode("utf-8", "replace")
        if check and code != b"0":
            raise RuntimeError(f"{self.name}: {script}: exit code {code.decode()}: {said[-500:]}")
        return said

    def known_host(self) -> str:
        """Its line of known_hosts."""
        return f"[127.0.0.1]:{self.ssh_port} {self.image.host_key}\n"

    def console(self) -> str:
        """What its serial console and QEMU itself have printed."""
        if self._console is None:
            return ""
        self._console.seek(0)
        return self._console.read().decode("utf-8", "replace")

    def freeze(self) -> None:
        """Stop it as it stands: its connections stay, and nobody answers on them."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def reset(self) -> None:
        """Press its reset button; it boots again and is nobody until `become`."""
        self.qmp.tell("system_reset")
        self._heard, self._awaited = b"", 0  # what it was told is forgotten

    def cable(self, network: str, *, plugged: bool) -> None:
        """Pull a NIC's cable or put it back: the guest's driver sees the carrier go."""
        self.qmp.tell("set_link", name=f"{network}-nic", up=plugged)

    def stop(self) -> None:
        """End it. May be called twice."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        for end in self.cables.values():
            end.close()
        if self._qmp is not None:
            self._qmp.close()
        for each in (self._shell, self._console):
            if each is not None:
                each.close()

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def _answer(self, limit_s: float) -> bytes:
        self._awaited += 1
        end_s, answer = time.monotonic() + limit_s, b""
        while self._awaited:
            answer = self._line(end_s, limit_s)
            self._awaited -= 1
        return answer.strip()

    def _line(self, end_s: float, limit_s: float) -> bytes:
        while self._shell is not None and b"\n" not in self._heard:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise RuntimeError(f"{self.name} gave no answer in {limit_s:g} s")
            if select.select([self._shell], [], [], min(left_s, 1.0))[0]:
                got = self._shell.recv(1 << 20)
                if not got:
                    raise RuntimeError(f"QEMU of {self.name} is gone")
                self._heard += got
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def _go_on(self) -> None:
        """A restored guest comes back paused, once its memory is read."""
        end_s = time.monotonic() + BOOT_LIMIT_S
        while (status := self.qmp.tell("query-status")["status"]) != "paused":
            if time.monotonic() > end_s:
                raise RuntimeError(f"its memory was not restored: {status}")
            time.sleep(0.05)
        self.qmp.tell("cont")

    def _qemu(self, control: socket.socket, shell: socket.socket) -> list[str]:
        disk = self.disk or (self.snapshot.disk if self.snapshot else self.image.disk)
        form = "raw" if disk == self.image.disk else "qcow2"
        drive = f"file={disk},format={form},if=none,id=disk,cache=unsafe,snapshot={'off' if self.disk else 'on'}"
        command = ["-kernel", str(self.image.kernel), "-initrd", str(self.image.initrd), "-drive", drive]
        command += ["-chardev", f"socket,id=control,fd={control.fileno()}", "-mon", "chardev=control,mode=control"]
        command += ["-chardev", f"socket,id=shell,fd={shell.fileno()}"]
        command += ["-netdev", "user,id=mgmt,restrict=on,hostfwd=tcp:127.0.0.1:0-:22"]
        for network, cable in self.cables.items():
            command += ["-netdev", f"dgram,id={network},local.type=fd,local.str={cable.fileno()}"]
        if self.snapshot is not None:
            command += ["-incoming", f"exec:zstd -dc {shlex.quote(str(self.snapshot.state))}"]
        return [*qemu.system(), *command, *self.hardware]
