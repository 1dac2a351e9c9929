"""`nodegate nightly`: what cron and the timer call. Exit 0 all accepted, 1 not all, 2 not done, 75 another."""

import argparse
import random
import time
from pathlib import Path

from nodegate.engines import context as kube
from nodegate.night import state
from nodegate.night.night import REPORTS, Night
from nodegate.night.settings import settings
from nodegate.notices.target import add_notice, targets_of
from nodegate.text import visible

ANOTHER_RUNS = 75


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = command.add_argument
    add("--inventory", action="append", default=[], metavar="FILE|HOST,HOST", help="the nodes; repeatable")
    add(kube.OPTION, action=kube.Context, metavar="NAME", help=kube.HELP)
    add("--site", type=Path, metavar="FILE", help="what the site sets (default: site.yaml beside the inventory)")
    add("--nodes", default="", metavar="PATTERN", help="a subset, as for pytest")
    add("--within", default="", metavar="TIME", help="how long the night may take (default 2h)")
    add(
        "--every",
        default="",
        metavar="TIME",
        help="each node is to be tested so often; a notice names those that are not (7d)",
    )
    text = "test so many nodes at a time, those first that were not tested for longest (default: all)"
    add("--most-nodes", type=int, metavar="N", help=text)
    add("--keep", default="", metavar="TIME", help="delete run folders of nights older than this: 30d (default: none)")
    add("--delay", default="", metavar="TIME", help="begin at a random moment within this time")
    add_notice(command, "gets what is new, and what went wrong with the night")
    add("--lang", choices=["en", "zh"], help="language of the notices (default en)")
    add("--record", type=Path, metavar="FILE", help="the fleet's record (default reports/fleet.sqlite)")
    text = "further options of pytest and nodegate for the runs, after --: -- --burn 90s --tools DIR"
    add("options", nargs="*", metavar="-- OPTION", help=text)


def run(asked: argparse.Namespace) -> int:
    """Do one night; what it has to say is printed, the output of its runs is in reports/nightly.log.

    Raises:
        UsageError: an option, the site file or a target is wrong.
    """
    wanted = settings(asked)
    targets = targets_of(wanted.notices)
    try:
        with state.alone(REPORTS) as lock:
            state.sign(lock)
            time.sleep(random.uniform(0.0, wanted.delay_s))  # noqa: S311 - no secret
            night = Night(wanted, targets, lock)
            code = night.run()
            for line in night.lines:
                print(visible(line))
            return code
    except state.OtherNight as other:
        print(f"another night runs (process {str(other) or 'unknown'})")
        return ANOTHER_RUNS
