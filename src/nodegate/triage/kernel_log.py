"""Kernel logs among the inputs: recognised, read line by line, bursts folded by the minute."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from nodegate.kernel_log.unknown_errors import speaker
from nodegate.knowledge import kernel_signatures
from nodegate.knowledge.kernel_signatures import Hit
from nodegate.knowledge.required import shortest
from nodegate.knowledge.signatures import find, literals
from nodegate.knowledge.words import UNKNOWN_LINES, Role, Side
from nodegate.knowledge.xid_lines import NONFATAL, xid_said
from nodegate.probe.kernel_log import KernelLine, parse_line
from nodegate.triage import details, place, scan
from nodegate.triage.clock import Stamp, zone_in
from nodegate.triage.events import TEXT_SHOWN, Event, Events, template
from nodegate.triage.job_log import JobLogReader
from nodegate.triage.log import Log
from nodegate.triage.place import Place
from nodegate.triage.read import text_of
from nodegate.unknown import Unknown

# The kernel, and services of a host: lines of any other program are the log of a job.
_HOST_SERVICES = (
    "kernel", "systemd(?:-[a-z]{1,20})?", r"\(?sd-\w{1,10}\)?", "sshd(?:-session)?", "cron", "CRON", "anacron",
    "kubelet", "containerd", "dockerd", "k3s", "slurmd", "slurmctld", "slurmstepd",
    "crio", "NetworkManager", "dbus(?:-daemon|-broker)?", "rsyslogd", "chronyd", "ntpd", "sudo",
    "su", "audit", "auditd", "snapd", "dhclient", "agetty", "multipathd",
    "irqbalance", "smartd", "mcelog", "rasdaemon", "polkitd", "login", "cloud-init",
    "opensm", "ibacm", "munged", "lldpd", "snmpd", "node_exporter", "zed",
    "mdadm", "nv-hostengine", "nv-fabricmanager", "nvidia-(?:persistenced|fabricmanager|imex)",
)  # fmt: skip
_SERVICES = "|".join(_HOST_SERVICES)
_KERNEL_LINE = re.compile(
    # not in front of another program's line (journalctl -o short-monotonic)
    rf"\[ *\+?[0-9]{{1,9}}\.[0-9]{{6}}\](?! [\w.-]{{1,100}} (?!(?:{_SERVICES})\[)[^\s\[]{{1,60}}\[[0-9]{{1,9}}\]: )"
    r"|\[[A-Z][a-z]{2}[ 0-9][0-9] [0-9]{2}:[0-9]{2}\] "  # the second: dmesg -H
    # of the kernel's own facility, of /dev/kmsg, of the journal as JSON
    r"|<[0-7]>|[0-9]{1,3},[0-9]{1,12},[0-9]{1,15},"
    rf"|\{{(?=.{{0,500}}\"__REALTIME_TIMESTAMP\")(?!.{{0,4000}}\"SYSLOG_IDENTIFIER\" ?: ?\"(?!(?:{_SERVICES})\"))"
    r"|(?:\S{1,40} ){1,5}kernel(?:\[[0-9]+\])?: |[0-9T:,.+-]{19,40} (?:\S{1,64} )?(?:NVRM|nvidia|mlx5_core|pcieport)"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{6}[+-][0-9]{2}:[0-9]{2} "  # dmesg --time-format iso
    r"|kern {0,4}:\w{1,8} {0,4}:"
    # a host's syslog, with or without priorities
    r"|(?:<[0-9]{1,3}>)?"
    r"(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}|(?:1 )?[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[+-][0-9:]{4,5})"
    r"|[A-Z][a-z]{2} [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} [A-Z]{3,5}) "
    rf"[\w.-]{{1,100}} (?:{_SERVICES})(?:(?:\[[0-9]{{1,9}}\])?: | (?:-|[0-9]{{1,10}}) \S{{1,32}} )"
    r"|\[[^\s\[\]]{1,12} [^\s\[\]]{1,12} {1,2}[0-9]{1,2} [0-9:]{8} [0-9]{4}\] "  # dmesg -T
)
_KERNEL_NAME = re.compile(r"dmesg|(?:^|[^a-z])kern(?:el)?[._-]|vmcore")
_HOST = re.compile(
    r"(?:[0-9]{2}:[0-9]{2}:[0-9]{2}\S{0,20}(?: [A-Z]{3,5})?|[0-9]\.[0-9]{6}\]?) "
    r"([A-Za-z0-9][\w.-]{0,100}) kernel(?:\[[0-9]{1,10}\])?: "
)
_HOST_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,252}", re.ASCII)
_LATEST_US = 1 << 56  # the year 4253
_SECONDS = re.compile(r"\[ *\+?([0-9]{1,12})\.")
_STAMP_CHARACTERS = 60  # of a line in which its own time is
_TOLD_BY_SERVICES = ("k8s_", "slurm_")
_PREFIX_CHARACTERS = 16  # a line with a date: its time to the minute
_OF_SERVICES = ("kubelet[", "containerd[", "k3s[", "slurmd[", "crio[")
# An error that no row may know: by the words that errors have, as kernels write them.
_SOUNDS_BAD = scan.together(
    ("error", "Error", "ERROR", "fail", "Fail", "FAIL", "fatal", "Fatal", "FATAL", "timed out", "imeout", "not respond")
)
_MOST_STRANGE = 1000  # lines of a log
_BOOTING = re.compile(r".{0,80}\[ *[0-9]{1,2}\.[0-9]{6}\]")  # a clock of less than 100 s: what kernels find at boot
_ANY = scan.together(shortest([*literals(Side.KERNEL), *_OF_SERVICES]))
# The device, code and unit of a line: what is folded into one event differs in none of them.
_WHICH = re.compile(
    r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\)?(?:: [0-9]{1,6},)?"
    r"(?:.{0,200}?\(GPC [0-9]{1,3}, TPC [0-9]{1,3})?"
)
_NOT_FATAL = ("Nonfatal", "Non-fatal")
_HEAD_BYTES = 1 << 14
# Programs under which jobs run: an exception of any other one in a host's log may be a service's.
_RUNS_JOBS = re.compile(
    r" (?:python[0-9.]{0,5}|torchrun|accelerate|deepspeed|mpirun|srun|(?:ba)?sh|docker|[0-9a-f]{12})\["
)
_OF_A_PROGRAM = re.compile(r".{8,120} [\w./()-]{1,60}\[[0-9]{1,9}\]: ")
_GENERAL = (*UNKNOWN_LINES, "python_error", "cpp_exception")


def looks_like(head: str, name: str) -> bool:
    """Whether this is a kernel log: by its name, or because most of its first lines look like kernel messages."""
    return bool(_KERNEL_NAME.search(name.rsplit("/", 1)[-1])) or most_are_host_lines(head)


def most_are_host_lines(head: str) -> bool:
    """Whether most of the first lines are in a form of the kernel or of a host's services."""
    lines = [line for line in head.splitlines()[:40] if line.strip()]
    return bool(lines) and sum(map(is_host_line, lines)) * 2 > len(lines)


def is_host_line(line: str) -> bool:
    """Whether a line is in a form of the kernel or of a host's services."""
    return bool(_KERNEL_LINE.match(line))


class KernelLogReader:
    """Reads one kernel log into `events`."""

    def __init__(self, log: Log, events: Events) -> None:
        self.log, self.events = log, events

    def feed(self, chunk: bytes) -> None:
        """Read the next chunk."""
        if not self.log.lines:
            head = text_of(chunk[: 1 << 16])
            self.log.begin(head, "\n".join(line[:_STAMP_CHARACTERS] for line in head.splitlines()[:200]))
        counted, number = 0, self.log.lines + 1
        for line in scan.lines_at(chunk, [match.start() for match in _ANY.finditer(chunk)]):
            number += chunk.count(b"\n", counted, line.start)
            counted = line.start
            self._line(line.text, number)
        for line in scan.lines_at(chunk, [match.start() for match in _SOUNDS_BAD.finditer(chunk)]):
            if len(self.log.strange) >= _MOST_STRANGE:
                break
            said = self._said(line.text)
            if speaker(said.text) or not _BOOTING.match(line.text):
                self.log.strange.append(said)
        self.log.lines += chunk.count(b"\n")
        self.log.size_bytes += len(chunk)

    def _said(self, line: str) -> KernelLine:
        return parse_line(line, now_epoch_s=self.log.times.now_s, boot_epoch_s=details.BOOT)

    def _line(self, text: str, number: int) -> None:
        text, stamp, node = _journal(text) if text.startswith("{") else (text, None, "")
        minute = _SECONDS.match(text)
        unit = which(text)
        when = int(minute[1]) // 60 if minute else int(stamp.epoch_s) // 60 if stamp else text[:_PREFIX_CHARACTERS]
        burst = (self.log.name, when, unit, template(text))
        if self.events.known(burst):
            return
        if any(service in text for service in _OF_SERVICES):
            self._service(text, number, burst)
            return
        host, said = _HOST.search(text[:200]), self._said(text)
        stamp = stamp or self.log.times.first(text[:_STAMP_CHARACTERS])
        if stamp is None and not isinstance(said.epoch_s, Unknown):
            stamp = Stamp(said.epoch_s, zoned=zone_in(text[:100]) is not None)
        where = Place(node=(host[1] if host else "") or node or self.log.place.node)
        event = kernel_event(said, where, self.log.name, number)
        if event is not None:
            self.log.nodes.add(where.node)
            self.events.add(burst, replace(event, stamp=stamp))

    def _service(self, line: str, number: int, burst: tuple[object, ...]) -> None:
        """A line of a service that starts and ends the parts of a job on this node."""
        found = place.of_line(line)
        hit = find(found.text, Side.USER)
        if hit is None or not hit.signature.id.startswith(_TOLD_BY_SERVICES):
            return
        where = replace(found.named(hit, found.text).or_else(found).or_else(self.log.place), text="", source="")
        self.log.nodes.add(where.node)
        stamp = self.log.times.first(line[:_STAMP_CHARACTERS])
        self.events.add(burst, Event(hit.signature, found.text[:TEXT_SHOWN], self.log.name, number, where, stamp=stamp))


def which(text: str) -> str:
    """The device, code and unit that a line names."""
    found = _WHICH.search(text)
    return found[0] if found else ""


def kernel_event(said: KernelLine, where: Place, log: str, number: int) -> Event | None:
    """The event that a kernel message reports; None if it reports none."""
    hit = find(said.text, Side.KERNEL)
    if hit is None:
        return None
    met, kind = xid_said(said.text), hit.signature
    if met and met.cause is not None:
        kind = kernel_signatures.xid_signature(met.cause)
    elif kind.id.startswith("xid_") and kind.role is Role.PRIMARY:
        nonfatal = met is not None and met.severity == NONFATAL  # of Xid 74 the registers say it
        if nonfatal or any(word in said.text for word in _NOT_FATAL):  # it is not a first error
            kind = replace(kind, role=Role.CONTEXT)
    return Event(kind, said.text[:TEXT_SHOWN], log, number, where, device=hit.device)


def _journal(line: str) -> tuple[str, Stamp | None, str]:
    """Message, time and host of a line of `journalctl -o json`; an invalid time or host is left out."""
    try:
        entry = json.loads(line)
        message, epoch_us = str(entry["MESSAGE"]), int(entry["__REALTIME_TIMESTAMP"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return line, None, ""
    host = str(entry.get("_HOSTNAME", ""))
    stamp = Stamp(epoch_us / 1e6, zoned=True) if 0 <= epoch_us < _LATEST_US else None
    return message, stamp, host if _HOST_NAME.fullmatch(host) else ""


class _JobInHostLog(JobLogReader):
    """Reads the lines that are not the host's. `own` counts them and their bytes."""

    own = (0, 0)

    def feed(self, chunk: bytes) -> None:
        """Read the next chunk, with empty lines for those of the host: so each keeps its number."""
        lines = [b"" if is_host_line(text_of(line[:5000])) else line for line in chunk.split(b"\n")]
        said = [len(line) + 1 for line in lines if line]
        self.own = (self.own[0] + len(said), self.own[1] + sum(said))
        super().feed(b"\n".join(lines))


def read(log: Log, chunks: Iterable[bytes], events: Events, hits: dict[str, Hit | None]) -> list[Log]:
    """Read a host's log; beside it the log of the job that printed into it, from the first line that a job prints."""
    kernel = KernelLogReader(log, events)
    job: _JobInHostLog | None = None
    by_form, before = None, b""
    for chunk in chunks:
        if by_form is None:  # a log that is a kernel's by its name alone has lines without a form
            by_form = most_are_host_lines(text_of(chunk[:_HEAD_BYTES]))
        if job is None and by_form and any(_of_a_job(line.text) for line in scan.interesting(chunk)):
            own = Log(f"{log.name} [job]", False, log.place, times=log.times, part_of=log.name)
            own.lines = log.lines - before.count(b"\n")
            job = _JobInHostLog(own, events, hits)
            job.feed(before)
        kernel.feed(chunk)
        if job:
            job.feed(chunk)
        before = chunk
    if job is None:
        return [log]
    job.end()
    job.log.lines, job.log.size_bytes = job.own
    log.lines, log.size_bytes = log.lines - job.own[0], log.size_bytes - job.own[1]
    return [log, job.log]


def _of_a_job(line: str) -> bool:
    """Whether a job printed this line: it names a rank, or an error that only a job has."""
    if is_host_line(line) or details.of_kernel(line):
        return False
    found = place.of_line(line)
    if found.rank is not None or scan.identifies(line):
        return True
    hit = find(found.text, Side.USER)
    if hit is None or hit.signature.role is Role.CONTEXT:
        return False
    of_a_service = hit.signature.id in _GENERAL and _OF_A_PROGRAM.match(line) and not _RUNS_JOBS.search(line[:200])
    return not of_a_service
