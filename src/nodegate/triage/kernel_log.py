"""Kernel logs among the inputs: recognised, read line by line, bursts folded by the minute."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from nodegate.kernel_log.unknown_errors import speaker
from nodegate.knowledge import kernel_signatures
from nodegate.knowledge.required import shortest
from nodegate.knowledge.signature import Hit
from nodegate.knowledge.signatures import find, literals
from nodegate.knowledge.words import Role, Side
from nodegate.knowledge.xid_lines import NONFATAL, GpuEvent, address_of, xid_said
from nodegate.probe.kernel_log import KernelLine, parse_line
from nodegate.triage import details, place, scan
from nodegate.triage.clock import Stamp, zone_in
from nodegate.triage.events import TEXT_SHOWN, Event, Events, template
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


def looks_like(head: str, name: str) -> bool:
    """Whether this is a kernel log: by its name, or because most of its first lines look like kernel messages."""
    if _KERNEL_NAME.search(name.rsplit("/", 1)[-1]):
        return True
    return most_are_host_lines(head)


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

    def read(self, chunks: Iterable[bytes]) -> None:
        """Read the whole log."""
        for chunk in chunks:
            self.feed(chunk)

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
        self._strange(chunk)
        self.log.lines += chunk.count(b"\n")
        self.log.size_bytes += len(chunk)

    def _strange(self, chunk: bytes) -> None:
        """Keep what sounds like an error and has no row: it is reported where nothing else is sure."""
        for line in scan.lines_at(chunk, [match.start() for match in _SOUNDS_BAD.finditer(chunk)]):
            if len(self.log.strange) >= _MOST_STRANGE:
                return
            said = parse_line(line.text, now_epoch_s=self.log.times.now_s, boot_epoch_s=details.BOOT)
            if speaker(said.text) or not _BOOTING.match(line.text):
                self.log.strange.append(said)

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
        host = _HOST.search(text[:200])
        said = parse_line(text, now_epoch_s=self.log.times.now_s, boot_epoch_s=details.BOOT)
        if stamp is None:
            stamp = self.log.times.first(text[:_STAMP_CHARACTERS])
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
        self.events.add(
            burst,
            Event(
                hit.signature,
                found.text[:TEXT_SHOWN],
                self.log.name,
                number,
                where,
                stamp=self.log.times.first(line[:_STAMP_CHARACTERS]),
            ),
        )


def which(text: str) -> str:
    """The device, code and unit that a line names."""
    found = _WHICH.search(text)
    return found[0] if found else ""


def kernel_event(said: KernelLine, where: Place, log: str, number: int) -> Event | None:
    """The event that a kernel message reports; None if it reports none."""
    hit = find(said.text, Side.KERNEL)
    if hit is None:
        return None
    met = xid_said(said.text)
    kind = replace(hit.signature, role=_role(hit, said.text, met))
    if met and met.cause is not None:
        kind = kernel_signatures.xid_signature(met.cause)
    return Event(
        kind,
        said.text[:TEXT_SHOWN],
        log,
        number,
        where,
        device=address_of(hit.match) if hit.group("address") else hit.device,
    )


def _role(hit: Hit, text: str, met: GpuEvent | None) -> Role:
    """The role of this line: an Xid that says Nonfatal is not a first error."""
    an_xid = hit.signature.id.startswith("xid_") and hit.signature.role is Role.PRIMARY
    nonfatal = met is not None and met.severity == NONFATAL  # of Xid 74 the registers say it
    return Role.CONTEXT if an_xid and (nonfatal or any(word in text for word in _NOT_FATAL)) else hit.signature.role


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
