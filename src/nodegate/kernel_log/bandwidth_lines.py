"""The kernel's own word on PCIe bandwidth: "available PCIe bandwidth, limited by ... link at ... (capable of ...)"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.kernel_log.window import is_before_boot

if TYPE_CHECKING:
    from nodegate.probe.kernel_log import KernelLog
    from nodegate.probe.pci import Pci

_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
# Without "limited by" the line is the kernel's way of saying that all is well.
_LIMITED = re.compile(
    rf"(?P<device>{_ADDRESS}): (?P<have>\d{{1,5}}\.?\d{{0,3}}) Gb/s available PCIe bandwidth, limited by "
    rf"(?P<link>\d{{1,3}}\.?\d{{0,2}} GT/s PCIe x\d{{1,2}}) link at (?P<at>{_ADDRESS}) "
    rf"\(capable of (?P<capable>\d{{1,5}}\.?\d{{0,3}}) Gb/s "
    rf"with (?P<best>\d{{1,3}}\.?\d{{0,2}} GT/s PCIe x\d{{1,2}}) link\)"
)


@dataclass(frozen=True)
class Limited:
    """A device that the kernel found to have less PCIe bandwidth than it could use. Bandwidths are Gb/s."""

    device: str
    have_gbps: float
    capable_gbps: float
    link: str  # "32.0 GT/s PCIe x8"
    at: str  # where the slow link is
    best: str


def limited(log: KernelLog) -> tuple[Limited, ...]:
    """The devices of which the kernel said so in this boot, each once, with its last word."""
    found: dict[str, Limited] = {}
    for line in log.lines:
        match = _LIMITED.search(line.text)
        if match and not is_before_boot(line.epoch_s, log.boot_epoch_s):
            found[match["device"]] = Limited(
                device=match["device"],
                have_gbps=float(match["have"]),
                capable_gbps=float(match["capable"]),
                link=match["link"],
                at=match["at"],
                best=match["best"],
            )
    return tuple(found.values())


def common_to_model(device: str, all_limited: tuple[Limited, ...], pci: Pci) -> bool:
    """Whether every device of the same model is limited alike: then it is the platform's design, not one bad seat."""
    known = {each.address: each for each in pci.devices}
    if device not in known:
        return False
    model = {each.address for each in pci.devices if each.pci_id == known[device].pci_id}
    links = {each.device: each.link for each in all_limited}
    return len(model) > 1 and len({links.get(address) for address in model}) == 1
