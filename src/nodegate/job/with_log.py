"""`nodegate job --with-log`: a first error in the job's logs decides class and place; both times are said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.job.finding import Class, Finding, Place
from nodegate.job.parts import short
from nodegate.job.render import moment, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.job.answer import Answer


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
