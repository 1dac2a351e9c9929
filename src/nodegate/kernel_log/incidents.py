"""Kernel lines that are no Xid, folded: one incident per rule and device."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from nodegate.kernel_log import reach
from nodegate.kernel_log.window import LogWindow, shown, times
from nodegate.knowledge.roots import INCIDENT_S
from nodegate.knowledge.signature import DEVICES
from nodegate.knowledge.tables import LineRule, lines, recoveries
from nodegate.knowledge.words import Role
from nodegate.probe.kernel_log import KernelLine, KernelLog
from nodegate.probe.pci import Pci
from nodegate.records import part
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
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


@dataclass(frozen=True)
class Incident:
    """Lines of one sort about one device, within one boot. `recovered`: a later line of the device says so."""

    rule: LineRule
    device: str  # "" when the line names none
    lines: tuple[KernelLine, ...]
    recovered: bool = False

    @property
    def last_s(self) -> Known[float]:
        """When it was last seen."""
        return self.lines[-1].epoch_s

    @property
    def part(self) -> Part:
        """The part that the lines name."""
        return part.from_kernel(self.rule.part, self.device)

    @property
    def when(self) -> str:
        """How often it was seen, and when."""
        return times(len(self.lines), self.lines[0].epoch_s, self.last_s)


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


def tell(
    log: KernelLog,
    subject: str,
    window: LogWindow,
    verdicts: Verdicts,
    harmless: Callable[[Incident], str] = lambda _: "",
) -> None:
    """A finding for each incident, and a pass where there is none and the log is whole; `harmless`: see below."""
    tell_incidents(log, subject, window, verdicts, harmless)
    clean(log, subject, window, verdicts)


def clean(log: KernelLog, subject: str, window: LogWindow, verdicts: Verdicts) -> None:
    """A pass where no line was found and the log is whole."""
    reach.clean(log, subject, window, verdicts, text=f"no matching message since {shown(log.since_epoch_s)}")


def tell_incidents(
    log: KernelLog,
    subject: str,
    window: LogWindow,
    verdicts: Verdicts,
    harmless: Callable[[Incident], str] = lambda _: "",
) -> None:
    """A finding for each incident. `harmless` says why one is at most a warning here; empty where it counts.

    What may follow from another error, and comes soon after one of the same device, is its detail.
    """
    found = incidents(log, subject, window)
    for incident in found:
        if not any(_follows(incident, other) for other in found):
            tell_one(incident, window, verdicts, harmless=_RECOVERED if incident.recovered else harmless(incident))


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
    verdict, remark = window.weigh(incident.rule, incident.last_s)
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
