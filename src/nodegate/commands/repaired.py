"""`nodegate repaired`: note in the fleet's record what was repaired."""

import argparse

from nodegate.commands.record_option import add_record
from nodegate.past.event import REPAIR
from nodegate.past.tell import tell


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("name", metavar="NODE|SERIAL", help="a node, or the serial number of a part")
    command.add_argument("what", metavar="WHAT", help='what was done: "GPU 3 replaced", "reseated"')
    add_record(command)


def run(asked: argparse.Namespace) -> int:
    """Note a repair.

    Raises:
        UsageError: the record knows nothing of that name, or cannot be written.
    """
    (event,) = tell(asked.record, REPAIR, [asked.name], asked.what)
    of = f" ({event.part})" if asked.name != event.node else ""
    print(f"noted: {event.node or asked.name}{of}: {event.text}")
    return 0
