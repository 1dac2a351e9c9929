"""The rank of an error whose line names none: the one that the launcher saw end first on that node."""

from collections.abc import Iterable
from dataclasses import replace

from nodegate.knowledge.words import Side
from nodegate.triage.events import Event
from nodegate.triage.place import Place, same_node

_SEVERAL = ": tasks "
_LATER_S = 120.0  # a launcher notices within seconds, and prints its report when it has ended all workers


def completed(where: Place, error: Event | None, events: Iterable[Event]) -> Place:
    """The place of an error, with the rank that a launcher saw end there.

    A launcher reports the first worker that failed on its node, so one report there is of who printed the error.
    Where it names several ranks, or the error is not a process's own, the rank stays unknown.
    """
    if error is None or where.rank is not None or error.kind.side is Side.KERNEL:
        return where
    if (error.place.node, error.place.pod) != (where.node, where.pod):
        return where  # another one is blamed than who printed it
    ended = [each.place for each in events if _names_a_rank(each) and _is_of(each, where, error)]
    if len({place.rank for place in ended}) != 1:
        return where
    first = ended[0]
    gpu = first.gpu if where.gpu is None else where.gpu
    node, pod = where.node or first.node, where.pod or first.pod
    return replace(first, node=node, pod=pod, gpu=gpu, source=where.source, text="")


def _names_a_rank(report: Event) -> bool:
    """Whether this is a launcher's report of the end of one rank; Slurm ends the others of a job (Terminated)."""
    if report.place.rank is None or _SEVERAL in report.text or "Terminated" in report.text:
        return False
    return report.kind.id.startswith("exit_") or report.kind.id in ("slurm_task", "slurm_oom")


def _is_of(report: Event, where: Place, error: Event) -> bool:
    """Whether this report is of a worker of that node, and was printed soon after the error."""
    if not where.node and not where.pod:
        return report.log == error.log and not error.place.source
    if not same_node(report.place.node, where.node) and (not where.pod or report.place.pod != where.pod):
        return False
    if report.printed_s is None or error.late_s is None or error.early_s is None:
        return True
    return error.early_s - 1 <= report.printed_s <= error.late_s + _LATER_S
