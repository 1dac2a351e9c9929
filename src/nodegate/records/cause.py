"""A cause: what a person acts on. One part, one reason, one action, and the findings that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nodegate.records.finding import Finding
from nodegate.records.part import Kind, Part
from nodegate.records.verdict import Verdict
from nodegate.words.catalogue import known, number_of, phrase


class Severity(str, Enum):
    """How bad it is, worst first: wrong data comes before a part that is gone, for nothing stops on it."""

    WRONG_DATA = "wrong data"
    LOST = "lost"
    UNUSABLE = "unusable"
    SLOW = "slow"
    LINK = "link"
    DEGRADED = "degraded"
    CONTRACT = "contract"  # less than this contract asks for, and no fault by any other
    CONFIGURATION = "configuration"
    DRIFT = "drift"
    NOT_MEASURED = "not measured"
    NOT_JUDGED = "not judged"


class Class(str, Enum):
    """Who works on it: what sort of thing has to be repaired, set or installed."""

    GPU = "gpu"
    NIC = "nic"
    CABLE = "cable"  # a cable, its transceivers or the switch port
    NVLINK = "nvlink"  # NVLinks, NVSwitches and their fabric
    HOST = "host"
    CONFIGURATION = "configuration"
    SOFTWARE = "software"
    TOOL = "tool"  # a program that measures is missing
    ACCESS = "access"  # the node cannot be reached, or does not let us measure


ORDER = {severity: place for place, severity in enumerate(Severity)}
NOT_JUDGED = "not_judged"  # the condition of everything on a node that nothing says the limit of
_MOST_CHECKS = 4
_LEARN = known("add limits for this platform: nodegate baseline learn, or --baseline")
CLASS_OF_KIND = {
    Kind.GPU: Class.GPU,
    Kind.NIC: Class.NIC,
    Kind.PORT: Class.NIC,
    Kind.NVSWITCH: Class.NVLINK,
    Kind.NVLINK: Class.NVLINK,
    Kind.COLLECTIVE: Class.NVLINK,
    Kind.SERVICE: Class.SOFTWARE,
    Kind.SOFTWARE: Class.SOFTWARE,
    Kind.SETTING: Class.CONFIGURATION,
    Kind.TOOL: Class.TOOL,
}


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A finding and the check that left it."""

    check: str
    finding: Finding

    @property
    def key(self) -> str:
        """What the table of conditions knows it by: "kernel_log.xid/79", "pcie.link_width"."""
        return f"{self.check}/{self.finding.code}" if self.finding.code else self.check


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a node, or several, are not as they should be.

    Args:
        condition: what is the matter, a name of checks/causes.yaml or the check's id.
        parts: the parts that have it; the first is the one of the decisive finding.
        severity: how bad it is.
        sort: what sort of thing has to be worked on.
        decisive: the finding that tells most.
        same: the other findings that show the same condition.
        follows: the findings that follow from it.
        nodes: the nodes that have it, in the run's order.
        members: of a cause of several nodes, the cause of each node by itself.
        place: the rack, leaf or other place where the nodes stand, when it is the place's and not theirs; else empty.
        waiver: reason, owner and expiry of the waiver that covers it; empty for none.
        words: what is the matter in few words; empty where the decisive finding has to speak for itself.
        do: what to do in few words; empty likewise.
    """

    condition: str
    parts: tuple[Part, ...]
    severity: Severity
    sort: Class
    decisive: CheckFinding
    same: tuple[CheckFinding, ...] = ()
    follows: tuple[CheckFinding, ...] = ()
    nodes: tuple[str, ...] = ()
    members: tuple[Cause, ...] = ()
    place: str = ""
    waiver: str = ""
    words: str = ""
    do: str = ""

    @property
    def part(self) -> Part:
        """The part of the decisive finding."""
        return self.parts[0]

    @property
    def verdict(self) -> Verdict:
        """The decisive finding's: a cause is as bad as what it tells."""
        return self.decisive.finding.verdict

    @property
    def id(self) -> str:
        """The same tomorrow: the part by its serial number, else the node and the part's name in it; the condition.

        Of a cause of several nodes it is the rack or the fleet that has it.
        """
        if self.members:
            names = {part.short for part in self.parts}
            named = self.part.short if len(names) == 1 else self.part.kind.value
            return f"{self.place or 'fleet'}/{named}/{self.condition}"
        whole = self.part.of or self.part
        known = whole.serial or whole.uuid
        return "/".join((*([] if known else self.nodes), self.part.key, self.condition))

    @property
    def message(self) -> str:
        """What is the matter, without part and action."""
        if self.condition != NOT_JUDGED:
            return self.decisive.finding.brief
        checks = list(dict.fromkeys(each.check for each in self.findings))
        shown = ", ".join(checks[:_MOST_CHECKS]) + (", ..." if len(checks) > _MOST_CHECKS else "")
        return number_of(
            "{n} check has nothing to judge by: {checks}",
            "{n} checks have nothing to judge by: {checks}",
            len(checks),
            checks=shown,
        )

    @property
    def action(self) -> str:
        """What to do next."""
        return phrase(_LEARN if self.condition == NOT_JUDGED else self.decisive.finding.action)

    @property
    def findings(self) -> tuple[CheckFinding, ...]:
        """Every finding that it stands for."""
        return (self.decisive, *self.same, *self.follows)
