"""The kernel tables (Xids, SXids, other kernel lines) in the form of signatures."""

import re
from dataclasses import dataclass
from functools import cache

from nodegate.knowledge.sxids import FATAL, NONFATAL, SxidRule, is_fatal, sxid_rule, sxids
from nodegate.knowledge.tables import XidKind, xid_rule, xids
from nodegate.knowledge.words import Cause, Role, Side, Signature
from nodegate.knowledge.xid_lines import FELL_OFF_THE_BUS, LOST, LOST_SAID, SXID, SXID_SEVERITY, XID, address_of

LITERALS = ("NVRM: Xid", "SXid", "fallen off the bus")
_ROLES = {  # of the others: the first error
    XidKind.CONSEQUENCE: Role.CONSEQUENCE,
    XidKind.RECOVERY: Role.CONTEXT,
    XidKind.LEGACY: Role.EITHER,
    XidKind.UNKNOWN: Role.EITHER,
}
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


def find_code(text: str) -> Hit | None:
    """The Xid, SXid or lost GPU of a kernel line. A code without a row is reported as unknown, never dropped."""
    if "Xid" in text:
        if match := XID.search(text):
            return Hit(xid_signature(int(match["code"])), match)
        if match := SXID.search(text):
            word = SXID_SEVERITY.match(match["text"])
            rule = sxid_rule(int(match["code"]))
            return Hit(_of_sxid(rule, fatal=is_fatal(rule, word["word"] if word else "")), match)
    if match := LOST.search(text) or LOST_SAID.search(text):
        return Hit(xid_signature(FELL_OFF_THE_BUS), match)
    return None


@cache
def xid_signature(code: int) -> Signature:
    """The signature of one Xid, known or not."""
    rule = xid_rule(code)
    return Signature(
        id=f"xid_{rule.code}",
        side=Side.KERNEL,
        role=_ROLES.get(rule.kind, Role.PRIMARY),
        cause=rule.cause,
        pattern=XID,
        meaning=rule.meaning,
        action=rule.action,
        failure_modes=rule.failure_modes,
        example=f"NVRM: Xid (PCI:0000:9b:00): {rule.code}, pid=4242, name=python3, {rule.mnemonic or 'some text'}",
        holds=("NVRM: Xid",),
    )


def code_signatures() -> tuple[Signature, ...]:
    """All Xids and SXids of the tables; these with the severity that their table gives them."""
    return (*map(xid_signature, xids()), *(_of_sxid(rule, fatal=rule.fatal) for rule in sxids().values()))


@cache
def _of_sxid(rule: SxidRule, *, fatal: bool) -> Signature:
    word = FATAL if fatal else NONFATAL
    return Signature(
        id=f"sxid_{rule.code}",
        side=Side.KERNEL,
        role=Role.PRIMARY if fatal else Role.EITHER,
        cause=Cause.FABRIC,
        pattern=SXID,
        meaning=rule.where,
        action=rule.action_for(fatal=fatal),
        failure_modes=("F13",),
        example=f"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {rule.code}, {word}, Link 27 {rule.name}",
        holds=("SXid",),
    )
