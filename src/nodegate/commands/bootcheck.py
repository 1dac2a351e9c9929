"""`nodegate bootcheck`: the pre-job check of this node."""

import argparse
import os
from pathlib import Path

from nodegate.commands import output
from nodegate.words.catalogue import LANGUAGES, speaking


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("--json", action="store_true", help="the answer as one JSON object, with every record")
    command.add_argument("-v", "--verbose", action="store_true", help="all causes, one per line, after the answer")
    command.add_argument("--active", action="store_true", help="also put load on the GPUs: about a minute more")
    command.add_argument("--baseline", action="append", default=[], type=Path, metavar="FILE", help="more baselines")
    command.add_argument("--platform", default="", metavar="NAME", help="the platform, instead of recognising it")
    command.add_argument("--lang", choices=LANGUAGES, default="en", help="of the lines; --json is English (en)")
    command.add_argument("--demands", type=Path, metavar="FILE", help="instead of /etc/nodegate/demands.yaml")


def run(asked: argparse.Namespace) -> int:
    """Print the answer; returns 0 fit, 1 unfit, 2 could not tell, 75 busy."""
    from nodegate.demands.here import demands_here  # noqa: PLC0415 - the list of commands needs none of it
    from nodegate.run.bootcheck import bootcheck  # noqa: PLC0415

    with speaking("en" if asked.json else asked.lang):
        outcome = bootcheck(
            baselines=asked.baseline,
            expected={"platform": asked.platform} if asked.platform else {},
            demanded=lambda: demands_here(asked.demands),
            environ=os.environ,
            active=asked.active,
        )
        shown = "\n".join(outcome.lines) if asked.verbose else outcome.line
    try:
        print(outcome.to_json() if asked.json else shown, flush=True)
    except BrokenPipeError:  # the exit code says the same
        output.discard()
    return int(outcome.exit)
