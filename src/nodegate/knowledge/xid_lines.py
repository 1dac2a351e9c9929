"""Xid, SXid and lost-GPU lines of the kernel log, read in every form that the drivers print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from nodegate.knowledge import nvlink4
from nodegate.probe.kernel_log import KernelLine
from nodegate.unknown import Known, Unknown, Why

FELL_OFF_THE_BUS = 79
RECOVERY_ACTION = 154
NONFATAL = "Nonfatal"
ADDRESS = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.(?P<function>[0-7]))?"
# The parenthesis may hold a MIG instance (" GPU-I:05 GPU-CI:00"), the process may be absent, quoted or hold blanks.
XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{ADDRESS}(?P<instance>[^)]{{0,60}})\): (?P<code>\d{{1,5}})\b,? ?(?P<rest>.*)")
_PROCESS = re.compile(r"pid=(?P<pid>[^,]{0,40})(?:, name=(?P<name>[^,]{0,80}))?(?:, |$)")
_ANY_XID = re.compile(r"NVRM: Xid\b")
_SEVERITY = re.compile(r"^\S{1,40}\s+(?P<word>Fatal|Nonfatal)\b")
_CAUSED_BY = re.compile(r"caused by previous Xid (\d{1,5})")
_RECOVERY = re.compile(r"changed from 0x[0-9a-fA-F]+ \([^)]*\) to 0x(?P<to>[0-9a-fA-F]+) \((?P<word>[^)]*)\)")
LOST = re.compile(rf"NVRM: GPU (?:at )?(?:PCI:)?{ADDRESS}: GPU has fallen off the bus")
_LOST_NAMED = re.compile(rf"NVRM: The NVIDIA GPU {ADDRESS}")
LOST_SAID = re.compile(r"NVRM: fallen off the bus and is not responding")
_IDENTITY = re.compile(rf"NVRM: GPU at PCI:{ADDRESS}: GPU-")
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: (?P<serial>\w{1,40})")
_SERIAL_NAMED = re.compile(rf"NVRM: GPU {ADDRESS}: GPU serial number is (?P<serial>\w{{1,40}})")
SXID = re.compile(
    rf"nvidia-nvswitch(?P<switch>\d{{1,3}}): SXid \((?:PCI:)?{ADDRESS}\): (?P<code>\d{{1,6}})\b,? ?(?P<text>.*)"
)
_ANY_SXID = re.compile(r"nvidia-nvswitch\d{1,3}: SXid\b")
SXID_SEVERITY = re.compile(r"(?P<word>Fatal|Non-fatal)\b")
_LINES_OF_ONE_MESSAGE = 3
_NO_TIME = Unknown(Why.MISSING, "the line has no time")


@dataclass(frozen=True)
class GpuEvent:
    """One Xid, or a GPU loss that was printed without one (then `code` is 79)."""

    address: str  # "0000:9b:00.0"; "" when a loss is printed without it
    code: int
    text: str
    epoch_s: Known[float]
    instance: str = ""  # MIG: "GPU-I:05"; "" otherwise
    severity: str = ""  # the word of NVLink 5 lines (Fatal, Nonfatal), or what the registers of Xid 74 come to
    pid: str = ""
    process: str = ""
    cause: int | None = None  # the Xid that the line itself blames
    recovery: str = ""  # what Xid 154 asks for; "" otherwise

    def at(self, epoch_s: Known[float]) -> GpuEvent:
        """The same event at a time."""
        return replace(self, epoch_s=epoch_s)


@dataclass(frozen=True)
class SwitchEvent:
    """One SXid. `severity` is the word that the line prints (Fatal, Non-fatal), "" where it prints none."""

    switch: str  # "nvidia-nvswitch2"
    address: str
    code: int
    severity: str
    text: str
    epoch_s: Known[float]


@dataclass(frozen=True)
class Unparsed:
    """A line with Xid or SXid in an unknown form: reported, never dropped."""

    text: str
    epoch_s: Known[float]


def gpu_events(lines: Iterable[KernelLine]) -> Iterator[GpuEvent | Unparsed]:
    """The Xids and GPU losses in these lines, in their order."""
    named, age = "", 0
    for line in lines:
        if match := _LOST_NAMED.search(line.text):
            named, age = address_of(match), 0
        age += 1
        if said := xid_said(line.text):
            yield said.at(line.epoch_s)
        elif _ANY_XID.search(line.text):
            yield Unparsed(line.text, line.epoch_s)
        elif (match := LOST.search(line.text)) or LOST_SAID.search(line.text):
            address = address_of(match) if match else named if age <= _LINES_OF_ONE_MESSAGE else ""
            yield GpuEvent(address, FELL_OFF_THE_BUS, "GPU has fallen off the bus", line.epoch_s)
            named = named if match else ""


def switch_events(lines: Iterable[KernelLine]) -> Iterator[SwitchEvent | Unparsed]:
    """The SXids in these lines. A line of raw data belongs to the SXid before it and is an event only without one."""
    seen: set[tuple[str, int]] = set()
    for line in lines:
        match = SXID.search(line.text)
        if match is None:
            if _ANY_SXID.search(line.text):
                yield Unparsed(line.text, line.epoch_s)
            continue
        word = SXID_SEVERITY.match(match["text"])
        key = (address_of(match), int(match["code"]))
        if word or key not in seen:
            said = word["word"] if word else ""
            yield SwitchEvent(f"nvidia-nvswitch{match['switch']}", *key, said, match["text"], line.epoch_s)
        seen.add(key)


def serials(lines: Iterable[KernelLine]) -> dict[str, str]:
    """Board serials by GPU address: the driver prints them before an Xid, also of a GPU that NVML no longer sees."""
    found: dict[str, str] = {}
    address = ""
    for line in lines:
        if match := _IDENTITY.search(line.text):
            address = address_of(match)
        elif (match := _SERIAL.search(line.text)) and address:
            found[address] = match["serial"]
            address = ""
        elif match := _SERIAL_NAMED.search(line.text):
            found[address_of(match)] = match["serial"]
    return found


def address_of(match: re.Match[str]) -> str:
    """The PCI address as sysfs writes it: the driver omits the function and pads the domain."""
    domain, rest = match["address"].split(":", 1)
    return f"{int(domain, 16):04x}:{rest.lower()}.{match['function'] or '0'}"


@lru_cache(maxsize=1024)
def xid_said(text: str) -> GpuEvent | None:
    """The Xid in a text, without its time: a burst prints few texts many thousand times."""
    match = XID.search(text) if "Xid" in text else None
    if match is None:
        return None
    code, rest = int(match["code"]), match["rest"]
    process = _PROCESS.match(rest)
    said = rest[process.end() :] if process else rest
    severity, cause = _SEVERITY.match(said), _CAUSED_BY.search(said)
    recovery = _RECOVERY.search(said) if code == RECOVERY_ACTION else None
    registers = nvlink4.decode(said) if code == nvlink4.CODE else None
    return GpuEvent(
        address_of(match),
        code,
        said,
        _NO_TIME,
        instance=match["instance"].strip(),
        severity=NONFATAL if registers and registers.nonfatal else severity["word"] if severity else "",
        pid=process["pid"] if process else "",
        process=(process["name"] or "") if process else "",
        cause=int(cause[1]) if cause else None,
        recovery=recovery["word"] if recovery else "",
    )
