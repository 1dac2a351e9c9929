"""`nodegate lemons`: what fails again beyond chance; exit 0 nothing, 1 something, 2 cannot tell."""

import argparse
import datetime as dt

from nodegate.commands.record_option import add_record
from nodegate.errors import UsageError
from nodegate.past import database
from nodegate.past.lemon import WINDOW_DAYS, as_json, lines
from nodegate.past.lemons import of_record
from nodegate.text import day, visible

_MOST_DAYS = 366


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    since = command.add_mutually_exclusive_group()
    text = f"so many days before the newest run (default {WINDOW_DAYS})"
    since.add_argument("--days", type=int, default=WINDOW_DAYS, metavar="N", help=text)
    since.add_argument("--since", metavar="YYYY-MM-DD", help="from this day on (UTC)")
    command.add_argument("--json", action="store_true", help="the answer for a program, as one object")
    command.add_argument("--lang", default="en", choices=["en", "zh"], help="language of the answer (default en)")
    add_record(command)


def run(asked: argparse.Namespace) -> int:
    """Print what fails again; returns 1 where something does.

    Raises:
        UsageError: there is no record, or it has too little of that time.
    """
    record = asked.record
    since = None
    if asked.since is not None:
        if (first := day(asked.since)) is None:
            raise UsageError(f"--since {asked.since}: not a day", hint="write it as 2026-11-01")
        since = dt.datetime(first.year, first.month, first.day, tzinfo=dt.timezone.utc).timestamp()
    elif not 1 <= asked.days <= _MOST_DAYS:
        raise UsageError(f"--days {asked.days}: from 1 to {_MOST_DAYS}", hint=f"--days {WINDOW_DAYS} is usual")
    if not record.exists():
        raise UsageError("there is no record yet", file=str(record), hint="the first run that ends makes it")
    with database.reading(record) as base:
        told = of_record(base, days=asked.days, since_s=since)
    if told is None or len(told.not_compared) == told.figures.machines:
        hint = "name a longer time (--days), or run nodegate nightly over three nodes of a platform or more"
        raise UsageError("the record has too little of that time to compare nodes", file=str(record), hint=hint)
    if asked.json:
        print(as_json(told))
    else:
        for line in lines(told, asked.lang):
            print(visible(line))
    return int(bool(told.named))
