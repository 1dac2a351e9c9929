"""The rules applied to what was seen: one class, the guilty parts, and what was not looked at."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nodegate.job import gone, hosts, slow
from nodegate.job.finding import Class, Finding, Place
from nodegate.job.look import PROFILING, Look, trailing
from nodegate.job.parts import short
from nodegate.job.seen import Seen
from nodegate.job.tables import moment, say
from nodegate.knowledge.words import Text

WRONG = tuple(each for each in Class if each not in (Class.HEALTHY, Class.CANNOT_TELL))
_STOPPED = frozenset({Class.HANG, Class.RANK_GONE, Class.WORKER_LOST})  # the job does not go on
_FOLLOWS = {
    Class.COMMUNICATION: frozenset(WRONG) - {Class.COMMUNICATION, Class.INPUT, Class.MEMORY},
    Class.INPUT: _STOPPED,
    # Who waits for one that works more is at 100 % of use, by its busy-wait: low use is not of imbalance.
    Class.IMBALANCE: frozenset({Class.INPUT}),
}  # what says nothing of its own beside these


@dataclass(frozen=True)
class Answer:
    """What is said of a job."""

    finding: Finding
    findings: tuple[Finding, ...] = ()
    notes: tuple[Text, ...] = ()
    not_judged: tuple[Text, ...] = ()
    ended: bool = False  # all its series ended together, so there is nothing to follow
    nothing_seen: bool = False  # the metrics have no such job
    nodes: frozenset[str] = frozenset()  # those whose GPUs were seen
    compared: frozenset[str] = frozenset()  # of them, those whose GPUs all worked lately beside others of their model

    @property
    def kind(self) -> Class:
        """The class of the answer."""
        return self.finding.kind

    @property
    def exit(self) -> int:
        """0 healthy, 1 something is wrong, 2 cannot tell."""
        return {Class.HEALTHY: 0, Class.CANNOT_TELL: 2}.get(self.kind, 1)


def judge(seen: Seen) -> Answer:
    """The answer from the tables alone: the same tables give the same answer."""
    if seen.warnings:
        return unknown(say("server_warns", said=seen.warnings[0]))
    look = Look(seen)
    if not len(look.rows):
        return replace(unknown(say("no_job")), nothing_seen=True)
    found, reason = _found(look)
    notes, not_judged = (_notes(look) if reason is None else ()), _not_judged(look)
    answer = Answer(found[0], tuple(found)) if found else unknown(reason) if reason else _without_a_fault(look)
    nodes = frozenset(part.node for part in seen.parts)
    apart = nodes if answer.ended or _STOPPED & {each.kind for each in found} else _apart(look)
    return replace(answer, notes=(*answer.notes, *notes), not_judged=not_judged, nodes=nodes, compared=nodes - apart)


def _apart(look: Look) -> set[str]:
    """Nodes with a GPU that is silent, frozen, not at work in the newest moments, or one of two of its model."""
    parts, recent, now = look.seen.parts, look.recent, look.present.shape[1] - look.steps("ended_s")
    known = ~np.isnan(look.gpus["clock"] + look.gpus["power"] + look.gpus["memory"])  # what the rules compare
    at_work = ((look.util > 0.5) & known)[:, recent].sum(axis=1) >= 3
    at_work &= ~look.frozen & (look.last >= now) & bool((recent >= now).any())
    alike = Counter(parts[row].model for row in np.flatnonzero(at_work))
    return {part.node for part, one in zip(parts, at_work, strict=True) if not one or alike[part.model] < 3}


def _found(look: Look) -> tuple[list[Finding], Text | None]:
    """All findings, the cause first; or why nothing can be said."""
    if missing := _missing(look):
        return [], missing
    found = [*gone.find(look)]
    lost = any(each.kind is Class.WORKER_LOST for each in found)
    if not lost and not look.seen.site[-look.steps("ended_s") :].any():
        # The server stopped, or cannot reach its targets.
        last = int(np.flatnonzero(look.present[look.rows].any(axis=0)).max())
        return [], say("server_silent", at=moment(float(look.seen.times[last])))
    found = sorted([*found, *slow.find(look), *hosts.find(look)], key=lambda each: WRONG.index(each.kind))
    kinds = {each.kind for each in found}
    return [each for each in found if not (_FOLLOWS.get(each.kind, frozenset()) & kinds)], None


def unknown(reason: Text, since: float | None = None) -> Answer:
    """Cannot tell, for one reason."""
    return Answer(Finding(Class.CANNOT_TELL, since=since, why=(reason,)))


def _missing(look: Look) -> Text | None:
    """Why nothing can be said: no series, too little, all frozen, or a server that stopped."""
    if np.isnan(look.util[look.rows]).all() and np.isnan(look.gpus["power"][look.rows]).all():
        return say("no_use")
    known = int(np.median(look.present[look.rows].sum(axis=1)))
    if known < look.steps("sure_s"):
        return say("too_little", seconds=known * look.step_s)
    if look.frozen[look.rows].mean() > 0.5:
        return say("all_frozen")
    return None


def _without_a_fault(look: Look) -> Answer:
    """Healthy only if all of the job was seen and worked until the end of the window, or until it ended together."""
    here, newest = look.rows, look.present.shape[1] - 1
    silent = here[look.frozen[here]]
    if not len(silent) and look.end == newest:
        silent = gone.lost(look)
    if len(silent):
        names = ", ".join(sorted({look.seen.parts[row].node for row in silent})[:8])
        return unknown(say("some_silent", nodes=names))
    if newest - look.end >= look.steps("ended_s"):
        return _ended(look, look.end)
    idle_from = gone.idle_since(look)
    if idle_from is not None and look.end - idle_from >= look.steps("sure_s"):
        memory = look.gpus["memory"][here]
        held = np.nanmedian(memory[:, max(0, look.end - 1) : look.end + 1])
        if idle_from >= 0 and held < 0.25 * np.nanmax(np.nanmedian(memory, axis=0)):  # the job gave it back
            return _ended(look, idle_from)
        return unknown(say("all_idle"), look.moment(idle_from))
    stuck = look.end - trailing(look.waiting[here], look.present[here], look.end) >= look.steps("sure_s")
    if len(look.recent) < 3 or stuck.mean() > 0.5:
        return unknown(say("no_work"))
    nodes = {look.seen.parts[row].node for row in here}
    compared = ", ".join(each for each, table in look.gpus.items() if not np.isnan(table[here]).all())
    why = say("compared", quantities=compared, gpus=len(here), nodes=len(nodes))
    return Answer(Finding(Class.HEALTHY, why=(why,)))


def _ended(look: Look, at: int) -> Answer:
    said = say("ended", at=moment(float(look.seen.times[at])))
    return Answer(Finding(Class.HEALTHY, why=(said,)), notes=(said,), ended=True)


def _notes(look: Look) -> tuple[Text, ...]:
    notes = []
    if breaks := gone.pauses(look):
        longest = max(last - first + 1 for first, last in breaks) * look.step_s // 60
        notes.append(say("pauses", count=len(breaks), minutes=longest))
    if count := len(look.beside):
        notes.append(say("beside", count=count))
    if count := int(look.distrusted[look.rows].sum()):
        notes.append(say("distrusted", count=count))
    if count := int((look.seen.site[: look.end + 1] == 0).sum()):
        notes.append(say("gap", seconds=count * look.step_s))
    return tuple(notes)


def _not_judged(look: Look) -> tuple[Text, ...]:
    said, rows = [], look.rows
    if missing := [each for each in PROFILING if len(rows) and np.isnan(look.gpus[each][rows]).all()]:
        said.append(say("instead", missing=", ".join(missing), instead=look.work(rows)[0]))
    if look.seen.job.large:
        said.append(say("no_cores"))
    if not look.seen.host_rows():
        said.append(say("no_hosts"))
    elif "cnp_handled" not in look.seen.hosts and "slow_restart" not in look.seen.hosts:
        said.append(say("no_notices"))
    return tuple(said)


def decided(answer: Answer, logs: Sequence[str], nodes: Sequence[str] = ()) -> Answer:
    """The answer of the metrics, or that of the logs where they have a first error with its place; `nodes` of the job.

    Raises:
        UsageError: a log cannot be read.
    """
    from nodegate.triage.triage import triage  # noqa: PLC0415 - the tables of signatures, only with logs

    log = triage(list(logs), nodes=nodes)
    if not log.failed or log.root is None or not log.recognised:
        return replace(answer, notes=(say("log_silent"), *answer.notes))
    where = log.where
    gpu = where.gpu if where.gpu is not None else where.local_rank
    at = moment(log.began_s) if log.began_s is not None else "?"
    since = moment(answer.finding.since) if answer.finding.since is not None else "?"
    times = say("both_times", log=at, metrics=since, kind=answer.kind.value)
    if not where.node and not where.pod:
        return replace(answer, notes=(log.sentence, times, *answer.notes))
    place = Place(short(where.node), gpu, where.pod or "")
    kind = Class.RANK_GONE if gpu is not None or where.rank is not None else Class.WORKER_LOST
    finding = Finding(kind, (place,), log.began_s, (log.sentence, times))
    return replace(answer, finding=finding, findings=(finding, *answer.findings))
