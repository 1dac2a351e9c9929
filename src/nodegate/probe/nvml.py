"""Section `nvml` of the probe document (docs/reference/probe-document.md): what NVML says of the GPUs, parsed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nodegate.errors import CannotMeasure
from nodegate.probe import plausible
from nodegate.probe import readings as read
from nodegate.probe.gpu import (
    PEER_ACCESS,
    EccCounters,
    Gpu,
    GpuFabric,
    GpuProcess,
    Gpus,
    NvLink,
    NvLink5,
    PeerAccess,
    RowRemap,
    event_reason_names,
    lost_gpu,
    virtualization_of,
)
from nodegate.unknown import Known, Unknown, Why, value_or

T = TypeVar("T")
_NO_ERROR = 238  # the exponent of a bit error rate: no error was counted
_POWERS = ("power", "power_limit", "power_limit_default", "power_limit_enforced")
_VIOLATIONS = ("thermal", "reliability", "board_limit")
MOST_GPUS = 256  # of a node: more cannot be true, and each would have a line in every check
_OTHER_VERSION = 18  # nvml.h, NVML_ERROR_LIB_RM_VERSION_MISMATCH


def parse(section: Mapping[str, object]) -> Gpus:
    """The data of section `nvml`. Raises CannotMeasure: it has no list of GPUs."""
    step = "run nvidia-smi on the node by hand"
    listed = read.needed(read.items(section, "gpus"), "NVML returned no list of GPUs", step)
    if len(listed) > MOST_GPUS:
        reason = f"the node lists {len(listed)} GPUs, which no machine has"
        raise CannotMeasure(reason, next_step="look which program answers at this address in place of the probe")
    return Gpus(
        driver_version=read.text(section, "driver_version"),
        cuda_driver_version=read.mapped(read.integer(section, "cuda_driver_version"), _cuda_version),
        count=read.integer(section, "count"),
        devices=tuple(plausible.gpu(_entry(position, entry)) for position, entry in enumerate(listed)),
        peers=_peers(section),
        confidential=read.flag(section, "confidential"),
    )


def _peers(section: Mapping[str, object]) -> Known[tuple[PeerAccess, ...]]:
    rows = read.items(section, "peers")
    if isinstance(rows, Unknown):
        return rows
    found = []
    for row in rows:
        # releases until 0.2 sent a fifth: the status of NVLink
        numbers = read.integers({"row": row[:4] if isinstance(row, list) else row}, "row", 4)
        if isinstance(numbers, Unknown):
            return numbers
        first, second, *said = numbers
        found.append(PeerAccess(first, second, *(PEER_ACCESS.get(each, f"status {each}") for each in said)))
    return tuple(found)


def _entry(position: int, entry: object) -> Gpu:
    data = read.record(entry)
    if isinstance(data, Unknown):
        return lost_gpu(position, data)
    sent = read.integer(data, "index")
    index = position if isinstance(sent, Unknown) or not 0 <= sent < read.MAX_ITEMS else sent
    if "handle" in data:
        reason = read.why_not(data["handle"])
        return lost_gpu(index, Unknown(Why.FAILED, "no handle, and no reason given") if reason is None else reason)
    return _gpu(index, data)


def _gpu(index: int, data: Mapping[str, object]) -> Gpu:
    violations = read.mapping(data, "violation_ns")
    _, power_max = _pair(data, "power_limit_range_mw")
    ecc_now, ecc_next = _pair(data, "ecc_mode")
    mig_now, mig_next = _pair(data, "mig_mode")
    single_bit, double_bit = _pair(data, "retired_pages")
    gsp_enabled, _ = _pair(data, "gsp_mode")
    fabric = read.mapping(data, "fabric")
    powers = {f"{name}_w": read.scaled(read.number(data, f"{name}_mw"), 1e-3) for name in _POWERS}
    lost_s = {f"{name}_violation_s": read.scaled(read.number(violations, name), 1e-9) for name in _VIOLATIONS}
    return read.filled(
        Gpu,
        data,
        index=index,
        lost=None,
        **powers,
        **lost_s,
        address=read.mapped(read.text(data, "bus_id"), read.address_in),
        pci_id=read.mapped(read.integer(data, "pci_device_id"), _vendor_device),
        event_reasons=read.mapped(read.integer(data, "event_reasons"), _event_reasons),
        power_limit_max_w=read.scaled(power_max, 1e-3),
        ecc_enabled=read.mapped(ecc_now, read.switch),
        ecc_pending=read.mapped(ecc_next, read.switch),
        ecc=read.filled(EccCounters, read.mapping(data, "ecc")),
        remap=read.mapped(read.integers(data, "remapped_rows", 4), _remap),
        spent_banks=read.mapped(read.integers(data, "remap_histogram", 5), lambda banks: banks[-1]),
        retired_single_bit=single_bit,
        retired_double_bit=double_bit,
        gsp_enabled=read.mapped(gsp_enabled, read.switch),
        fabric=read.mapped(fabric, lambda of: read.filled(GpuFabric, of, status=read.integer(of, "status"))),
        nvlinks=_list_of(data, "nvlinks", _nvlink),
        nvlink5=read.mapped(read.mapping(data, "nvlink5"), _nvlink5),
        virtualization=read.mapped(read.integer(data, "virtualization_mode"), virtualization_of),
        persistence=read.flag(data, "persistence_mode"),
        mig_enabled=read.mapped(mig_now, read.switch),
        mig_pending=read.mapped(mig_next, read.switch),
        processes=_list_of(data, "processes", _process),
    )


def _pair(data: Mapping[str, object], key: str) -> tuple[Known[int], Known[int]]:
    both = read.integers(data, key, 2)
    return (both, both) if isinstance(both, Unknown) else (both[0], both[1])


def _list_of(
    data: Mapping[str, object], key: str, one: Callable[[Mapping[str, object]], Known[T]]
) -> Known[tuple[T, ...]]:
    """Every entry of a list; a single invalid one makes the whole list unknown, so that none is overlooked."""
    listed = read.items(data, key)
    if isinstance(listed, Unknown):
        return listed
    found: list[T] = []
    for entry in listed:
        made = read.mapped(read.record(entry), one)
        if isinstance(made, Unknown):
            return made
        found.append(made)
    return tuple(found)


def _remap(rows: tuple[int, ...]) -> Known[RowRemap]:
    pending, failed = read.switch(rows[2]), read.switch(rows[3])
    if isinstance(pending, Unknown):
        return pending
    return failed if isinstance(failed, Unknown) else RowRemap(rows[0], rows[1], pending=pending, failed=failed)


def _nvlink(data: Mapping[str, object]) -> Known[NvLink]:
    link = read.integer(data, "link")
    if isinstance(link, Unknown):
        return link
    errors = {f"{kind}_errors": read.integer(data, kind) for kind in ("replay", "recovery", "crc")}
    return read.filled(NvLink, data, link=link, up=read.flag(data, "state"), **errors)


def _nvlink5(data: Mapping[str, object]) -> NvLink5:
    rates = {name: read.mapped(read.integer(data, name), error_rate) for name in ("effective_ber", "symbol_ber")}
    return read.filled(NvLink5, data, **rates)


def error_rate(code: int) -> Known[float]:
    """A bit error rate of NVML: mantissa in bits 8 to 11, exponent of 1/10 below; 0 from where it counts none (DCGM).

    `dcgm_nvml.h`: none is 15e-255 for one link, and an exponent of 238 or more for the sum of links.
    """
    mantissa, exponent = code >> 8, code & 0xFF
    if not 0 <= mantissa <= 15:
        return Unknown(Why.IMPLAUSIBLE, f"{code:#x} as a bit error rate")
    return 0.0 if exponent >= _NO_ERROR else float(f"{mantissa}e-{exponent}")


def _process(data: Mapping[str, object]) -> Known[GpuProcess]:
    pid = read.integer(data, "pid")
    kind, name = value_or(read.text(data, "kind"), "unknown"), value_or(read.text(data, "name"), "")
    return pid if isinstance(pid, Unknown) else GpuProcess(pid, kind, name, read.integer(data, "memory_bytes"))


def _event_reasons(mask: int) -> Known[frozenset[str]]:
    possible = plausible.within(mask, plausible.MASK)
    return possible if isinstance(possible, Unknown) else event_reason_names(mask)


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _vendor_device(number: int) -> str:
    """NVML packs the device into the upper half and the vendor into the lower: 0x233010DE is 10de:2330."""
    return f"{number & 0xFFFF:04x}:{number >> 16 & 0xFFFF:04x}"


@dataclass(frozen=True)
class NvmlLibrary:
    """What the library reports about the driver. `refuses_driver`: its version differs from the kernel module's."""

    driver_version: Known[str]
    refuses_driver: bool


def library_of(sections: Mapping[str, object]) -> NvmlLibrary:
    """The library, from the sections of the probe document, also if NVML refused to start."""
    version = read.text(read.mapping(read.mapping(sections, "nvml"), "data"), "driver_version")
    return NvmlLibrary(version, isinstance(version, Unknown) and version.nvml == _OTHER_VERSION)
