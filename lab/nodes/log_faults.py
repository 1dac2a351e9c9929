"""Faults that a node's kernel log tells of. What the kernel said stays said: they are not taken back. See faults.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.nodes import gpus
from lab.taken_back import Broken, taken_back

if TYPE_CHECKING:
    from lab.nodes.node import LabNode


@taken_back
def sxid(node: LabNode) -> Broken:
    """An NVSwitch met a fatal error of a link."""
    node.kernel_says("nvidia-nvswitch2: SXid (PCI:0000:a1:02.0): 20034, Fatal, Link 30 LTSSM Fault Up")
    yield {}


@taken_back
def out_of_memory(node: LabNode) -> Broken:
    """The kernel killed a worker of a job for want of memory."""
    node.kernel_says(
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
        "task_memcg=/user.slice,task=python3,pid=4711,uid=1004"
    )
    node.kernel_says(
        "Out of memory: Killed process 4711 (python3) total-vm:2113929216kB, anon-rss:2097152000kB, file-rss:0kB, "
        "shmem-rss:0kB, UID:1004 pgtables:4096000kB oom_score_adj:0"
    )
    yield {}


@taken_back
def fallen_off(node: LabNode) -> Broken:
    """A GPU fell off the bus and came back with a reset; the log of this boot has it."""
    address = gpus.gpu_addresses(node)[4].removesuffix(".0")
    node.kernel_says(f"NVRM: Xid (PCI:{address}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    node.kernel_says(f"NVRM: GPU {address}.0: GPU has fallen off the bus.")
    yield {}


@taken_back
def pcie_error(node: LabNode) -> Broken:
    """A root port reported a fatal error of the GPU below it."""
    address = gpus.gpu_addresses(node)[2]
    root_port = "0000:30:01.0"
    node.kernel_says(f"pcieport {root_port}: AER: Uncorrected (Fatal) error message received from {address}")
    node.kernel_says(
        f"nvidia {address}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)"
    )
    node.kernel_says(f"nvidia {address}:   device [10de:2330] error status/mask=00040000/00000000")
    node.kernel_says(f"nvidia {address}:    [18] MalfTLP                (First)")
    yield {}
