"""Kernel lines that are no Xid, folded: one incident per rule and device."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nodegate.kernel_log.window import CLOCK_STEP_S, LogWindow, shown, times
from nodegate.knowledge.kernel_signatures import DEVICES
from nodegate.knowledge.roots import INCIDENT_S
from nodegate.knowledge.tables import LineRule, lines, recoveries
from nodegate.knowledge.words import Role
from nodegate.probe.host import Host
from nodegate.probe.kernel_log import ANY_KIND, KernelLine, KernelLog, Lost
from nodegate.probe.pci import Pci
from nodegate.records import part
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.text import counted
from nodegate.unknown import Known, Unknown
from nodegate.verdicts import Verdicts

MAX_QUOTED = 200
MESSAGES = "kernel messages"
_RECOVERED = "a later line says that it recovered"
# What is said of a disk's slot, which may be changed while the node runs, and of devices that nobody uses, too.
_OF_ANY_DEVICE = frozenset({"pcie_link_down", "pcie_link_dead", "pcie_no_address"})
_FIRMWARE = re.compile(r"\{(?P<record>\d{1,6})\}\[Hardware Error\]: ")
# "{1}[Hardware Error]:   DIMM location: P1_NODE0_CHANNEL3_DIMM0", or "not present. DMI handle: 0x0023"
_LOCATION = re.compile(r"\{(?P<record>\d{1,6})\}\[Hardware Error\]: {1,8}DIMM location: (?P<place>[\w .,#:-]{1,80})")
_OTHER = "no GPU, NVSwitch or NIC is below this slot: a disk that was replaced, an empty slot, or another device"
_MOST_LINES = 40  # of one report: the kernel prints some twenty frames
_HUNG = "blocked for more than"
_FRAME = re.compile(
    r"^ {0,4}(?P<guessed>\? )?(?P<function>[A-Za-z_][\w.]{1,80})\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}"
    r"(?: \[(?P<module>\w{1,40})\])?"
)
# How a task waits, not for what.
_WAITING = re.compile(
    r"__?schedule\w*|schedule\w*|io_schedule\w*|__switch_to\w*|context_switch|preempt_\w+|wait_for_completion\w*"
    r"|__wait_\w+|wait_on_\w+|out_of_line_wait\w*|bit_wait\w*|__?mutex_\w+|mutex_\w+|rwsem_\w+|down_\w+|__down\w*"
    r"|rt_mutex_\w+|__lock_\w+|folio_wait_\w+|do_wait\w*"
)
_SORTS = (
    (re.compile(r"nfs|rpc_|xprt"), "NFS"),
    (re.compile(r"ll_|lustre|ptlrpc|cl_|osc_|mdc_|lov_|ldlm"), "Lustre"),
    (re.compile(r"ceph|rbd"), "Ceph"),
    (re.compile(r"gpfs|mmfs|cxi"), "GPFS"),
    (re.compile(r"nvidia|uvm_|nv_|rm_|_nv\d"), "the GPU driver"),
    (re.compile(r"mlx[45]|ib_|rdma|ucma"), "the NIC driver"),
    (re.compile(r"nvme|blk_|xfs|ext4|jbd2|btrfs|submit_bio|md_|raid"), "a disk or local file system"),
    (re.compile(r"fuse"), "a FUSE file system"),
)
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


@dataclass(frozen=True)
class Incident:
    """Lines of one sort about one device, within one boot. `recovered`: a later line of the device says so."""

    rule: LineRule
    device: str  # "" when the line names none
    lines: tuple[KernelLine, ...]
    recovered: bool = False

    @property
    def part(self) -> Part:
        """The part that the lines name."""
        return part.from_kernel(self.rule.part, self.device)

    @property
    def when(self) -> str:
        """How often it was seen, and when."""
        return times(len(self.lines), self.lines[0].epoch_s, self.lines[-1].epoch_s)


def rule_of(text: str, rules: Iterable[LineRule] | None = None) -> LineRule | None:
    """The first rule that fits a line; by default of all."""
    fitting = (rule for rule in (lines() if rules is None else rules) if rule.may_fit(text))
    return next((rule for rule in fitting if rule.pattern.search(text)), None)


def incidents(log: KernelLog, subject: str, window: LogWindow) -> tuple[Incident, ...]:
    """The incidents that one check judges, in the order in which they began."""
    whole = "\n".join(line.text for line in log.lines)  # most rules fit no line of it: looked for once
    possible = [rule for rule in lines() if rule.subject == subject and rule.may_fit(whole)]
    found: dict[tuple[str, str, bool], list[KernelLine]] = {}
    rules: dict[str, LineRule] = {}
    for line in log.lines if possible else ():
        rule = rule_of(line.text, possible)
        if rule is not None:
            rules[rule.id] = rule
            key = (rule.id, device_of(rule, line.text), window.earlier_boot(line.epoch_s))
            found.setdefault(key, []).append(line)
    incidents = (Incident(rules[name], device, tuple(group)) for (name, device, _), group in found.items())
    return tuple(replace(each, recovered=_recovers(log, each)) for each in incidents)


def _follows(incident: Incident, other: Incident) -> bool:
    if incident.rule.role is Role.PRIMARY or other.rule.role is not Role.PRIMARY or not incident.device:
        return False
    began, root = incident.lines[0].epoch_s, other.lines[0].epoch_s
    if isinstance(began, Unknown) or isinstance(root, Unknown) or not 0 <= began - root <= INCIDENT_S:
        return False
    failing = Verdict.FAIL in (other.rule.delivery, other.rule.bootcheck)
    return failing and incident.device.partition(" ")[0] == other.device.partition(" ")[0]


def _recovers(log: KernelLog, incident: Incident) -> bool:
    """Whether a line after the last one of the incident says that the same device recovered."""
    pattern = recoveries().get(incident.rule.id)
    if pattern is None:
        return False
    newest = incident.lines[-1]
    for line in reversed(log.lines):
        if line is newest:
            return False
        match = pattern.search(line.text)
        if match and _named(match).partition(" ")[0] == incident.device.partition(" ")[0]:
            return True
    return False


def device_of(rule: LineRule, text: str) -> str:
    """The device that a line names, as its rule says; "" when it names none."""
    match = rule.pattern.search(text)
    return _named(match) if match else ""


def _named(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return next((groups[name] for name in DEVICES if groups.get(name)), "").rstrip(":.")


# Why an incident is at most a warning here; empty where it counts.
Harmless = Callable[[Incident], str] | None


def tell(log: KernelLog, subject: str, window: LogWindow, verdicts: Verdicts, harmless: Harmless = None) -> None:
    """A finding for each incident, and a pass where there is none and the log is whole."""
    tell_incidents(log, subject, window, verdicts, harmless)
    clean(log, subject, window, verdicts)


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


def clean(log: KernelLog, subject: str, window: LogWindow, verdicts: Verdicts, text: str = "") -> None:
    """Where no finding is: a pass (with this text) if the log is whole, otherwise it is not judged."""
    if verdicts.findings:
        return
    text = text or f"no matching message since {shown(log.since_epoch_s)}"
    why, whose = not_whole(log, subject, window), part.host("kernel log")
    if why:
        text = f"{text}, but {why}: what was lost cannot be judged"
        verdicts.found(Verdict.NOT_JUDGED, part=whose, text=text, action=KEEP, code="not whole")
    else:
        verdicts.passed(part=whose, text=text)


def tell_incidents(
    log: KernelLog, subject: str, window: LogWindow, verdicts: Verdicts, harmless: Harmless = None
) -> None:
    """A finding for each incident.

    What may follow from another error, and comes soon after one of the same device, is its detail.
    """
    found = incidents(log, subject, window)
    for incident in found:
        if not any(_follows(incident, other) for other in found):
            why = harmless(incident) if harmless else ""
            tell_one(incident, window, verdicts, harmless=_RECOVERED if incident.recovered else why)


def tell_one(
    incident: Incident,
    window: LogWindow,
    verdicts: Verdicts,
    *,
    when: str = "",
    whose: Part | None = None,
    errors: int = 0,
    harmless: str = "",
) -> None:
    """The finding of one incident; what its lines count and name in another way than by themselves is given."""
    verdict, remark = window.weigh(incident.rule, incident.lines[-1].epoch_s)
    if harmless and verdict is Verdict.FAIL:
        verdict, remark = Verdict.WARN, harmless
    verdicts.found(
        verdict,
        part=whose or incident.part,
        text=f'{incident.rule.meaning.en}, {when or incident.when}: "{incident.lines[0].text[:MAX_QUOTED]}"',
        note=remark,
        action=incident.rule.action.en,
        quantity="errors" if errors else MESSAGES,
        observed=errors or len(incident.lines),
        code=incident.rule.id,
    )


def of_other_devices(pci: Pci) -> Callable[[Incident], str]:
    """Why a slot or device that does not work is no fault of a GPU or NIC; empty where it is, or for other lines.

    A GPU or NIC that is gone from its slot for good is missing from the node, which is found by its count.
    """
    needed = {
        above.address for device in (*pci.gpus, *pci.nvswitches, *pci.nics) for above in (device, *pci.path(device))
    }

    def harmless(incident: Incident) -> str:
        is_other = incident.rule.id in _OF_ANY_DEVICE and incident.part.pci not in ("", *needed)
        return _OTHER if is_other else ""

    return harmless


def tell_machine_checks(log: KernelLog, window: LogWindow, verdicts: Verdicts) -> None:
    """Machine checks and memory errors: a finding for each part that the kernel names and each sort of error."""
    places = {found["record"]: found["place"].strip() for line in log.lines if (found := _LOCATION.search(line.text))}
    for incident in incidents(log, "hardware_error", window):
        matches = [incident.rule.pattern.search(line.text) for line in incident.lines]
        # EDAC writes a number of its own, "EDAC MC0: 12 CE ..."
        count = sum(int((match.groupdict().get("count") if match else None) or 1) for match in matches)
        record = _FIRMWARE.search(incident.lines[0].text)
        when = f"{count} errors, reported {incident.when}" if count != len(incident.lines) else ""
        module = places.get(record["record"], "") if record else ""
        whose = part.from_kernel("memory module", module) if module else None
        tell_one(incident, window, verdicts, when=when, whose=whose, errors=count)


def tell_hung_tasks(log: KernelLog, host: Host, window: LogWindow, verdicts: Verdicts) -> None:
    """Tasks that hang: who they are and where they wait, from the stack in the log or from what waits now."""
    stacks = _stacks(log.lines)
    blocked = () if isinstance(host.blocked, Unknown) else host.blocked  # where each waits now, by its id
    waiting = {str(each.pid): _in_kernel(each.waits_in) for each in blocked if each.waits_in not in ("", "0")}
    for incident in incidents(log, "hung_task", window):
        stack, now = stacks.get(incident.device), waiting.get(incident.device.rpartition(":")[2])
        said = [*([f"waited in {stack}"] if stack else []), *([f"still waits in {now}"] if now else [])]
        where = " and ".join(said) or "the log does not say where"
        tell_one(incident, window, verdicts, when=f"{incident.when}, {where}")


def _in_kernel(function: str, module: str = "") -> str:
    """A function of the kernel with the sort of thing it belongs to: "nfs_wait_bit_killable (NFS)"."""
    sort = next((sort for pattern, sort in _SORTS if pattern.match(module) or pattern.match(function)), "")
    return f"{function} ({sort})" if sort else f"{function} ({module})" if module else function


def _stacks(lines: Sequence[KernelLine]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        match = re.search(r"task (\S{1,120}:\d{1,12}) ", line.text) if _HUNG in line.text else None
        if match and match[1] not in found:
            following = [each.text for each in lines[number + 1 : number + 1 + _MOST_LINES]]
            end = next((index for index, text in enumerate(following) if _HUNG in text), len(following))
            # its first function that is no mere waiting, and what that belongs to
            sure = (frame for text in following[:end] if (frame := _FRAME.match(text)) and not frame["guessed"])
            if at := next((frame for frame in sure if not _WAITING.fullmatch(frame["function"])), None):
                found[match[1]] = _in_kernel(at["function"], at["module"] or "")
    return found
