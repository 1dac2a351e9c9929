"""A hit: a line that matches a signature."""

import re
from dataclasses import dataclass

from nodegate.knowledge.words import Signature
from nodegate.knowledge.xid_lines import address_of

_PARTITION = re.compile(r"(?P<disk>nvme\d{1,6}n\d{1,6}(?=p)|(?:[shv]|xv)d[a-z]{1,4}(?=\d))p?\d{1,6}")
# The groups of patterns that name a device; `what`: an image, a setting, a library, a command, a path.
DEVICES = ("device", "netdev", "pci", "volume", "disk", "what", "what2", "what3", "what4")


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
