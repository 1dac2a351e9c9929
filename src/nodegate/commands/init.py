"""`nodegate init`: a site folder to start from."""

from __future__ import annotations

from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")


def run(asked: argparse.Namespace) -> int:
    """Make the folder and print the next step; pipx puts only `nodegate` on PATH, so that pytest may not be there.

    Raises:
        UsageError: the folder is not empty, or cannot be made.
    """
    from nodegate.site.make import make  # noqa: PLC0415

    make(asked.folder)
    pytest = "pytest" if which("pytest") else "nodegate test"
    print(f"cd {asked.folder}  # write your nodes into hosts.yaml, then: {pytest} --inventory hosts.yaml")
    return 0
