"""`nodegate notify RUN --to TARGET`: what is new in an earlier run is sent; exit 0, or 1 if it did not arrive."""

import argparse
import sys
from pathlib import Path

from nodegate.commands.record_option import add_record
from nodegate.errors import UsageError
from nodegate.notices.target import add_notice, targets_of
from nodegate.notices.tell import tell_run
from nodegate.report.json_file import load
from nodegate.words.catalogue import LANGUAGES


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    add_notice(command, "gets what is new to it", "--to")
    command.add_argument("--all", action="store_true", help="send all open problems, not only those that are new")
    command.add_argument("--lang", default="en", choices=LANGUAGES, help="the language of the notice (en)")
    add_record(command)


def run(asked: argparse.Namespace) -> int:
    """Send a run's notice.

    Raises:
        UsageError: there is no target, no report of a run, or the run judged another run's evidence again.
    """
    targets = targets_of(asked.notice)
    if not targets:
        raise UsageError("name a target", hint="for example --to webhook:@/etc/nodegate/webhook")
    report = load(asked.run)
    if report.run.evidence:
        raise UsageError("this run judged the evidence of another one", file=str(asked.run), hint="name that run")
    failed = tell_run(
        asked.run, targets, asked.record, asked.lang, entrance="notify", report=report, everything=asked.all
    )
    for line in failed:
        print(f"nodegate: {line}", file=sys.stderr)
    return int(bool(failed))
