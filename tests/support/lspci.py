"""lspci -vv and lspci -nn in recordings. On a live node sysfs has more, without root."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.probe.pci import AerCounters, Pci, PciDevice
from nodegate.probe.readings import address_in
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TEXT = 4 << 20
_HEAD = re.compile(
    r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([A-Z0-9][^:\[]{2,60}?)(?: \[([0-9a-f]{4})\])?: "
    r"(.{1,200}?)(?: \[([0-9a-f]{4}):([0-9a-f]{4})\])?(?: \(rev ([0-9a-f]{2})\))?(?: \(prog-if .{1,100})?"
)
_SPEED = r"Speed ([0-9.]{1,5}GT/s|unknown)(?: \((ok|downgraded|strange|overdriven)\))?"
_WIDTH = r"Width x([0-9]{1,3})(?: \((ok|downgraded|strange|overdriven)\))?"
_STATUS = re.compile(rf"LnkSta:\s*(?:Port #[0-9]{{1,3}}, )?{_SPEED}, {_WIDTH}(?:,.*)?")
_CAPABILITY = re.compile(rf"LnkCap:\s*(?:Port #[0-9]{{1,3}}, )?{_SPEED}, {_WIDTH}(?:,.*)?")
_HEX_DUMP = re.compile(r"[0-9a-f]{2,3}:(?: [0-9a-f]{2}){1,16}")  # lspci -x
_NUMA = re.compile(r"NUMA node: ([0-9]{1,4})")
_DRIVER = re.compile(r"Kernel driver in use: ([\w.-]{1,60})")
# lspci without -n writes names: these are enough to distinguish GPUs, NVSwitches, NICs and bridges.
_CLASSES = {
    "3D controller": 0x0302, "VGA compatible controller": 0x0300, "Ethernet controller": 0x0200,
    "Infiniband controller": 0x0207, "Network controller": 0x0280, "PCI bridge": 0x0604, "Bridge": 0x0680,
    "Non-Volatile memory controller": 0x0108, "Host bridge": 0x0600,
}  # fmt: skip
_VENDORS = {
    "NVIDIA Corporation": 0x10DE, "Mellanox Technologies": 0x15B3, "Broadcom / LSI": 0x1000,
    "Broadcom Inc. and subsidiaries": 0x14E4, "Intel Corporation": 0x8086,
}  # fmt: skip
_NOT_SHOWN = Unknown(Why.MISSING, "lspci does not show it")


@dataclass(frozen=True)
class Link:
    """One LnkSta or LnkCap line: GT/s and lanes, None if there is no link."""

    speed_gts: float | None
    width: int | None
    downgraded: bool  # as lspci reports it: it may be a management port that is wired this way


def parse(written: str) -> Pci:
    """`lspci -vv`, `lspci -vvnn` or `lspci -nn`, in the order of the addresses.

    Without root lspci hides the capabilities: widths and speeds are then Unknown(DENIED). Without -n the device
    number is 0 if the name does not contain it.

    Raises:
        CannotMeasure: no device is in it, or a link line is cut off or malformed.
    """
    blocks: list[list[str]] = []
    for line in written[:MAX_TEXT].splitlines():
        if _HEAD.fullmatch(line.rstrip()):
            blocks.append([line])
        elif line.strip() and not line[0].isspace() and not _HEX_DUMP.fullmatch(line.strip()):
            raise _bad(line)
        elif line.strip() and blocks:
            blocks[-1].append(line)
    if not blocks:
        raise _bad(next((line for line in written[:MAX_TEXT].splitlines() if line.strip()), ""))
    return Pci(tuple(sorted((_device(block) for block in blocks), key=lambda device: device.address)))


def parse_link(line: str) -> Link:
    """One line with LnkSta, whatever is before it (the count of `uniq -c`, a tab).

    Raises:
        CannotMeasure: it is not what lspci writes.
    """
    match = _STATUS.fullmatch(line[line.find("LnkSta:") :].strip()) if "LnkSta:" in line else None
    if match is None:
        raise _bad(line)
    return _link(match)


def _device(block: Sequence[str]) -> PciDevice:
    head = _HEAD.fullmatch(block[0].rstrip())
    address = address_in(head[1]) if head else Unknown(Why.FAILED, "not an address")
    if head is None or isinstance(address, Unknown):
        raise _bad(block[0])
    status, capability = _links(block)
    vendor = int(head[5], 16) if head[5] else _vendor(head[4])
    gone = head[7] == "ff" or any("Unknown header type 7f" in line for line in block)
    return PciDevice(
        address=address,
        class_code=(int(head[3], 16) if head[3] else _CLASSES.get(head[2], 0)) << 8,
        vendor=vendor,
        device=int(head[6], 16) if head[6] else _device_number(head[4]),
        revision=int(head[7], 16) if head[7] else 0,
        width=status if isinstance(status, Unknown) else status.width,
        width_max=capability if isinstance(capability, Unknown) else capability.width,
        speed_gts=status if isinstance(status, Unknown) else status.speed_gts,
        speed_max_gts=capability if isinstance(capability, Unknown) else capability.speed_gts,
        numa_node=_number(block, _NUMA),
        driver=_text(block, _DRIVER),
        parent="",
        answers=not gone,
        acs=_NOT_SHOWN,
        aer=AerCounters(_NOT_SHOWN, _NOT_SHOWN, _NOT_SHOWN),
    )


def _links(block: Sequence[str]) -> tuple[Known[Link], Known[Link]]:
    status, capability = _line(block, "LnkSta:", _STATUS), _line(block, "LnkCap:", _CAPABILITY)
    if any("<access denied>" in line for line in block):
        denied = Unknown(Why.DENIED, "lspci needs root to show the link")
        return denied, denied
    if isinstance(status, Unknown) and not isinstance(capability, Unknown):
        return Unknown(Why.FAILED, "the output is cut off between LnkCap and LnkSta"), capability
    return status, capability


def _line(block: Sequence[str], name: str, pattern: re.Pattern[str]) -> Known[Link]:
    line = next((line.strip() for line in block if line.lstrip().startswith(name)), None)
    if line is None:
        return Unknown(Why.MISSING, f"lspci shows no {name[:-1]}")
    match = pattern.fullmatch(line)
    if match is None:
        raise _bad(line)
    return _link(match)


def _link(match: re.Match[str]) -> Link:
    speed, speed_word, width, width_word = match.groups()
    known = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9])?)GT/s", speed)
    lanes = int(width)
    return Link(
        speed_gts=float(known[1]) if known else None,
        width=lanes if lanes not in (0, 63, 255) else None,
        downgraded="downgraded" in (speed_word, width_word),
    )


def _vendor(name: str) -> int:
    return next((number for vendor, number in _VENDORS.items() if name.startswith(vendor)), 0)


def _device_number(name: str) -> int:
    match = re.search(r"\bDevice ([0-9a-f]{4})$", name)
    return int(match[1], 16) if match else 0


def _number(block: Sequence[str], pattern: re.Pattern[str]) -> Known[int]:
    found = _text(block, pattern)
    return int(found) if found else _NOT_SHOWN


def _text(block: Sequence[str], pattern: re.Pattern[str]) -> str:
    return next((match[1] for line in block if (match := pattern.fullmatch(line.strip()))), "")


def _bad(line: str) -> CannotMeasure:
    what = f"has a line that lspci does not write: {shown(line.strip(), 120)}" if line.strip() else "is empty"
    return CannotMeasure(f"the output of lspci {what}", next_step="run lspci -vv as root on the node by hand")
