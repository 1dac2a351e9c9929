"""The options of `nodegate job`, checked."""

import argparse
import datetime as dt
import re
from dataclasses import dataclass
from pathlib import Path

from nodegate.engines.registry import pods_of
from nodegate.errors import UsageError
from nodegate.inventory.hostlist import expand
from nodegate.job.parts import short
from nodegate.job.prometheus import Access
from nodegate.job.queries import Job
from nodegate.notices.target import Target, add_notice, targets_of

_SPAN = re.compile(r"([0-9]{1,6})([smh])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_LEAST_S, _MOST_S = 90, 24 * 3600


@dataclass(frozen=True)
class Asked:
    """What the command line asks for. `at` is the end of the job's window, UTC seconds; None: the server's time."""

    access: Access | None
    replay: Path | None
    job: Job
    at: int | None
    run_dir: Path | None
    print_queries: bool
    json: bool
    lang: str
    follow: bool
    targets: tuple[Target, ...]
    with_log: tuple[str, ...]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = command.add_argument
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--prometheus", metavar="URL", help="the server; its address may have a path")
    source.add_argument("--replay", type=Path, metavar="DIR", help="judge the answers that are kept in a folder")
    named = command.add_mutually_exclusive_group(required=True)
    named.add_argument("--nodes", metavar="HOSTLIST", help="the job's nodes; with --inventory a selection from it")
    text = "the job's pods: a pattern that fits the whole name, or kubernetes:job:NAMESPACE/NAME"
    named.add_argument("--pods", metavar="REGEX", help=text)
    named.add_argument("--slurm-job", metavar="ID", help="the job's number: by the labels of its GPUs, else by squeue")
    add("--namespace", default="", metavar="NS", help="the namespace of the pods")
    add("--inventory", action="append", default=[], metavar="FILE", help="from which --nodes selects; repeatable")
    add("--at", default="", metavar="TIME", help="end of the window, ISO 8601, UTC if it names no zone; default now")
    add("--since", default="30m", metavar="SPAN", help="length of the window: 90s, 30m, 2h (default 30m)")
    add("--json", action="store_true", help="the answer as JSON, nodegate.job/1")
    add("--lang", default="en", choices=["en", "zh"], help="language of the answer (default en)")
    add("--run-dir", type=Path, metavar="DIR", help="keep the server's answers here, for --replay")
    add("--print-queries", action="store_true", help="print the requests as curl lines instead of sending them")
    add("--token-file", type=Path, metavar="FILE", help="a bearer token, read again for each request")
    add("--header-file", type=Path, metavar="FILE", help="further headers, NAME: VALUE a line")
    add("--ca-file", type=Path, metavar="FILE", help="certificates that the server's may be signed by")
    add("--follow", action="store_true", help="ask every 60 s; print what changed; end with the job")
    add_notice(command, "with --follow: gets each change")
    add("--with-log", action="append", default=[], metavar="FILE", help="logs of the job: their first error decides")


def from_arguments(asked: argparse.Namespace) -> Asked:
    """The checked options.

    Raises:
        UsageError: one of them cannot be understood, or they contradict each other.
    """
    access = asked.prometheus and Access(asked.prometheus, asked.token_file, asked.header_file, asked.ca_file)
    if asked.print_queries and not access:
        raise UsageError("--print-queries needs --prometheus: the lines name the server")
    if asked.follow and (asked.at or not access or asked.print_queries):
        raise UsageError("--follow looks at now: give --prometheus, and no --at")
    if asked.notice and not asked.follow:
        raise UsageError("--notice is for changes: give --follow too")
    if asked.replay and asked.run_dir:
        raise UsageError("--run-dir keeps the answers of a server; --replay asks none")
    if asked.slurm_job and not re.fullmatch(r"[0-9]{1,12}([_+][0-9]{1,8})?", asked.slurm_job, re.ASCII):
        raise UsageError("--slurm-job is not the number of a job", hint="for example 4711 or 4711_3")
    nodes = _nodes(asked.nodes, asked.inventory)
    known = pods_of(asked.pods or "")  # by the engine that knows the job
    pods = "|".join(re.escape(each.pod) for each in known) if known else _pattern(asked.pods)
    namespace = known[0].namespace if known else asked.namespace
    return Asked(
        access=access or None,
        job=Job(0, _span(asked.since), nodes, pods, namespace, asked.slurm_job or ""),
        at=_moment(asked.at),
        targets=targets_of(asked.notice),
        with_log=tuple(asked.with_log),
        replay=asked.replay,
        run_dir=asked.run_dir,
        print_queries=asked.print_queries,
        json=asked.json,
        lang=asked.lang,
        follow=asked.follow,
    )


def _nodes(text: str | None, inventory: list[str]) -> tuple[str, ...]:
    if not text:
        if inventory:
            raise UsageError("--inventory is for --nodes")
        return ()
    if inventory:
        from nodegate.inventory.inventory import read  # noqa: PLC0415 - only for an inventory

        names = [node.name for node in read(inventory).select(text)]
    else:
        names = expand(text)
    if not names:
        raise UsageError("--nodes names no node")
    return tuple(dict.fromkeys(short(name) for name in names))


def _pattern(text: str | None) -> str:
    if text is None:
        return ""
    try:
        re.compile(text)
    except re.error as said:
        raise UsageError(f"--pods is not a regular expression: {said}") from said
    if re.fullmatch(text, ""):
        raise UsageError("--pods fits an empty name: it would take GPUs without any pod", hint="for example 'llm-.+'")
    return text


def _moment(text: str) -> int | None:
    if not text:
        return None
    try:
        read = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
        return int((read if read.tzinfo else read.replace(tzinfo=dt.timezone.utc)).timestamp())
    except (ValueError, OverflowError) as said:
        raise UsageError(f"--at is not a time: {text[:80]}", hint="for example 2026-11-25T10:40:00Z") from said


def _span(text: str) -> int:
    read = _SPAN.fullmatch(text)
    seconds = int(read[1]) * _SECONDS[read[2]] if read else 0
    if not _LEAST_S <= seconds <= _MOST_S:
        raise UsageError(f"--since is not a span from 90s to 24h: {text[:80]}", hint="for example 30m")
    return seconds
