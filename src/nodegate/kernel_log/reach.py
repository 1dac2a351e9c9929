"""Whether a kernel log is whole over the time that a check speaks about: only a whole log can be called clean."""

from nodegate.kernel_log.window import CLOCK_STEP_S, LogWindow, shown
from nodegate.knowledge.roots import INCIDENT_S
from nodegate.probe.kernel_log import ANY_KIND, KernelLog, Lost
from nodegate.records import part
from nodegate.records.verdict import Verdict
from nodegate.text import counted
from nodegate.unknown import Known, Unknown
from nodegate.verdicts import Verdicts

KEEP = "keep a persistent journal (Storage=persistent) or a larger kernel ring buffer (log_buf_len)"
XID = "xid"
# Of which kinds (node_side/probe/kernel_lines.py) the lines of a subject (knowledge/kernel_lines.csv) are.
KINDS = {
    XID: (XID,),
    "gpu_driver": ("nvidia", "pcie"),
    "off_bus": (XID, "nvidia"),
    "pcie": ("pcie",),
    "nic": ("network", "pcie", "machine"),
    "flaps": ("network",),
    "memory": ("memory",),
    "storage": ("storage",),
    "nvme": ("storage",),
    "file_system": ("storage",),
    "host": ("host", "machine", "program", "stuck", "memory"),
    "lockup": ("stuck",),
    "hung_task": ("stuck",),
    "hardware_error": ("machine",),
}
# Lines that were sent for their level alone, in masses on healthy nodes: a firewall's, the firmware's tables.
OF_LITTLE_WEIGHT = frozenset({"firmware", "warning"})
# Of what is judged over a window of hours, what was before the window no longer matters.
OVER_A_WINDOW = frozenset({"flaps", "memory", "storage", "hung_task"})


def lost_since(log: KernelLog, since_s: Known[float]) -> list[Lost]:
    """The lines that did not fit, some of which may be newer than this; the clock may have been stepped since."""
    return [
        lost
        for lost in log.lost
        if isinstance(since_s, Unknown)
        or isinstance(lost.until_epoch_s, Unknown)
        or lost.until_epoch_s >= since_s - CLOCK_STEP_S
    ]


def not_whole(log: KernelLog, subject: str, window: LogWindow) -> str:
    """Why a log without a line of this subject proves nothing; empty where it is whole."""
    since_s: Known[float] = window.boot_s
    if subject in OVER_A_WINDOW:  # to the start of this boot, or to the start of the window if that is later
        begins_s = window.now_s - window.window_h * 3600
        since_s = begins_s if isinstance(since_s, Unknown) else max(begins_s, since_s)
    lost = [one for one in lost_since(log, since_s) if one.kind in (ANY_KIND, *KINDS[subject])]
    if lost:
        return f"{counted(sum(one.lines for one in lost), 'line')} of this kind did not fit and were omitted"
    if log.missed:
        return "the kernel overwrote messages before they could be read"
    if isinstance(since_s, Unknown) or isinstance(log.since_epoch_s, Unknown):
        return "it is unknown how far back the log reaches"
    if log.since_epoch_s > since_s + INCIDENT_S:
        return f"the log begins only at {shown(log.since_epoch_s)}"
    return ""


def clean(log: KernelLog, subject: str, window: LogWindow, verdicts: Verdicts, *, text: str) -> None:
    """Where no finding is: a pass with this text if the log is whole, otherwise it is not judged."""
    if verdicts.findings:
        return
    why, whose = not_whole(log, subject, window), part.host("kernel log")
    if why:
        text = f"{text}, but {why}: what was lost cannot be judged"
        verdicts.found(Verdict.NOT_JUDGED, part=whose, text=text, action=KEEP, code="not whole")
    else:
        verdicts.passed(part=whose, text=text)
