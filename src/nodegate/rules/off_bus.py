"""GPUs that the kernel log reports as fallen off the bus: address, and the serial number that stands beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from nodegate.probe.kernel_log import KernelLine, KernelLog

_ADDRESS = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
_XID = re.compile(rf"NVRM: Xid \(PCI:{_ADDRESS}[^)]*\): 79,")
_SAID = re.compile(rf"NVRM: (?:The NVIDIA )?GPU {_ADDRESS}\b.*fallen off the bus")
_SERIAL = re.compile(rf"NVRM: GPU {_ADDRESS}: GPU serial number is (?P<serial>\w{{1,40}})")
_BOARD = re.compile(rf"NVRM: GPU at PCI:{_ADDRESS}:")
_BOARD_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: (?P<serial>\w{1,40})")


@dataclass(frozen=True)
class OffBusReport:
    """One GPU by its PCI address (without the function) and its board's serial number, empty where no line has it."""

    address: str
    serial: str

    @property
    def subject(self) -> str:
        """How a finding names it."""
        return f"GPU at {self.address}" + (f" (serial {self.serial})" if self.serial else "")


def off_bus_reports(log: KernelLog) -> tuple[OffBusReport, ...]:
    """Every GPU that the log's lines of the present boot report, each once, in address order.

    A line without a time counts: it cannot be shown to be old.
    """
    lines = [line.text for line in log.lines if not _before_boot(line, log)]
    lost = {_normal(match["address"]) for text in lines if (match := _XID.search(text) or _SAID.search(text))}
    serials = _serials(lines)
    return tuple(OffBusReport(address, serials.get(address, "")) for address in sorted(lost))


def _before_boot(line: KernelLine, log: KernelLog) -> bool:
    if isinstance(line.epoch_s, Unknown) or isinstance(log.boot_epoch_s, Unknown):
        return False
    return line.epoch_s < log.boot_epoch_s


def _serials(lines: list[str]) -> dict[str, str]:
    """Serial numbers by address: on one line, or on the line after the one that names the GPU."""
    found: dict[str, str] = {}
    named = ""
    for text in lines:
        if match := _SERIAL.search(text):
            found[_normal(match["address"])] = match["serial"]
        elif named and (match := _BOARD_SERIAL.search(text)):
            found[named] = match["serial"]
        board = _BOARD.search(text)
        named = _normal(board["address"]) if board else ""
    return found


def _normal(address: str) -> str:
    domain, bus, slot = address.lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{slot}"
