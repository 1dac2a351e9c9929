"""`nodegate job`: asks, judges, prints; once, or every minute beside the job."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.job import render
from nodegate.job.prometheus import Access, Folder, Query, Server, Source, curl
from nodegate.job.queries import Job, queries
from nodegate.knowledge.words import Text

if TYPE_CHECKING:
    from pathlib import Path

    from nodegate.job.answer import Answer
    from nodegate.job.options import Asked

EVERY_S = 60
_TIME = Query("time", "time()", {})


def job(asked: Asked) -> int:
    """Answers, or prints the requests; returns 0 healthy, 1 something is wrong, 2 cannot tell."""
    if asked.print_queries and asked.access is not None:
        return _print(asked, asked.access)
    source = _source(asked)
    answer = look(asked, source)
    show(asked, answer)
    return answer.exit


def look(asked: Asked, source: Source) -> Answer:
    """One look at a job. A server that does not answer is an answer too: it cannot be told."""
    from nodegate.job.answer import judge, unknown  # noqa: PLC0415 - numpy only where something is judged
    from nodegate.job.seen import read  # noqa: PLC0415

    try:
        wanted = named(asked, asked.at if asked.at is not None else _now(source))
        replies = {query.name: source.ask(query) for query in queries(wanted)}
    except UsageError as said:
        return unknown(Text(str(said), str(said)))
    return judge(read(wanted, replies))


def named(asked: Asked, end: int) -> Job:
    """The job and the window of a look."""
    return Job(end, asked.since_s, asked.nodes, asked.pods, asked.namespace, asked.slurm_job)


def show(asked: Asked, answer: Answer) -> None:
    """Print an answer."""
    sys.stdout.write((render.as_json(answer) if asked.json else render.text(answer, asked.lang)) + "\n")
    sys.stdout.flush()


def _now(source: Source) -> int:
    """The server's time: the clocks of others do not count."""
    told = source.ask(_TIME).scalar
    if told is not None:
        return int(told)
    raise UsageError("the server does not tell its time", hint="give --at")


def _source(asked: Asked) -> Source:
    if asked.replay is not None:
        if not asked.replay.is_dir():
            raise UsageError("this is not a folder of answers", file=str(asked.replay))
        return Folder(asked.replay)
    assert asked.access is not None  # noqa: S101 - the options demand one of both
    return Server(asked.access, _folder(asked.run_dir))


def _folder(path: Path | None) -> Path | None:
    if path is not None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as said:
            raise UsageError(f"cannot be made: {said.strerror}", file=str(path)) from said
    return path


def _print(asked: Asked, access: Access) -> int:
    """The requests as shell lines. They need a fixed end of the window: this machine's clock if --at is not given."""
    end = asked.at if asked.at is not None else int(time.time())
    window = named(asked, end)
    lines = [
        "# in an empty folder: these fetch the answers; then nodegate job --replay with the folder, and",
        f"# --at {render.moment(end)} --since {asked.since_s}s and the same name of the job",
        *(curl(access, query) for query in queries(window)),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
