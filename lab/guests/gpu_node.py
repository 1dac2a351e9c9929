"""A guest as a whole GPU node with a kernel of its own: made GPUs beside the guest's real PCIe, network and RDMA.

What lies over the kernel's /sys is the GPUs with their bridges, an NVSwitch, the machine's name, and the three files
by which a rail's NIC says that it is a ConnectX. Links, error counters, carriers and the kernel log are the kernel's.
Programs and services are those of the nodes (lab/nodes/recipe/); nothing of it is in the guests' image.
"""

from __future__ import annotations

import base64
import io
import shlex
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.nodes import gpus
from lab.nodes.tree import DEVICES_HEX, NodeTree
from lab.nvml import scenario as nvml

if TYPE_CHECKING:
    from lab.guests.guest import Guest

GPUS = ("0000:11:00.0", "0000:21:00.0")
NVSWITCH = "0000:31:00.0"
# Rail -> the PCIe port that its NIC hangs on, and the NIC.
RAILS = {"rail0": ("0000:00:08.0", "0000:01:00.0"), "rail1": ("0000:00:09.0", "0000:02:00.0")}
_NODE = Path(__file__).parent.parent / "nodes" / "recipe" / "root"
_OF_THE_NODES = ("usr/bin", "usr/local/sbin", "etc/systemd/system", "etc/fabric-manager-version")
_PORT = ("0x060400", "0x8086", "0x352a")
_CONNECTX = {"class": "0x020000", "vendor": "0x15b3", "device": "0x1021"}
_LIMITS = "* - nofile 1048576\nroot - nofile 1048576\n* - nproc 65536\nroot - nproc 65536\n"
_PIECE = 80 << 10  # of a shell's one argument, which may have 128 KiB
_SERVICES = "nvidia-persistenced nvidia-fabricmanager"
# The overlay over /sys/devices hides what the guest has laid over its RDMA devices: that comes on top again.
_SHOW = f"""
chmod 755 /usr/bin/nv* /usr/bin/chronyc /usr/local/sbin/node-hardware
/usr/local/sbin/node-hardware
mount -t overlay -o lowerdir=/lab/infiniband:/sys/devices/virtual/infiniband lab /sys/devices/virtual/infiniband
systemctl daemon-reload
systemctl start {_SERVICES}
"""


def prepare(guest: Guest) -> None:
    """Make a guest a healthy GPU node, once it has its name."""
    with tempfile.TemporaryDirectory(prefix="nodegate-lab-") as folder:
        packed = _packed(Path(folder), guest.number)
    guest.run("rm -f /lab/node.tar")
    for start in range(0, len(packed), _PIECE):
        piece = shlex.quote(packed[start : start + _PIECE])
        guest.run(f"printf %s {piece} >>/lab/node.tar")
    guest.run("base64 -d /lab/node.tar | tar -xz -C / --no-same-owner && rm /lab/node.tar")
    guest.run(_SHOW)


def _packed(folder: Path, number: int) -> str:
    """What a guest gets, as an archive in base64."""
    for name in _OF_THE_NODES:
        _copy(_NODE / name, folder / name)
    _hardware(folder / "hardware", number)
    for file, content in {
        gpus.LIBRARY: nvml.library().read_bytes(),
        gpus.SCENARIO: _scenario(folder / "scenario", number).read_bytes(),
        "etc/security/limits.d/gpu-node.conf": _LIMITS.encode(),
    }.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for part in ("etc", "usr", "hardware"):
            archive.add(folder / part, part)
    return base64.b64encode(packed.getvalue()).decode()


def _copy(source: Path, target: Path) -> None:
    files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
    for file in files:
        to = target / file.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.read_bytes())


def _hardware(folder: Path, number: int) -> None:
    """The made part of /sys, /proc and /dev."""
    tree = NodeTree(folder)
    for place, address in enumerate(GPUS):
        port = f"0000:{0x10 * (place + 1):02x}:01.0"
        tree.pci(port, ids=_PORT)
        tree.pci(address, below=(port,), ids=DEVICES_HEX["gpu"], driver="nvidia")
        tree.file(f"/proc/driver/nvidia/gpus/{address}/information", f"Model: \t\t NVIDIA H100\nGPU UUID: \t {place}\n")
        tree.file(f"/dev/nvidia{place}", "")
    tree.pci("0000:30:01.0", ids=_PORT)
    tree.pci(NVSWITCH, below=("0000:30:01.0",), ids=DEVICES_HEX["nvswitch"], current_link_width="2")
    for port, nic in RAILS.values():
        for file, text in _CONNECTX.items():
            tree.file(f"/sys/devices/pci0000:00/{port}/{nic}/{file}", f"{text}\n")
    for file, text in {
        "/sys/class/dmi/id/sys_vendor": "Example",
        "/sys/class/dmi/id/product_name": "HGX H100 Server",
        "/sys/class/dmi/id/product_serial": f"SN{number:08}",
        "/sys/class/dmi/id/bios_version": "1.4.2",
        "/sys/module/nvidia/version": "550.163.01",
        "/sys/module/nvidia_peermem/version": "550.163.01",
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01",
        "/proc/driver/nvidia/params": "EnableGpuFirmware: 18",
    }.items():
        tree.file(file, f"{text}\n")


def _scenario(file: Path, number: int) -> Path:
    """What NVML says on the guest; the GPUs are those of its PCI tree."""
    healthy = nvml.healthy_h100(len(GPUS))
    for index, address in enumerate(GPUS):
        healthy.set(index, "bus_id", f"0000{address.upper()}")
        healthy.set(index, "uuid", f"GPU-{number:08}-0000-4000-8000-{index:012d}")
        healthy.set(index, "serial", nvml.serial(number, index))
    return healthy.write(file)
