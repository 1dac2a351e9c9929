"""A signature: a kind of log line, what it means and what to do; and a hit: a line that matches it."""

import re
from dataclasses import dataclass

from nodegate.knowledge.words import Cause, Role, Side, Text
from nodegate.knowledge.xid_lines import address_of

_PARTITION = re.compile(r"(?P<disk>nvme\d{1,6}n\d{1,6}(?=p)|(?:[shv]|xv)d[a-z]{1,4}(?=\d))p?\d{1,6}")
# The groups of patterns that name a device; `what`: an image, a setting, a library, a command, a path.
DEVICES = ("device", "netdev", "pci", "volume", "disk", "what", "what2", "what3", "what4")


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
        """The device that the line names: a PCI address, NIC or disk; "" if it names none. Of a partition its disk."""
        if self.group("address"):
            return address_of(self.match)
        named = next((name.rstrip(":.") for group in DEVICES if (name := self.group(group))), "")
        match = _PARTITION.fullmatch(named)
        return match["disk"] if match else named
