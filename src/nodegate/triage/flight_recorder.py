"""The dump of PyTorch's flight recorder: the collectives that a rank enqueued last, and which of them ended.

Format: torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp, dumps of version 1.0 to 2.10: a
pickle that torch/csrc/jit/serialization/pickler.cpp writes, or JSON. The name of the file ends in the rank.
A pickle is a program. Only the opcodes that build numbers, texts, lists and dictionaries are let through to Python's
unpickler, which then knows no class either.
"""

import io
import json
import pickle
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nodegate.triage import place, remarks
from nodegate.triage.events import Events
from nodegate.triage.log import Log

_MOST_BYTES = 32 << 20  # 90,000 collectives; PyTorch keeps 2,000
_MOST_CONTAINERS = 2_000_000
_MOST_KEPT = 16  # steps of a group that ended
_MOST_STEPS = 2000
_MOST_RANKS = 1 << 20  # characters
_DISCOVERED = ("discovered_started", "discovered_completed")
_MOST_NAME = 100
_HEAD_BYTES = 4096
_LONG = b"|".join(b"\\x%02x.{%d}" % (size, size) for size in range(9))
_OPCODES = re.compile(
    rb"(?:[}\](ueast)N\x88\x89\x85-\x87\x94]|[qhK].|M..|J.{4}|G.{8}|\x95.{8}|[rj]..[\0-\x0f]\0|\x8a(?:" + _LONG + rb"))"
    rb"{1,4096}",
    re.DOTALL,
)
_CONTAINERS = b"]})(t\x85\x86\x87[{"
_TEXTS = {0x58: 4, 0x8C: 1}  # opcodes of texts, with the bytes of their length
_KEYS = re.compile(rb"entries|version|pg_config|pg_status|comm_lib_version|nccl_version")
_JSON_KEYS = re.compile(rb'"(?:collective_seq_id|pg_config|pg_status)"\s{0,2}:')
_RANK = re.compile(r"([0-9]{1,7})(?:\.[a-z]{1,6}){0,3}$")
_NAMES_FAILURE = re.compile(r"[nxhr]ccl:")  # of these a step that is put away without its end was given up
_PEER = re.compile(r"(?:send ([0-9]{1,7})->([0-9]{1,7})|recv ([0-9]{1,7})<-([0-9]{1,7}))")
_DAMAGED = (
    *(pickle.UnpicklingError, ValueError, TypeError, LookupError),
    *(AttributeError, EOFError, RecursionError, OverflowError),
)


class Group(NamedTuple):
    """A process group. `ranks` are its members, none if the dump does not name them; `key` is the same on each rank."""

    key: str
    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A collective, or what was enqueued as one."""

    group: Group
    sequence: int
    operation: str
    sizes: str  # of its inputs and outputs
    ended: bool  # the GPU is done with it
    started: bool  # the GPU came to it
    peers: tuple[int, ...] | None  # the ranks that it is exchanged with, of sends and recvs
    created_s: float


@dataclass(frozen=True)
class Dump:
    """What one rank enqueued, in its order: the last steps of each group, and those that did not end."""

    rank: int
    log: str
    groups: tuple[Group, ...]
    steps: tuple[Step, ...]
    reached: Mapping[str, int]  # the last collective by the key of its group, where the dump says that
    newest_s: float


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> None:
        raise pickle.UnpicklingError(f"{module}.{name} is not looked up")


def is_dump(head: bytes) -> bool:
    """Whether a file that begins with this is a dump of a flight recorder."""
    if head[:1] == b"\x80":
        return bool(_KEYS.search(head[:120]))
    return head.lstrip()[:1] == b"{" and bool(_KEYS.search(head[:120]) and _JSON_KEYS.search(head[:_HEAD_BYTES]))


def read(log: Log, parts: Iterable[bytes], events: Events) -> None:
    """Read a dump into `events`."""
    log.dump = True
    data = b""
    for part in parts:
        data += part
        if len(data) > _MOST_BYTES:
            log.remarks.lose(remarks.DUMP_TOO_LARGE)
            return
    log.size_bytes = len(data)
    rank, where = _RANK.search(log.name), place.of_path(log.name)
    why = remarks.DUMP_DAMAGED
    with suppress(*_DAMAGED):
        found = _of(_loaded(data), int(rank[1]) if rank else where.rank, log.name)
        why = remarks.DUMP_WITHOUT_RANK
    if why is remarks.DUMP_DAMAGED or found is None:
        log.remarks.lose(why)
        return
    log.place = place.Place(rank=found.rank, node=where.node).or_else(log.place)
    events.names.learn(log.place)
    events.add_dump(found)


def _loaded(data: bytes) -> object:
    """What the dump holds.

    Refused is a pickle with an opcode that builds anything but data, or with a memo larger than its own size allows.

    Raises:
        _DAMAGED: it is damaged, too large, or not what PyTorch writes.
    """
    if len(data) - len(data.translate(None, _CONTAINERS)) > _MOST_CONTAINERS:
        raise ValueError("too many lists")
    if data[:1] != b"\x80":
        return json.loads(data)
    at = 2
    while data[at] != ord("."):
        if run := _OPCODES.match(data, at):
            at = run.end()
            continue
        width = _TEXTS[data[at]]
        at += 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "little")
    return _Unpickler(io.BytesIO(data)).load()


def _of(found: object, rank: int | None, log: str) -> Dump | None:
    """The dump of a rank; None if nothing says which it is."""
    if not isinstance(found, dict):
        raise TypeError("not a dictionary")
    own = _number(found, "rank", -1 if rank is None else rank)
    if own < 0:
        return None
    groups = {}
    for uid, row in dict(found.get("pg_config") or {}).items():
        held = row if isinstance(row, dict) else {}
        ranks = held.get("ranks", "")
        named = re.findall(r"[0-9]{1,7}", ranks[:_MOST_RANKS]) if isinstance(ranks, str) else ranks
        groups[str(uid)] = _named(str(uid), str(held.get("desc", "")), tuple(sorted(int(rank) for rank in named)))
    entries = [entry for entry in list(found.get("entries") or ()) if isinstance(entry, dict)]
    reading = _Reading(groups, dict(found.get("pg_status") or {}))
    for entry in reversed(entries):
        reading.add(entry)
    if entries and entries[0].get("record_id") == 0:  # nothing was overwritten
        for group in groups.values():
            reading.reached.setdefault(group.key, 0)
    return Dump(own, log, tuple(reading.groups.values()), reading.kept(), reading.reached, reading.newest_s)


def _named(uid: str, said: str, ranks: tuple[int, ...]) -> Group:
    name = said if said not in ("", "undefined") else uid
    return Group(f"{uid} {hash(ranks):x}", name[:_MOST_NAME], ranks)


@dataclass
class _Reading:
    """The steps of a dump while its entries are read, the newest first."""

    groups: dict[str, Group]
    status: Mapping[object, object]
    steps: dict[tuple[str, bool, int], list[Step]] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    newest_s: float = 0.0
    ended: dict[tuple[str, bool], int] = field(default_factory=dict)  # how many of a group
    left_out: set[tuple[str, bool, int]] = field(default_factory=set)

    def add(self, entry: Mapping[str, object]) -> None:
        """Keep an entry of the dump, unless as many later ones of its group ended."""
        said = entry.get("process_group", entry.get("pg_id", ""))
        uid, name = (said[0], said[1]) if isinstance(said, (list, tuple)) and len(said) == 2 else (said, "")
        group = self.groups.get(str(uid)) or self.groups.setdefault(str(uid), _named(str(uid), str(name), ()))
        of_pair = entry.get("is_p2p") is True
        number = _number(entry, "p2p_seq_id" if of_pair else "collective_seq_id", _number(entry, "seq_id", 0))
        operation = str(entry.get("profiling_name", ""))[:_MOST_NAME]
        put_away = entry.get("retired") is True and not _NAMES_FAILURE.match(operation)
        ended = put_away or entry.get("state") == "completed"
        key = (group.key, of_pair, number)
        if key not in self.steps:
            self.ended[key[:2]] = self.ended.get(key[:2], 0) + ended
            if ended and self.ended[key[:2]] > _MOST_KEPT:
                self.left_out.add(key)
        if not of_pair:
            row = self.status.get(str(entry.get("pg_id")))
            enqueued = _number(row, "last_enqueued_collective", 0) if isinstance(row, dict) else 0
            self.reached[group.key] = max(number, self.reached.get(group.key, enqueued))
        if key not in self.left_out:
            times = [_number(entry, f"time_{what}_ns", 0) / 1e9 for what in ("created", *_DISCOVERED)]
            self.newest_s = max(self.newest_s, *times)
            sizes, started = f"{_sizes(entry, 'input')} -> {_sizes(entry, 'output')}", entry.get("state") == "started"
            peers = _peers(operation, group) if of_pair else None
            step = Step(group, number, operation, sizes, ended, started, peers, times[0])
            self.steps.setdefault(key, []).append(step)

    def kept(self) -> tuple[Step, ...]:
        """The steps in the order in which they were enqueued."""
        return tuple(_together(alike[::-1]) for alike in reversed(self.steps.values()))[:_MOST_STEPS]


def _together(alike: list[Step]) -> Step:
    """Operations that were enqueued as one: only the last of them, `coalesced`, has their end."""
    first, last = alike[0], alike[-1]
    if len(alike) == 1:
        return first
    peers = None if first.peers is None else tuple(sorted({peer for step in alike for peer in step.peers or ()}))
    return replace(
        first,
        operation=" + ".join(dict.fromkeys(step.operation for step in alike[:-1]))[:_MOST_NAME],
        sizes="; ".join(step.sizes for step in alike[:-1])[: 3 * _MOST_NAME],
        ended=last.ended,
        started=last.started,
        peers=peers,
    )


def _peers(operation: str, group: Group) -> tuple[int, ...]:
    """The ranks of the job that a send goes to or a recv comes from; PyTorch numbers them within the group."""
    match = _PEER.search(operation)
    peer = int(match[2] or match[4]) if match else -1
    return group.ranks[peer : peer + 1] if group.ranks and match else (peer,) if match else ()


def _sizes(entry: Mapping[str, object], side: str) -> str:
    """[[8, 4096]] [bfloat16], as the dump has them."""
    sizes, types = entry.get(f"{side}_sizes") or [], entry.get(f"{side}_dtypes") or []
    if not isinstance(sizes, list) or not isinstance(types, list):
        return "?"
    shapes = ", ".join(str(list(size)) for size in sizes[:3] if isinstance(size, (list, tuple)) and len(size) < 10)
    more = ", ..." if len(sizes) > 3 else ""
    return f"{shapes}{more} {'/'.join(dict.fromkeys(str(each)[:20] for each in types[:3]))}".strip()[:_MOST_NAME]


def _number(entry: Mapping[str, object], key: str, other: int) -> int:
    """A number of the dump, in 64 bits; in the JSON form some are texts."""
    value = entry.get(key)
    with suppress(ValueError):
        found = int(value) if isinstance(value, (int, str)) else other
        return found if abs(found) < 1 << 63 else other
    return other
