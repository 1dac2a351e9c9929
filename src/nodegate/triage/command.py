"""`nodegate triage`: reads what the command line names and reports what ended the job."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.triage import render, sources
from nodegate.triage.answer import answer
from nodegate.triage.reading import read

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from nodegate.triage.answer import Answer

_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument(
        "logs",
        nargs="*",
        metavar="LOG",
        help="a log (plain, .gz, .zst), a folder, a glob, a run folder, or - for stdin",
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
        "--utc-offset",
        default="",
        metavar="+HH:MM",
        help="the time zone of times that name none; default: the zone that other lines name, else UTC",
    )


def triage(
    logs: Sequence[str], *, kernel: Sequence[str] = (), utc_offset: str = "", now_s: float | None = None
) -> Answer:
    """The answer for these logs.

    Raises:
        UsageError: nothing to read, or an option that cannot be understood.
    """
    if not logs and not kernel:
        raise UsageError("no log was given", hint="nodegate triage LOG... (- reads standard input)")
    found = sources.find(logs, kernel)
    now = time.time() if now_s is None else now_s
    return answer(read(found, now_s=now, zone_s=_zone_s(utc_offset)))


def run(asked: argparse.Namespace) -> int:
    """Run the command; returns 0 if an answer was given."""
    given = triage(asked.logs, kernel=asked.kernel, utc_offset=asked.utc_offset)
    if asked.html is not None:
        from nodegate.triage.page import write_page  # noqa: PLC0415 - jinja2 only for a page

        write_page(given, asked.html, asked.lang)
    sys.stdout.write((render.as_json(given) if asked.json else render.text(given, asked.lang)) + "\n")
    return 0


def _zone_s(offset: str) -> float | None:
    if not offset:
        return None
    match = _OFFSET.fullmatch(offset)
    if match is None:
        raise UsageError(f"--utc-offset {offset!r} is not a valid UTC offset", hint="write it as +08:00")
    seconds = int(match[2]) * 3600.0 + int(match[3]) * 60.0
    return -seconds if match[1] == "-" else seconds
