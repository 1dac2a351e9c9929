"""`nodegate history`: the past of nodes and parts, and accepting nodes again as they are now."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from nodegate.commands.record_option import add_record
from nodegate.inventory.hostlist import expand
from nodegate.past import database
from nodegate.past.difference import margins_of_suite
from nodegate.past.event import ACCEPT_AGAIN
from nodegate.past.plot import write_plot
from nodegate.past.questions import numbers, whom
from nodegate.past.story import lines
from nodegate.past.tell import tell
from nodegate.past.whole import SCHEMA, past
from nodegate.text import counted, visible


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    text = "a node, a list such as gpu[001-008], or the serial number of a part"
    command.add_argument("names", nargs="+", metavar="NODE|SERIAL", help=text)
    add_record(command)
    command.add_argument("--json", action="store_true", help=f"one object, {SCHEMA}: every row that the record has")
    command.add_argument("--plot", type=Path, metavar="FILE", help="also draw the numbers over time, as SVG")
    command.add_argument(
        "--accept-again",
        metavar="REASON",
        help="from now on compare them with their next runs, not with those of before: after a repair, a power cap or"
        " an update that changed their speed on purpose; the reason is kept",
    )


def run(asked: argparse.Namespace) -> int:
    """Print the past of nodes and parts, or accept nodes again.

    Raises:
        UsageError: the record cannot be read, or knows nothing of a name.
    """
    names, record = [name for each in asked.names for name in expand(each)], asked.record
    if asked.accept_again is not None:
        tell(record, ACCEPT_AGAIN, names, asked.accept_again)
        print(f"{counted(len(names), 'node')} accepted again: the next run in which nothing is wrong")
        print("with them is what later ones are compared with")
        return 0
    margins = margins_of_suite()
    with database.reading(record) as base:
        found = [whom(base, name) for name in names]
        if asked.json:
            print(json.dumps({"schema": SCHEMA, "of": [asdict(past(base, who)) for who in found]}))
        else:
            for who in found:
                sys.stdout.writelines(f"{visible(line)}\n" for line in lines(base, who, margins))
        told = [(who.name, numbers(base, who)) for who in found] if asked.plot else []
    if asked.plot:
        write_plot(asked.plot, told)
    return 0
