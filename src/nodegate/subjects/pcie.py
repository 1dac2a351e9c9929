"""PCIe links: the devices for which they matter, whether a narrow one is a fault or by design, and their rates."""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NoReturn

from nodegate.probe.gpu import Gpus
from nodegate.probe.host import Host
from nodegate.probe.pci import Pci, PciDevice
from nodegate.records import part
from nodegate.records.finding import OWN_WORD, VIRTUAL, Limit, LimitKind, NumberLimit
from nodegate.records.part import Part
from nodegate.unknown import Known, Unknown, Why, known, value_or
from nodegate.verdicts import Verdicts

NOTHING = "no GPU and no RDMA NIC is visible on PCIe"
IDLE_GTS = 2.5  # to which the link of an idle GPU drops (PCI Express 1)
_NODES = 4  # nodes whose shared values are kept, one node after the other
_AER = ("correctable", "nonfatal", "fatal")
_NVIDIA_NETWORKING = 0x15B3
_RDMA_DRIVERS = frozenset({"efa", "ionic", "irdma"})
_BROADCOM_RDMA_LANES = 16  # bnxt_en also drives management NICs: those have fewer lanes


def is_rdma_nic(device: PciDevice) -> bool:
    """A NIC that carries RDMA. Management NICs (1G, 10G) are none: they may be as narrow as they like."""
    by_broadcom = device.driver == "bnxt_en" and device.width_max == _BROADCOM_RDMA_LANES
    return device.is_nic and (device.vendor == _NVIDIA_NETWORKING or device.driver in _RDMA_DRIVERS or by_broadcom)


def rdma_nics(pci: Pci) -> tuple[PciDevice, ...]:
    """The RDMA NICs in address order."""
    return tuple(device for device in pci.nics if is_rdma_nic(device))


@lru_cache(maxsize=_NODES)
def judged(pci: Pci) -> tuple[PciDevice, ...]:
    """The devices whose links jobs rest on: GPUs and RDMA NICs."""
    return (*pci.gpus, *rdma_nics(pci))


def part_of(device: PciDevice) -> Part:
    """A PCIe device as a part."""
    if device.is_gpu:
        return part.gpu(address=device.address)
    if device.is_nvswitch:
        return part.nvswitch(address=device.address)
    return part.nic(address=device.address) if device.is_nic else part.bridge(device.address)


def has_no_link(device: PciDevice) -> bool:
    """A virtual function or an emulated device: it states no width of its own, present or possible."""
    return device.width is None and device.width_max is None


def peers(devices: Iterable[PciDevice]) -> dict[str, tuple[PciDevice, ...]]:
    """The devices by model (vendor:device): what all of a model have in common is design, what one has is a fault."""
    found: defaultdict[str, list[PciDevice]] = defaultdict(list)
    for device in devices:
        found[device.pci_id].append(device)
    return {pci_id: tuple(group) for pci_id, group in found.items()}


def slot_speed(pci: Pci, device: PciDevice) -> float | None:
    """The highest speed, in GT/s, of the port that the device hangs on; None when it is not known."""
    above = pci.path(device)
    speed = above[0].speed_max_gts if above else None
    return None if isinstance(speed, Unknown) else speed


def lanes(width: Known[int | None]) -> Known[int]:
    """The lanes in use; a device that could have a link and has none uses 0."""
    return 0 if width is None else width


def own_limit(width_max: Known[int | None]) -> NumberLimit | Unknown:
    """The device's own maximum as a limit, unknown where it has a link and states none."""
    if isinstance(width_max, Unknown):
        return width_max
    if width_max is None:
        return Unknown(Why.FAILED, "its max_link_width names no lanes")
    return Limit(width_max, "lanes", "the device's maximum", kind=LimitKind.DEVICE)


def own_speed(device: PciDevice) -> Known[float]:
    """The highest speed of a device in GT/s; unknown where it has a link of a speed that its kernel has no name for."""
    speed = device.speed_max_gts
    return Unknown(Why.FAILED, "its max_link_speed names no speed") if speed is None else speed


@lru_cache(maxsize=_NODES)
def on_the_way(pci: Pci) -> tuple[PciDevice, ...]:
    """GPUs, RDMA NICs, NVSwitches and the bridges above them, each once.

    A device without an error counter that another of its model has is not without it by design: that is unknown.
    """
    found: dict[str, PciDevice] = {}
    for device in (*judged(pci), *pci.nvswitches):
        for each in (device, *pci.path(device)):
            found.setdefault(each.address, each)
    counted = {
        (each.pci_id, counter)
        for each in found.values()
        for counter in _AER
        if not isinstance(getattr(each.aer, counter), Unknown)
    }
    return tuple(_with_gaps(device, counted) for device in found.values())


def _with_gaps(device: PciDevice, counted: Container[tuple[str, str]]) -> PciDevice:
    if not (device.is_gpu or device.is_nvswitch or device.is_nic):
        return device  # the ports of a switch are of one model, and differ
    gap = Unknown(Why.FAILED, "it has no such counter, and another device of its model has")
    lacking = [(counter, getattr(device.aer, counter)) for counter in _AER if (device.pci_id, counter) in counted]
    gaps = {counter: gap for counter, count in lacking if isinstance(count, Unknown) and count.is_absent}
    return replace(device, aer=replace(device.aer, **gaps)) if gaps else device


def end_without_counters(devices: Collection[object], verdicts: Verdicts) -> NoReturn:
    """End a check of AER counters that nothing has: by the devices' own word, if there are any."""
    if devices:
        verdicts.by_design("the firmware does not share the PCIe error counters with the OS", witness=OWN_WORD)
    verdicts.not_done(NOTHING)


def end_without_links(pci: Pci, verdicts: Verdicts) -> NoReturn:
    """End a check of links that no GPU and no RDMA NIC has: by the devices' own word, if there are any."""
    if judged(pci):
        verdicts.by_design("no GPU and no RDMA NIC with a PCIe link of its own", witness=OWN_WORD)
    verdicts.not_done(NOTHING)


def end_without_bridges(pci: Pci, host: Host, verdicts: Verdicts) -> NoReturn:
    """End a check of bridges where none is seen: a virtual machine has none, and integrated GPUs need none."""
    if host.is_virtual:
        verdicts.by_design("no bridge is visible above a GPU or RDMA NIC", witness=VIRTUAL)
    if judged(pci) and all(pci.path(device) for device in judged(pci)):
        verdicts.by_design("no such bridge is above a GPU or RDMA NIC", witness="the PCIe tree, whole to its root")
    verdicts.not_done("no bridge is visible above a GPU or RDMA NIC")


def busy(gpus: Gpus) -> frozenset[str]:
    """The addresses of the GPUs that are busy now: in use, or with their SM clock at its highest."""
    at_work = (
        gpu.address
        for gpu in gpus.devices
        if value_or(gpu.utilization_percent, 0) > 0 or value_or(gpu.sm_clock_mhz, -1) == gpu.sm_clock_max_mhz
    )
    return frozenset(known(at_work))


def hops(pci: Pci) -> tuple[tuple[PciDevice, PciDevice], ...]:
    """Each bridge above a GPU or RDMA NIC once, with the widest device below it."""
    found: dict[str, tuple[PciDevice, PciDevice]] = {}
    for device in sorted(judged(pci), key=lambda each: -least(each.width)):
        for bridge in pci.path(device):
            found.setdefault(bridge.address, (device, bridge))
    return tuple(found.values())


# PCI Express Base Specification, 7.7.8.3: requests or completions between ports go up instead of straight across.
_ACS_REDIRECTS = 0x04 | 0x08


def redirects(bridge: PciDevice) -> Known[bool]:
    """Whether ACS of a bridge sends traffic between its neighbours up to the CPU; one without ACS does not."""
    if isinstance(bridge.acs, Unknown):
        return False if bridge.acs.why is Why.NOT_SUPPORTED else bridge.acs
    return bool(bridge.acs & _ACS_REDIRECTS)


def between(pci: Pci) -> tuple[PciDevice, ...]:
    """The bridges between a GPU and another GPU or RDMA NIC below one bridge: what is theirs alone, not the common one.

    Devices below different root ports reach each other by way of the CPU, whatever ACS says.
    """
    paths = {device.address: pci.path(device) for device in judged(pci)}
    found: dict[str, PciDevice] = {}
    for gpu in pci.gpus:
        for other in (each for each in judged(pci) if each is not gpu):
            mine, its = paths[gpu.address], paths[other.address]
            common = {bridge.address for bridge in mine} & {bridge.address for bridge in its}
            if common:
                found.update({each.address: each for each in (*mine, *its) if each.address not in common})
    return tuple(found[address] for address in sorted(found))


def uplinks(pci: Pci, busy: frozenset[str]) -> tuple[tuple[PciDevice, Known[float], bool], ...]:
    """Each bridge above a GPU or RDMA NIC: the speed that its link and what is at both ends can do, and if it must.

    It must where a NIC or a busy GPU is below it: an idle GPU lets its link drop to save power.
    """
    found: dict[str, tuple[PciDevice, list[float], Unknown | None, bool]] = {}
    for device in judged(pci):
        if isinstance(device.speed_max_gts, Unknown):
            continue  # pcie.link_speed says so: nothing is known of what it needs
        path = (device, *pci.path(device))
        for place, bridge in enumerate(path[1:], 1):
            ends = [each.speed_max_gts for each in (device, *path[place - 1 : place + 2])]
            unread = next((end for end in ends if isinstance(end, Unknown)), None)
            able = min((end for end in ends if isinstance(end, (int, float))), default=0.0)
            _, speeds, before, must = found.get(bridge.address, (bridge, [], None, False))
            works = not device.is_gpu or device.address in busy
            found[bridge.address] = (bridge, [*speeds, able], before if before is not None else unread, must or works)
    return tuple(
        (bridge, max(speeds) if unread is None else unread, must) for bridge, speeds, unread, must in found.values()
    )


def both_ends(able: Known[float]) -> NumberLimit | Unknown:
    """The speed that both ends of a link support, as a limit."""
    return able if isinstance(able, Unknown) else Limit(able, "GT/s", "what both ends support", kind=LimitKind.DEVICE)


def least(*widths: Known[int | None]) -> int:
    """The smallest of the widths that are known."""
    return min((width for width in widths if isinstance(width, int)), default=0)


# GB/s (1e9 bytes) that one lane carries in one direction, after line coding. Source: PCI Express base specifications,
# 2.5 and 5 GT/s with 8b/10b, 8 to 32 GT/s with 128b/130b, 64 GT/s with 242 of 256 bytes of a flit.
LANE_GB_PER_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
WIDTHS = (16, 8, 4, 2, 1)
# Healthy links give copies of pinned memory 79 % (Gen3 x16: 12.4 GB/s) to 88 % (Gen5 x16: 55.4 GB/s) of that. Only the
# words of a message rest on this, no verdict.
_GIVEN = 0.7
_SAME = 0.05  # within this part two links are equally fast: Gen4 x16 and Gen5 x8


def capacity(gen: int, width: int) -> float | None:
    """What a link carries in one direction in GB/s; None for one that is not known."""
    lane = LANE_GB_PER_S.get(gen)
    return None if lane is None or width < 1 else lane * width


def link_of(rate: float, gen_max: int) -> str:
    """The links that give this rate in GB/s: "what a Gen4 x16 or Gen5 x8 link gives".

    Args:
        rate: of copies with pinned memory.
        gen_max: the newest generation that the GPU has; links that it cannot have are not named.
    """
    carried = sorted({capacity(gen, width) or 0.0 for gen in _gens(gen_max) for width in WIDTHS})
    enough = [each for each in carried if each >= rate]
    if not enough:
        return f"more than PCIe Gen{max(_gens(gen_max))} x16 can carry"
    return f"{'what' if rate >= _GIVEN * enough[0] else 'less than'} a {_names(enough[0], gen_max)} link gives"


def _gens(gen_max: int) -> tuple[int, ...]:
    return tuple(gen for gen in LANE_GB_PER_S if gen <= gen_max) or (1,)


def _names(carried: float, gen_max: int) -> str:
    """All links that carry as much, the oldest and widest first."""
    found = [
        f"Gen{gen} x{width}"
        for gen in _gens(gen_max)
        for width in WIDTHS
        if abs((capacity(gen, width) or 0.0) - carried) <= _SAME * carried
    ]
    return ", ".join(found[:-1]) + " or " + found[-1] if len(found) > 1 else found[0]
