"""`nodegate triage`: reads what the command line names and reports what ended the job."""

import argparse
import os
import stat
import sys
from pathlib import Path
from typing import TextIO

from nodegate.engines.registry import pods_of
from nodegate.triage import render
from nodegate.triage.homes_of_pods import read_map
from nodegate.triage.sources import STDIN
from nodegate.triage.triage import triage


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument(
        "logs",
        nargs="*",
        metavar="LOG",
        help="a log (also packed), an archive, a folder, a glob, a run folder, or - for stdin (the default for a pipe)",
    )
    command.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="[NODE=]FILE",
        help="a node's kernel log (dmesg, journal, syslog); repeatable",
    )
    command.add_argument("--json", action="store_true", help="the whole answer as JSON")
    command.add_argument("--html", type=Path, default=None, metavar="FILE", help="write the answer as one HTML page")
    command.add_argument("--lang", default="en", choices=["en", "zh"], help="language of the answer (default en)")
    command.add_argument(
        "--map",
        type=Path,
        default=None,
        metavar="FILE",
        help="on which node each pod ran: POD,NODE a line, what kubectl get pods -o wide, yaml or json printed, or"
        " kubernetes:job:NAMESPACE/NAME",
    )
    command.add_argument(
        "--utc-offset",
        "--tz",
        action="append",
        default=[],
        metavar="[LOG=]+HH:MM",
        help="time zone of timestamps that have none, for the job or for one log (a path, a pattern, a node or pod);"
        " default: found in the logs, else UTC",
    )


def _is_given(stream: TextIO) -> bool:
    """Whether a pipe or a file is on standard input: not a terminal, and not nothing."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def run(asked: argparse.Namespace) -> int:
    """Run the command; returns 0 if an answer was given."""
    homes = None  # the node of each pod, by a file or by the engine that knows the job
    if asked.map is not None:
        pods = pods_of(str(asked.map))
        homes = read_map(asked.map) if pods is None else {each.pod: each.node for each in pods if each.node}
    logs = asked.logs or ([STDIN] if not asked.kernel and _is_given(sys.stdin) else [])
    given = triage(logs, kernel=asked.kernel, zones=asked.utc_offset, homes=homes)
    if asked.html is not None:
        from nodegate.triage.page import write_page  # noqa: PLC0415 - jinja2 only for a page

        write_page(given, asked.html, asked.lang)
    sys.stdout.write((render.as_json(given) if asked.json else render.text(given, asked.lang)) + "\n")
    return 0
