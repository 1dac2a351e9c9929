"""What the software and platform checks say of one machine with one fault, word for word, and of harmless oddities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.judging import Case, assert_case

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
L40S = Machine.pcie_l40s
NCCL = {"software.nccl_version_min": "2.21.5"}


def nccl_library(file: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set("software", "nccl", [{"path": "/usr/lib/libnccl.so.2", "file": file}])


def nccl_conf(*lines: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set("environment", "nccl_conf", "\n".join(lines))


def without_peermem(machine: Machine) -> None:
    machine.sections["system"]["modules"].pop("nvidia_peermem")


def on_kernel(release: object) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        without_peermem(machine)
        machine.set("system", "kernel_release", release)

    return change


def proprietary_without_peermem(machine: Machine) -> None:
    without_peermem(machine)
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025"
    machine.set("driver", "version", version)


def driver_file_unread(machine: Machine) -> None:
    without_peermem(machine)
    machine.set("driver", "version", {"why": "denied", "detail": "/proc/driver/nvidia/version"})


def no_gpu_and_no_driver(machine: Machine) -> None:
    machine.set("driver", "loaded", False)
    machine.sections["pci"] = []


def unknown_gpus(machine: Machine) -> None:
    for address in machine.gpu_addresses:
        machine.set_pci(address, "device", "0x9999")


def unload(machine: Machine) -> None:
    machine.set("driver", "loaded", False)


CASES = (
    Case(
        "a program beside those that are always looked for",
        "software.required",
        PASS,
        "gcc: /usr/bin/gcc",
        change=lambda machine: machine.sections["software"]["tools"].update(gcc="/usr/bin/gcc"),
        expected={"require": ["gcc"]},
    ),
    Case(
        "a program that is not there",
        "software.required",
        FAIL,
        "conda: not installed - install it in the node's image",
        change=lambda machine: machine.sections["software"]["tools"].update(conda=""),
        expected={"require": ["conda"]},
    ),
    Case(
        "a program that nobody looked for",
        "software.required",
        ERROR,
        (
            "ninja: could not read location: missing: the recording release did not look for it - see the evidence "
            "file for what the node answered"
        ),
        expected={"require": ["ninja"]},
    ),
    Case("loaded", "software.driver_loaded", PASS, "driver: version 550.163.01"),
    Case(
        "not loaded",
        "software.driver_loaded",
        FAIL,
        ("driver: NVIDIA kernel module not loaded - install the driver, or load it: modprobe nvidia"),
        change=unload,
    ),
    Case(
        "older than the platform needs",
        "software.driver_loaded",
        FAIL,
        ("driver: version 550.163.01, expected at least 570.86.10 (the site's own) - update the driver"),
        limits={"software.driver_version_min": "570.86.10"},
    ),
    Case(
        "the version was not read",
        "software.driver_loaded",
        ERROR,
        (
            "driver: could not read version: denied: /proc/driver/nvidia/version - see the evidence "
            "file for what the node answered"
        ),
        change=driver_file_unread,
    ),
    Case(
        "no GPU and no driver",
        "software.driver_loaded",
        SKIP,
        "node: no NVIDIA GPU on PCIe and no driver loaded",
        change=no_gpu_and_no_driver,
    ),
    Case("the same", "software.driver_and_library", PASS, "driver: library version 550.163.01"),
    Case(
        "another library",
        "software.driver_and_library",
        FAIL,
        (
            "driver: library version 550.54.15, expected 550.163.01 (the loaded kernel module) - "
            "reboot, or stop all GPU programs and reload the driver"
        ),
        change=lambda machine: machine.set("nvml", "driver_version", "550.54.15"),
    ),
    Case(
        "NVML refuses the driver",
        "software.driver_and_library",
        FAIL,
        (
            "driver: Driver/library version mismatch (NVML error 18); the loaded kernel module is "
            "550.163.01 - reboot, or stop all GPU programs and reload the driver"
        ),
        change=lambda machine: machine.section_fails("nvml", "failed", "NVML 18: Driver/library version mismatch"),
    ),
    Case(
        "NVML hangs",
        "software.driver_and_library",
        ERROR,
        ("driver: could not read library version: timeout: 10 s - see the evidence file for what the node answered"),
        change=lambda machine: machine.section_fails("nvml", "timeout", "10 s"),
    ),
    Case(
        "no driver",
        "software.driver_and_library",
        SKIP,
        "node: the driver is not loaded: see software.driver_loaded",
        change=unload,
    ),
    Case(
        "new enough",
        "software.nccl_version",
        PASS,
        "NCCL /usr/lib/x86_64-linux-gnu/libnccl.so.2: version 2.23.4",
        limits=NCCL,
    ),
    Case(
        "2.20.5",
        "software.nccl_version",
        WARN,
        ("NCCL /usr/lib/libnccl.so.2: version 2.20.5, expected at least 2.21.5 (the site's own) - update NCCL"),
        change=nccl_library("libnccl.so.2.20.5"),
        limits=NCCL,
    ),
    Case(
        "2.9 is older than 2.21",
        "software.nccl_version",
        WARN,
        ("NCCL /usr/lib/libnccl.so.2: version 2.9.6, expected at least 2.21.5 (the site's own) - update NCCL"),
        change=nccl_library("libnccl.so.2.9.6"),
        limits=NCCL,
    ),
    Case(
        "a file without a version",
        "software.nccl_version",
        ERROR,
        (
            "NCCL /usr/lib/libnccl.so.2: could not read version: missing: no version in the file "
            "name libnccl.so.2 - see the evidence file for what the node answered"
        ),
        change=nccl_library("libnccl.so.2"),
        limits=NCCL,
    ),
    Case(
        "no NCCL on the node",
        "software.nccl_version",
        SKIP,
        "node: no NCCL on the node: jobs bring their own",
        change=lambda machine: machine.set("software", "nccl", []),
        limits=NCCL,
    ),
    Case("not asked for", "software.required", SKIP, "node: nothing requested: nodegate_require names programs"),
    Case(
        "asked for and there",
        "software.required",
        PASS,
        "cuda: version 12.4.1",
        expected={"require": ["cuda", "nvcc", "srun", "nccl"]},
    ),
    Case(
        "asked for and not there",
        "software.required",
        FAIL,
        "docker: not installed - install it in the node's image",
        expected={"require": ["cuda", "docker"]},
    ),
    Case(
        "the toolkit is too old",
        "software.required",
        FAIL,
        "cuda: version 12.4.1, expected at least 12.8 (the site's own) - update the CUDA toolkit",
        limits={"software.cuda_version_min": "12.8"},
        expected={"require": "cuda"},
    ),
    Case(
        "the toolkit's folder was not read",
        "software.required",
        ERROR,
        ("cuda: could not read location: timeout: 5 s - see the evidence file for what the node answered"),
        change=lambda machine: machine.set("software", "cuda", {"why": "timeout", "detail": "5 s"}),
        expected={"require": "cuda"},
    ),
    Case("nvidia_peermem is loaded", "software.gpudirect", PASS, "GPUDirect RDMA: nvidia_peermem is loaded"),
    Case(
        "healthy: the open kernel module has dma-buf",
        "software.gpudirect",
        PASS,
        "GPUDirect RDMA: the open kernel module exports GPU memory by dma-buf",
        change=without_peermem,
    ),
    Case(
        "dma-buf on a kernel that has none",
        "software.gpudirect",
        FAIL,
        (
            "GPUDirect RDMA: nvidia_peermem not loaded, and Linux 5.10.0-34-amd64 is older than dma-buf for RDMA "
            "(5.12) - modprobe nvidia_peermem, and load it at boot"
        ),
        change=on_kernel("5.10.0-34-amd64"),
    ),
    Case(
        "a kernel of RHEL 8 may have it",
        "software.gpudirect",
        NOT_JUDGED,
        (
            "GPUDirect RDMA: nvidia_peermem not loaded, and Linux 4.18.0-553.el8_10.x86_64 is older than dma-buf for "
            "RDMA (5.12); the distribution may have backported it to this kernel - modprobe nvidia_peermem, and load "
            "it at boot"
        ),
        change=on_kernel("4.18.0-553.el8_10.x86_64"),
    ),
    Case(
        "the kernel's version was not read",
        "software.gpudirect",
        ERROR,
        (
            "GPUDirect RDMA: could not read kernel version: denied: osrelease - see the evidence file for what the "
            "node answered"
        ),
        change=on_kernel({"why": "denied", "detail": "osrelease"}),
    ),
    Case(
        "neither of the two",
        "software.gpudirect",
        FAIL,
        (
            "GPUDirect RDMA: nvidia_peermem not loaded, and the proprietary kernel module has no "
            "dma-buf - modprobe nvidia_peermem, and load it at boot"
        ),
        change=proprietary_without_peermem,
    ),
    Case(
        "the driver's flavour was not read",
        "software.gpudirect",
        ERROR,
        (
            "GPUDirect RDMA: could not read type of kernel module (open or proprietary): denied: "
            "/proc/driver/nvidia/version - see the evidence file for what the node answered"
        ),
        change=driver_file_unread,
    ),
    Case("no GPU", "software.gpudirect", SKIP, "node: no GPU, or no RDMA NIC", change=no_gpu_and_no_driver),
    Case("none that harms", "software.nccl_settings", PASS, "NCCL settings: none that slows or breaks jobs"),
    Case(
        "InfiniBand switched off",
        "software.nccl_settings",
        FAIL,
        (
            "/etc/nccl.conf: NCCL_IB_DISABLE=1: InfiniBand and RoCE are not used: traffic between "
            "nodes goes over TCP - remove NCCL_IB_DISABLE from /etc/nccl.conf"
        ),
        change=nccl_conf("NCCL_IB_DISABLE=1"),
    ),
    Case(
        "healthy: InfiniBand not switched off",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("NCCL_IB_DISABLE=0"),
    ),
    Case(
        "healthy: a line that is commented out",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("#NCCL_IB_DISABLE=1"),
    ),
    Case(
        "NVLink switched off",
        "software.nccl_settings",
        FAIL,
        (
            "/etc/nccl.conf: NCCL_P2P_DISABLE=1: GPUs of one node do not talk over NVLink - remove "
            "NCCL_P2P_DISABLE from /etc/nccl.conf"
        ),
        change=nccl_conf("NCCL_P2P_DISABLE=1"),
    ),
    Case(
        "peer-to-peer switched off without NVSwitch",
        "software.nccl_settings",
        WARN,
        (
            "/etc/nccl.conf: NCCL_P2P_DISABLE=1: GPUs of one node do not talk directly - remove "
            "NCCL_P2P_DISABLE from /etc/nccl.conf"
        ),
        change=nccl_conf("NCCL_P2P_DISABLE=1"),
        machine=L40S,
    ),
    Case(
        "NVLS switched off",
        "software.nccl_settings",
        WARN,
        (
            "/etc/nccl.conf: NCCL_NVLS_ENABLE=0: NVLink SHARP is not used: all-reduce inside a node "
            "loses about a quarter of its speed - remove NCCL_NVLS_ENABLE from /etc/nccl.conf"
        ),
        change=nccl_conf("NCCL_NVLS_ENABLE=0"),
    ),
    Case(
        "healthy: NVLS switched off where there is no NVSwitch",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("NCCL_NVLS_ENABLE=0"),
        machine=L40S,
    ),
    Case(
        "a pinned algorithm",
        "software.nccl_settings",
        WARN,
        (
            "/etc/nccl.conf: NCCL_ALGO=Ring: the algorithm is pinned: NCCL no longer chooses by size "
            "and topology - remove NCCL_ALGO from /etc/nccl.conf"
        ),
        change=nccl_conf("NCCL_ALGO=Ring"),
    ),
    Case(
        "tracing",
        "software.nccl_settings",
        WARN,
        (
            "/etc/nccl.conf: NCCL_DEBUG=TRACE: tracing slows every job and fills the disk with logs "
            "- remove NCCL_DEBUG from /etc/nccl.conf"
        ),
        change=nccl_conf("NCCL_DEBUG=TRACE"),
    ),
    Case(
        "healthy: information",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("NCCL_DEBUG=INFO"),
    ),
    Case(
        "an interface of another machine",
        "software.nccl_settings",
        FAIL,
        (
            "/etc/nccl.conf: NCCL_SOCKET_IFNAME=eth7: no interface of this node matches - remove "
            "NCCL_SOCKET_IFNAME from /etc/nccl.conf"
        ),
        change=nccl_conf("NCCL_SOCKET_IFNAME=eth7"),
    ),
    Case(
        "healthy: a prefix of one that is there",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("NCCL_SOCKET_IFNAME=en"),
    ),
    Case(
        "healthy: a bond, which the probe does not list",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("NCCL_SOCKET_IFNAME=bond0"),
    ),
    Case(
        "healthy: all but some",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("NCCL_SOCKET_IFNAME=^docker,lo"),
    ),
    Case(
        "an adapter of another machine",
        "software.nccl_settings",
        FAIL,
        (
            "/etc/nccl.conf: NCCL_IB_HCA=mlx4: no RDMA adapter of this node matches - remove "
            "NCCL_IB_HCA from /etc/nccl.conf"
        ),
        change=nccl_conf("NCCL_IB_HCA=mlx4"),
    ),
    Case(
        "healthy: adapters by exact name and port",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"),
    ),
    Case(
        "healthy: all adapters but the bond",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("NCCL_IB_HCA=^mlx5_bond_0"),
    ),
    Case(
        "a plugin path",
        "software.nccl_settings",
        WARN,
        (
            "/etc/nccl.conf: NCCL_NET_PLUGIN=/opt/old/libnccl-net.so: "
            "a network plugin is set for every job: NCCL stops or falls back to TCP if it cannot load it - remove "
            "NCCL_NET_PLUGIN from /etc/nccl.conf"
        ),
        change=nccl_conf("NCCL_NET_PLUGIN=/opt/old/libnccl-net.so"),
    ),
    Case(
        "healthy: no plugin",
        "software.nccl_settings",
        PASS,
        "NCCL settings: none that slows or breaks jobs",
        change=nccl_conf("NCCL_NET_PLUGIN=none"),
    ),
    Case(
        "a debugging aid in the login environment",
        "software.nccl_settings",
        FAIL,
        (
            "login environment: CUDA_LAUNCH_BLOCKING=1: every kernel launch blocks: a debugging aid "
            "that slows all jobs - remove CUDA_LAUNCH_BLOCKING from login environment"
        ),
        change=lambda machine: machine.sections["environment"]["variables"].update(CUDA_LAUNCH_BLOCKING="1"),
    ),
    Case(
        "nccl.conf was not read",
        "software.nccl_settings",
        ERROR,
        (
            "/etc/nccl.conf: could not read NCCL settings: denied: /etc/nccl.conf - see the evidence "
            "file for what the node answered"
        ),
        change=lambda machine: machine.set("environment", "nccl_conf", {"why": "denied", "detail": "/etc/nccl.conf"}),
    ),
    Case("it runs", "software.persistence_daemon", PASS, "nvidia-persistenced: service state active"),
    Case(
        "it stopped",
        "software.persistence_daemon",
        WARN,
        ("nvidia-persistenced: service state failed, expected active - systemctl enable --now nvidia-persistenced"),
        change=lambda machine: machine.stop_service("nvidia-persistenced"),
    ),
    Case(
        "systemd does not answer",
        "software.persistence_daemon",
        ERROR,
        (
            "node: services could not be read: timeout: 5 s - the node is slow: check its load "
            "and kernel log, then run again"
        ),
        change=lambda machine: machine.section_fails("services", "timeout", "5 s"),
    ),
    Case("no GPU", "software.persistence_daemon", SKIP, "node: no NVIDIA GPU on PCIe", change=no_gpu_and_no_driver),
    Case("recognised", "platform.known", PASS, "node: platform hgx-h100-8, recognised from the hardware"),
    Case(
        "named, and so it is",
        "platform.known",
        PASS,
        "node: platform hgx-h100-8",
        expected={"platform": "hgx-h100-8"},
    ),
    Case(
        "another machine than the inventory says",
        "platform.known",
        FAIL,
        (
            "node: platform hgx-h100-8, expected hgx-a100-80gb-8 (nodegate_platform of the "
            "inventory) - correct nodegate_platform, or check which machine answers at this address"
        ),
        expected={"platform": "hgx-a100-80gb-8"},
    ),
    Case(
        "no baseline has these GPUs",
        "platform.known",
        ERROR,
        (
            "node: platform unknown (GPU PCI ids seen: 8 x 10de:9999, no baseline has this model) - "
            "name it in the inventory (nodegate_platform), or supply a file for it (--baseline; "
            "docs/baselines.md)"
        ),
        change=unknown_gpus,
    ),
    Case(
        "the machine of the inventory",
        "platform.serial",
        PASS,
        "node: serial number 7XK0001",
        expected={"serial": "7XK0001"},
    ),
    Case(
        "another machine answers",
        "platform.serial",
        FAIL,
        (
            "node: serial number 7XK0001, expected 7XK0002 (inventory hosts.yaml:3) - "
            "check which machine answers at this address; correct the inventory if the board was replaced"
        ),
        expected={"serial": "7XK0002"},
    ),
    Case(
        "the serial number needs root",
        "platform.serial",
        ERROR,
        (
            "node: could not read serial number: denied: product_serial - see the evidence file for "
            "what the node answered"
        ),
        change=lambda machine: machine.set(
            "system", "dmi.product_serial", {"why": "denied", "detail": "product_serial"}
        ),
        expected={"serial": "7XK0001"},
    ),
    Case("none given", "platform.serial", SKIP, "node: the inventory gives no serial number (nodegate_serial)"),
    Case("alone", "platform.one_name", PASS, "machine: no other name of this run leads to it"),
    Case(
        "its boot id is hidden",
        "platform.one_name",
        NOT_JUDGED,
        "node: not judged: its boot id and host name could not be read",
        change=lambda machine: machine.set("system", "boot_id", {"why": "denied", "detail": "EACCES"}),
    ),
    Case(
        "too few nodes",
        "drift.same_as_fleet",
        NOT_JUDGED,
        "node: only 1 of platform hgx-h100-8 in this run, 3 are needed",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
