"""Xids folded to faults: one per GPU and code, with what only followed from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.judge.verdict import Verdict, worst
from nodegate.knowledge.tables import XidKind, XidRule, unknown_xid, xids
from nodegate.knowledge.xid_lines import FELL_OFF_THE_BUS, GpuEvent, Unparsed, gpu_events, serials
from nodegate.rules.log_time import times
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nodegate.judge.verdicts import Verdicts
    from nodegate.probe.kernel_log import KernelLog
    from nodegate.rules.log_time import Moment

# Events that are so close belong to one incident (NVIDIA's own tools take 3 minutes).
INCIDENT_S = 180.0
# What a GPU that fell off the bus brings with it: the driver no longer reaches its processor.
_FOLLOWS_A_LOSS = frozenset({119, 120, 143})
_CHANNEL_STOPPED = 43  # follows the error that stopped the program
_NO_ACTION = "None"
MAX_QUOTED = 120


@dataclass(frozen=True)
class Fault:
    """One Xid code on one GPU (and MIG instance), however often it was printed within one boot.

    `followed_by` are the codes that only followed from it; `recovery` is what the driver asks for (Xid 154).
    """

    rule: XidRule
    events: tuple[GpuEvent, ...]
    serial: str = ""
    followed_by: tuple[int, ...] = ()
    recovery: str = ""

    @property
    def first(self) -> GpuEvent:
        """The first event."""
        return self.events[0]

    @property
    def last_s(self) -> Known[float]:
        """When it was last seen."""
        return self.events[-1].epoch_s

    @property
    def subject(self) -> str:
        """How a finding names the GPU."""
        labels = [self.first.instance] if self.first.instance else []
        labels += [f"serial {self.serial}"] if self.serial else []
        name = f"GPU {self.first.address}" if self.first.address else "a GPU that the line does not name"
        return name + (f" ({', '.join(labels)})" if labels else "")

    @property
    def message(self) -> str:
        """What was seen, when, and what followed."""
        word = f", {self.first.severity}" if self.first.severity else ""
        when = times(len(self.events), self.first.epoch_s, self.last_s)
        after = ", followed by Xid " + ", ".join(map(str, self.followed_by)) if self.followed_by else ""
        said = self.rule.kind in (XidKind.SEVERITY, XidKind.UNKNOWN)
        quoted = f' ("{self.first.text[:MAX_QUOTED]}")' if said else ""
        return f"Xid {self.rule.code} ({self.rule.name}{word}) {when}{after}: {self.rule.meaning}{quoted}"

    @property
    def action(self) -> str:
        """What a technician does; the driver's own word comes first."""
        return f"the driver asks for: {self.recovery}; {self.rule.action}" if self.recovery else self.rule.action

    def verdict(self, moment: Moment) -> tuple[Verdict, str]:
        """The verdict, and a remark on its age."""
        own = None
        if self.rule.kind is XidKind.SEVERITY:
            own = Verdict.WARN if self.first.severity == "Nonfatal" else Verdict.FAIL
        weighed, remark = moment.weigh(self.rule, self.last_s, own)
        if self.recovery and not moment.earlier_boot(self.last_s):
            return worst((weighed, Verdict.FAIL)), remark
        return weighed, remark


def gpu_faults(log: KernelLog, moment: Moment) -> tuple[Fault, ...]:
    """The faults of all GPUs in the order in which they began; lines in an unknown form are not among them."""
    events = [event for event in gpu_events(log.lines) if isinstance(event, GpuEvent)]
    known = serials(log.lines)
    groups: dict[tuple[str, str, int, str, bool], list[GpuEvent]] = {}
    for event in events:
        key = (event.address, event.instance, event.code, event.severity, moment.earlier_boot(event.epoch_s))
        groups.setdefault(key, []).append(event)
    faults = [Fault(_rule(group[0]), tuple(group), known.get(group[0].address, "")) for group in groups.values()]
    wishes = [fault for fault in faults if fault.rule.kind is XidKind.RECOVERY]
    others = [fault for fault in faults if fault.rule.kind is not XidKind.RECOVERY]
    return tuple(_with_wishes(_rooted(others), wishes, moment))


def tell_unparsed(events: Iterable[object], what: str, verdicts: Verdicts) -> None:
    """A warning for each line that says Xid or SXid in a form that we do not know: it is never dropped."""
    for event in events:
        if isinstance(event, Unparsed):
            verdicts.found(
                Verdict.WARN,
                subject="kernel log",
                message=f'a line says {what} in a form that this version does not know: "{event.text[:MAX_QUOTED]}"',
                remedy="read the line by hand",
            )


def near(fault: Fault, epoch_s: Known[float]) -> bool:
    """Whether a moment is within the incident of a fault; lines without a time count as near."""
    first_s, last_s = fault.first.epoch_s, fault.last_s
    if isinstance(first_s, Unknown) or isinstance(last_s, Unknown) or isinstance(epoch_s, Unknown):
        return True
    return first_s <= epoch_s <= last_s + INCIDENT_S


def _rule(event: GpuEvent) -> XidRule:
    return xids().get(event.code) or unknown_xid(event.code)


def _rooted(faults: Sequence[Fault]) -> list[Fault]:
    """Each consequence taken out and named by what it followed from; one that follows from nothing seen stays."""
    kept: list[Fault] = []
    codes: dict[int, list[int]] = {}
    for fault in faults:
        root = next((index for index, other in enumerate(faults) if _follows(fault, other)), None)
        if root is None:
            kept.append(fault)
        else:
            codes.setdefault(root, []).append(fault.rule.code)
    by_root = {id(faults[index]): tuple(found) for index, found in codes.items()}
    return [replace(fault, followed_by=by_root.get(id(fault), ())) for fault in kept]


def _follows(fault: Fault, other: Fault) -> bool:
    """Whether a fault only followed from another one of the same GPU."""
    if fault.first.address != other.first.address or not near(other, fault.first.epoch_s):
        return False
    if fault.rule.code in _FOLLOWS_A_LOSS:
        return other.rule.code == FELL_OFF_THE_BUS
    if other.rule.kind is XidKind.CONSEQUENCE or other.rule.code == _CHANNEL_STOPPED:
        return False  # roots only
    may = fault.rule.kind is XidKind.CONSEQUENCE or fault.rule.code == _CHANNEL_STOPPED
    return may and fault.first.cause in (None, other.rule.code)


def _with_wishes(faults: list[Fault], wishes: list[Fault], moment: Moment) -> list[Fault]:
    """What the driver asks for (Xid 154) beside the GPU's last fault; where there is none it is a fault of its own.

    The last wish counts: a later "None" takes an earlier one back.
    """
    for wish in wishes:
        asked = wish.events[-1].recovery or "an action that the line does not name"
        if asked == _NO_ACTION:
            continue
        early = moment.earlier_boot(wish.last_s)
        same = [
            index
            for index, fault in enumerate(faults)
            if fault.first.address == wish.first.address and moment.earlier_boot(fault.last_s) == early
        ]
        if same:
            faults[same[-1]] = replace(faults[same[-1]], recovery=asked)
        else:
            faults.append(replace(wish, recovery=asked))
    return faults
