"""A node of the lab as a healthy HGX H100 node: its PCI tree, InfiniBand ports, driver files, NVML.

NVML is a mock (lab/nvml), nvidia-smi is NVIDIA's own program on it.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from lab.nodes.tree import hgx_h100
from lab.nvml import nvidia_smi
from lab.nvml import scenario as nvml

if TYPE_CHECKING:
    from pathlib import Path

    from lab.nodes.node import LabNode
    from lab.nvml.scenario import Scenario

LIBRARY = "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
SCENARIO = "etc/nvml-mock.conf"
NVIDIA_SMI = "usr/bin/nvidia-smi"
# Folders where nothing of this machine's own hardware may be seen.
_OURS_ALONE = ("sys/bus/pci", "sys/class/infiniband", "sys/class/dmi")


def prepare(node: LabNode) -> None:
    """Give a node its hardware, before it boots."""
    tree = hgx_h100(node.hardware)
    number = node.name.rpartition("-")[2]
    for file, text in {
        "sys_vendor": "Example",
        "product_name": "HGX H100 Server",
        "product_serial": f"SN{number:>08}",
        "bios_version": "1.4.2",
    }.items():
        tree.file(f"/sys/class/dmi/id/{file}", f"{text}\n")
    for index, adapter in enumerate(sorted(tree.path("/sys/class/infiniband").iterdir())):
        tree.file(f"/sys/class/infiniband/{adapter.name}/node_guid", f"a088:c203:{int(number):04x}:{index:04x}\n")
    for index, address in enumerate(gpu_addresses(node)):
        info = f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid(node, index)}\n"
        tree.file(f"/proc/driver/nvidia/gpus/{address}/information", info)
    for folder in ("bus", "class", "devices", "module"):
        tree.path(f"/sys/{folder}").mkdir(exist_ok=True)
    tree.file("/sys/module/nvidia_peermem/version", "550.163.01\n")
    for folder in _OURS_ALONE:
        os.setxattr(node.hardware / folder, "trusted.overlay.opaque", b"y")
    programs = [nvidia_smi.binary(branch) for branch in nvidia_smi.RELEASES]
    shutil.copy(nvml.library(*programs), node.root / LIBRARY)
    shutil.copy(programs[int(number) % len(programs)], node.root / NVIDIA_SMI)  # both branches, in turn
    scenario(node).write(node.root / SCENARIO)


def scenario(node: LabNode) -> Scenario:
    """What NVML says on the node while all is well; the GPUs are those of its PCI tree."""
    healthy = nvml.healthy_h100(8)
    for index, address in enumerate(gpu_addresses(node)):
        healthy.set(index, "bus_id", f"0000{address.upper()}")
        healthy.set(index, "uuid", uuid(node, index)).set(index, "serial", serial(node, index))
    return healthy


def uuid(node: LabNode, gpu: int) -> str:
    """The UUID of a GPU that the node was made with."""
    return f"GPU-{node.name.rpartition('-')[2]:>08}-0000-4000-8000-{gpu:012d}"


def serial(node: LabNode, gpu: int) -> int:
    """The serial number of a GPU that the node was made with."""
    return nvml.serial(int(node.name.rpartition("-")[2]), gpu)


def gpu_addresses(node: LabNode) -> list[str]:
    """The PCI addresses of its GPUs, in NVML's order."""
    return sorted(path.name for path in _devices(node).iterdir() if _text(path / "class").startswith("0x0302"))


def device_file(node: LabNode, address: str, name: str) -> Path:
    """A sysfs file of a PCI device; what is written there shows on the node at once."""
    return _devices(node) / address / name


def port_file(node: LabNode, adapter: str, name: str) -> Path:
    """A sysfs file of the first port of an InfiniBand adapter."""
    return node.hardware / "sys/class/infiniband" / adapter / "ports/1" / name


def _devices(node: LabNode) -> Path:
    return node.hardware / "sys/bus/pci/devices"


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
