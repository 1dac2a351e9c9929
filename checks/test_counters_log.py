"""Kernel log while the load ran: the load brought no fault to light."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Limit, Unknown, Verdict, part
from nodegate.kernel_log import flaps, gpu_faults, incidents
from nodegate.kernel_log.new_lines import new_lines, under_test
from nodegate.kernel_log.window import shown, times
from nodegate.knowledge.xid_lines import gpu_events
from nodegate.records.finding import AT_MOST

if TYPE_CHECKING:
    from nodegate.api import Counters, Profile, Verdicts
    from nodegate.kernel_log.new_lines import NewLines

pytestmark = pytest.mark.tier("bootcheck")

_WHOLE = "keep a persistent journal (Storage=persistent) or a larger kernel ring buffer (log_buf_len), and run again"
_SUBJECTS = (
    "gpu_driver",
    "pcie",
    "nic",
    "memory",
    "storage",
    "nvme",
    "file_system",
    "host",
    "lockup",
    "hardware_error",
)


def test_reaches_back(counters: Counters, profile: Profile, verdicts: Verdicts) -> None:
    """The node did not reboot during this run, and its kernel log is complete over that time. (F02, F10)

    A node that restarts under load has a fault of its power supply, firmware or kernel, unless a person restarted it.
    A log with a gap proves nothing about the time in it.
    """
    new = new_lines(counters.before, counters.after, profile)
    whose = part.host("kernel log")
    if isinstance(new.rebooted, Unknown):
        verdicts.unknown(part=part.NODE, quantity="the time of its last boot", reason=new.rebooted)
    elif new.rebooted:
        message = f"rebooted at {shown(new.log.boot_epoch_s)}, during this run"
        remedy = "find the cause of the reboot (BMC log, last -x), else check power supplies, CPU and memory"
        verdicts.found(Verdict.FAIL, part=part.NODE, text=message, action=remedy, code="rebooted")
    if new.gap:
        verdicts.found(Verdict.ERROR, part=whose, text=new.gap, action=_WHOLE, code="gap")
    if not verdicts.findings:
        verdicts.passed(part=whose, text=f"complete since {shown(new.since_s)}, no reboot")


def test_xid(counters: Counters, profile: Profile, verdicts: Verdicts) -> None:
    """No GPU raised an Xid during this run. (F01, F02, F03, F04)

    Codes that are usually a program's own fault (13, 31, 43 ...) fail here: the programs are ours and known to be good.
    45 alone only warns: ending one of our own programs can raise it. Source: NVIDIA Xid catalogue as
    docs/reference/knowledge.md describes it, column under_test.
    """
    new = new_lines(counters.before, counters.after, profile)
    for fault in gpu_faults.gpu_faults(new.log, new.window):
        verdicts.found(
            under_test(fault, new.window),
            part=fault.part,
            text=fault.message,
            note="while the load ran",
            action=fault.action,
            quantity=incidents.MESSAGES,
            observed=fault.count,
            code=str(fault.rule.code),
        )
    gpu_faults.tell_unparsed(gpu_events(new.log.lines), "Xid", verdicts)
    _nothing(new, "Xid", verdicts)


def test_sxid(counters: Counters, profile: Profile, verdicts: Verdicts) -> None:
    """No NVSwitch raised an SXid during this run. (F13)

    As kernel_log.sxid, over the time of our tests alone: load brings out links that are at their limit.
    """
    new = new_lines(counters.before, counters.after, profile)
    gpu_faults.tell_switches(new.log, new.window, verdicts)
    _nothing(new, "SXid", verdicts)


def test_link_downs(counters: Counters, profile: Profile, verdicts: Verdicts) -> None:
    """No NIC lost its link during this run. (F06)

    One link-down in the time of a test is already one that would have broken a job.
    """
    new = new_lines(counters.before, counters.after, profile)
    limit = Limit(0, source="while the load ran", direction=AT_MOST)
    for device, downs in flaps.link_downs(new.log, new.window, grace_s=0.0).items():
        verdicts.found(
            Verdict.FAIL,
            part=part.from_kernel("NIC", device),
            text=f"link down {times(len(downs), downs[0].line.epoch_s, downs[-1].line.epoch_s)}",
            action="clean or replace the cable or transceiver; look at the switch port",
            quantity="link-downs",
            observed=len(downs),
            limit=limit,
        )
    _nothing(new, "link-down", verdicts)


def test_faults(counters: Counters, profile: Profile, verdicts: Verdicts) -> None:
    """The kernel reported no fault of a device or of the host during this run. (F04, F05, F07, F09, F31)

    As the checks of kernel_log and host_log, over the time of our tests alone: an old fault that was settled before is
    not reported again, a new one stands out. Tasks that hung are reported by host_log.hung_tasks.
    """
    new = new_lines(counters.before, counters.after, profile)
    for whose in _SUBJECTS:
        incidents.tell_incidents(new.log, whose, new.window, verdicts)
    _nothing(new, "fault", verdicts)


def _nothing(new: NewLines, what: str, verdicts: Verdicts) -> None:
    """Where nothing was found: a pass, if the log is complete."""
    if verdicts.findings:
        return
    if new.gap:
        verdicts.found(
            Verdict.ERROR,
            part=part.host("kernel log"),
            text=f"no {what} found, but {new.gap}",
            action=_WHOLE,
            code="gap",
        )
    else:
        message = f"no {what} since {shown(new.since_s)}, when the load began"
        verdicts.passed(part=part.host("kernel log"), text=message)
