"""`nodegate job`: asks, judges, prints; once, or every minute beside the job."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.files.atomic import write_whole
from nodegate.inventory.hostlist import fold
from nodegate.job import render
from nodegate.job.prometheus import Access, Source, curl, server_time
from nodegate.job.queries import Job, queries
from nodegate.job.slurm import nodes_of
from nodegate.job.tables import moment, say
from nodegate.knowledge.words import Text
from nodegate.notices.tell import tell_line
from nodegate.watch.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nodegate.job.answer import Answer
    from nodegate.job.options import Asked
    from nodegate.notices.target import Target

EVERY_S = 60.0  # between two looks of --follow


def job(asked: Asked) -> int:
    """Answers, or prints the requests; returns 0 healthy, 1 something is wrong, 2 cannot tell."""
    if asked.print_queries and asked.access is not None:
        return _print(asked, asked.access)
    source = _source(asked)

    def show(answer: Answer) -> str:
        print(render.as_json(answer) if asked.json else render.text(answer, asked.lang), flush=True)  # noqa: T201
        return render.line(answer, asked.lang)

    if asked.follow:
        return follow(lambda: look(asked, source), show, asked.targets)
    answer = look(asked, source)
    show(answer)
    return answer.exit


def look(asked: Asked, source: Source) -> Answer:
    """One look at a job. If the server does not answer, the answer is cannot-tell."""
    from nodegate.job.answer import decided, unknown  # noqa: PLC0415 - numpy only where something is judged

    try:
        end = asked.at if asked.at is not None else server_time(source)
        answer = judged(replace(asked.job, end=end), source)
        if asked.job.slurm_job and answer.nothing_seen:  # no label has its number
            nodes = nodes_of(asked.job.slurm_job, kept=asked.run_dir, replay=asked.replay)
            answer = judged(Job(end, asked.job.since_s, nodes), source) if nodes else unknown(say("no_slurm_label"))
            by_slurm = (say("by_slurm", nodes=fold(nodes)),) if nodes else ()
            answer = replace(answer, notes=(*by_slurm, *answer.notes))
    except UsageError as said:
        answer = unknown(Text(str(said), str(said)))
    return decided(answer, asked.with_log, asked.job.nodes) if asked.with_log else answer


def judged(wanted: Job, source: Source) -> Answer:
    """What the metrics of a source say of a job.

    Raises:
        UsageError: the source does not answer.
    """
    from nodegate.job.answer import judge  # noqa: PLC0415
    from nodegate.job.seen import read  # noqa: PLC0415

    return judge(read(wanted, source.ask))


def _source(asked: Asked) -> Source:
    if asked.replay is not None:
        if not asked.replay.is_dir():
            raise UsageError("this is not a folder of answers", file=str(asked.replay))
        return Source(asked.replay)
    assert asked.access is not None  # noqa: S101 - the options demand one of both
    folder = asked.run_dir
    if folder is None:
        return Source(asked.access)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as said:
        raise UsageError(f"cannot be made: {said.strerror}", file=str(folder)) from said
    return Source(asked.access, lambda name, raw: write_whole(folder / name, raw))


def _print(asked: Asked, access: Access) -> int:
    """The requests as shell lines. They need a fixed end of the window: this machine's clock if --at is not given."""
    end = asked.at if asked.at is not None else int(time.time())
    lines = [
        "# in an empty folder: these fetch the answers; then nodegate job --replay with the folder, and",
        f"# --at {moment(end)} --since {asked.job.since_s}s and the same name of the job",
        *(curl(access, query) for query in queries(replace(asked.job, end=end))),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def follow(looks: Callable[[], Answer], show: Callable[[Answer], str], targets: Sequence[Target]) -> int:
    """Looks every minute until the job's series have ended together, then 0; or until a signal: as the last one says.

    `show` prints an answer that held for two looks, and returns the line for `targets`, which get each change.
    """
    told = before = None
    answer = None
    with Stop() as stop:
        while not stop.asked:
            begun = time.monotonic()
            answer = looks()
            state = answer.kind, answer.finding.where
            if state == before and state != told:
                told = state
                for failed in tell_line(show(answer), targets, "job"):
                    sys.stderr.write(f"nodegate: {failed}\n")
            if answer.ended and state == before:
                return 0
            before = state
            while not stop.asked and (left := begun + EVERY_S - time.monotonic()) > 0:
                time.sleep(min(left, 0.5))
    return answer.exit if answer is not None else 2
