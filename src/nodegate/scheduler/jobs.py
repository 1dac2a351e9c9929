"""A running job of Slurm, and Slurm's names of nodes. Written for Slurm 22.05 and later: squeue(1)."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from nodegate.errors import UsageError
from nodegate.inventory.hostlist import expand
from nodegate.node import Node
from nodegate.scheduler.programs import NoAnswer, answer

LIMIT_S = 30.0
_ID = re.compile(r"([0-9]{1,12}(?:[_+][0-9]{1,9})?)(?:\.[0-9a-z]{1,10})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}", re.ASCII)


@dataclass(frozen=True)
class Job:
    """A job as it was asked for, the numbers that its processes know it by (of an array several), and its nodes."""

    id: str
    numbers: tuple[str, ...]
    nodes: tuple[str, ...]


def job_of(written: str) -> Job:
    """The nodes on which a job (12, 12_3 of an array, 12+1 of several) or its step (12.0) runs now.

    Raises:
        UsageError: Slurm did not answer, does not know it, or it runs nowhere.
    """
    if (match := _ID.fullmatch(written)) is None:
        raise UsageError(f"--job {written}: not the number of a job")
    try:
        printed = answer("squeue", "-h", "-j", match[1], "-o", "%A|%T|%N", limit_s=LIMIT_S)
    except NoAnswer as said:
        raise UsageError(f"--job {written}: {said}", hint="is it over? name its nodes with --nodes") from None
    rows = [row for line in printed.splitlines() if len(row := [each.strip() for each in line.split("|")]) == 3]
    nodes = dict.fromkeys(name for _, _, names in rows if names != "(null)" for name in expand(names))
    if not nodes:
        states = ", ".join(sorted({state for _, state, _ in rows})) or "not known to squeue"
        raise UsageError(f"--job {written}: it runs on no node; its state is {states}")
    return Job(match[1], tuple(dict.fromkeys(number for number, _, _ in rows)), tuple(nodes))


def by_slurm_name(nodes: Iterable[Node]) -> dict[str, str]:
    """The inventory's name of each node by Slurm's, of those that have one which no other of them has."""
    named = [(slurm_name(node), node.name) for node in nodes]
    bearers = Counter(name for name, _ in named)
    return {name: node for name, node in named if name and bearers[name] == 1}


def slurm_name(node: Node) -> str:
    """What Slurm calls a node: nodegate_slurm_name, else its name before the first dot; empty for an address."""
    short = node.name.partition(".")[0]
    found = node.settings.slurm_name or ("" if short.isdecimal() else short)
    return found if _NAME.fullmatch(found) else ""
