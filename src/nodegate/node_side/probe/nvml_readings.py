"""What is read of each GPU, and how: one line per reading, each guarded separately.

Numbers are in NVML's own units. Enumerations are from nvml.h and do not change.
"""

import ctypes
import uuid
from types import ModuleType
from typing import Any, Callable, Dict, List

from nodegate.node_side.probe import reading
from nodegate.node_side.probe.nvml_calls import Handle, Reader, ask, fields, guarded, one_field, reading_of

_INVALID_ARGUMENT, _NOT_SUPPORTED, _FUNCTION_NOT_FOUND, _CORRUPTED_INFOROM, _VERSION_MISMATCH = 2, 3, 13, 14, 25
_OF_GRAPHICS, _OF_SM, _OF_MEMORY = 0, 1, 2  # nvmlClockType_t
_CORRECTED, _UNCORRECTED = 0, 1  # nvmlMemoryErrorType_t
_VOLATILE, _AGGREGATE = 0, 1  # nvmlEccCounterType_t
_DRAM, _SRAM = 2, 7  # nvmlMemoryLocation_t
_THERMAL, _BOARD_LIMIT, _RELIABILITY = 1, 3, 5  # nvmlPerfPolicyType_t
_SLOWDOWN, _MEMORY_MAX = 1, 2  # nvmlTemperatureThresholds_t
# NVML_FI_DEV_*: identifiers from 251 on differ between releases and are not used.
_FIELD_MEMORY_TEMPERATURE, _FIELD_RECOVERY_ACTION = 82, 230
# NVML_FI_DEV_PERF_POLICY_*: the same counters
_FIELD_OF_THERMAL, _FIELD_OF_BOARD_LIMIT, _FIELD_OF_RELIABILITY = 75, 77, 79
_FIELD_REPLAY, _FIELD_RECOVERY, _FIELD_CRC, _FIELD_SPEED = 161, 162, 163, 164
_MOST_LINKS = 36
# Of NVLink 5, which counts in fields of its own; the rates are codes: bits 8 to 11 times 10 to minus bits 0 to 7.
_NVLINK5 = {
    "malformed_packets": 206,
    "buffer_overruns": 207,
    "receive_errors": 208,
    "link_integrity": 211,
    "discards": 212,
    "recovered": 213,
    "failed_recoveries": 214,
    "effective_ber": 220,
    "symbol_ber": 222,
}
_ALL_LINKS = 0xFFFFFFFF  # as the scope of a field: the sum over the links


def _simple(name: str, *args: object) -> Reader:
    """A function that takes the handle and plain numbers."""
    return lambda nvml, handle: reading_of(nvml, name, handle, *args)


def _of(name: str, part: Callable[[Any], object], *args: object) -> Reader:
    return guarded(lambda nvml, handle: part(ask(nvml, name, handle, *args)))


def _group(**members: Reader) -> Reader:
    return lambda nvml, handle: {name: member(nvml, handle) for name, member in members.items()}


def _event_reasons(nvml: ModuleType, handle: Handle) -> object:
    """By the function's old name if the new one is missing."""
    found = reading_of(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    is_missing = isinstance(found, dict) and found.get("why") == "missing"
    return reading_of(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle) if is_missing else found


def _own_numbers(name: str, count: int) -> Reader:
    """A function whose binding has mutable default arguments: give it fresh ones."""
    return lambda nvml, handle: reading_of(nvml, name, handle, *[ctypes.c_uint() for _ in range(count)])


def _bus_id(info: Any) -> object:
    return info.busId.decode("ascii", "replace") if isinstance(info.busId, bytes) else info.busId


def _violation(policy: int, field: int) -> Reader:
    """Nanoseconds for which a policy limited the clock: by the call, which NVML 13.5 deprecates, or by its field."""

    def read(nvml: ModuleType, handle: Handle) -> object:
        try:
            return ask(nvml, "nvmlDeviceGetViolationStatus", handle, policy).violationTime
        except reading.CannotRead as error:
            if error.reading["why"] not in ("not supported", "missing"):
                return error.reading
            found = one_field(field)(nvml, handle)
            return error.reading if isinstance(found, dict) else found

    return read


@guarded
def _sram_threshold(nvml: ModuleType, handle: Handle) -> object:
    status = ask(nvml, "c_nvmlEccSramErrorStatus_v1_t")
    ask(nvml, "nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(status))
    return bool(status.bThresholdExceeded)


@guarded
def _retired_pages(nvml: ModuleType, handle: Handle) -> object:
    return [len(ask(nvml, "nvmlDeviceGetRetiredPages", handle, cause)) for cause in (0, 1)]


def _inforom_valid(nvml: ModuleType, handle: Handle) -> object:
    found = reading_of(nvml, "nvmlDeviceValidateInforom", handle)
    if isinstance(found, dict):
        return False if found.get("nvml") == _CORRUPTED_INFOROM else found
    return True


@guarded
def _fabric(nvml: ModuleType, handle: Handle) -> object:
    """The newest form of the structure that binding and library share: 3 has the summary, 2 the health mask."""
    refused = reading.CannotRead(reading.unknown("missing", "no form of the fabric structure is known to both sides"))
    for form in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        try:
            info = ask(nvml, form)
            ask(nvml, "nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
        except reading.CannotRead as error:
            refused = error
            if error.reading.get("nvml") in (None, _INVALID_ARGUMENT, _VERSION_MISMATCH):
                continue
            break
        return _fabric_info(info, has_health=True)
    if refused.reading.get("nvml") not in (None, _FUNCTION_NOT_FOUND):
        raise refused
    info = ask(nvml, "c_nvmlGpuFabricInfo_t")
    ask(nvml, "nvmlDeviceGetGpuFabricInfo", handle, ctypes.byref(info))
    return _fabric_info(info, has_health=False)


def _fabric_info(info: Any, has_health: bool) -> Dict[str, object]:
    absent = reading.unknown("missing", "this driver's fabric structure has no such field")
    return {
        "state": info.state,
        "status": info.status,
        "clique": info.cliqueId,
        "cluster_uuid": str(uuid.UUID(bytes=bytes(info.clusterUuid))),
        "health_mask": info.healthMask if has_health else absent,
        "health_summary": getattr(info, "healthSummary", absent),
    }


def _nvlinks(nvml: ModuleType, handle: Handle) -> object:
    """Each link until NVML knows no more; the binding's own maximum is larger than a GPU's number of links."""
    links: List[Dict[str, object]] = []
    for link in range(_MOST_LINKS):
        state = reading_of(nvml, "nvmlDeviceGetNvLinkState", handle, link)
        if isinstance(state, dict):
            if link == 0:
                return state
            if state.get("nvml") in (_INVALID_ARGUMENT, _NOT_SUPPORTED):
                break
        links.append(_nvlink(nvml, handle, link, state))
    return links


def _nvlink(nvml: ModuleType, handle: Handle, link: int, state: object) -> Dict[str, object]:
    wanted = [_FIELD_REPLAY, _FIELD_RECOVERY, _FIELD_CRC, _FIELD_SPEED]
    replay, recovery, crc, speed = fields(nvml, handle, [(field, link) for field in wanted])
    return {
        "link": link,
        "state": state,
        "speed_mbps": speed,
        "remote_type": reading_of(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link),
        "replay": _or_counter(nvml, handle, link, 0, replay),
        "recovery": _or_counter(nvml, handle, link, 1, recovery),
        "crc": _or_counter(nvml, handle, link, 2, crc),
    }


def _nvlink5(nvml: ModuleType, handle: Handle) -> object:
    """The errors of all links of NVLink 5 together; where none is known, why."""
    found = fields(nvml, handle, [(field, _ALL_LINKS) for field in _NVLINK5.values()])
    if all(isinstance(each, dict) for each in found):
        first: Any = found[0]  # a driver that is older than a field calls its number an invalid argument
        return dict(first, why="not supported") if first.get("nvml") == _INVALID_ARGUMENT else first
    return dict(zip(_NVLINK5, found))


def _or_counter(nvml: ModuleType, handle: Handle, link: int, counter: int, found: object) -> object:
    """The older way to the same counter if the field is not supported."""
    if isinstance(found, dict) and found["why"] in ("not supported", "missing"):
        return reading_of(nvml, "nvmlDeviceGetNvLinkErrorCounter", handle, link, counter)
    return found


@guarded
def _processes(nvml: ModuleType, handle: Handle) -> object:
    found: List[Dict[str, object]] = []
    for kind, name in (("compute", "Compute"), ("graphics", "Graphics"), ("mps", "MPSCompute")):
        running = reading_of(nvml, f"nvmlDeviceGet{name}RunningProcesses", handle)
        if isinstance(running, dict):
            if kind == "compute":
                return running
            continue  # graphics and MPS are not supported everywhere
        found += [_process(nvml, kind, process) for process in running]  # type: ignore[attr-defined]
    return found


def _process(nvml: ModuleType, kind: str, process: Any) -> Dict[str, object]:
    name = reading_of(nvml, "nvmlSystemGetProcessName", process.pid)
    hidden = reading.unknown("not supported", "the driver does not report it")
    return {
        "pid": process.pid,
        "kind": kind,
        "memory_bytes": hidden if process.usedGpuMemory is None else process.usedGpuMemory,
        "name": name[:200] if isinstance(name, str) else "",
    }


def confidential(nvml: ModuleType) -> object:
    """1 if confidential computing is on in this system: then copies with the host go through bounce buffers."""
    return guarded(lambda nvml, _: ask(nvml, "nvmlSystemGetConfComputeState").ccFeature)(nvml, None)


ECC_CORRECTED = _simple("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE)
ECC_UNCORRECTED = _simple("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)
_MEMORY = "nvmlDeviceGetMemoryInfo"
_MEMORY_V2 = 0x02000028  # of the structure: version 1 counts what the driver reserves as used
READINGS: Dict[str, Reader] = {
    "name": _simple("nvmlDeviceGetName"),
    "uuid": _simple("nvmlDeviceGetUUID"),
    "serial": _simple("nvmlDeviceGetSerial"),
    "part_number": _simple("nvmlDeviceGetBoardPartNumber"),
    "vbios": _simple("nvmlDeviceGetVbiosVersion"),
    "inforom_image": _simple("nvmlDeviceGetInforomImageVersion"),
    "bus_id": _of("nvmlDeviceGetPciInfo", _bus_id),
    "pci_device_id": _of("nvmlDeviceGetPciInfo", lambda info: info.pciDeviceId),
    "module_id": _own_numbers("nvmlDeviceGetModuleId", 1),
    "link_width": _simple("nvmlDeviceGetCurrPcieLinkWidth"),
    "link_width_max": _simple("nvmlDeviceGetMaxPcieLinkWidth"),
    "link_gen_max": _simple("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_replays": _simple("nvmlDeviceGetPcieReplayCounter"),
    "sm_clock_mhz": _simple("nvmlDeviceGetClockInfo", _OF_SM),
    "sm_clock_max_mhz": _simple("nvmlDeviceGetMaxClockInfo", _OF_SM),
    "memory_clock_max_mhz": _simple("nvmlDeviceGetMaxClockInfo", _OF_MEMORY),
    # Application clocks are those of the graphics domain, which SM follows.
    "sm_clock_app_mhz": _simple("nvmlDeviceGetApplicationsClock", _OF_GRAPHICS),
    "memory_clock_app_mhz": _simple("nvmlDeviceGetApplicationsClock", _OF_MEMORY),
    "sm_clock_app_default_mhz": _simple("nvmlDeviceGetDefaultApplicationsClock", _OF_GRAPHICS),
    "memory_clock_app_default_mhz": _simple("nvmlDeviceGetDefaultApplicationsClock", _OF_MEMORY),
    "event_reasons": _event_reasons,
    "violation_ns": _group(
        thermal=_violation(_THERMAL, _FIELD_OF_THERMAL),
        board_limit=_violation(_BOARD_LIMIT, _FIELD_OF_BOARD_LIMIT),
        reliability=_violation(_RELIABILITY, _FIELD_OF_RELIABILITY),
    ),
    "power_mw": _simple("nvmlDeviceGetPowerUsage"),
    "power_limit_mw": _simple("nvmlDeviceGetPowerManagementLimit"),
    "power_limit_default_mw": _simple("nvmlDeviceGetPowerManagementDefaultLimit"),
    "power_limit_enforced_mw": _simple("nvmlDeviceGetEnforcedPowerLimit"),
    "power_limit_range_mw": _simple("nvmlDeviceGetPowerManagementLimitConstraints"),
    "temperature_c": _simple("nvmlDeviceGetTemperature", 0),
    "temperature_margin_c": _simple("nvmlDeviceGetMarginTemperature"),
    "temperature_slowdown_c": _simple("nvmlDeviceGetTemperatureThreshold", _SLOWDOWN),
    "memory_temperature_c": one_field(_FIELD_MEMORY_TEMPERATURE),
    "memory_temperature_limit_c": _simple("nvmlDeviceGetTemperatureThreshold", _MEMORY_MAX),
    "ecc_mode": _simple("nvmlDeviceGetEccMode"),
    "ecc": _group(
        volatile_corrected=ECC_CORRECTED,
        volatile_uncorrected=ECC_UNCORRECTED,
        aggregate_corrected=_simple("nvmlDeviceGetTotalEccErrors", _CORRECTED, _AGGREGATE),
        aggregate_uncorrected=_simple("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _AGGREGATE),
        aggregate_sram_uncorrected=_simple("nvmlDeviceGetMemoryErrorCounter", _UNCORRECTED, _AGGREGATE, _SRAM),
        aggregate_dram_uncorrected=_simple("nvmlDeviceGetMemoryErrorCounter", _UNCORRECTED, _AGGREGATE, _DRAM),
    ),
    "sram_threshold_exceeded": _sram_threshold,
    "remapped_rows": _simple("nvmlDeviceGetRemappedRows"),
    "remap_histogram": _of(
        "nvmlDeviceGetRowRemapperHistogram",
        lambda banks: [banks.max, banks.high, banks.partial, banks.low, banks.none],
    ),
    "retired_pages": _retired_pages,
    "retired_pending": _of("nvmlDeviceGetRetiredPagesPendingStatus", bool),
    "gsp_firmware": _simple("nvmlDeviceGetGspFirmwareVersion"),
    "gsp_mode": _own_numbers("nvmlDeviceGetGspFirmwareMode", 2),
    "fabric": _fabric,
    "nvlinks": _nvlinks,
    "nvlink5": _nvlink5,
    "recovery_action": one_field(_FIELD_RECOVERY_ACTION),
    "inforom_valid": _inforom_valid,
    "virtualization_mode": _simple("nvmlDeviceGetVirtualizationMode"),
    "persistence_mode": _simple("nvmlDeviceGetPersistenceMode"),
    "compute_mode": _simple("nvmlDeviceGetComputeMode"),
    "mig_mode": _simple("nvmlDeviceGetMigMode"),
    "utilization_percent": _of("nvmlDeviceGetUtilizationRates", lambda rates: rates.gpu),
    "memory_total_bytes": _of(_MEMORY, lambda memory: memory.total, _MEMORY_V2),
    "memory_used_bytes": _of(_MEMORY, lambda memory: memory.used, _MEMORY_V2),
    "processes": _processes,
}
LINK_GEN = _simple("nvmlDeviceGetCurrPcieLinkGeneration")  # says something under load alone: an idle GPU lowers it
