"""Made-up GPUs in the words of NVML, idle and healthy until changed."""

from dataclasses import dataclass
from typing import Any

Gpu = dict[str, Any]

NOT_SUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}


@dataclass(frozen=True)
class Board:
    """A GPU board. Power in W, clocks in MHz, memory in MiB, NVLink speed in MB/s."""

    name: str
    part_number: str
    vbios: str
    inforom: str
    pci_device_id: int
    gen: int
    sm_clock_max: int
    sm_clock_idle: int
    memory_clock: int
    power_idle: int
    power_min: int
    power_max: int
    memory_mib: int
    remap_banks: int
    nvlinks: int
    nvlink_speed: int
    margin_c: int


H100_SXM = Board(
    "NVIDIA H100 80GB HBM3", "692-2G520-0200-000", "96.00.89.00.01", "G520.0200.00.05", 0x233010DE,
    5, 1980, 345, 2619, 72, 200, 700, 81559, 2560, 18, 26562, 53,
)  # fmt: skip
L40S = Board(
    "NVIDIA L40S", "900-2G133-0080-000", "95.02.66.00.02", "G133.0242.00.03", 0x26B910DE,
    4, 2520, 210, 9001, 34, 100, 350, 46068, 192, 0, 0, 58,
)  # fmt: skip


def gpu(board: Board, index: int, address: str, *, serial: str, uuid: str, driver: str) -> Gpu:
    """One GPU at idle."""
    linked = board.nvlinks > 0
    return (
        {"index": index, "name": board.name, "uuid": uuid, "serial": serial, "part_number": board.part_number}
        | {"vbios": board.vbios, "inforom_image": board.inforom, "inforom_valid": True}
        | {"bus_id": f"0000{address.upper()}", "pci_device_id": board.pci_device_id, "pcie_replays": 0}
        | {"link_width": 16, "link_width_max": 16, "link_gen_max": board.gen}
        | _clocks(board)
        | _power(board, index)
        | {"temperature_c": 33 + index % 4, "temperature_margin_c": board.margin_c - index % 4}
        | _memory_health(board)
        | {"gsp_firmware": driver, "gsp_mode": [1, 1], "virtualization_mode": 0, "utilization_percent": 0}
        | {"persistence_mode": 1, "compute_mode": 0, "processes": []}
        | {"memory_total_bytes": board.memory_mib << 20, "memory_used_bytes": 1 << 20}
        | {"nvlinks": [nvlink(board, link) for link in range(board.nvlinks)]}
        | {name: dict(NOT_SUPPORTED) for name in ("nvlink5", "recovery_action", "temperature_slowdown_c")}
        | {name: value if linked else dict(NOT_SUPPORTED) for name, value in _of_linked(index).items()}
    )


def _of_linked(index: int) -> dict[str, Any]:
    """What boards with NVLink say."""
    heat = {"memory_temperature_c": 41 + index % 3, "memory_temperature_limit_c": 95}
    return {"module_id": index + 1, "mig_mode": [0, 0], "fabric": _fabric(), **heat}


def nvlink(board: Board, link: int) -> dict[str, Any]:
    """One NVLink to a switch, up and without errors."""
    errors = dict.fromkeys(("replay", "recovery", "crc"), 0)
    return {"link": link, "state": 1, "speed_mbps": board.nvlink_speed, "remote_type": 2, **errors}


def nvlink5() -> dict[str, Any]:
    """What NVLink 5 counts where all is well: the rates are 15e-238."""
    counts = ("malformed_packets", "buffer_overruns", "receive_errors", "link_integrity", "discards", "recovered")
    return {**dict.fromkeys((*counts, "failed_recoveries"), 0), "effective_ber": 0xFEE, "symbol_ber": 0xFEE}


def _clocks(board: Board) -> dict[str, Any]:
    violations = dict.fromkeys(("thermal", "board_limit", "reliability"), 0)
    return (
        dict.fromkeys(("sm_clock_max_mhz", "sm_clock_app_mhz", "sm_clock_app_default_mhz"), board.sm_clock_max)
        | {f"memory_clock_{name}_mhz": board.memory_clock for name in ("max", "app", "app_default")}
        | {"sm_clock_mhz": board.sm_clock_idle, "event_reasons": 0x1, "violation_ns": violations}
    )


def _power(board: Board, index: int) -> dict[str, Any]:
    limits = ("power_limit_mw", "power_limit_default_mw", "power_limit_enforced_mw")
    least, most = board.power_min * 1000, board.power_max * 1000
    own = {"power_mw": board.power_idle * 1000 + index * 310, "power_limit_range_mw": [least, most]}
    return {**dict.fromkeys(limits, most), **own}


def _memory_health(board: Board) -> dict[str, Any]:
    kinds = ("corrected", "uncorrected", "sram_uncorrected", "dram_uncorrected")
    counts = {f"{life}_{kind}": 0 for life in ("volatile", "aggregate") for kind in kinds[: 2 if life[0] == "v" else 4]}
    rows = {"remapped_rows": [0, 0, 0, 0], "remap_histogram": [board.remap_banks, 0, 0, 0, 0]}
    pages = {name: dict(NOT_SUPPORTED) for name in ("retired_pages", "retired_pending")}
    return {"ecc_mode": [1, 1], "ecc": counts, "sram_threshold_exceeded": False, **rows, **pages}


def _fabric() -> dict[str, Any]:
    joined = {"state": 3, "status": 0, "clique": 0, "cluster_uuid": "00000000-0000-0000-0000-000000000000"}
    return {**joined, "health_mask": 426, "health_summary": dict(NOT_SUPPORTED)}  # the last since driver 570


def peers(count: int) -> list[list[int]]:
    """Each two GPUs may read and write each other's memory."""
    return [[first, second, 0, 0] for second in range(count) for first in range(second)]
