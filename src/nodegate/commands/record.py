"""`nodegate record rebuild`: add to the fleet's record what run folders and events.jsonl hold."""

import argparse
import sys
from pathlib import Path

from nodegate.commands.record_option import add_record
from nodegate.run.rebuild import rebuild, run_folders
from nodegate.text import counted, visible


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("what", choices=["rebuild"], help="add what is not there yet; nothing leaves the record")
    text = "a run folder (default: all in the folder of the record)"
    command.add_argument("folders", nargs="*", type=Path, metavar="DIR", help=text)
    add_record(command)


def run(asked: argparse.Namespace) -> int:
    """Add what is not there; a folder or a line that gives nothing is named.

    Raises:
        UsageError: the record cannot be written.
    """
    record = asked.record
    done = rebuild(record, asked.folders or run_folders(record.parent))
    for line in done.left_out:
        print(f"left out: {visible(line)}", file=sys.stderr)
    print(f"{record}: {counted(done.added, 'run')} and {counted(done.events, 'event')} added")
    print(f"{counted(done.known, 'run')} known before, {len(done.left_out)} left out")
    return 0
