"""A node's state in Slurm, and how it is changed: scontrol, with a time limit on each call.

Only `hook/guard.py` changes it.
"""

import datetime as dt
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nodegate.scheduler.programs import NoAnswer, answer

LIMIT_S = 5.0
OURS = "nodegate:"  # how nodegate's reasons begin

_DRAIN = frozenset({"DRAIN", "DRAINED", "DRAINING"})
# Down, failed, or changing its power state or rebooting: someone else handles it.
_NOT_IN_SERVICE = re.compile(r"DOWN|FAIL|ERROR|FUTURE|POWER|REBOOT_ISSUED|UNKNOWN")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # not a hostlist: that would be many nodes
_SIGNED = re.compile(r" \[[^\[\]]*@([^\[\]]*)\]$")  # " [root@2026-11-21T17:10:00]"
TIME = {"TZ": "UTC0", "SLURM_TIME_FORMAT": "standard"}  # how scontrol writes that
_LONGEST = 120
_NEUTRAL = str.maketrans("[]{};", "()(),", "\"'°")  # Slurm signs a reason with " [root@time]"
_UNWANTED = re.compile(r"[^A-Za-z0-9 ._:/()+,%@-]")


@dataclass(frozen=True)
class Node:
    """A node as Slurm sees it. `reason_epoch_s` is the reason's time by the controller's clock; None if unknown."""

    states: frozenset[str]
    reason: str
    name: str = ""
    partitions: tuple[str, ...] = ()
    reason_epoch_s: float | None = None
    extra: str = ""

    @property
    def is_drained(self) -> bool:
        """Gets no new jobs."""
        return bool(self.states & _DRAIN)

    @property
    def is_ours(self) -> bool:
        """The reason is from nodegate."""
        return self.reason.startswith(OURS)

    @property
    def not_in_service(self) -> str:
        """The state in which someone else handles it; empty for none."""
        return next((state for state in sorted(self.states) if _NOT_IN_SERVICE.search(state)), "")


def node(name: str) -> Node:
    """The state of a node in Slurm. Raises NoAnswer: Slurm did not answer."""
    return parse(_scontrol("show", "node", _checked(name)))


def nodes() -> list[Node]:
    """The state of all nodes of the cluster: about 1.5 MB for 1,250 of them. Raises NoAnswer: Slurm did not answer."""
    blocks = re.split(r"^(?=NodeName=)", _scontrol("--all", "show", "node"), flags=re.MULTILINE)
    return [parse(block) for block in blocks if block.startswith("NodeName=")]


def one(seen: Iterable[Node], name: str) -> Node:
    """The node of this name. Raises NoAnswer: Slurm does not list it."""
    found = next((each for each in seen if each.name == name), None)
    if found is None:
        raise NoAnswer(f"Slurm lists no node {name[:40]!r}")
    return found


def parse(text: str) -> Node:
    """The state in the output of `scontrol show node NAME`. Raises NoAnswer: it has no state."""
    lines = [line.strip() for line in text.splitlines()]
    states = _field(lines, "State").partition(" ")[0]
    if not states:
        raise NoAnswer("scontrol show node printed no state")
    name, partitions = (_field(lines, key).partition(" ")[0] for key in ("NodeName", "Partitions"))
    reason, extra = _field(lines, "Reason"), _field(lines, "Extra")
    signed = _SIGNED.search(reason)
    return Node(
        frozenset(re.findall(r"[A-Z_]+", states)),
        _SIGNED.sub("", reason),
        name,
        tuple(partitions.split(",")) if partitions else (),
        epoch_s(signed[1]) if signed else None,
        "" if extra == "(null)" else extra,
    )


def _field(lines: Sequence[str], key: str) -> str:
    """What the first line that begins with this key says; the fields that are read each begin a line."""
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{key}=")), "")


def epoch_s(written: str) -> float | None:
    """A time as Slurm writes it with `TIME`, in seconds since the epoch; None if it is none ("Unknown")."""
    try:
        return dt.datetime.fromisoformat(written).replace(tzinfo=dt.timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None


def job_name(job: str) -> str:
    """The name of a job, which its user chose. Raises NoAnswer: Slurm did not, or has no such job."""
    if not job.isdecimal():
        raise NoAnswer("the number of the job is not known")
    found = re.search(r"\bJobName=(\S+)", _scontrol("show", "job", job))
    return found[1] if found else ""


def drain(name: str, reason: str) -> None:
    """Drain the node: its jobs end, and no new ones start. Raises NoAnswer: Slurm did not."""
    _scontrol("update", f"nodename={_checked(name)}", "state=drain", f"reason={reason}")


def undrain(name: str, extra: str = "") -> None:
    """Resume the node; `extra` is what its field Extra then says. Raises NoAnswer: Slurm did not."""
    _scontrol("update", f"nodename={_checked(name)}", "state=undrain", *([f"extra={extra}"] if extra else []))


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise NoAnswer(f"{name[:40]!r} is not a valid node name")
    return name


def _scontrol(*arguments: str) -> str:
    return answer("scontrol", *arguments, limit_s=LIMIT_S, environ={**os.environ, **TIME}, where="on this node")


def reason(line: str) -> str:
    """The reason for Slurm, from an answer's line; `sinfo -R` shows the first 20 characters, so the part is first."""
    flat = _UNWANTED.sub("?", " ".join(line.removeprefix("unfit: ").split()).translate(_NEUTRAL))
    return f"{OURS} {flat if len(flat) <= _LONGEST else flat[: _LONGEST - 3] + '...'}"
