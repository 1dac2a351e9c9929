"""The nodes: real sshds on loopback addresses, each login in front of a made HGX H100 node.

sshd tells each login by its address which node it is on (`SetEnv` in a `Match LocalAddress`): a file tree of its own in
place of /sys, /proc and /etc, and GPUs of its own from a stand-in for NVML. nvidia-smi is NVIDIA's own program on it.
So every tool finds the same nodes, whatever it sends and however it asks. One node has a fault, and each tool is to
find it.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import psutil
from support.sshd import Fleet

from lab.nodes.tree import hgx_h100
from lab.nvml import nvidia_smi
from lab.nvml import scenario as nvml
from lab.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GPUS = 8
DRIVER = "550.163.01"
BROKEN = 3  # the node whose first GPU has half of its PCIe lanes
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FILES = {
    "/proc/sys/kernel/osrelease": "5.15.0-105-generic\n",
    "/proc/cmdline": "BOOT_IMAGE=/vmlinuz-5.15.0-105-generic root=/dev/sda1 iommu=pt\n",
    "/proc/meminfo": "MemTotal: 2113462272 kB\nMemFree: 2080000000 kB\nMemAvailable: 2090000000 kB\nSwapTotal: 0 kB\n",
    "/proc/self/mounts": "/dev/root / ext4 rw,relatime 0 0\ntmpfs /dev/shm tmpfs rw,size=1056731136k 0 0\n",
    "/sys/devices/system/cpu/present": "0-223\n",
    "/sys/devices/system/cpu/online": "0-223\n",
    "/sys/module/nvidia_peermem/version": f"{DRIVER}\n",
    "/var/log/fabricmanager.log": "[Nov 20 2026 08:00:00] [INFO] Fabric Manager version 550.163.01 is running\n",
    "/var/log/kern.log": "Nov 20 08:00:00 gpu kernel: [    0.000000] Linux version 5.15.0-105-generic\n",
}
UNIT = """Id={}.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success
NRestarts=0
ExecMainStatus=0
ActiveEnterTimestampMonotonic=30000000
UnitFileState=enabled
"""
UNITS = "\n".join(UNIT.format(name) for name in ("nvidia-fabricmanager", "nvidia-persistenced", "chrony"))
PROGRAMS = {
    "systemctl": f"[ \"$1\" = is-active ] && echo active && exit\necho '{UNITS}'\n",
    "nv-fabricmanager": f"echo Fabric Manager version is : {DRIVER}\n",
    "timedatectl": "echo NTP=yes\necho NTPSynchronized=yes\n",
}


class Nodes(Fleet):
    """`count` nodes gpu1, gpu2, ...; a context manager."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, count, name="gpu")
        program = nvidia_smi.binary(550)
        self._library = nvml.library(program).parent
        self._programs = self.folder / "bin"
        self._programs.mkdir()
        (self._programs / "nvidia-smi").symlink_to(program)
        healthy, broken = self.folder / "healthy", self.folder / "broken"
        _tree(healthy)
        _tree(broken)
        (_gpu(broken, 0) / "current_link_width").write_text("8\n")
        for number, node in enumerate(self.nodes, 1):
            self._furnish(node.name, number, broken if number == BROKEN else healthy)
        shutil.rmtree(healthy)
        shutil.rmtree(broken)

    @property
    def broken(self) -> str:
        """The name of the node with the fault."""
        return self.nodes[BROKEN - 1].name

    def _furnish(self, name: str, number: int, tree: Path) -> None:
        """Give a node its files, which it shares with the others where they are equal, and its GPUs."""
        root = self.folder / name
        subprocess.run(["cp", "-al", str(tree), str(root)], check=True)
        serial = root / "sys/class/dmi/id/product_serial"
        serial.write_text(f"SN{number:08}\n")
        scenario = nvml.healthy_h100(GPUS)
        for gpu in range(GPUS):
            address = _gpu(root, gpu).name
            uuid = f"GPU-{number:08}-0000-4000-8000-{gpu:012d}"
            scenario.set(gpu, "bus_id", f"0000{address.upper()}").set(gpu, "uuid", uuid)
            scenario.set(gpu, "serial", nvml.serial(number, gpu))
            about = root / f"proc/driver/nvidia/gpus/{address}/information"
            about.unlink()  # it may be one file for all
            about.write_text(f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\n")
        if number == BROKEN:
            scenario.set(0, "link_width", 8)
        scenario.write(root / "scenario.conf")

    def cpu_s(self) -> float:
        """What the servers, the logins and all that these ran have used so far. It waits until the logins have ended.

        That is the nodes' own work: on a real fleet each node does its share on its own processors.
        """
        wait_until(lambda: not self.descendants(), limit_s=30)
        spent = [psutil.Process(server.pid).cpu_times() for server in self._servers]
        return sum(each.user + each.system + each.children_user + each.children_system for each in spent)

    def inventory(self) -> str:
        """The fleet as an Ansible YAML inventory. The limits of a login are those of this machine."""
        limits = "{host.open_files_min: 1024, host.locked_memory_min_gib: 0}"
        return super().inventory().replace("  vars:\n", f"  vars:\n    nodegate_limits: {limits}\n")

    def variables(self, name: str) -> dict[str, str]:
        """What puts a process in front of a node."""
        root = self.folder / name
        return {
            "HOME": str(self.home),
            "PATH": f"{root}/usr/bin:{self._programs}:{SYSTEM_PATH}",
            "LD_LIBRARY_PATH": str(self._library),
            "NVML_MOCK_SCENARIO": str(root / "scenario.conf"),
            "NODEGATE_PROBE_ROOT": str(root),
        }

    def _write_config(self, addresses: Sequence[str]) -> Path:
        config = super()._write_config(addresses)
        names = {node.address: node.name for node in self.nodes}
        with config.open("a") as file:
            for address in addresses:
                words = " ".join(f"{name}={value}" for name, value in self.variables(names[address]).items())
                file.write(f"Match LocalAddress {address}\n    SetEnv {words}\n")
        return config


def _tree(root: Path) -> None:
    tree = hgx_h100(root)
    for file, text in {"sys_vendor": "Example", "product_name": "HGX H100 Server", "bios_version": "1.4.2"}.items():
        tree.file(f"/sys/class/dmi/id/{file}", f"{text}\n")
    for path, text in FILES.items():
        tree.file(path, text)
    for folder in ("/sys/class/net", "/dev/shm"):  # noqa: S108 - on the node
        tree.path(folder).mkdir(parents=True)
    for name, text in PROGRAMS.items():
        tree.program(f"/usr/bin/{name}", text)
    for shell in ("/bin/sh", "/usr/bin/sh"):
        tree.path(shell).parent.mkdir(exist_ok=True)
        tree.path(shell).symlink_to("/bin/sh")


def _gpu(root: Path, number: int) -> Path:
    """The sysfs folder of a GPU."""
    return root / f"sys/bus/pci/devices/0000:{0x13 + 0x10 * number:02x}:00.0"
