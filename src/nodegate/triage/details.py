"""What a line says in addition to its kind: how long which collective ran, who is blamed, who is where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodegate.triage.events import Collective, Reached

if TYPE_CHECKING:
    from nodegate.triage.events import Events
    from nodegate.triage.place import Place

_RAN = re.compile(r"\) ran for ([0-9]{1,12}) milliseconds")
_WORK = re.compile(
    r"WorkNCCL\(SeqNum=([0-9]{1,12}), OpType=(\w{1,40})((?:, \w{1,20}=[0-9\[\] ,]{1,200}?)*?)(?:, Timeout|\))"
)
_NUMEL = re.compile(r"Numel(In|Out)=([0-9]{1,20})")
_GROUP = re.compile(
    r"\[PG (?:ID ([0-9]{1,6}) PG GUID ([0-9]{1,6}(?:\([^)\]\n]{0,60}\))?)|([^\]\n]{1,60}?)) ?Rank ([0-9]{1,7})\]"
)
_REACHED = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (-?[0-9]{1,12}), last completed (?:NCCL )?work: (-?[0-9]{1,12})"
)
_PEER = re.compile(
    r"(?:from|remote|by remote) peer ([^\s<,]{1,100})|[Cc]onnect(?:ion)? to ([^\s<,]{1,100})<[0-9]{1,6}>"
)
_COMM = re.compile(
    r" rank ([0-9]{1,7}) n[Rr]anks ([0-9]{1,7}) cudaDev ([0-9]{1,3})(?: nvmlDev ([0-9]{1,3}))?"
    r" busId ([0-9a-fA-F]{1,16})\b"
)
_OWN_ADDRESS = re.compile(r"Bootstrap ?: Using (?:\[[0-9]{1,3}\])?[\w.-]{1,32}:([0-9a-fA-F.:]{3,45})<[0-9]{1,6}>")


def ran_s(text: str) -> float:
    """How long the collective of a time-out had run, in seconds; 0 if the line does not say."""
    match = _RAN.search(text)
    return int(match[1]) / 1000 if match else 0.0


def peer(text: str) -> str:
    """Whom the line blames: a host name or address; "" if it names no one."""
    match = _PEER.search(text)
    return (match[1] or match[2] or "").removeprefix("::ffff:") if match else ""


def read_collective(text: str, place: Place, events: Events) -> None:
    """Keep what a time-out says about its collective and about how far the rank got."""
    named = _GROUP.search(text)
    group = (named[2] or named[3] or "").strip() if named else ""
    if match := _WORK.search(text):
        sizes = dict(_NUMEL.findall(match[3]))
        events.add_collective(
            Collective(place.rank, group, int(match[1]), match[2], sizes.get("In", ""), sizes.get("Out", ""))
        )
    if match := _REACHED.search(text):
        events.add_reached(Reached(place.rank, group, int(match[1]), int(match[2])))


def read_identity(text: str, place: Place, events: Events) -> None:
    """Keep what NCCL says about a rank when a communicator starts: its node, GPU and address."""
    names = events.names
    if (match := _OWN_ADDRESS.search(text)) and place.node:
        names.node_of_address.setdefault(match[1], place.node)
    if match := _COMM.search(text):
        world = int(match[2])
        if place.rank is None and world >= names.world:  # the largest communicator has the ranks of the job
            place = place.or_else(type(place)(rank=int(match[1])))
        names.world = max(names.world, world)
        if place.node:
            names.gpu_at.setdefault((place.node, pci_address(match[5])), int(match[4] or match[3]))
    names.learn(place)


def pci_address(bus_id: str) -> str:
    """NCCL's busId ("9b000", "1000009b000") as sysfs writes it: 0000:9b:00.0."""
    number = int(bus_id, 16)
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}.{number & 0xF:x}"
