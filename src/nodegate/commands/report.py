"""`nodegate report`: the reports of a run, written again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    command.add_argument("--redact", action="store_true", help="leave out serials, addresses and user names")
    command.add_argument(
        "--to", type=Path, metavar="DIR", help="output folder (default: RUN; RUN-redacted with --redact)"
    )


def run(asked: argparse.Namespace) -> int:
    """Write the reports and print the place of the HTML page.

    Raises:
        UsageError: the run cannot be read, or the reports cannot be written.
    """
    from nodegate.report.rerender import rerender  # noqa: PLC0415

    print(rerender(asked.run, redacted=asked.redact, to=asked.to) / "report.html")
    return 0
