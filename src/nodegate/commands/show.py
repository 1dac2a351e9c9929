"""`nodegate show`: the details behind a line of a run's answer."""

import argparse
import sys
from pathlib import Path

from nodegate.causes.details import details
from nodegate.records.results import is_cut, read
from nodegate.text import visible


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    text = "a node, a cause's id, or a part's serial number, PCI address or name"
    command.add_argument("wanted", metavar="NODE|CAUSE", help=text)
    command.add_argument(
        "--run", type=Path, default=Path("reports/latest"), metavar="DIR", help="the run folder (default %(default)s)"
    )
    command.add_argument("--all", action="store_true", help="show every finding of a cause, not only the first 20")


def run(asked: argparse.Namespace) -> int:
    """Print the details of what was asked for.

    Raises:
        UsageError: the run cannot be read, or knows nothing of that name.
    """
    results = read(asked.run)
    if is_cut(asked.run):
        said = "its results are cut off: some nodes are missing here - continue the run (pytest --resume)"
        print(f"nodegate: {asked.run}: {said}", file=sys.stderr)
    for text in details(results, asked.wanted, everything=asked.all):
        print(visible(text))
    return 0
