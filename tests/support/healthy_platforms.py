"""Healthy nodes of every shipped platform, as their boards report themselves, and as they do under load."""

from fleet.gpus import nvlink5
from fleet.machine import Machine
from support.shipped import SHIPPED

UNSUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}
MISSING = {"why": "missing", "detail": "NVML 13: Function Not Found", "nvml": 13}
PLATFORMS = SHIPPED.platforms
NAMES = {"rtx-4090": "NVIDIA GeForce RTX 4090"}
# Servers with PCIe cards, and superchips, which hang on PCIe too.
CARDS = (
    *("a100-pcie-40gb", "a100-pcie-80gb", "a800-pcie-80gb", "gh200", "h100-nvl", "h100-pcie", "h200-nvl", "l40s"),
    *("rtx-4090", "rtx-pro-6000"),
)
# Virtual machines, as their DMI names them, and whether they are given the board's NVSwitches.
VIRTUAL = {
    "aws-p5": ("Amazon EC2", "p5.48xlarge", True),
    "azure-nd-h100-v5": ("Microsoft Corporation", "Virtual Machine", False),
    "gcp-a3": ("Google", "Google Compute Engine", False),
}


def every(machine, path, value):
    """Change a value of all GPUs."""
    for entry in machine.sections["nvml"]["gpus"]:
        machine.set_gpu(entry["index"], path, value)


def limits_of(platform):
    """The limits of a platform's own file."""
    return {key: entry.value for key, entry in PLATFORMS[platform].limits.items()}


def node_of(platform, make=Machine.hgx_h100, number=1):
    """A node whose boards say of themselves what the platform's boards say."""
    limits = limits_of(platform)
    found = PLATFORMS[platform]
    match = found.match or PLATFORMS[found.like].match
    assert match is not None
    machine = make(f"gpu{number:02d}", number)
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
    if platform in VIRTUAL:
        vendor, product, switches = VIRTUAL[platform]
        machine.set("system", "dmi.sys_vendor", vendor)
        machine.set("system", "dmi.product_name", product)
        limits = limits if switches else {**limits, "fabric.nvswitch_count": 0}
    _switches(machine, limits)
    _links_and_features(machine, platform, limits)
    return machine


def _switches(machine, limits):
    switches = [each for each in machine.sections["pci"] if each["class"] == "0x068000"]
    wanted = int(str(limits.get("fabric.nvswitch_count", len(switches))))
    for switch in switches[wanted:]:
        machine.sections["pci"].remove(switch)
    for extra in range(wanted - len(switches)):
        machine.sections["pci"].append(dict(switches[0], address=f"0000:{0xE0 + extra:02x}:00.0"))


def _links_and_features(machine, platform, limits):
    count = limits.get("nvlink.count")
    listed = 18 if count is None else int(str(count))
    _links(machine, listed, int(str(limits.get("nvlink.speed_mbps", 26562))), up=0 if count is None else listed)
    if any(name in platform for name in ("b200", "b300")):
        for entry in machine.sections["nvml"]["gpus"]:
            entry["nvlink5"] = nvlink5()
            for link in entry["nvlinks"]:
                link.update(dict.fromkeys(("replay", "recovery", "crc"), UNSUPPORTED))
    if "a100" in platform or "a800" in platform:
        _without_fabric(machine)
        machine.set("nvml", "driver_version", "535.183.01")
        for path in ("sram_threshold_exceeded", "recovery_action", "gsp_mode", "gsp_firmware"):
            every(machine, path, MISSING)
        every(machine, "temperature_margin_c", UNSUPPORTED)
        every(machine, "temperature_slowdown_c", 89)
    elif platform == "rtx-4090":
        _consumer(machine)
    elif platform == "l40s":
        _without_fabric(machine)
        every(machine, "mig_mode", UNSUPPORTED)
    elif limits.get("fabric.required") is False and not platform.endswith("-tray"):
        _without_fabric(machine)


def _without_fabric(machine):
    every(machine, "fabric", UNSUPPORTED)


def _links(machine, count, speed, up):
    for entry in machine.sections["nvml"]["gpus"]:
        listed = [dict(each, state=int(each["link"] < up), speed_mbps=speed) for each in entry["nvlinks"][:count]]
        machine.set_gpu(entry["index"], "nvlinks", listed)


def _consumer(machine):
    """A gaming card: no ECC, no spare rows, no serial number, no MIG."""
    _without_fabric(machine)
    for path in ("ecc_mode", "ecc", "sram_threshold_exceeded", "remapped_rows", "remap_histogram", "serial"):
        every(machine, path, UNSUPPORTED)
    for path in ("mig_mode", "violation_ns", "part_number", "inforom_valid", "sm_clock_app_mhz", "pcie_replays"):
        every(machine, path, UNSUPPORTED)
    every(machine, "memory_clock_app_mhz", UNSUPPORTED)
    every(machine, "nvlinks", [])
