"""GPUs as typed facts with units, whichever tool they were read with (probe/nvml.py, tools/nvidia_smi.py)."""

from __future__ import annotations

from dataclasses import dataclass

from nodegate.probe.readings import filled
from nodegate.records.part import Part
from nodegate.records.part import gpu as gpu_part
from nodegate.unknown import Known, Unknown, Why, value_or

NOT_RECORDED = Unknown(Why.MISSING, "not recorded")
OK = "ok"
# nvml.h, nvmlGpuP2PStatus_t
PEER_ACCESS = {
    0: OK,
    1: "the chipset does not support it",
    2: "the GPU does not support it",
    3: "the PCIe topology does not support it",
    4: "disabled by a setting of the driver",
    5: "not supported",
    6: "unknown",
}
# nvml.h, nvmlGpuVirtualizationMode_t
VIRTUALIZATION = {0: "none", 1: "pass-through", 2: "vGPU", 3: "host of vGPUs", 4: "host of vSGAs"}
# nvml.h, nvmlClocksEventReasons: what limits the clock right now.
EVENT_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",  # since NVML 13.5, as the next
    0x400: "reliability",
}


@dataclass(frozen=True)
class EccCounters:
    """Error counts since the driver was loaded (volatile) and over the board's life (aggregate)."""

    volatile_corrected: Known[int]
    volatile_uncorrected: Known[int]
    aggregate_corrected: Known[int]
    aggregate_uncorrected: Known[int]
    aggregate_sram_uncorrected: Known[int]
    aggregate_dram_uncorrected: Known[int]


@dataclass(frozen=True)
class RowRemap:
    """Rows of device memory that were replaced by spare ones (Ampere and later)."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


@dataclass(frozen=True)
class GpuFabric:
    """The GPU's membership of the NVLink fabric (`nvmlDeviceGetGpuFabricInfoV`).

    `state`: 0 not supported, 1 not started, 2 in progress, 3 completed. `status` is an NVML return code (0 = success),
    or the word of nvidia-smi for one ("Insufficient Resources").
    """

    state: Known[int]
    status: Known[int | str]
    clique: Known[int]
    cluster_uuid: Known[str]
    health_mask: Known[int]
    health_summary: Known[int]  # 0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity


@dataclass(frozen=True)
class NvLink:
    """One NVLink of a GPU. `speed_mbps` is MB/s in one direction; `remote_type` 2 is a switch."""

    link: int
    up: Known[bool]
    speed_mbps: Known[int]
    remote_type: Known[int]
    replay_errors: Known[int]
    recovery_errors: Known[int]
    crc_errors: Known[int]


@dataclass(frozen=True)
class NvLink5:
    """What NVLink 5 (Blackwell) counts since the driver was loaded, of all links of a GPU together.

    The bit error rates are of what error correction left (`effective`), and of symbols; 0: none was counted.
    """

    malformed_packets: Known[int]
    buffer_overruns: Known[int]
    receive_errors: Known[int]
    link_integrity: Known[int]
    discards: Known[int]
    recovered: Known[int]  # links that were lost and came back
    failed_recoveries: Known[int]
    effective_ber: Known[float]
    symbol_ber: Known[float]


@dataclass(frozen=True)
class GpuProcess:
    """A process that uses this GPU. `pid` is the host's; `memory_bytes` is unknown if the driver hides it."""

    pid: int
    kind: str  # compute | graphics | mps
    name: str
    memory_bytes: Known[int]


@dataclass(frozen=True)
class Gpu:
    """One GPU. If `lost` is not None, its handle could not be read, and every other reading is Unknown(LOST)."""

    index: int
    lost: Unknown | None
    name: Known[str]
    uuid: Known[str]
    serial: Known[str]
    part_number: Known[str]
    vbios: Known[str]
    inforom_image: Known[str]
    address: Known[str]  # PCI address as sysfs writes it: "0000:1b:00.0"
    pci_id: Known[str]  # vendor:device, "10de:2330"
    module_id: Known[int]
    link_width: Known[int]  # lanes
    link_width_max: Known[int]
    link_gen_max: Known[int]
    pcie_replays: Known[int]
    sm_clock_mhz: Known[int]
    sm_clock_max_mhz: Known[int]
    memory_clock_max_mhz: Known[int]
    sm_clock_app_mhz: Known[int]
    memory_clock_app_mhz: Known[int]
    sm_clock_app_default_mhz: Known[int]
    memory_clock_app_default_mhz: Known[int]
    event_reasons: Known[frozenset[str]]  # names of EVENT_REASONS; unknown bits as "bit_0x200"
    thermal_violation_s: Known[float]
    reliability_violation_s: Known[float]
    board_limit_violation_s: Known[float]
    power_w: Known[float]
    power_limit_w: Known[float]
    power_limit_default_w: Known[float]
    power_limit_enforced_w: Known[float]
    power_limit_max_w: Known[float]
    temperature_c: Known[int]
    temperature_margin_c: Known[int]  # degrees left to the slowdown (T.Limit)
    temperature_slowdown_c: Known[int]
    memory_temperature_c: Known[int]
    memory_temperature_limit_c: Known[int]  # of the board itself
    ecc_enabled: Known[bool]
    ecc_pending: Known[bool]  # the mode after the next reset
    ecc: EccCounters
    sram_threshold_exceeded: Known[bool]
    remap: Known[RowRemap]
    spent_banks: Known[int]  # of memory: no spare row is left in them
    retired_single_bit: Known[int]  # pages (before Ampere)
    retired_double_bit: Known[int]
    retired_pending: Known[bool]
    gsp_firmware: Known[str]
    gsp_enabled: Known[bool]
    fabric: Known[GpuFabric]
    nvlinks: Known[tuple[NvLink, ...]]
    nvlink5: Known[NvLink5]
    recovery_action: Known[int]
    inforom_valid: Known[bool]
    virtualization: Known[str]  # of VIRTUALIZATION
    persistence: Known[bool]
    compute_mode: Known[int]  # 0 default, 1 exclusive thread, 2 prohibited, 3 exclusive process
    mig_enabled: Known[bool]
    mig_pending: Known[bool]
    utilization_percent: Known[int]
    memory_total_bytes: Known[int]
    memory_used_bytes: Known[int]
    processes: Known[tuple[GpuProcess, ...]]

    @property
    def part(self) -> Part:
        """The GPU as a part: by its index, and by address, serial number and UUID where NVML reads them."""
        address, serial, uuid = (value_or(each, "") for each in (self.address, self.serial, self.uuid))
        return gpu_part(self.index, address=address, serial=serial, uuid=uuid)


@dataclass(frozen=True)
class PeerAccess:
    """What the driver says of two GPUs: whether they may read and write each other's memory."""

    first: int
    second: int
    read: str  # a text of PEER_ACCESS: "ok"
    write: str


@dataclass(frozen=True)
class Gpus:
    """All GPUs that NVML lists, lost ones included. `source` is `nvml` or `nvidia-smi` (the fall-back).

    `confidential`: confidential computing is on.
    """

    driver_version: Known[str]
    cuda_driver_version: Known[str]  # "12.4"
    count: Known[int]
    devices: tuple[Gpu, ...]
    source: str = "nvml"
    peers: Known[tuple[PeerAccess, ...]] = NOT_RECORDED
    confidential: Known[bool] = NOT_RECORDED


def lost_gpu(index: int, why: Unknown, *, address: Known[str] | None = None) -> Gpu:
    """A GPU whose handle could not be read: every reading is Unknown(LOST) with the reason."""
    nothing = Unknown(Why.LOST, why.detail or why.why.value)
    own = {} if address is None else {"address": address}
    return filled(Gpu, nothing, index=index, lost=why, ecc=filled(EccCounters, nothing), **own)


def virtualization_of(mode: int) -> str:
    """The word for a virtualization mode of NVML."""
    return VIRTUALIZATION.get(mode, f"mode {mode}")


def event_reason_names(mask: int) -> frozenset[str]:
    """The names of the bits of a clocks event reason mask; bits that nvml.h does not name as "bit_0x200"."""
    bits = [1 << position for position in range(max(mask, 0).bit_length()) if mask >> position & 1]
    return frozenset(EVENT_REASONS.get(bit, f"bit_{bit:#x}") for bit in bits)
