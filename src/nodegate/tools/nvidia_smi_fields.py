"""Where nvidia-smi -q -x shows each fact of a GPU, in the layouts of all drivers."""

import re
from collections.abc import Iterable, Mapping

from nodegate.probe.gpu import EccCounters, Gpu, GpuFabric, GpuProcess, RowRemap
from nodegate.probe.readings import label, mapped, wrong
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, both, known, unread

MAX_VALUES = 20_000
_AMOUNT = re.compile(r"P?(-?[0-9]{1,15}(?:\.[0-9]{1,6})?) ?(x|MHz|W|C|MiB|%|bank\(s\))?")
_REMARK = re.compile(r" \[(?:Deprecated|deprecated)[^\]]{0,200}\]$")
_YES_NO = {"Yes": True, "No": False, "Enabled": True, "Disabled": False, "Active": True, "Not Active": False}


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
        found = [self._at(path) for path in paths]
        reasons = [reason for reason in found if isinstance(reason, Unknown)]
        best = next((reason for reason in reasons if reason.why is not Why.MISSING), found[0])
        return next(iter(known(found)), best)

    def _at(self, path: str) -> Known[str]:
        """The value of a path. A part that is N/A as a whole (remapped_rows) applies to everything below it."""
        parts = path.split("/")
        for length in range(len(parts), 0, -1):
            value = self.values.get("/".join(parts[:length]))
            if value is None:
                continue
            absent = why_absent(value)
            if absent is not None:
                return absent
            if length == len(parts):
                return label(_REMARK.sub("", value))
        return Unknown(Why.MISSING, f"nvidia-smi shows no {parts[-1]}")

    def amount(self, unit: str, *paths: str) -> Known[float]:
        """A number that must carry this unit."""

        def read(written: str) -> Known[float]:
            match = _AMOUNT.fullmatch(written)
            return float(match[1]) if match and (match[2] or "") == unit else wrong(f"a number {unit}".strip(), written)

        return mapped(self.find(*paths), read)

    def count(self, unit: str, *paths: str) -> Known[int]:
        """A whole number that must carry this unit."""
        return mapped(self.amount(unit, *paths), int)

    def word(self, words: Mapping[str, int], *paths: str) -> Known[int]:
        """The number for one of several words."""
        return mapped(self.find(*paths), lambda word: words[word] if word in words else wrong("a known word", word))

    def yes(self, *paths: str) -> Known[bool]:
        """Whether it is on."""
        return mapped(self.find(*paths), lambda word: _YES_NO[word] if word in _YES_NO else wrong("yes or no", word))


def why_absent(value: str) -> Unknown | None:
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


_NOT_IN_SMI = Unknown(Why.MISSING, "nvidia-smi -q does not show it")
_LINK = "pci/pci_gpu_link_info"
_COMPUTE_MODES = {"Default": 0, "Exclusive_Thread": 1, "Prohibited": 2, "Exclusive_Process": 3}
# NVML's numbers; "Yes" and "No" are the reset_required of drivers before 565.
_RECOVERY = {
    "None": 0, "No": 0, "Yes": 1, "Reset": 1, "GPU Reset": 1, "Reboot": 2, "Node Reboot": 2, "Drain P2P": 3,
    "Drain and Reset": 4,
}  # fmt: skip
_FABRIC_STATES = {"Not Supported": 0, "Not Started": 1, "In Progress": 2, "Completed": 3}
_HEALTH = {"Healthy": 1, "Unhealthy": 2, "Limited Capacity": 3}
# Our name, and the one in the XML if it is another.
_EVENTS = {
    **{name: name for name in ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "sync_boost")},
    **{name: name for name in ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")},
    "display_clock_setting": "display_clocks_setting",
}


def versions_of(whole: Shown) -> tuple[Known[str], Known[str], Known[int]]:
    """Driver version, CUDA version and number of GPUs from the head of the output."""
    return (
        whole.find("kmd_version", "driver_version"),
        whole.find("cuda_umd_version", "cuda_version"),
        whole.count("", "attached_gpus"),
    )


def gpu_of(index: int, address: Known[str], card: Shown, *, inforom_corrupted: bool) -> Gpu:
    """One GPU. What nvidia-smi -q does not show (NVLinks, violation times) is unknown."""
    gsp = card.find("gsp_firmware_version")
    has_no_gsp = isinstance(gsp, Unknown) and gsp.why is Why.NOT_SUPPORTED  # without such a line: an older driver
    name = card.find("product_name")
    return Gpu(
        index=index,
        lost=name if isinstance(name, Unknown) and name.why is Why.LOST else None,
        name=name,
        uuid=card.find("uuid"),
        serial=card.find("serial"),
        part_number=card.find("board_part_number"),
        vbios=card.find("vbios_version"),
        inforom_image=card.find("inforom_version/img_version"),
        address=address,
        pci_id=mapped(card.find("pci/pci_device_id"), _vendor_device),
        module_id=card.count("", "platformInfo/module_id", "gpu_module_id"),
        link_width=card.count("x", f"{_LINK}/link_widths/current_link_width"),
        link_width_max=card.count("x", f"{_LINK}/link_widths/max_link_width"),
        link_gen_max=card.count("", f"{_LINK}/pcie_gen/max_link_gen"),
        pcie_replays=card.count("", "pci/replay_counter"),
        sm_clock_mhz=card.count("MHz", "clocks/sm_clock"),
        sm_clock_max_mhz=card.count("MHz", "max_clocks/sm_clock"),
        memory_clock_max_mhz=card.count("MHz", "max_clocks/mem_clock"),
        sm_clock_app_mhz=card.count("MHz", "applications_clocks/graphics_clock"),
        memory_clock_app_mhz=card.count("MHz", "applications_clocks/mem_clock"),
        sm_clock_app_default_mhz=card.count("MHz", "default_applications_clocks/graphics_clock"),
        memory_clock_app_default_mhz=card.count("MHz", "default_applications_clocks/mem_clock"),
        event_reasons=_events(card),
        thermal_violation_s=_NOT_IN_SMI,
        reliability_violation_s=_NOT_IN_SMI,
        board_limit_violation_s=_NOT_IN_SMI,
        power_w=_power(card, "instant_power_draw", "power_draw", "average_power_draw"),
        power_limit_w=_power(card, "requested_power_limit", "power_limit", "current_power_limit"),
        power_limit_default_w=_power(card, "default_power_limit"),
        power_limit_enforced_w=_power(card, "current_power_limit", "enforced_power_limit"),
        power_limit_max_w=_power(card, "max_power_limit"),
        temperature_c=card.count("C", "temperature/gpu_temp"),
        temperature_margin_c=card.count("C", "temperature/gpu_temp_tlimit"),
        temperature_slowdown_c=card.count("C", "temperature/gpu_temp_slow_threshold"),
        memory_temperature_c=card.count("C", "temperature/memory_temp"),
        memory_temperature_limit_c=card.count("C", "temperature/gpu_temp_max_mem_threshold"),
        ecc_enabled=card.yes("ecc_mode/current_ecc"),
        ecc_pending=card.yes("ecc_mode/pending_ecc"),
        ecc=_ecc(card),
        sram_threshold_exceeded=card.yes("ecc_errors/aggregate/sram_threshold_exceeded"),
        remap=_remap(card),
        spent_banks=card.count("bank(s)", "remapped_rows/row_remapper_histogram/row_remapper_histogram_none"),
        retired_single_bit=card.count("", "retired_pages/multiple_single_bit_retirement/retired_count"),
        retired_double_bit=card.count("", "retired_pages/double_bit_retirement/retired_count"),
        retired_pending=card.yes("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
        gsp_firmware=gsp,
        gsp_enabled=False if has_no_gsp else mapped(gsp, lambda _: True),
        fabric=_fabric(card),
        nvlinks=_NOT_IN_SMI,
        nvlink5=_NOT_IN_SMI,
        recovery_action=card.word(_RECOVERY, "gpu_recovery_action", "gpu_reset_status/reset_required"),
        inforom_valid=False if inforom_corrupted else _NOT_IN_SMI,
        virtualization=_NOT_IN_SMI,
        persistence=card.yes("persistence_mode"),
        compute_mode=card.word(_COMPUTE_MODES, "compute_mode"),
        mig_enabled=card.yes("mig_mode/current_mig"),
        mig_pending=card.yes("mig_mode/pending_mig"),
        utilization_percent=card.count("%", "utilization/gpu_util"),
        memory_total_bytes=_mebibytes(card, "total"),
        memory_used_bytes=_mebibytes(card, "used"),
        processes=_processes(card),
    )


def _power(card: Shown, *names: str) -> Known[float]:
    """Since driver 535 the part is called gpu_power_readings."""
    return card.amount("W", *[f"{part}/{name}" for name in names for part in ("gpu_power_readings", "power_readings")])


def _mebibytes(card: Shown, name: str) -> Known[int]:
    return mapped(card.count("MiB", f"fb_memory_usage/{name}"), lambda amount: amount << 20)


def _events(card: Shown) -> Known[frozenset[str]]:
    """The active reasons; unknown if one of them could not be read, except those that this GPU does not have."""
    active = set()
    for name, xml in _EVENTS.items():
        reading = card.yes(*[f"clocks_{word}_reasons/clocks_{word}_reason_{xml}" for word in ("event", "throttle")])
        if isinstance(reading, Unknown):
            if name == "gpu_idle" or reading.why is not Why.NOT_SUPPORTED:
                return reading
        elif reading:
            active.add(name)
    return frozenset(active)


def _ecc(card: Shown) -> EccCounters:
    return EccCounters(
        volatile_corrected=_all_errors(card, "volatile", "single", "correctable"),
        volatile_uncorrected=_all_errors(card, "volatile", "double", "uncorrectable"),
        aggregate_corrected=_all_errors(card, "aggregate", "single", "correctable"),
        aggregate_uncorrected=_all_errors(card, "aggregate", "double", "uncorrectable"),
        aggregate_sram_uncorrected=_sum(_errors(card, "aggregate", "sram_uncorrectable")),
        aggregate_dram_uncorrected=_sum(_errors(card, "aggregate", "dram_uncorrectable")),
    )


def _all_errors(card: Shown, period: str, bits: str, kind: str) -> Known[int]:
    """The total of drivers that have one, else the sum of the memories."""
    old = card.count("", f"ecc_errors/{period}/{bits}_bit/total")
    if not isinstance(old, Unknown):
        return old
    return _sum(_errors(card, period, f"sram_{kind}") + _errors(card, period, f"dram_{kind}"))


def _errors(card: Shown, period: str, name: str) -> list[Known[int]]:
    """One counter, or its two halves since driver 550 (parity and SEC-DED)."""
    whole = card.count("", f"ecc_errors/{period}/{name}")
    if not isinstance(whole, Unknown) or name != "sram_uncorrectable":
        return [whole]
    halves = [card.count("", f"ecc_errors/{period}/{name}_{half}") for half in ("parity", "secded")]
    return [whole] if all(isinstance(half, Unknown) and half.why is Why.MISSING for half in halves) else halves


def _sum(counts: list[Known[int]]) -> Known[int]:
    unknown = unread(*counts)
    return sum(known(counts)) if unknown is None else unknown


def _remap(card: Shown) -> Known[RowRemap]:
    corrected, uncorrected = (card.count("", f"remapped_rows/remapped_row_{word}") for word in ("corr", "unc"))
    pending, failed = (card.yes(f"remapped_rows/remapped_row_{word}") for word in ("pending", "failure"))
    counts = both(corrected, uncorrected, lambda one, other: (one, other))
    flags = both(pending, failed, lambda one, other: (one, other))
    return both(counts, flags, lambda rows, states: RowRemap(*rows, *states))


def _fabric(card: Shown) -> Known[GpuFabric]:
    state = card.word(_FABRIC_STATES, "fabric/state")
    if isinstance(state, Unknown):
        return state
    return GpuFabric(
        state=state,
        status=mapped(card.find("fabric/status"), lambda word: 0 if word == "Success" else word),
        clique=card.count("", "fabric/cliqueId"),
        cluster_uuid=card.find("fabric/clusterUuid"),
        health_mask=_NOT_IN_SMI,
        health_summary=card.word(_HEALTH, "fabric/health/summary"),
    )


def _processes(card: Shown) -> Known[tuple[GpuProcess, ...]]:
    if "processes" not in card.values:
        return Unknown(Why.MISSING, "nvidia-smi shows no processes")
    if (absent := why_absent(card.values["processes"])) is not None:
        return absent
    found: list[dict[str, str]] = []
    for path, value in card.in_order:
        if path == "processes/process_info/pid":
            found.append({"pid": value})
        elif path.startswith("processes/") and found:
            found[-1].setdefault(path.rpartition("/")[2], value)
    return tuple(_process(one) for one in found)


def _process(words: Mapping[str, str]) -> GpuProcess:
    kinds = {"C": "compute", "G": "graphics", "M+C": "mps", "C+G": "compute"}
    memory = Shown(words.items())
    return GpuProcess(
        pid=int(words["pid"]) if re.fullmatch(r"[0-9]{1,10}", words["pid"]) else 0,
        kind=kinds.get(words.get("type", ""), "unknown"),
        name=shown(words.get("process_name", "")),
        memory_bytes=mapped(memory.count("MiB", "used_memory"), lambda amount: amount << 20),
    )


def _vendor_device(written: str) -> Known[str]:
    """NVIDIA writes 233010DE: the device first, then the vendor."""
    match = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", written)
    return f"{match[2]}:{match[1]}".lower() if match else wrong("a PCI id", written)
