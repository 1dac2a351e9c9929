"""Faults of a node's GPUs, NVIDIA's driver, its library and nvidia-smi; see faults.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.nodes import gpus
from lab.nodes.fault import hidden, holding, served, without
from lab.taken_back import Broken, taken_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.nodes.node import LabNode


LOADED_DRIVER = "550.144.03"  # of the kernel module, after the packages went on to 550.163.01
DRIVER_NOT_LOADED, MISMATCH = 9, 18
# The probe asks NVML for this, nvidia-smi does not; and the other way round.
ASKED_BY_PROBE_ALONE, ASKED_BY_SMI_ALONE = "nvmlDeviceGetViolationStatus", "nvmlDeviceGetDisplayMode"
_JOB = "import time; device = open('/dev/nvidia0'); time.sleep(3600)"


@taken_back
def gpu_lost_in_mid_run(node: LabNode) -> Broken:
    """GPU 3 is lost, and NVML gives its handle still: `nvidia-smi --query-gpu` shows it in words, with exit code 0."""
    with served(node, gpus.scenario(node).lose(3, keeps_handle=True)):
        rows = node.run("nvidia-smi", "--query-gpu=index,serial,power.draw", "--format=csv,noheader").splitlines()
        if rows[3] != "[GPU is lost], [GPU is lost], [GPU is lost]":
            raise RuntimeError(f"{node.name}: nvidia-smi: {rows}")
        yield {}


@taken_back
def nvml_dies(node: LabNode) -> Broken:
    """NVML dies of a signal at a question of ours, and GPU 3 is lost: nvidia-smi has to tell."""
    with served(node, gpus.scenario(node).crash(0, ASKED_BY_PROBE_ALONE).lose(3)):
        yield {}


@taken_back
def smi_hangs(node: LabNode) -> Broken:
    """NVML dies of a signal, and nvidia-smi, which is asked then, never ends."""
    scenario = gpus.scenario(node).crash(0, ASKED_BY_PROBE_ALONE)
    with served(node, scenario.hang(0, ASKED_BY_SMI_ALONE, 600)):
        yield {}


@taken_back
def smi_missing(node: LabNode) -> Broken:
    """The node came without nvidia-smi; NVML is there."""
    with without(node.root / gpus.NVIDIA_SMI):
        yield {}


@taken_back
def library_missing(node: LabNode) -> Broken:
    """The driver's library is not on the node."""
    with without(node.root / gpus.LIBRARY):
        yield {}


@taken_back
def driver_updated(node: LabNode) -> Broken:
    """The packages of another driver were installed, and the kernel module is still the old one."""
    with _other_module(node), served(node, gpus.scenario(node).error("nvmlInit", MISMATCH)):
        yield {}


@taken_back
def driver_not_loaded(node: LabNode) -> Broken:
    """The kernel module was not loaded: nothing of it is in /proc, /sys and /dev."""
    bound = [f"{_home(node, address)}/driver" for address in gpus.gpu_addresses(node)]
    with (
        served(node, gpus.scenario(node).error("nvmlInit", DRIVER_NOT_LOADED)),
        without(node.hardware / "proc/driver/nvidia"),
        hidden(node, "/sys/module", ["nvidia"]),
        hidden(node, "/sys/devices", bound),
    ):
        node.run("sh", "-c", "rm /dev/nvidia[0-9]*")
        yield {}
    node.run("sh", "-c", "for gpu in 0 1 2 3 4 5 6 7; do mknod -m 666 /dev/nvidia$gpu c 1 3; done")


@taken_back
def job_left(node: LabNode) -> Broken:
    """A process of a job is still on GPU 0."""
    with _job(node) as pid:
        scenario = gpus.scenario(node).system(f"process.{pid}", "/usr/bin/python3")
        scenario.set(0, "processes.compute", f"{pid}:{8 << 30}").set(0, "memory_used", 8 << 30)
        with served(node, scenario):
            yield {}


@taken_back
def job_while_the_driver_was_updated(node: LabNode) -> Broken:
    """A job goes on with the old driver's library, and NVML answers nobody else."""
    with _job(node), driver_updated(node):
        yield {}


@taken_back
def _job(node: LabNode) -> Iterator[str]:
    """A process that holds GPU 0's device open; its number."""
    node.run("systemd-run", "--quiet", "--unit=job", "--service-type=exec", "python3", "-c", _JOB)
    opened = "until ls -l /proc/$0/fd | grep -q nvidia0; do sleep 0.02; done"
    pid = node.run("systemctl", "show", "--property=MainPID", "--value", "job").strip()
    node.run("sh", "-c", opened, pid)
    yield pid
    node.run("systemctl", "stop", "job")


@taken_back
def _other_module(node: LabNode) -> Iterator[None]:
    version = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {LOADED_DRIVER}\n"
    with holding(node.hardware / "proc/driver/nvidia/version", version):
        yield


def _home(node: LabNode, address: str) -> str:
    """Where a PCI device lies below /sys/devices."""
    link = gpus.device_file(node, address, "").readlink()
    return str(link).partition("devices/")[2]
