"""The kernel's own word on PCIe bandwidth: "available PCIe bandwidth, limited by ... link at ... (capable of ...)"."""

import re
from dataclasses import dataclass

from nodegate.kernel_log.window import is_before_boot
from nodegate.probe.kernel_log import KernelLog
from nodegate.probe.pci import Pci

_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
# Without "limited by" the line is the kernel's way of saying that all is well. Cut lines do not say where the slow link
# is, and the kernel itself may not know it.
_LIMITED = re.compile(
    rf"(?P<device>{_ADDRESS}): (?P<have>\d{{1,5}}\.?\d{{0,3}}) Gb/s available PCIe bandwidth,\s{{1,20}}limited by "
    rf"(?P<link>(?:\d{{1,3}}\.?\d{{0,2}} GT/s|Unknown)(?: PCIe)? x\d{{1,2}}) link"
    rf"(?:\s{{1,20}}at (?P<at>{_ADDRESS}|<unknown>|unknown))?\s{{1,20}}"
    rf"\(capable of (?P<capable>\d{{1,5}}\.?\d{{0,3}}) Gb/s "
    rf"with (?P<best>\d{{1,3}}\.?\d{{0,2}} GT/s(?: PCIe)? x(?P<lanes>\d{{1,2}})) link\)"
)
_LANES_OF_A_DISK = 4  # the most that M.2, U.2 and Thunderbolt have; GPUs, NVSwitches and rails have 8 or 16


@dataclass(frozen=True)
class Limited:
    """A device that the kernel found to have less PCIe bandwidth than it could use. Bandwidths are Gb/s."""

    device: str
    have_gbps: float
    capable_gbps: float
    link: str  # "32.0 GT/s PCIe x8"
    at: str  # where the slow link is; "" if the kernel does not say it
    best: str
    lanes: int  # of the best link


def limited(log: KernelLog) -> tuple[Limited, ...]:
    """The devices named in such lines of this boot, each once, with its latest line."""
    found: dict[str, Limited] = {}
    for line in log.lines:
        match = _LIMITED.search(line.text)
        if match and not is_before_boot(line.epoch_s, log.boot_epoch_s):
            found[match["device"]] = Limited(
                device=match["device"],
                have_gbps=float(match["have"]),
                capable_gbps=float(match["capable"]),
                link=match["link"],
                at=match["at"] if re.fullmatch(_ADDRESS, match["at"] or "") else "",
                best=match["best"],
                lanes=int(match["lanes"]),
            )
    return tuple(found.values())


def is_another(found: Limited, pci: Pci) -> bool:
    """Whether it is a disk or the like: none of the node's GPUs, NVSwitches, NICs and bridges, and as narrow as one.

    A wide device that is not there any more may be a GPU or NIC that was lost.
    """
    return found.lanes <= _LANES_OF_A_DISK and all(device.address != found.device for device in pci.devices)


def common_to_model(device: str, all_limited: tuple[Limited, ...], pci: Pci) -> bool:
    """Whether every device of the same model is limited alike: then it is the platform's design, not one bad seat."""
    known = {each.address: each for each in pci.devices}
    if device not in known:
        return False
    model = {each.address for each in pci.devices if each.pci_id == known[device].pci_id}
    links = {each.device: each.link for each in all_limited}
    return len(model) > 1 and len({links.get(address) for address in model}) == 1
