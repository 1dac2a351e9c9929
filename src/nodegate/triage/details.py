"""What a line says in addition to its kind: how long which collective ran, who is blamed, who is where."""

import re
from collections.abc import Callable, Iterable

from nodegate.knowledge.kernel_signatures import Hit
from nodegate.knowledge.signatures import find
from nodegate.knowledge.words import Role, Side
from nodegate.probe.kernel_log import parse_line
from nodegate.triage.clock import Stamp, Times
from nodegate.triage.events import MOST_COLLECTIVES, MOST_NAMES, TEXT_SHOWN, Collective, Event, Events, Reached
from nodegate.triage.place import Place
from nodegate.triage.secrets import without_secrets
from nodegate.unknown import Unknown, Why

_BEFORE, _AFTER, _AROUND_BYTES = 5, 2, 1 << 13
BOOT = Unknown(Why.MISSING, "the log does not say when the machine booted")
# [E810 15:36:05.9 ProcessGroupNCCL.cpp:1899] [PG ... Rank 1]
_LABELS = re.compile(r"(?:\[[^\]\n]{0,100}\] {0,3}){1,4}")
_ONLY_WARNS = re.compile(
    r"^(?:[\w.-]{1,60}: {1,2})?[Ww]arning: |\((?:ignored|ignoring)\)\s{0,4}$"
    r"|client socket has failed to connect to \[[^\]\n]{1,120}\]:[0-9]{1,6} \(errno"  # the rendezvous goes on trying
)
_TRIED_AGAIN = re.compile(r"\battempt {1,2}[0-9]{1,3}(?: ?/ ?| of )[0-9]{1,3}\b.{0,60}\bretry(?:ing)?\b", re.IGNORECASE)
_RAN = re.compile(r"\) ran for ([0-9]{1,12}) milliseconds")
_LIMIT = re.compile(r"collective operation timeout[^\n]{0,200}?Timeout\(ms\)=([0-9]{1,12})\)")
_WORK = re.compile(
    r"WorkNCCL\(SeqNum=([0-9]{1,12}), OpType(?:=|::)(\w{1,40})((?:, \w{1,20}=[0-9\[\] ,]{1,200}?)*?)(?:, Timeout|\))"
)
_NUMEL = re.compile(r"Numel(In|ln|Out)=([0-9]{1,20})")
_GROUP = re.compile(
    r"\[PG (?:ID ([0-9]{1,6}) PG GUID ([0-9]{1,6}(?:\([^)\]\n]{0,60}\))?)|([^\]\n]{1,60}?)) ?Rank ([0-9]{1,7})\]"
)
_REACHED = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (-?[0-9]{1,12}), last completed (?:NCCL )?work: (-?[0-9]{1,12})"
)
_PEER = re.compile(
    r"(?:from|remote|by remote) peer <?([^\s<>,]{1,100}?)(?::[0-9]{1,6}>|[\s<,]|$)"
    r"|(?:[Cc]onnect(?:ion)? to|Call to \w{2,20} (?:from|to)) ([^\s<,]{1,100})<[0-9]{1,6}>"
    r"|client socket has [^\n]{1,100}?\(\[?([\w.:-]{1,120}?)\]?, ?[0-9]{1,6}\)"
    r"|gloo/transport/[^\n]{1,200}? \[([\w.:-]{1,100})\]:[0-9]{1,6}"
    r"|time-?out from {1,4}(rank {1,4}[0-9]{1,7})\b|^(Rank [0-9]{1,5}) scheduler is dead"
)
_PORT = re.compile(r"^((?:[0-9]{1,3}\.){3}[0-9]{1,3}):[0-9]{1,6}$")
LAST_ERROR = " ... Last error: "  # before what NCCL says was the reason
_PID = re.compile(r"[\w.-]{1,100}:([0-9]{1,10}):[0-9]{1,10} \[[0-9]{1,3}\] NCCL ")
_COMM = re.compile(
    r" rank ([0-9]{1,7}) n[Rr]anks ([0-9]{1,7}) cudaDev ([0-9]{1,3})(?: nvmlDev ([0-9]{1,3}))?"
    r" busId ([0-9a-fA-F]{1,16})\b"
)
_START = re.compile(r" comm (0x[0-9a-fA-F]{1,16}) rank ([0-9]{1,7}) n[Rr]anks [^\n]{1,200}? - Init (START|COMPLETE)")
_OWN_ADDRESS = re.compile(r"Bootstrap ?: Using (?:\[[0-9]{1,3}\])?[\w.-]{1,32}:([0-9a-fA-F.:]{3,45})<[0-9]{1,6}>")
# What Python ignores (of destructors, at exit), and notes of XLA, look like errors.
_ALSO_IGNORED = frozenset(("python_error", "unknown_error", "error_line"))
# XLA and JAX at their level I: "2026-05-02 03:14:41.1: I xla/a.cc:7]", "I0000 00:00:17.1 42 a.cc:7]"
_INFORMS = re.compile(rb"(?:^|[\s:])I(?:[0-9]{4} [0-9:.]{8,30} {1,4}[0-9]{1,10})? [\w./-]{1,160}\.cc:[0-9]{1,6}\]")
_LOOK_BACK_BYTES = 8192  # a traceback of some 60 frames
_OF_TRACEBACK = (" ", "\t", "Traceback (most recent call last)")
# What `kubectl describe` and Ray say around a line.
_DESCRIBED_BYTES = 1 << 15  # the description of a pod with many containers and volumes
_BELOW_BYTES = 2000
_OBJECT = re.compile(r"^Name: {1,40}(?P<name>[\w.-]{1,253})[ \t\r]{0,8}\n(?P<kind>Namespace|Roles): ", re.MULTILINE)
_OF_NODE = re.compile(r"^Node: {1,40}(?P<node>[A-Za-z0-9][\w.-]{0,253})/", re.MULTILINE)
_RAY_IP = re.compile(r"^\s{1,8}ip: (?P<node>[0-9a-fA-F.:]{3,45})\s{0,4}$", re.MULTILINE)  # of a lost actor
_RAY_CHARACTERS = 600
_FINISHED = re.compile(
    r"(?:\r?\n {2,20}(?:Exit Code|Message|Signal|Started):[^\n]{0,400}){0,5}\r?\n {2,20}Finished: ([^\n]{1,80})"
)


def ran_s(text: str) -> float:
    """How long the collective of a time-out had run, in seconds: at least its limit; 0 if the line does not say."""
    match = _RAN.search(text) or _LIMIT.search(text)
    return int(match[1]) / 1000 if match else 0.0


def peer(text: str) -> str:
    """Whom the line blames: a host name, an address, or `rank N`; "" if it names no one."""
    match = _PEER.search(text)
    named = next(filter(None, match.groups()), "") if match else ""
    if named[:5].lower() == "rank ":
        return " ".join(named.lower().split())
    return _PORT.sub(r"\1", named.removeprefix("::ffff:"))


def read_collective(text: str, place: Place, events: Events) -> None:
    """Keep what a time-out says about its collective and about how far the rank got."""
    named = _GROUP.search(text)
    group = (named[2] or named[3] or "").strip() if named else ""
    if (match := _WORK.search(text)) and len(events.collectives) < MOST_COLLECTIVES:
        sizes = dict(_NUMEL.findall(match[3]))
        numel = sizes.get("In") or sizes.get("ln", ""), sizes.get("Out", "")
        events.collectives.append(Collective(place.rank, group, int(match[1]), match[2], *numel))
    if (match := _REACHED.search(text)) and len(events.reached) < MOST_COLLECTIVES:
        events.reached.append(Reached(place.rank, group, int(match[1])))


def read_identity(text: str, place: Place, events: Events, line: str) -> None:
    """Keep what NCCL says about a rank when a communicator starts: its node, GPU, address and, in `line`, process."""
    names = events.names
    if (match := _PID.search(line)) and len(names.pids) < MOST_NAMES:
        names.pids.add(int(match[1]))
    if (match := _OWN_ADDRESS.search(text)) and place.node:
        names.node_of_address.setdefault(match[1], place.node)
    if match := _COMM.search(text):
        world = int(match[2])
        if place.rank is None and world >= names.world:  # the largest communicator has the ranks of the job
            place = place.or_else(type(place)(rank=int(match[1])))
        if world > names.world:  # ranks of smaller ones are numbered within their group
            names.rank_at.clear()
        names.world = max(names.world, world)
        if place.node and place.rank is not None:
            names.rank_at.setdefault((place.node, pci_address(match[5])), place.rank)
        if started := _START.search(text):
            key = (started[1], int(started[2]), world)
            names.starts[key] = names.starts.get(key, False) or started[3] == "COMPLETE"
        if place.node:
            names.gpu_at.setdefault((place.node, pci_address(match[5])), int(match[4] or match[3]))
    names.learn(place)


def pci_address(bus_id: str) -> str:
    """NCCL's busId ("9b000", "1000009b000") as sysfs writes it: 0000:9b:00.0."""
    number = int(bus_id, 16)
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}.{number & 0xF:x}"


def tried_again(event: Event) -> bool:
    """Whether this failed attempt says that it is tried again, and no further attempt of it failed.

    The attempts of one place count as one event: a second failure would have raised its `count`.
    """
    return event.count == 1 and bool(_TRIED_AGAIN.search(event.text))


def only_warns(event: Event) -> bool:
    """Whether the line calls itself a warning, ignored or one attempt of several: programs go on after it."""
    return bool(_ONLY_WARNS.search(event.text))


def of_kernel(line: str) -> Hit | None:
    """What a line of a kernel is, in the log of a job."""
    hit = find(parse_line(line, now_epoch_s=0.0, boot_epoch_s=BOOT).text, Side.KERNEL)
    return None if hit is None or hit.signature.role is Role.CONTEXT else hit


def last_error(texts: Iterable[str]) -> str:
    """The line below "Last error:" in the lines after an error of NCCL, as it is added to it; "" without one."""
    lines = iter(texts)
    below = any(text.rstrip().endswith("Last error:") for text in lines)
    said = next(lines, "").strip() if below else ""
    return LAST_ERROR + said if said else ""


def around(chunk: bytes, start: int, end: int, number: int) -> tuple[tuple[int, str], ...]:
    """The lines before and after the one with this number, which is between two places of a chunk."""
    before = chunk[max(0, start - _AROUND_BYTES) : start].split(b"\n")[:-1][-_BEFORE:]
    after = chunk[end : end + _AROUND_BYTES].split(b"\n")[1 : 1 + _AFTER]
    lines = [*enumerate(before, number - len(before)), *enumerate(after, number + 1)]
    texts = ((at, line[line[:-1].rfind(b"\r") + 1 :].decode("utf-8", "replace")) for at, line in lines)
    return tuple((at, without_secrets(" ".join(text.split()))[:TEXT_SHOWN]) for at, text in texts if text.strip())


def shown(text: str) -> str:
    """The text on one line, without the labels that repeat what the answer says."""
    labels = _LABELS.match(text)
    return without_secrets(" ".join(text[labels.end() if labels else 0 :].split()))[:TEXT_SHOWN]


def is_ignored(hit: Hit, chunk: bytes, start: int, place: Callable[[str], Place]) -> bool:
    """Whether this line of the chunk is a note of XLA, or the end of a traceback under "Exception ignored in"."""
    if _INFORMS.search(chunk[start : start + 300].partition(b"\n")[0]):
        return True
    before = chunk[max(0, start - _LOOK_BACK_BYTES) : start]
    if hit.signature.id not in _ALSO_IGNORED or b"Exception ignored " not in before:
        return False
    texts = (place(line).text for line in reversed(before.decode("utf-8", "replace").splitlines()))
    above = next((text for text in texts if text and not text.startswith(_OF_TRACEBACK)), "")
    return above.startswith("Exception ignored ")


def described(chunk: bytes, start: int, end: int, times: Times) -> tuple[Place, Stamp | None]:
    """Whose description the line is in, and when its container ended; an empty place and None where in none."""
    above = chunk[max(0, start - _DESCRIBED_BYTES) : start].decode("utf-8", "replace")
    below = chunk[end : end + _BELOW_BYTES].decode("utf-8", "replace")
    finished = _FINISHED.match(below)
    when = times.first(finished[1]) if finished else None
    found = next(reversed(list(_OBJECT.finditer(above))), None)  # the pod or node that was described last
    if found and found["kind"] == "Roles":
        return Place(node=found["name"]), when
    node = _OF_NODE.search(above, found.end()) if found else _RAY_IP.search(above[-_RAY_CHARACTERS:])
    return Place(pod=found["name"] if found else "", node=node["node"] if node else ""), when
