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
    return {
        "index": index,
        "name": board.name,
        "uuid": uuid,
        "serial": serial,
        "part_number": board.part_number,
        "vbios": board.vbios,
        "inforom_image": board.inforom,
        "bus_id": f"0000{address.upper()}",
        "pci_device_id": board.pci_device_id,
        "module_id": index + 1 if linked else dict(NOT_SUPPORTED),
        "link_width": 16,
        "link_width_max": 16,
        "link_gen_max": board.gen,
        "pcie_replays": 0,
        **_clocks(board),
        **_power(board, index),
        "temperature_c": 33 + index % 4,
        "temperature_margin_c": board.margin_c - index % 4,
        "temperature_slowdown_c": dict(NOT_SUPPORTED),
        "memory_temperature_c": 41 + index % 3 if linked else dict(NOT_SUPPORTED),
        "memory_temperature_limit_c": 95 if linked else dict(NOT_SUPPORTED),
        **_memory_health(board),
        "gsp_firmware": driver,
        "gsp_mode": [1, 1],
        "fabric": _fabric() if linked else dict(NOT_SUPPORTED),
        "nvlinks": [nvlink(board, link) for link in range(board.nvlinks)],
        "nvlink5": dict(NOT_SUPPORTED),
        "recovery_action": dict(NOT_SUPPORTED),  # since driver 565
        "inforom_valid": True,
        "virtualization_mode": 0,
        "persistence_mode": 1,
        "compute_mode": 0,
        "mig_mode": [0, 0] if linked else dict(NOT_SUPPORTED),
        "utilization_percent": 0,
        "memory_total_bytes": board.memory_mib << 20,
        "memory_used_bytes": 1 << 20,
        "processes": [],
    }


def nvlink(board: Board, link: int) -> dict[str, Any]:
    """One NVLink to a switch, up and without errors."""
    return {
        "link": link,
        "state": 1,
        "speed_mbps": board.nvlink_speed,
        "remote_type": 2,
        "replay": 0,
        "recovery": 0,
        "crc": 0,
    }


def nvlink5() -> dict[str, Any]:
    """What NVLink 5 counts where all is well: the rates are 15e-238."""
    counts = ("malformed_packets", "buffer_overruns", "receive_errors", "link_integrity", "discards", "recovered")
    return {**dict.fromkeys((*counts, "failed_recoveries"), 0), "effective_ber": 0xFEE, "symbol_ber": 0xFEE}


def _clocks(board: Board) -> dict[str, Any]:
    return {
        "sm_clock_mhz": board.sm_clock_idle,
        "sm_clock_max_mhz": board.sm_clock_max,
        "memory_clock_max_mhz": board.memory_clock,
        "sm_clock_app_mhz": board.sm_clock_max,
        "memory_clock_app_mhz": board.memory_clock,
        "sm_clock_app_default_mhz": board.sm_clock_max,
        "memory_clock_app_default_mhz": board.memory_clock,
        "event_reasons": 0x1,
        "violation_ns": {"thermal": 0, "board_limit": 0, "reliability": 0},
    }


def _power(board: Board, index: int) -> dict[str, Any]:
    return {
        "power_mw": board.power_idle * 1000 + index * 310,
        "power_limit_mw": board.power_max * 1000,
        "power_limit_default_mw": board.power_max * 1000,
        "power_limit_enforced_mw": board.power_max * 1000,
        "power_limit_range_mw": [board.power_min * 1000, board.power_max * 1000],
    }


def _memory_health(board: Board) -> dict[str, Any]:
    return {
        "ecc_mode": [1, 1],
        "ecc": {
            "volatile_corrected": 0,
            "volatile_uncorrected": 0,
            "aggregate_corrected": 0,
            "aggregate_uncorrected": 0,
            "aggregate_sram_uncorrected": 0,
            "aggregate_dram_uncorrected": 0,
        },
        "sram_threshold_exceeded": False,
        "remapped_rows": [0, 0, 0, 0],
        "remap_histogram": [board.remap_banks, 0, 0, 0, 0],
        "retired_pages": dict(NOT_SUPPORTED),
        "retired_pending": dict(NOT_SUPPORTED),
    }


def _fabric() -> dict[str, Any]:
    return {
        "state": 3,
        "status": 0,
        "clique": 0,
        "cluster_uuid": "00000000-0000-0000-0000-000000000000",
        "health_mask": 426,
        "health_summary": dict(NOT_SUPPORTED),  # version 3 of the call: since driver 570
    }


def peers(count: int) -> list[list[int]]:
    """Each two GPUs may read and write each other's memory."""
    return [[first, second, 0, 0] for second in range(count) for first in range(second)]
