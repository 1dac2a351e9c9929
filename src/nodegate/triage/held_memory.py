"""Who holds the memory of a GPU on which a rank ran out of it: the rank, its job, another, or not known who."""

# ruff: noqa: RUF001 - Chinese punctuation
import re
from dataclasses import dataclass, replace

from nodegate.knowledge.signatures import signature
from nodegate.knowledge.words import Signature, Text
from nodegate.probe.jobs import Whose
from nodegate.triage.events import Event, Names

OUT_OF_MEMORY = "cuda_oom"
_SIZE = r"(?P<size>[0-9.]{1,16} [KMG]iB)"
_OF_OTHERS = re.compile(rf"Process (?P<pid>[0-9]{{1,10}}) has {_SIZE} memory in use")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")
_ALLOCATED = re.compile(rf"allocated memory {_SIZE} is allocated by PyTorch")
_TRIED, _FREE = re.compile(rf"Tried to allocate {_SIZE}"), re.compile(rf"of which {_SIZE} is free")
_UNUSED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_OLD = re.compile(  # PyTorch before 2.1
    r"(?P<used>[0-9.]{1,16} [KMG]iB) already allocated; (?P<free>[0-9.]{1,16} [KMG]iB) free;"
    r" (?P<kept>[0-9.]{1,16} [KMG]iB) reserved in total by PyTorch"
)
_SAVES = re.compile(
    rb'File "[^"\n]{1,300}", line [0-9]{1,7}, in (?!load)(?:\w{0,60}_)?(?:save\w{0,60}|state_dict)\r?\n'
)
_TRACEBACK_BYTES = 1 << 13
_UNITS = {"KiB": 1 / 1024 / 1024, "MiB": 1 / 1024, "GiB": 1.0}
_MOST_GIB = 1 << 20  # PyTorch prints 17179869184.00 GiB where the driver does not know
_CONTEXT_GIB = 1.0  # a rank that only opens another's GPU holds about half of it there: that is the job's own fault


@dataclass(frozen=True)
class Held:
    """What the message of an allocation that failed says, in GiB: of itself, what it lacked, and by process number."""

    own: float
    lacking: float
    others: dict[int, float]


def held(text: str) -> Held | None:
    """Who holds what; None if the message does not say it.

    In a container the rank does not know its own number: it is the process that holds as much as PyTorch allocated.
    """
    own = _gib(_OWN.search(text))
    others = {int(match["pid"]): _gib(match) or 0.0 for match in _OF_OTHERS.finditer(text)}
    allocated = _gib(_ALLOCATED.search(text))
    if own is None and allocated is not None:
        itself = min((pid for pid in others if others[pid] >= allocated), key=lambda pid: others[pid], default=None)
        own = None if itself is None else others.pop(itself)
    return None if own is None or not others else Held(own, _lacking(text), others)


def told(kind_: Signature, text: str, chunk: bytes, at: int) -> Signature:
    """The kind of an allocation that failed, by its message and the traceback before this place of a chunk."""
    if kind_.id != OUT_OF_MEMORY:
        return kind_
    first = chunk.rfind(b"Traceback (most recent", max(0, at - _TRACEBACK_BYTES), at)
    if first >= 0 and _SAVES.search(chunk, first, at):
        return signature("cuda_oom_saving")
    lacking, unused = _lacking(text), _gib(_UNUSED.search(text))
    if old := _OLD.search(text):
        used, free, kept = (_gib_of(old[name]) or 0.0 for name in ("used", "free", "kept"))
        lacking, unused = lacking - free, kept - used
    return signature("cuda_oom_fragmented") if unused and 0 < lacking <= unused else kind_


def kind(event: Event, node: str, names: Names) -> Signature:
    """What the failed allocation comes to, with the process that holds the memory if it may not be the job's."""
    if event.held is None:
        return event.kind
    whose = {pid: names.owners.get((node, pid)) for pid in event.held.others}
    own = {pid for pid, owner in whose.items() if owner and owner.whose is Whose.JOB} | names.pids
    others = {pid: gib for pid, gib in event.held.others.items() if gib >= _CONTEXT_GIB and pid not in own}
    foreign = {pid: gib for pid, gib in others.items() if (owner := whose[pid]) and owner.whose is Whose.FOREIGN}
    if not others:
        return event.kind
    found, gib = "cuda_oom_not_ours", sum(others.values())
    if not foreign and gib < min(event.held.own, event.held.lacking):
        return event.kind
    if not foreign:  # nothing says whose the others are: what the sizes suggest
        found = "cuda_oom_foreign" if gib >= event.held.own else "cuda_oom_beside"
    pid, gib = max((foreign or others).items(), key=lambda each: each[1])
    row = signature(found)
    en, zh = f"process {pid} has {gib:.1f} GiB", f"进程 {pid} 占用 {gib:.1f} GiB"
    return replace(row, meaning=Text(f"{row.meaning.en}: {en}", f"{row.meaning.zh}：{zh}"))


def _lacking(text: str) -> float:
    return (_gib(_TRIED.search(text)) or 0.0) - (_gib(_FREE.search(text)) or 0.0)


def _gib(match: re.Match[str] | None) -> float | None:
    return None if match is None else _gib_of(match["size"])


def _gib_of(said: str) -> float | None:
    number, _, unit = said.partition(" ")
    size = float(number) * _UNITS[unit] if number.replace(".", "", 1).isdigit() else _MOST_GIB
    return size if size < _MOST_GIB else None
