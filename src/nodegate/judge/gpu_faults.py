"""Xids folded to faults: one per GPU and code, with what only followed from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.judge.log_time import times
from nodegate.judge.verdict import Verdict, worst
from nodegate.knowledge.tables import Lasts, Rule, XidKind, XidRule, unknown_xid, xids
from nodegate.knowledge.xid_lines import (
    FELL_OFF_THE_BUS,
    GpuEvent,
    SwitchEvent,
    Unparsed,
    gpu_events,
    serials,
    switch_events,
)
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodegate.judge.log_time import Moment
    from nodegate.judge.verdicts import Verdicts
    from nodegate.probe.kernel_log import KernelLog

# Xids of one GPU that are so close belong to one incident (NVIDIA's own tools take 3 minutes).
INCIDENT_S = 180.0
# What a GPU that fell off the bus brings with it: the driver no longer reaches its processor.
_FOLLOWS_A_LOSS = frozenset({119, 120, 143})
SXID = Rule(
    name="SXid",
    lasts=Lasts.BOOT,
    delivery=Verdict.FAIL,
    bootcheck=Verdict.FAIL,
    meaning="an NVSwitch reports an error",
    action="stop the jobs, then reset all GPUs and switches of the node together (nvidia-smi -r) or reboot",
)


@dataclass
class Fault:
    """One Xid code on one GPU (and MIG instance), however often it was printed within one boot."""

    rule: XidRule
    event: GpuEvent  # the first
    count: int
    last_s: Known[float]
    serial: str = ""
    followed_by: list[Fault] = field(default_factory=list)
    recovery: str = ""  # what the driver asks for (Xid 154)

    @property
    def first_s(self) -> Known[float]:
        """When it was first seen."""
        return self.event.epoch_s

    @property
    def subject(self) -> str:
        """How a finding names the GPU."""
        labels = [self.event.instance] if self.event.instance else []
        labels += [f"serial {self.serial}"] if self.serial else []
        name = self.event.address if self.event.address.startswith("an ") else f"GPU {self.event.address}"
        return name + (f" ({', '.join(labels)})" if labels else "")

    @property
    def message(self) -> str:
        """What was seen, when, and what followed."""
        word = f", {self.event.severity}" if self.event.severity else ""
        line = f"Xid {self.rule.code} ({self.rule.name}{word}) {times(self.count, self.first_s, self.last_s)}"
        if self.followed_by:
            line += ", followed by Xid " + ", ".join(str(other.rule.code) for other in self.followed_by)
        return f"{line}; {self.rule.meaning}"

    @property
    def action(self) -> str:
        """What a technician does; the driver's own word comes first."""
        return f"the driver asks for: {self.recovery}; {self.rule.action}" if self.recovery else self.rule.action

    def verdict(self, moment: Moment) -> tuple[Verdict, str]:
        """The verdict, and a remark on its age."""
        own = None
        if self.rule.kind is XidKind.SEVERITY:
            own = Verdict.WARN if self.event.severity == "Nonfatal" else Verdict.FAIL
        weighed, remark = moment.weigh(self.rule, self.last_s, own)
        if self.recovery and not moment.earlier_boot(self.last_s):
            return worst((weighed, Verdict.FAIL)), remark
        return weighed, remark


def gpu_faults(log: KernelLog, moment: Moment) -> tuple[Fault, ...]:
    """The faults of all GPUs, oldest first; lines that no form fits are left to the caller."""
    events = [event for event in gpu_events(log.lines) if isinstance(event, GpuEvent)]
    known = serials(log.lines)
    folded: dict[tuple[str, str, int, str, bool], Fault] = {}
    recovery: dict[str, GpuEvent] = {}
    for event in events:
        rule = xids().get(event.code) or unknown_xid(event.code)
        if rule.kind is XidKind.RECOVERY:
            recovery[event.address] = event  # the last one counts: a later "None" takes an earlier wish back
            continue
        key = (event.address, event.instance, event.code, event.severity, moment.earlier_boot(event.epoch_s))
        fault = folded.get(key)
        if fault is None:
            folded[key] = Fault(rule, event, 1, event.epoch_s, known.get(event.address, ""))
        else:
            fault.count, fault.last_s = fault.count + 1, event.epoch_s
    roots = _rooted(list(folded.values()))
    return tuple(_with_recovery(roots, recovery, moment))


def _rooted(faults: list[Fault]) -> list[Fault]:
    """Consequences hung under what they follow from."""
    roots = [fault for fault in faults if not _may_follow(fault)]
    for fault in (each for each in faults if _may_follow(each)):
        causes = [root for root in roots if _follows(fault, root)]
        (causes[-1].followed_by if causes else roots).append(fault)
    return roots


def _may_follow(fault: Fault) -> bool:
    return fault.rule.kind is XidKind.CONSEQUENCE or fault.rule.code in _FOLLOWS_A_LOSS | {43}


def _follows(fault: Fault, root: Fault) -> bool:
    if root.event.address != fault.event.address or not _near(root, fault.first_s):
        return False
    if fault.rule.code in _FOLLOWS_A_LOSS:
        return root.rule.code == FELL_OFF_THE_BUS
    return fault.event.cause in (None, root.rule.code)


def _near(root: Fault, epoch_s: Known[float]) -> bool:
    """Whether a moment is within the incident of a fault; lines without a time are taken in their order."""
    if isinstance(root.first_s, Unknown) or isinstance(root.last_s, Unknown) or isinstance(epoch_s, Unknown):
        return True
    return root.first_s <= epoch_s <= root.last_s + INCIDENT_S


def _with_recovery(faults: list[Fault], recovery: dict[str, GpuEvent], moment: Moment) -> list[Fault]:
    """The driver's wish (Xid 154) beside the GPU's last fault; where there is none it is a finding of its own."""
    for address, event in recovery.items():
        if event.recovery == "None":
            continue
        same = [
            fault
            for fault in faults
            if fault.event.address == address
            and moment.earlier_boot(fault.last_s) == moment.earlier_boot(event.epoch_s)
        ]
        wish = event.recovery or "an action that the line does not name"
        if same:
            same[-1].recovery = wish
        else:
            faults.append(Fault(xids()[event.code], event, 1, event.epoch_s, recovery=wish))
    return faults


def lost_before(faults: Iterable[Fault], event: SwitchEvent) -> Fault | None:
    """The lost GPU from which a switch's error follows: a dead GPU takes its links down."""
    lost = (fault for fault in faults if fault.rule.code == FELL_OFF_THE_BUS and _near(fault, event.epoch_s))
    return next(lost, None)


def tell_unparsed_xids(log: KernelLog, verdicts: Verdicts) -> None:
    """A warning for each line that says Xid in a form that we do not know."""
    for event in gpu_events(log.lines):
        if isinstance(event, Unparsed):
            _tell_unparsed(event, "Xid", verdicts)


def tell_switches(log: KernelLog, moment: Moment, verdicts: Verdicts) -> None:
    """A finding for each switch and SXid; lines without a form that we know are told too."""
    faults = gpu_faults(log, moment)
    folded: dict[tuple[str, int, str, bool], list[SwitchEvent]] = {}
    for event in switch_events(log.lines):
        if isinstance(event, Unparsed):
            _tell_unparsed(event, "SXid", verdicts)
        else:
            key = (event.switch, event.code, event.severity, moment.earlier_boot(event.epoch_s))
            folded.setdefault(key, []).append(event)
    for events in folded.values():
        _tell_switch(events, lost_before(faults, events[0]), moment, verdicts)


def _tell_switch(events: list[SwitchEvent], lost: Fault | None, moment: Moment, verdicts: Verdicts) -> None:
    first, last = events[0], events[-1]
    fatal = first.severity == "Fatal"
    verdict, remark = moment.weigh(SXID, last.epoch_s, Verdict.FAIL if fatal and not lost else Verdict.WARN)
    remark = f"follows the loss of {lost.subject}" if lost else remark
    word = first.severity or "severity not printed"
    verdicts.found(
        verdict,
        subject=f"{first.switch} ({first.address})",
        message=f"SXid {first.code} ({word}) {times(len(events), first.epoch_s, last.epoch_s)}: {first.text[:80]}"
        + (f" ({remark})" if remark else ""),
        remedy=SXID.action,
        metric=f"SXid {first.code}",
        value=len(events),
        unit="lines",
    )


def _tell_unparsed(event: Unparsed, what: str, verdicts: Verdicts) -> None:
    verdicts.found(
        Verdict.WARN,
        subject="kernel log",
        message=f'a line says {what} in a form that this version does not know: "{event.text[:120]}"',
        remedy="read the line by hand",
    )
