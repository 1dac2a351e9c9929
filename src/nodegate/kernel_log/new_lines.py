"""Kernel lines that came while the load ran: those of the later log that the earlier one does not hold."""

from collections import Counter
from dataclasses import dataclass, replace

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.kernel_log.gpu_faults import Fault
from nodegate.kernel_log.incidents import lost_since
from nodegate.kernel_log.window import LogWindow
from nodegate.knowledge.tables import XidKind
from nodegate.probe.kernel_log import KernelLine, KernelLog
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict, worst
from nodegate.unknown import Known, Unknown, Why

# Two probes of one boot may reckon the time of the same line a little differently (dmesg counts from the boot).
_SAME_S = 2.0
_REBOOT_S = 60.0


@dataclass(frozen=True)
class NewLines:
    """The kernel log of the time in which our tests ran, and the frame to judge it in.

    `gap` says why the log is not complete over that time; "" when it is. `rebooted` is true when the node was
    restarted in between, unknown where its boots cannot be told apart.
    """

    log: KernelLog
    window: LogWindow
    since_s: float
    gap: str
    rebooted: Known[bool]


def new_lines(first: NodeFacts, second: NodeFacts, profile: Profile) -> NewLines:
    """What the kernel said between two readings: before the first test and after the last one.

    Raises:
        CannotMeasure: one of the two logs could not be read, or the node's clock went back.
    """
    before, after = first.kernel_log, second.kernel_log
    began_s, now_s = first.document.epoch_s, second.document.epoch_s
    if now_s <= began_s:
        step = "synchronise the node's clock, then measure it again"
        raise CannotMeasure("the node's clock was set back between the two readings", next_step=step)
    log = replace(after, lines=_new(before, after, began_s))
    window = LogWindow(now_s=now_s, boot_s=log.boot_epoch_s, window_h=(now_s - began_s) / 3600 + 1, profile=profile)
    return NewLines(log, window, began_s, _gap(before, after, began_s), _rebooted(first, second))


def under_test(fault: Fault, window: LogWindow) -> Verdict:
    """The verdict on an Xid that was raised while known-good programs of our own ran.

    Codes that are usually a program's fault (13, 31, 43 ...) fail: no other program was there to blame. Where the line
    itself says how bad it is (144 to 150) it decides.
    """
    weighed, _ = fault.verdict(window)
    if fault.rule.kind is XidKind.SEVERITY:
        return weighed
    return worst((weighed, fault.rule.under_test))


def _new(before: KernelLog, after: KernelLog, began_s: float) -> tuple[KernelLine, ...]:
    """A line with a time is new when it is later than the first reading began, and not in it; one without by count."""
    timeless = Counter(line.text for line in before.lines if isinstance(line.epoch_s, Unknown))
    known = {(line.text, line.epoch_s // _SAME_S) for line in before.lines if not isinstance(line.epoch_s, Unknown)}
    found = []
    for line in after.lines:
        if isinstance(line.epoch_s, Unknown):
            timeless[line.text] -= 1
            if timeless[line.text] < 0:
                found.append(line)
        elif line.epoch_s >= began_s:
            step = line.epoch_s // _SAME_S
            if known.isdisjoint({(line.text, each) for each in (step - 1, step, step + 1)}):
                found.append(line)
    return tuple(found)


def _gap(before: KernelLog, after: KernelLog, began_s: float) -> str:
    if isinstance(after.since_epoch_s, Unknown):
        return f"could not read how far back the log reaches ({after.since_epoch_s})"
    if after.since_epoch_s > began_s:
        return "the log no longer reaches back to the start of the load"
    lost = sum(one.lines for one in lost_since(after, began_s))
    if lost:
        return f"{lost} lines were omitted: more was logged under load than fits"
    if after.missed > (before.missed if after.source == "journal" else 0):
        return "the kernel overwrote messages before they could be read"
    return ""


def _rebooted(before: NodeFacts, after: NodeFacts) -> Known[bool]:
    first, second = before.host.boot_id, after.host.boot_id
    if not isinstance(first, Unknown) and not isinstance(second, Unknown):
        return first != second
    earlier, later = before.kernel_log.boot_epoch_s, after.kernel_log.boot_epoch_s
    if isinstance(earlier, Unknown) or isinstance(later, Unknown):
        return Unknown(Why.MISSING, "neither boot ID nor uptime could be read")
    return later > earlier + _REBOOT_S
