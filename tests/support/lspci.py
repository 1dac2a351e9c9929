"""`lspci -vv` and `lspci -nn` of recordings and guests, as far as sysfs says the same."""

import re

from nodegate.errors import CannotMeasure
from nodegate.probe.pci import AerCounters, Pci, PciDevice
from nodegate.unknown import Known, Unknown, Why

_HEAD = re.compile(r"((?:\w{4,8}:)?\w\w:\w\w\.\w) ([^:\[]+?)(?: \[(\w{4})\])?: (.+?)(?: \[(\w{4}):(\w{4})\])?( \(.*)?$")
_WORD = r"(?: \((?:ok|downgraded|strange|overdriven)\))?"
_LINK = re.compile(rf"(?:Port #\d+, )?Speed (?:([\d.]+)GT/s|unknown){_WORD}, Width x(\d+){_WORD}(?:,.*)?$")
# Without -n it writes names: these are enough to distinguish GPUs, NVSwitches, NICs and bridges.
_CLASSES = {
    "3D controller": 0x0302, "Ethernet controller": 0x0200, "Infiniband controller": 0x0207, "PCI bridge": 0x0604,
    "Bridge": 0x0680,
}  # fmt: skip
_VENDORS = {"NVIDIA": 0x10DE, "Mellanox": 0x15B3, "Broadcom / LSI": 0x1000, "Broadcom Inc": 0x14E4, "Intel": 0x8086}
_NOT_SHOWN = Unknown(Why.MISSING, "lspci does not show it")

Link = tuple[Known[float | None], Known[int | None]]  # GT/s and lanes; None: there is no link


def parse(written: str) -> Pci:
    """The devices of `lspci -vv`, `lspci -vvnn` or `lspci -nn`."""
    blocks = re.split(r"\n(?=[\da-f:]+\.\d )", written.strip())
    return Pci(tuple(_device(block) for block in blocks))


def parse_link(line: str) -> Link:
    """Speed and width in a line with LnkSta or LnkCap, whatever is before it.

    Raises:
        CannotMeasure: it is not what lspci writes.
    """
    match = _LINK.match(re.split(r"Lnk(?:Sta|Cap):\s*", line)[-1].strip())
    if match is None:
        raise CannotMeasure(f"not of lspci: {line}", next_step="")
    speed, width = float(match[1]) if match[1] else None, int(match[2])
    return speed, width if width not in (0, 63, 255) else None


def _device(block: str) -> PciDevice:
    head = _HEAD.match(block.splitlines()[0])
    assert head, block
    address, kind, class_code, name, vendor, device, _ = head.groups()
    vendors = (number for start, number in _VENDORS.items() if name.startswith(start))
    speed, width = _link(block, "LnkSta:")
    speed_max, width_max = _link(block, "LnkCap:")
    return PciDevice(
        address=address if len(address) > 7 else f"0000:{address}",
        class_code=(int(class_code, 16) if class_code else _CLASSES.get(kind, 0)) << 8,
        vendor=int(vendor, 16) if vendor else next(vendors, 0),
        device=int(device, 16) if device else 0,
        revision=_NOT_SHOWN,
        width=width,
        width_max=width_max,
        speed_gts=speed,
        speed_max_gts=speed_max,
        numa_node=_NOT_SHOWN,
        driver="",
        parent="",
        answers=True,
        acs=_NOT_SHOWN,
        aer=AerCounters(_NOT_SHOWN, _NOT_SHOWN, _NOT_SHOWN),
    )


def _link(block: str, name: str) -> Link:
    line = next((line for line in block.splitlines() if name in line), None)
    return parse_link(line) if line else (_NOT_SHOWN, _NOT_SHOWN)
