"""`--record FILE`, the same for each command that reads or writes the fleet's record."""

import argparse
from pathlib import Path

_DEFAULT = Path("reports") / "fleet.sqlite"  # as in nodegate.past.record, which takes time to import


def add_record(command: argparse.ArgumentParser) -> None:
    """The option, under its old name too."""
    text = f"what earlier runs found and measured (default {_DEFAULT})"
    command.add_argument("--record", type=Path, default=_DEFAULT, metavar="FILE", help=text)
    command.add_argument("--history", type=Path, dest="record", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
