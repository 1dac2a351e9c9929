"""Healthy nodes of every platform.

Each test makes a node of a shipped platform as its boards report themselves, and asks every check of the GPUs.
"""

from __future__ import annotations

import pytest
from fleet.machine import Machine
from support.tries import tried
from support.whole_node import whole

from nodegate.baseline.baseline import Baselines
from nodegate.verdict import Verdict

UNSUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}
MISSING = {"why": "missing", "detail": "NVML 13: Function Not Found", "nvml": 13}
PLATFORMS = Baselines.read().platforms
SUBJECTS = ("gpu", "boards", "ecc", "power", "clocks", "idle", "nvlink", "gsp", "platform")
FABRIC = {"fabric.nvswitches", "fabric.state", "fabric.health", "fabric.summary", "fabric.one_cluster", "pcie.replays"}
NAMES = {"rtx-4090": "NVIDIA GeForce RTX 4090"}


def every(machine: Machine, path: str, value: object) -> None:
    for entry in machine.sections["nvml"]["gpus"]:
        machine.set_gpu(entry["index"], path, value)


def node_of(platform: str) -> Machine:
    """A node whose boards say of themselves what the platform's boards say."""
    limits = {key: entry.value for key, entry in PLATFORMS[platform].limits.items()}
    match = PLATFORMS[platform].match
    assert match is not None
    machine = Machine.hgx_h100("gpu01")
    for index in reversed(range(int(str(limits.get("gpu.count", 8))), 8)):
        machine.remove_gpu(index)
        machine.sections["nvml"]["count"] = index
    vendor, device = match.gpu_pci_ids[0].split(":")
    for entry in machine.sections["nvml"]["gpus"]:
        machine.set_pci(machine.gpu_address(entry["index"]), "device", f"0x{device}")
    every(machine, "pci_device_id", int(device + vendor, 16))
    every(machine, "name", NAMES.get(platform, f"NVIDIA {platform}"))
    every(machine, "memory_total_bytes", (int(str(limits["gpu.memory_min_gib"])) + 1) << 30)
    for key, path, scale in (
        ("gpu.power_limit_w", "power_limit_mw", 1000),
        ("gpu.power_limit_w", "power_limit_enforced_mw", 1000),
        ("gpu.sm_clock_max_mhz", "sm_clock_max_mhz", 1),
        ("gpu.memory_clock_max_mhz", "memory_clock_max_mhz", 1),
    ):
        if key in limits:
            every(machine, path, int(str(limits[key])) * scale)
    switches = [each for each in machine.sections["pci"] if each["class"] == "0x068000"]
    wanted = int(str(limits.get("fabric.nvswitch_count", len(switches))))
    for switch in switches[wanted:]:
        machine.sections["pci"].remove(switch)
    for extra in range(wanted - len(switches)):
        machine.sections["pci"].append(dict(switches[0], address=f"0000:{0xE0 + extra:02x}:00.0"))
    return machine


def without_fabric(machine: Machine) -> None:
    every(machine, "fabric", UNSUPPORTED)


def links(machine: Machine, count: int, speed: int, up: int) -> None:
    for entry in machine.sections["nvml"]["gpus"]:
        listed = [dict(each, state=int(each["link"] < up), speed_mbps=speed) for each in entry["nvlinks"][:count]]
        machine.set_gpu(entry["index"], "nvlinks", listed)


def ampere(machine: Machine) -> None:
    """A driver of 2023 on A100 boards: no T.Limit, no GSP, no flag for SRAM, no health of a fabric."""
    without_fabric(machine)
    machine.set("nvml", "driver_version", "535.183.01")
    for path in ("sram_threshold_exceeded", "recovery_action", "gsp_mode", "gsp_firmware"):
        every(machine, path, MISSING)
    every(machine, "temperature_margin_c", UNSUPPORTED)
    every(machine, "temperature_slowdown_c", 89)


def consumer(machine: Machine) -> None:
    """A gaming card: no ECC, no spare rows, no serial number, no MIG."""
    without_fabric(machine)
    for path in ("ecc_mode", "ecc", "sram_threshold_exceeded", "remapped_rows", "remap_histogram", "serial"):
        every(machine, path, UNSUPPORTED)
    for path in ("mig_mode", "violation_ns", "part_number", "inforom_valid", "sm_clock_app_mhz", "pcie_replays"):
        every(machine, path, UNSUPPORTED)
    every(machine, "memory_clock_app_mhz", UNSUPPORTED)
    every(machine, "nvlinks", [])


@tried(
    "a healthy node of each of the 19 shipped platforms: PCIe cards without a bridge, A100 with an older driver, "
    "gaming cards without ECC",
    before="PCIe cards without a bridge are rejected",
    now="no fault and no error on any",
)
@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_a_healthy_node_of_the_platform(platform: str) -> None:
    machine = node_of(platform)
    limits = {key: entry.value for key, entry in PLATFORMS[platform].limits.items()}
    count = limits.get("nvlink.count")
    listed = 18 if count is None else int(str(count))
    links(machine, listed, int(str(limits.get("nvlink.speed_mbps", 26562))), up=0 if count is None else listed)
    if "a100" in platform or "a800" in platform:
        ampere(machine)
    elif platform == "rtx-4090":
        consumer(machine)
    elif platform == "l40s":
        without_fabric(machine)
        every(machine, "mig_mode", UNSUPPORTED)
    elif limits.get("fabric.nvswitch_count") == 0 and platform != "gb200-tray":
        without_fabric(machine)
    records = whole(machine, only=lambda check: check.id.split(".")[0] in SUBJECTS or check.id in FABRIC)
    assert records["platform.known"].message.endswith(f"platform {platform}, recognised from the hardware")
    bad = {
        name: record.message
        for name, record in records.items()
        if record.verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN) and name not in NEEDS_MORE
    }
    assert bad == {}


NEEDS_MORE = {"gsp.agreement", "gsp.version", "platform.one_name", "gsp.fleet"}  # other facts than the GPU's own


def test_every_platform_is_made() -> None:
    assert len(PLATFORMS) == 19
