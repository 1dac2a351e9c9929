"""A signature: a kind of log line, what it means and what to do; and a hit: a line that matches it."""

from __future__ import annotations

import re  # noqa: TC003
from dataclasses import dataclass

from nodegate.knowledge.words import Cause, Role, Side, Text  # noqa: TC001
from nodegate.knowledge.xid_lines import address_of

DEVICES = ("device", "netdev", "pci", "volume", "disk")  # the groups of patterns that name a device


@dataclass(frozen=True)
class Signature:
    """One kind of line. `example` is a line for which this signature is the first match.

    `holds`: every line that the pattern matches contains one of these strings, which are found in the pattern.
    """

    id: str
    side: Side
    role: Role
    cause: Cause
    pattern: re.Pattern[str]
    meaning: Text
    action: Text
    failure_modes: tuple[str, ...]
    example: str
    holds: tuple[str, ...]


@dataclass(frozen=True)
class Hit:
    """A line with a signature. The groups of the match that its pattern names: device, rank, peer, node, ran_ms ..."""

    signature: Signature
    match: re.Match[str]

    def group(self, name: str) -> str:
        """The value of this group; "" if the line or the pattern has none."""
        return self.match.groupdict().get(name) or ""

    @property
    def device(self) -> str:
        """The device that the line names: a PCI address, NIC or disk; "" if it names none."""
        if self.group("address"):
            return address_of(self.match)
        return next((name.rstrip(":.") for group in DEVICES if (name := self.group(group))), "")
