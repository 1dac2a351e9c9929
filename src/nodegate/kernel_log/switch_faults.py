"""SXids folded: one finding per NVSwitch and code; what follows the loss of a GPU is said to."""

from collections.abc import Sequence

from nodegate.kernel_log.gpu_faults import Fault, gpu_faults, near, tell_unparsed
from nodegate.kernel_log.incidents import MESSAGES
from nodegate.kernel_log.window import LogWindow, times
from nodegate.knowledge.sxids import is_fatal, sxid_rule
from nodegate.knowledge.tables import Lasts
from nodegate.knowledge.xid_lines import FELL_OFF_THE_BUS, SwitchEvent, switch_events
from nodegate.probe.kernel_log import KernelLog
from nodegate.records import part
from nodegate.records.verdict import Verdict
from nodegate.verdicts import Verdicts

MAX_QUOTED = 80


def tell_switches(log: KernelLog, window: LogWindow, verdicts: Verdicts) -> None:
    """A finding for each switch and SXid; lines in an unknown form are reported too."""
    lost = [fault for fault in gpu_faults(log, window) if fault.rule.code == FELL_OFF_THE_BUS]
    groups: dict[tuple[str, int, str, bool], list[SwitchEvent]] = {}
    events = list(switch_events(log.lines))
    for event in events:
        if isinstance(event, SwitchEvent):
            key = (event.switch, event.code, event.severity, window.earlier_boot(event.epoch_s))
            groups.setdefault(key, []).append(event)
    for group in groups.values():
        _tell(group, next((fault for fault in lost if near(fault, group[0].epoch_s)), None), window, verdicts)
    tell_unparsed(events, "SXid", verdicts)


def _tell(events: Sequence[SwitchEvent], lost: Fault | None, window: LogWindow, verdicts: Verdicts) -> None:
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
        text=f'SXid {first.code} ({word}) {when}, at {rule.where.en}: "{first.text[:MAX_QUOTED]}"',
        note=remark,
        action=rule.action_for(fatal=fatal).en,
        quantity=MESSAGES,
        observed=len(events),
        code=str(first.code),
    )
