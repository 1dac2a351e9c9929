"""What the software and platform checks say of one machine with one fault, word for word, and of harmless oddities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.cases import assert_case
from support.judging import Case

from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
L40S = Machine.pcie_l40s
RAILS = {"rdma.rails": 8}
SEVEN = ",".join(f"mlx5_{number}" for number in range(7))
TOPOLOGY = "/opt/site/topology.xml"
NCCL = {"software.nccl_version_min": "2.21.5"}


def nccl_library(file: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set("software", "nccl", [{"path": "/usr/lib/libnccl.so.2", "file": file}])


def nccl_conf(*lines: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set("environment", "nccl_conf", "\n".join(lines))


def topology_file(*, there: object) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        nccl_conf(f"NCCL_TOPO_FILE={TOPOLOGY}")(machine)
        machine.sections["environment"]["files"] = {TOPOLOGY: there}

    return change


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
        change=lambda machine: machine.sections["software"]["tools"].update(gcc="/usr/bin/gcc"),
        expected={"require": ["gcc"]},
    ),
    Case(
        "a program that is not there",
        "software.required",
        FAIL,
        change=lambda machine: machine.sections["software"]["tools"].update(conda=""),
        expected={"require": ["conda"]},
    ),
    Case("a program that nobody looked for", "software.required", ERROR, expected={"require": ["ninja"]}),
    Case("loaded", "software.driver_loaded", PASS),
    Case("not loaded", "software.driver_loaded", FAIL, change=unload),
    Case(
        "older than the platform needs",
        "software.driver_loaded",
        FAIL,
        limits={"software.driver_version_min": "570.86.10"},
    ),
    Case("the version was not read", "software.driver_loaded", ERROR, change=driver_file_unread),
    Case("no GPU and no driver", "software.driver_loaded", SKIP, change=no_gpu_and_no_driver),
    Case("the same", "software.driver_and_library", PASS),
    Case(
        "another library",
        "software.driver_and_library",
        FAIL,
        change=lambda machine: machine.set("nvml", "driver_version", "550.54.15"),
    ),
    Case(
        "NVML refuses the driver",
        "software.driver_and_library",
        FAIL,
        change=lambda machine: machine.section_fails("nvml", "failed", "NVML 18: Driver/library version mismatch"),
    ),
    Case(
        "NVML hangs",
        "software.driver_and_library",
        ERROR,
        change=lambda machine: machine.section_fails("nvml", "timeout", "10 s"),
    ),
    Case("no driver", "software.driver_and_library", SKIP, change=unload),
    Case("new enough", "software.nccl_version", PASS, limits=NCCL),
    Case("2.20.5", "software.nccl_version", WARN, change=nccl_library("libnccl.so.2.20.5"), limits=NCCL),
    Case("2.9 is older than 2.21", "software.nccl_version", WARN, change=nccl_library("libnccl.so.2.9.6"), limits=NCCL),
    Case("a file without a version", "software.nccl_version", ERROR, change=nccl_library("libnccl.so.2"), limits=NCCL),
    Case(
        "no NCCL on the node",
        "software.nccl_version",
        SKIP,
        change=lambda machine: machine.set("software", "nccl", []),
        limits=NCCL,
    ),
    Case("not asked for", "software.required", SKIP),
    Case("asked for and there", "software.required", PASS, expected={"require": ["cuda", "nvcc", "srun", "nccl"]}),
    Case("asked for and not there", "software.required", FAIL, expected={"require": ["cuda", "docker"]}),
    Case(
        "the toolkit is too old",
        "software.required",
        FAIL,
        limits={"software.cuda_version_min": "12.8"},
        expected={"require": "cuda"},
    ),
    Case(
        "the toolkit's folder was not read",
        "software.required",
        ERROR,
        change=lambda machine: machine.set("software", "cuda", {"why": "timeout", "detail": "5 s"}),
        expected={"require": "cuda"},
    ),
    Case("nvidia_peermem is loaded", "software.gpudirect", PASS),
    Case("healthy: the open kernel module has dma-buf", "software.gpudirect", PASS, change=without_peermem),
    Case("dma-buf on a kernel that has none", "software.gpudirect", FAIL, change=on_kernel("5.10.0-34-amd64")),
    Case(
        "a kernel of RHEL 8 may have it", "software.gpudirect", NOT_JUDGED, change=on_kernel("4.18.0-553.el8_10.x86_64")
    ),
    Case(
        "the kernel's version was not read",
        "software.gpudirect",
        ERROR,
        change=on_kernel({"why": "denied", "detail": "osrelease"}),
    ),
    Case("neither of the two", "software.gpudirect", FAIL, change=proprietary_without_peermem),
    Case("the driver's flavour was not read", "software.gpudirect", ERROR, change=driver_file_unread),
    Case("no GPU", "software.gpudirect", SKIP, change=no_gpu_and_no_driver),
    Case("none that harms", "software.nccl_settings", PASS),
    Case("InfiniBand switched off", "software.nccl_settings", FAIL, change=nccl_conf("NCCL_IB_DISABLE=1")),
    Case("healthy: InfiniBand not switched off", "software.nccl_settings", PASS, change=nccl_conf("NCCL_IB_DISABLE=0")),
    Case(
        "healthy: a line that is commented out", "software.nccl_settings", PASS, change=nccl_conf("#NCCL_IB_DISABLE=1")
    ),
    Case("NVLink switched off", "software.nccl_settings", FAIL, change=nccl_conf("NCCL_P2P_DISABLE=1")),
    Case(
        "peer-to-peer switched off without NVSwitch",
        "software.nccl_settings",
        WARN,
        change=nccl_conf("NCCL_P2P_DISABLE=1"),
        machine=L40S,
    ),
    Case("NVLS switched off", "software.nccl_settings", WARN, change=nccl_conf("NCCL_NVLS_ENABLE=0")),
    Case(
        "healthy: NVLS switched off where there is no NVSwitch",
        "software.nccl_settings",
        PASS,
        change=nccl_conf("NCCL_NVLS_ENABLE=0"),
        machine=L40S,
    ),
    Case("a pinned algorithm", "software.nccl_settings", WARN, change=nccl_conf("NCCL_ALGO=Ring")),
    Case("tracing", "software.nccl_settings", WARN, change=nccl_conf("NCCL_DEBUG=TRACE")),
    Case("healthy: information", "software.nccl_settings", PASS, change=nccl_conf("NCCL_DEBUG=INFO")),
    Case(
        "an interface of another machine", "software.nccl_settings", FAIL, change=nccl_conf("NCCL_SOCKET_IFNAME=eth7")
    ),
    Case(
        "healthy: a prefix of one that is there",
        "software.nccl_settings",
        PASS,
        change=nccl_conf("NCCL_SOCKET_IFNAME=en"),
    ),
    Case(
        "healthy: a bond, which the probe does not list",
        "software.nccl_settings",
        PASS,
        change=nccl_conf("NCCL_SOCKET_IFNAME=bond0"),
    ),
    Case("healthy: all but some", "software.nccl_settings", PASS, change=nccl_conf("NCCL_SOCKET_IFNAME=^docker,lo")),
    Case("an adapter of another machine", "software.nccl_settings", FAIL, change=nccl_conf("NCCL_IB_HCA=mlx4")),
    Case(
        "healthy: adapters by exact name and port",
        "software.nccl_settings",
        PASS,
        change=nccl_conf("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"),
        limits={"rdma.rails": 2},
    ),
    Case(
        "healthy: all adapters but the bond",
        "software.nccl_settings",
        PASS,
        change=nccl_conf("NCCL_IB_HCA=^mlx5_bond_0"),
    ),
    Case(
        "one adapter of the list is another board's",
        "software.nccl_settings",
        FAIL,
        change=nccl_conf(f"NCCL_IB_HCA={SEVEN},mlx5_12", "NCCL_SOCKET_IFNAME=eno1"),
        limits=RAILS,
    ),
    Case(
        "before a job: a rail is left out",
        "software.nccl_settings",
        WARN,
        change=nccl_conf(f"NCCL_IB_HCA={SEVEN}"),
        limits=RAILS,
        profile=Profile.BOOTCHECK,
    ),
    Case("one of eight rails", "software.nccl_settings", FAIL, change=nccl_conf("NCCL_IB_HCA=mlx5_0"), limits=RAILS),
    Case(
        "a rail that is taken out",
        "software.nccl_settings",
        FAIL,
        change=nccl_conf("NCCL_IB_HCA=^mlx5_3"),
        limits=RAILS,
    ),
    Case(
        "one port that is not there",
        "software.nccl_settings",
        FAIL,
        change=nccl_conf(f"NCCL_IB_HCA=={SEVEN},mlx5_7:2"),
        limits=RAILS,
    ),
    Case(
        "all rails, and one more that is not there",
        "software.nccl_settings",
        WARN,
        change=nccl_conf(f"NCCL_IB_HCA={SEVEN},mlx5_7,mlx5_12"),
        limits=RAILS,
    ),
    Case(
        "a name that is not there, of a platform without a number of rails",
        "software.nccl_settings",
        WARN,
        change=nccl_conf("NCCL_IB_HCA=mlx5_0,mlx5_12"),
        machine=L40S,
    ),
    Case(
        "healthy: all rails by name",
        "software.nccl_settings",
        PASS,
        change=nccl_conf(f"NCCL_IB_HCA=={SEVEN}:1,mlx5_7"),
        limits=RAILS,
    ),
    Case(
        "healthy: adapters by the beginning of their names",
        "software.nccl_settings",
        PASS,
        change=nccl_conf("NCCL_IB_HCA=mlx5,bnxt_re"),
        limits=RAILS,
    ),
    Case(
        "healthy: as many rails as the site counts",
        "software.nccl_settings",
        PASS,
        change=nccl_conf("NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3"),
        limits={"rdma.rails": 4},
    ),
    Case(
        "one interface of the list is not there",
        "software.nccl_settings",
        WARN,
        change=nccl_conf("NCCL_SOCKET_IFNAME=eno1,eth7"),
    ),
    Case(
        "healthy: interfaces by the beginning of their names",
        "software.nccl_settings",
        PASS,
        change=nccl_conf("NCCL_SOCKET_IFNAME=en,eth,bond0"),
    ),
    Case(
        "NVLink between trays is switched off",
        "software.nccl_settings",
        WARN,
        change=nccl_conf("NCCL_MNNVL_ENABLE=0"),
        limits={"gpu.per_board": 2},
    ),
    Case(
        "healthy: NVLink between trays is switched off where there are none",
        "software.nccl_settings",
        PASS,
        change=nccl_conf("NCCL_MNNVL_ENABLE=0"),
        limits={"gpu.per_board": 1},
    ),
    Case(
        "a topology file that is gone",
        "software.nccl_settings",
        WARN,
        change=topology_file(there=False),
    ),
    Case("healthy: a topology file", "software.nccl_settings", PASS, change=topology_file(there=True)),
    Case(
        "a topology file of which nothing is known",
        "software.nccl_settings",
        ERROR,
        change=topology_file(there={"why": "denied", "detail": TOPOLOGY}),
    ),
    Case(
        "healthy: evidence from before files were looked for",
        "software.nccl_settings",
        PASS,
        change=nccl_conf(f"NCCL_TOPO_FILE={TOPOLOGY}"),
    ),
    Case("a plugin path", "software.nccl_settings", WARN, change=nccl_conf("NCCL_NET_PLUGIN=/opt/old/libnccl-net.so")),
    Case("healthy: no plugin", "software.nccl_settings", PASS, change=nccl_conf("NCCL_NET_PLUGIN=none")),
    Case(
        "a debugging aid in the login environment",
        "software.nccl_settings",
        FAIL,
        change=lambda machine: machine.sections["environment"]["variables"].update(CUDA_LAUNCH_BLOCKING="1"),
    ),
    Case(
        "nccl.conf was not read",
        "software.nccl_settings",
        ERROR,
        change=lambda machine: machine.set("environment", "nccl_conf", {"why": "denied", "detail": "/etc/nccl.conf"}),
    ),
    Case("it runs", "software.persistence_daemon", PASS),
    Case(
        "it stopped",
        "software.persistence_daemon",
        WARN,
        change=lambda machine: machine.stop_service("nvidia-persistenced"),
    ),
    Case(
        "systemd does not answer",
        "software.persistence_daemon",
        ERROR,
        change=lambda machine: machine.section_fails("services", "timeout", "5 s"),
    ),
    Case("no GPU", "software.persistence_daemon", SKIP, change=no_gpu_and_no_driver),
    Case("recognised", "platform.known", PASS),
    Case("named, and so it is", "platform.known", PASS, expected={"platform": "hgx-h100-8"}),
    Case("another machine than the inventory says", "platform.known", FAIL, expected={"platform": "hgx-a100-80gb-8"}),
    Case("no baseline has these GPUs", "platform.known", ERROR, change=unknown_gpus),
    Case("the machine of the inventory", "platform.serial", PASS, expected={"serial": "7XK0001"}),
    Case("another machine answers", "platform.serial", FAIL, expected={"serial": "7XK0002"}),
    Case(
        "the serial number needs root",
        "platform.serial",
        ERROR,
        change=lambda machine: machine.set(
            "system", "dmi.product_serial", {"why": "denied", "detail": "product_serial"}
        ),
        expected={"serial": "7XK0001"},
    ),
    Case("none given", "platform.serial", SKIP),
    Case("alone", "platform.one_name", PASS),
    Case(
        "its boot id is hidden",
        "platform.one_name",
        NOT_JUDGED,
        change=lambda machine: machine.set("system", "boot_id", {"why": "denied", "detail": "EACCES"}),
    ),
    Case("too few nodes", "drift.same_as_fleet", NOT_JUDGED),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
