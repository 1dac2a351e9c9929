"""Xids folded to faults: one per GPU and code, with what only followed from it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nodegate.kernel_log import program_xids
from nodegate.kernel_log.incidents import MESSAGES
from nodegate.kernel_log.window import LogWindow, times
from nodegate.knowledge import nvlink4, nvlink5
from nodegate.knowledge.roots import INCIDENT_S, SLACK_S, follows
from nodegate.knowledge.sxids import is_fatal, sxid_rule
from nodegate.knowledge.tables import Lasts, XidKind, XidRule, xid_rule
from nodegate.knowledge.xid_lines import (
    FELL_OFF_THE_BUS,
    NONFATAL,
    GpuEvent,
    SwitchEvent,
    Unparsed,
    gpu_events,
    serials,
    switch_events,
)
from nodegate.probe.kernel_log import KernelLine, KernelLog
from nodegate.profile import Profile
from nodegate.records import part
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict, worst
from nodegate.unknown import Known, Unknown
from nodegate.verdicts import Verdicts

_NO_ACTION = "None"
_MOST_UNITS = 1000  # of one GPU: more than any has
MAX_QUOTED, MAX_SWITCH_QUOTED = 120, 80
MAX_UNITS = 3


@dataclass(frozen=True)
class Fault:
    """One Xid code on one GPU (and MIG instance), however often it was printed within one boot.

    `followed_by` are the codes that only followed from it; `recovery` is what the driver asks for (Xid 154), and
    `settled_s` is when it took that back after the fault: the GPU was reset since. `units` are the links or the
    processors of the GPU that its lines name, `suspicion` says why an application's Xid speaks against the GPU.
    """

    rule: XidRule
    first: GpuEvent
    last: GpuEvent
    count: int
    serial: str = ""
    followed_by: tuple[int, ...] = ()
    recovery: str = ""
    settled_s: float | None = None
    units: tuple[str, ...] = ()
    suspicion: program_xids.Suspicion | None = None

    @property
    def part(self) -> Part:
        """The GPU as a part; the node where the line names no GPU."""
        known = self.first.address or self.serial
        return part.gpu(address=self.first.address, serial=self.serial) if known else part.NODE

    @property
    def message(self) -> str:
        """What was seen, when, and what followed."""
        word = f", {self.first.severity}" if self.first.severity else ""
        word += f", {self.first.instance}" if self.first.instance else ""
        when = times(self.count, self.first.epoch_s, self.last.epoch_s)
        after = ", followed by Xid " + ", ".join(map(str, self.followed_by)) if self.followed_by else ""
        said = self.rule.kind in (XidKind.SEVERITY, XidKind.LEGACY, XidKind.UNKNOWN)
        quoted = f' ("{self.first.text[:MAX_QUOTED]}")' if said else ""
        why = f"; {self.suspicion.words.en}" if self.suspicion else ""
        decoded = nvlink4.decode(self.first.text) if self.rule.code == nvlink4.CODE else None
        what = program_xids.unit_of(self.first)[1]
        more = f" and {len(self.units) - MAX_UNITS} more" if len(self.units) > MAX_UNITS else ""
        units = f"{'; '.join(self.units[:MAX_UNITS])}{more}: " if self.units else ""
        meaning = units + (decoded or self.rule).meaning.en + (f' ("{what}")' if what else "")
        return f"Xid {self.rule.code} ({self.rule.name}{word}) {when}{after}: {meaning}{quoted}{why}"

    @property
    def action(self) -> str:
        """What a technician does; the driver's own word comes first."""
        event = nvlink5.parse(self.first.text) if self.rule.kind is XidKind.SEVERITY else None
        decoded = nvlink5.decode(self.rule.code, event) if event else None
        older = nvlink4.decode(self.first.text) if self.rule.code == nvlink4.CODE else None
        known = decoded.advice.en if decoded else (older or self.rule).action.en
        known = self.suspicion.action.en if self.suspicion else known
        return f"the driver asks for: {self.recovery}; {known}" if self.recovery else known

    def verdict(self, window: LogWindow) -> tuple[Verdict, str]:
        """The verdict, and a remark on its age."""
        fresh = self.rule.delivery if window.profile is Profile.DELIVERY else self.rule.bootcheck
        if self.first.severity == NONFATAL:
            fresh = Verdict.WARN
        elif self.rule.kind is XidKind.SEVERITY:
            fresh = Verdict.FAIL
        elif self.suspicion and window.profile is Profile.DELIVERY:
            fresh = self.rule.under_test  # the GPU is the suspect, as when the program is nodegate's own
        weighed, remark = window.aged(fresh, self.rule.lasts, self.last.epoch_s, settled_s=self.settled_s)
        if self.recovery and not window.earlier_boot(self.last.epoch_s):
            return worst((weighed, Verdict.FAIL)), remark
        return weighed, remark


def gpu_faults(log: KernelLog, window: LogWindow) -> tuple[Fault, ...]:
    """The faults of all GPUs in the order in which they began; lines in an unknown form are not among them."""
    return faults_of(log.lines, window, serials(log.lines))


def faults_of(lines: Iterable[KernelLine], window: LogWindow, boards: Mapping[str, str]) -> tuple[Fault, ...]:
    """The same from lines as they come, read once: a burst costs no memory. `boards`: serial numbers by address."""
    groups: dict[tuple[object, ...], _Seen] = {}
    programs = program_xids.ProgramXids()
    for event in gpu_events(lines):
        if isinstance(event, Unparsed):
            continue
        early = window.earlier_boot(event.epoch_s)
        key = (event.address, event.instance, event.code, event.severity, event.cause, early)
        groups.setdefault(key, _Seen(event)).add(event)
        programs.add(event)
    faults = [
        Fault(
            xid_rule(seen.first.code),
            seen.first,
            seen.last,
            seen.count,
            boards.get(seen.first.address, ""),
            units=tuple(seen.units),
            suspicion=programs.suspicion(seen.first.code, seen.first.address, seen.first.instance),
        )
        for seen in groups.values()
    ]
    wishes = [fault for fault in faults if fault.rule.kind is XidKind.RECOVERY]
    others = [fault for fault in faults if fault.rule.kind is not XidKind.RECOVERY]
    return tuple(_with_wishes(_rooted(others), wishes, window))


def tell_unparsed(events: Iterable[object], what: str, verdicts: Verdicts) -> None:
    """A warning for each Xid or SXid line in a form that we do not know: it is never dropped."""
    for event in events:
        if isinstance(event, Unparsed):
            verdicts.found(
                Verdict.WARN,
                part=part.host("kernel log"),
                text=f'{what} line in a format that this version does not know: "{event.text[:MAX_QUOTED]}"',
                action="read the line on the node",
                code="unknown form",
            )


def near(fault: Fault, epoch_s: Known[float]) -> bool:
    """Whether a moment is within the incident of a fault; lines without a time count as near."""
    first_s, last_s = fault.first.epoch_s, fault.last.epoch_s
    if isinstance(first_s, Unknown) or isinstance(last_s, Unknown) or isinstance(epoch_s, Unknown):
        return True
    return first_s - SLACK_S <= epoch_s <= last_s + INCIDENT_S


class _Seen:
    """The events of one group so far: the first, the last, and how many."""

    def __init__(self, event: GpuEvent) -> None:
        self.first = self.last = event
        self.count = 0
        self.units: dict[str, None] = {}

    def add(self, event: GpuEvent) -> None:
        self.last = event
        self.count += 1
        unit = nvlink4.link(event.text) if event.code == nvlink4.CODE else program_xids.unit_of(event)[0]
        if unit and len(self.units) < _MOST_UNITS:
            self.units.setdefault(unit)


def _rooted(faults: Sequence[Fault]) -> list[Fault]:
    """Each consequence taken out and named by what it followed from; one that follows from nothing seen stays."""
    kept: list[Fault] = []
    codes: dict[int, list[int]] = {}
    alike: defaultdict[str, dict[int, list[int]]] = defaultdict(dict)  # thousands may differ in their instance only
    for index, fault in enumerate(faults):
        alike[fault.first.address].setdefault(fault.rule.code, []).append(index)
    for fault in faults:
        found = (  # of each code the first fault that led to this one
            next((index for index in indices if near(faults[index], fault.first.epoch_s)), None)
            for indices in alike[fault.first.address].values()
            if follows(fault.rule, faults[indices[0]].rule, fault.first.cause)
        )
        root = min((index for index in found if index is not None), default=None)
        if root is None:
            kept.append(fault)
        else:
            codes.setdefault(root, []).append(fault.rule.code)
    by_root = {id(faults[index]): tuple(found) for index, found in codes.items()}
    for index, fault in enumerate(kept):
        cause = fault.first.cause
        # a consequence whose cause is known from its own line alone is judged as that cause
        if fault.rule.kind is XidKind.CONSEQUENCE and cause is not None:
            kept[index] = replace(fault, rule=xid_rule(cause), followed_by=(fault.rule.code,))
        else:
            kept[index] = replace(fault, followed_by=by_root.get(id(fault), ()))
    return kept


def _with_wishes(faults: list[Fault], wishes: list[Fault], window: LogWindow) -> list[Fault]:
    """What the driver asks for (Xid 154) beside the GPU's last fault; where there is none it is a fault of its own.

    The last wish counts: a later "None" takes an earlier one back, and settles what came before it.
    """
    for wish in wishes:
        asked = wish.last.recovery or "an action that the line does not specify"
        early = window.earlier_boot(wish.last.epoch_s)
        same = [
            index
            for index, fault in enumerate(faults)
            if fault.first.address == wish.first.address and window.earlier_boot(fault.last.epoch_s) == early
        ]
        if asked == _NO_ACTION:
            for index in same:
                last, since = faults[index].last.epoch_s, wish.last.epoch_s
                if not isinstance(last, Unknown) and not isinstance(since, Unknown) and last <= since:
                    faults[index] = replace(faults[index], settled_s=since)
        elif same:
            faults[same[-1]] = replace(faults[same[-1]], recovery=asked)
        else:
            faults.append(replace(wish, recovery=asked))
    return faults


def tell_switches(log: KernelLog, window: LogWindow, verdicts: Verdicts) -> None:
    """SXids: a finding for each switch and code, which says what follows the loss of a GPU, and for unknown forms."""
    lost = [fault for fault in gpu_faults(log, window) if fault.rule.code == FELL_OFF_THE_BUS]
    groups: dict[tuple[str, int, str, bool], list[SwitchEvent]] = {}
    events = list(switch_events(log.lines))
    for event in events:
        if isinstance(event, SwitchEvent):
            key = (event.switch, event.code, event.severity, window.earlier_boot(event.epoch_s))
            groups.setdefault(key, []).append(event)
    for group in groups.values():
        _tell_switch(group, next((fault for fault in lost if near(fault, group[0].epoch_s)), None), window, verdicts)
    tell_unparsed(events, "SXid", verdicts)


def _tell_switch(events: Sequence[SwitchEvent], lost: Fault | None, window: LogWindow, verdicts: Verdicts) -> None:
    first, last = events[0], events[-1]
    rule = sxid_rule(first.code)
    fatal = is_fatal(rule, first.severity)
    verdict, remark = window.aged(Verdict.FAIL if fatal and lost is None else Verdict.WARN, Lasts.BOOT, last.epoch_s)
    remark = f"follows the loss of {lost.part.short}" if lost else remark
    when = times(len(events), first.epoch_s, last.epoch_s)
    word = first.severity or ("no severity printed, fatal by the table" if rule.fatal else "no severity printed")
    verdicts.found(
        verdict,
        part=part.nvswitch(first.switch, address=first.address),
        text=f'SXid {first.code} ({word}) {when}, at {rule.where.en}: "{first.text[:MAX_SWITCH_QUOTED]}"',
        note=remark,
        action=rule.action_for(fatal=fatal).en,
        quantity=MESSAGES,
        observed=len(events),
        code=str(first.code),
    )
