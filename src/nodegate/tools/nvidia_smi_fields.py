"""Where nvidia-smi -q shows each fact of a GPU: in XML and in text, in the layouts of all drivers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodegate.probe.gpu import EccCounters, Gpu, GpuFabric, GpuProcess, RowRemap
from nodegate.probe.readings import label, mapped, wrong
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_VALUES = 20_000
_NOT_IN_SMI = Unknown(Why.MISSING, "nvidia-smi -q does not show it")
_AMOUNT = re.compile(r"P?(-?[0-9]{1,15}(?:\.[0-9]{1,6})?) ?(x|MHz|W|C|MiB|%|bank\(s\))?")
_REMARK = re.compile(r" \[(?:Deprecated|deprecated)[^\]]{0,200}\]$")
_YES_NO = {"Yes": True, "No": False, "Enabled": True, "Disabled": False, "Active": True, "Not Active": False}
_COMPUTE_MODES = {"Default": 0, "Exclusive_Thread": 1, "Prohibited": 2, "Exclusive_Process": 3}
# NVML's numbers; "Yes" and "No" are the reset_required of drivers before 565.
_RECOVERY = {
    "None": 0, "No": 0, "Yes": 1, "Reset": 1, "GPU Reset": 1, "Reboot": 2, "Node Reboot": 2, "Drain P2P": 3,
    "Drain and Reset": 4,
}  # fmt: skip
_FABRIC_STATES = {"Not Supported": 0, "Not Started": 1, "In Progress": 2, "Completed": 3}
_HEALTH = {"Healthy": 1, "Unhealthy": 2, "Limited Capacity": 3}
_NVML_UNKNOWN_ERROR = 999
_EVENT_NAMES = {
    "gpu_idle": "idle",
    "applications_clocks_setting": "applications clocks setting",
    "sw_power_cap": "sw power cap",
    "hw_slowdown": "hw slowdown",
    "hw_thermal_slowdown": "hw slowdown/hw thermal slowdown",
    "hw_power_brake_slowdown": "hw slowdown/hw power brake slowdown",
    "sync_boost": "sync boost",
    "sw_thermal_slowdown": "sw thermal slowdown",
    "display_clock_setting": "display clock setting",
}
_XML_EVENT = {"display_clock_setting": "display_clocks_setting"}


class Shown:
    """What nvidia-smi shows about one GPU: values by path, the first of each path, in the order of the output."""

    def __init__(self, leaves: Iterable[tuple[str, str]]) -> None:
        self.values: dict[str, str] = {}
        self.in_order: list[tuple[str, str]] = []
        for path, value in leaves:
            if len(self.in_order) >= MAX_VALUES:
                break
            self.in_order.append((path, value))
            self.values.setdefault(path, value)

    def find(self, *paths: str) -> Known[str]:
        """The first of several places with a value; else the best reason."""
        reasons = []
        for path in paths:
            found = self._at(path)
            if not isinstance(found, Unknown):
                return found
            reasons.append(found)
        return next((reason for reason in reasons if reason.why is not Why.MISSING), reasons[0])

    def _at(self, path: str) -> Known[str]:
        """The value of a path. A part that is N/A as a whole (remapped_rows) applies to everything below it."""
        parts = path.split("/")
        for length in range(len(parts), 0, -1):
            value = self.values.get("/".join(parts[:length]))
            if value is None:
                continue
            reason = _reason(value)
            if isinstance(reason, Unknown):
                return reason
            if length == len(parts):
                return label(_REMARK.sub("", value))
        return Unknown(Why.MISSING, f"nvidia-smi shows no {parts[-1]}")


def _reason(value: str) -> Unknown | None:
    """Why nvidia-smi shows text instead of a value."""
    words = value.strip("[] ").lower()
    if words in ("n/a", "not supported", "unsupported") or "has been deprecated" in words:
        return Unknown(Why.NOT_SUPPORTED, shown(value))
    if "gpu is lost" in words:
        return Unknown(Why.LOST, shown(value))
    if "insufficient permissions" in words:
        return Unknown(Why.DENIED, shown(value))
    if "unknown error" in words or words == "err!" or "gpu requires reset" in words:
        return Unknown(Why.FAILED, shown(value))
    return None


def versions_of(whole: Shown) -> tuple[Known[str], Known[str], Known[int]]:
    """Driver version, CUDA version and number of GPUs from the head of the output."""
    return (
        whole.find("kmd_version", "driver_version", "kmd version", "driver version"),
        whole.find("cuda_umd_version", "cuda_version", "cuda umd version", "cuda version"),
        _count(whole, "", "attached_gpus", "attached gpus"),
    )


def gpu_of(index: int, address: Known[str], card: Shown, *, inforom_corrupted: bool) -> Gpu:
    """One GPU. What nvidia-smi -q does not show (NVLinks, violation times) is unknown."""
    reset = ("gpu_reset_status/reset_required", "gpu reset status/reset required")
    gsp = card.find("gsp_firmware_version", "gsp firmware version")
    name = card.find("product_name", "product name")
    return Gpu(
        index=index,
        lost=name if isinstance(name, Unknown) and name.why is Why.LOST else None,
        name=name,
        uuid=card.find("uuid", "gpu uuid"),
        serial=card.find("serial", "serial number"),
        part_number=card.find("board_part_number", "board part number"),
        vbios=card.find("vbios_version", "vbios version"),
        inforom_image=card.find("inforom_version/img_version", "inforom version/image version"),
        address=address,
        pci_id=mapped(card.find("pci/pci_device_id", "pci/device id"), _vendor_device),
        module_id=_count(card, "", "platformInfo/module_id", "gpu_module_id", "platform info/module id", "module id"),
        link_width=_link(card, "x", "link_widths/current_link_width", "link width/current"),
        link_width_max=_link(card, "x", "link_widths/max_link_width", "link width/max"),
        link_gen_max=_link(card, "", "pcie_gen/max_link_gen", "pcie generation/max"),
        pcie_replays=_count(card, "", "pci/replay_counter", "pci/replays since reset"),
        sm_clock_mhz=_count(card, "MHz", "clocks/sm_clock", "clocks/sm"),
        sm_clock_max_mhz=_count(card, "MHz", "max_clocks/sm_clock", "max clocks/sm"),
        memory_clock_max_mhz=_count(card, "MHz", "max_clocks/mem_clock", "max clocks/memory"),
        sm_clock_app_mhz=_count(card, "MHz", "applications_clocks/graphics_clock", "applications clocks/graphics"),
        memory_clock_app_mhz=_count(card, "MHz", "applications_clocks/mem_clock", "applications clocks/memory"),
        sm_clock_app_default_mhz=_default_clock(card, "graphics_clock", "graphics"),
        memory_clock_app_default_mhz=_default_clock(card, "mem_clock", "memory"),
        event_reasons=_events(card),
        thermal_violation_s=_NOT_IN_SMI,
        reliability_violation_s=_NOT_IN_SMI,
        board_limit_violation_s=_NOT_IN_SMI,
        power_w=_power(card, "instant_power_draw", "power_draw", "average_power_draw"),
        power_limit_w=_power(card, "requested_power_limit", "power_limit", "current_power_limit"),
        power_limit_default_w=_power(card, "default_power_limit"),
        power_limit_enforced_w=_power(card, "current_power_limit", "enforced_power_limit"),
        power_limit_max_w=_power(card, "max_power_limit"),
        temperature_c=_count(card, "C", "temperature/gpu_temp", "temperature/gpu current temp"),
        temperature_margin_c=_count(card, "C", "temperature/gpu_temp_tlimit", "temperature/gpu t.limit temp"),
        temperature_slowdown_c=_count(
            card, "C", "temperature/gpu_temp_slow_threshold", "temperature/gpu slowdown temp"
        ),
        memory_temperature_c=_count(card, "C", "temperature/memory_temp", "temperature/memory current temp"),
        ecc_enabled=_yes(card, "ecc_mode/current_ecc", "ecc mode/current"),
        ecc_pending=_yes(card, "ecc_mode/pending_ecc", "ecc mode/pending"),
        ecc=_ecc(card),
        sram_threshold_exceeded=_yes(
            card, "ecc_errors/aggregate/sram_threshold_exceeded", "ecc errors/aggregate/sram threshold exceeded"
        ),
        remap=_remap(card),
        spent_banks=_count(
            card,
            "bank(s)",
            "remapped_rows/row_remapper_histogram/row_remapper_histogram_none",
            "remapped rows/bank remap availability histogram/none",
        ),
        retired_single_bit=_retired(card, "multiple_single_bit_retirement/retired_count", "single bit ecc"),
        retired_double_bit=_retired(card, "double_bit_retirement/retired_count", "double bit ecc"),
        retired_pending=_yes(
            card,
            "retired_pages/pending_retirement",
            "retired_pages/pending_blacklist",
            "retired pages/pending page blacklist",
        ),
        gsp_firmware=gsp,
        gsp_enabled=_gsp_enabled(gsp),
        fabric=_fabric(card),
        nvlinks=_NOT_IN_SMI,
        recovery_action=_word(card, _RECOVERY, "gpu_recovery_action", "gpu recovery action", *reset),
        inforom_valid=False if inforom_corrupted else _NOT_IN_SMI,
        virtualization=_NOT_IN_SMI,
        persistence=_yes(card, "persistence_mode", "persistence mode"),
        compute_mode=_word(card, _COMPUTE_MODES, "compute_mode", "compute mode"),
        mig_enabled=_yes(card, "mig_mode/current_mig", "mig mode/current"),
        mig_pending=_yes(card, "mig_mode/pending_mig", "mig mode/pending"),
        utilization_percent=_count(card, "%", "utilization/gpu_util", "utilization/gpu"),
        memory_total_bytes=_mebibytes(card, "total"),
        memory_used_bytes=_mebibytes(card, "used"),
        processes=_processes(card),
    )


def _amount(card: Shown, unit: str, *paths: str) -> Known[float]:
    """A number that must carry this unit."""

    def read(written: str) -> Known[float]:
        match = _AMOUNT.fullmatch(written)
        return float(match[1]) if match and (match[2] or "") == unit else wrong(f"a number {unit}".strip(), written)

    return mapped(card.find(*paths), read)


def _count(card: Shown, unit: str, *paths: str) -> Known[int]:
    return mapped(_amount(card, unit, *paths), int)


def _word(card: Shown, words: Mapping[str, int], *paths: str) -> Known[int]:
    return mapped(card.find(*paths), lambda word: words[word] if word in words else wrong("a known word", word))


def _yes(card: Shown, *paths: str) -> Known[bool]:
    return mapped(card.find(*paths), lambda word: _YES_NO[word] if word in _YES_NO else wrong("yes or no", word))


def _link(card: Shown, unit: str, xml: str, text: str) -> Known[int]:
    return _count(card, unit, f"pci/pci_gpu_link_info/{xml}", f"pci/gpu link info/{text}")


def _default_clock(card: Shown, xml: str, text: str) -> Known[int]:
    return _count(card, "MHz", f"default_applications_clocks/{xml}", f"default applications clocks/{text}")


def _retired(card: Shown, xml: str, text: str) -> Known[int]:
    return _count(card, "", f"retired_pages/{xml}", f"retired pages/{text}")


def _power(card: Shown, *names: str) -> Known[float]:
    """Since driver 535 the part is called gpu_power_readings; the names in the text are those of the XML."""
    texts = {"instant_power_draw": "instantaneous power draw"}
    xml = [f"{part}/{name}" for name in names for part in ("gpu_power_readings", "power_readings")]
    words = [texts.get(name, name.replace("_", " ")) for name in names]
    parts = ("gpu power readings", "gpu power readings/gpu ceiling power limit", "power readings")  # the second: 610
    text = [f"{part}/{name}" for name in words for part in parts]
    return _amount(card, "W", *xml, *text)


def _mebibytes(card: Shown, name: str) -> Known[int]:
    return mapped(
        _count(card, "MiB", f"fb_memory_usage/{name}", f"fb memory usage/{name}"), lambda amount: amount << 20
    )


def _events(card: Shown) -> Known[frozenset[str]]:
    """The active reasons; unknown if one of them could not be read, except those that this GPU does not have."""
    active = set()
    for name, words in _EVENT_NAMES.items():
        xml = _XML_EVENT.get(name, name)
        reading = _yes(
            card,
            f"clocks_event_reasons/clocks_event_reason_{xml}",
            f"clocks_throttle_reasons/clocks_throttle_reason_{xml}",
            f"clocks event reasons/{words}",
            f"clocks throttle reasons/{words}",
        )
        if isinstance(reading, Unknown):
            if name == "gpu_idle" or reading.why is not Why.NOT_SUPPORTED:
                return reading
        elif reading:
            active.add(name)
    return frozenset(active)


def _ecc(card: Shown) -> EccCounters:
    sram = _sum(_errors(card, "aggregate", "sram_uncorrectable"))
    return EccCounters(
        volatile_corrected=_sum(_corrected(card, "volatile")),
        volatile_uncorrected=_sum(_uncorrected(card, "volatile")),
        aggregate_corrected=_sum(_corrected(card, "aggregate")),
        aggregate_uncorrected=_sum(_uncorrected(card, "aggregate")),
        aggregate_sram_uncorrected=sram,
        aggregate_dram_uncorrected=_sum(_errors(card, "aggregate", "dram_uncorrectable")),
    )


def _corrected(card: Shown, period: str) -> list[Known[int]]:
    old = _count(card, "", f"ecc_errors/{period}/single_bit/total", f"ecc errors/{period}/single bit/total")
    if not isinstance(old, Unknown):
        return [old]
    return _errors(card, period, "sram_correctable") + _errors(card, period, "dram_correctable")


def _uncorrected(card: Shown, period: str) -> list[Known[int]]:
    old = _count(card, "", f"ecc_errors/{period}/double_bit/total", f"ecc errors/{period}/double bit/total")
    if not isinstance(old, Unknown):
        return [old]
    return _errors(card, period, "sram_uncorrectable") + _errors(card, period, "dram_uncorrectable")


def _errors(card: Shown, period: str, name: str) -> list[Known[int]]:
    """One counter, or its two halves since driver 550 (parity and SEC-DED)."""
    text = name.replace("_", " ")
    whole = _count(card, "", f"ecc_errors/{period}/{name}", f"ecc errors/{period}/{text}")
    if not isinstance(whole, Unknown) or name != "sram_uncorrectable":
        return [whole]
    halves = [
        _count(card, "", f"ecc_errors/{period}/{name}_{xml}", f"ecc errors/{period}/{text} {words}")
        for xml, words in (("parity", "parity"), ("secded", "sec-ded"))
    ]
    return [whole] if all(isinstance(half, Unknown) and half.why is Why.MISSING for half in halves) else halves


def _sum(counts: list[Known[int]]) -> Known[int]:
    unknown = next((count for count in counts if isinstance(count, Unknown)), None)
    return sum(count for count in counts if not isinstance(count, Unknown)) if unknown is None else unknown


def _remap(card: Shown) -> Known[RowRemap]:
    corrected = _count(card, "", "remapped_rows/remapped_row_corr", "remapped rows/correctable error")
    uncorrected = _count(card, "", "remapped_rows/remapped_row_unc", "remapped rows/uncorrectable error")
    pending = _yes(card, "remapped_rows/remapped_row_pending", "remapped rows/pending")
    failed = _yes(card, "remapped_rows/remapped_row_failure", "remapped rows/remapping failure occurred")
    if isinstance(corrected, Unknown):
        return corrected
    if isinstance(uncorrected, Unknown):
        return uncorrected
    if isinstance(pending, Unknown):
        return pending
    return failed if isinstance(failed, Unknown) else RowRemap(corrected, uncorrected, pending, failed)


def _gsp_enabled(firmware: Known[str]) -> Known[bool]:
    """A version: GSP runs. N/A: it is off. No such line: a driver older than GSP."""
    if not isinstance(firmware, Unknown):
        return True
    return False if firmware.why is Why.NOT_SUPPORTED else firmware


def _fabric(card: Shown) -> Known[GpuFabric]:
    state = _word(card, _FABRIC_STATES, "fabric/state")
    if isinstance(state, Unknown):
        return state
    status = card.find("fabric/status")
    return GpuFabric(
        state=state,
        status=mapped(status, lambda word: 0 if word == "Success" else _NVML_UNKNOWN_ERROR),
        clique=_count(card, "", "fabric/cliqueId", "fabric/cliqueid"),
        cluster_uuid=card.find("fabric/clusterUuid", "fabric/clusteruuid"),
        health_mask=_NOT_IN_SMI,
        health_summary=_word(card, _HEALTH, "fabric/health/summary"),
    )


def _processes(card: Shown) -> Known[tuple[GpuProcess, ...]]:
    if "processes" not in card.values:
        return Unknown(Why.MISSING, "nvidia-smi shows no processes")
    reason = _reason(card.values["processes"])
    if isinstance(reason, Unknown):
        return reason
    found: list[dict[str, str]] = []
    for path, value in card.in_order:
        key = path.rpartition("/")[2]
        if path in ("processes/process_info/pid", "processes/process id"):
            found.append({"pid": value})
        elif path.startswith("processes/") and found:
            found[-1].setdefault(key, value)
    return tuple(_process(one) for one in found)


def _process(words: Mapping[str, str]) -> GpuProcess:
    kinds = {"C": "compute", "G": "graphics", "M+C": "mps", "C+G": "compute"}
    memory = Shown((key, value) for key, value in words.items())
    return GpuProcess(
        pid=int(words["pid"]) if re.fullmatch(r"[0-9]{1,10}", words["pid"]) else 0,
        kind=kinds.get(words.get("type", ""), "unknown"),
        name=shown(words.get("process_name", words.get("name", ""))),
        memory_bytes=mapped(_count(memory, "MiB", "used_memory", "used gpu memory"), lambda amount: amount << 20),
    )


def _vendor_device(written: str) -> Known[str]:
    """NVIDIA writes 233010DE: the device first, then the vendor."""
    match = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", written)
    return f"{match[2]}:{match[1]}".lower() if match else wrong("a PCI id", written)
