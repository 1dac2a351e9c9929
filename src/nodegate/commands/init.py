"""`nodegate init`: a site folder to start from."""

import argparse
from importlib.resources import files
from pathlib import Path
from shutil import which

from nodegate.errors import UsageError

FILES = ("hosts.yaml", "site.yaml", "pytest.ini", "baselines/site.yaml", "checks/test_site.py", "gitignore")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")


def run(asked: argparse.Namespace) -> int:
    """Make the folder and print the next step; pipx puts only `nodegate` on PATH, so that pytest may not be there.

    Raises:
        UsageError: the folder is not empty, or cannot be made.
    """
    make(asked.folder)
    pytest = "pytest" if which("pytest") else "nodegate test"
    print(f"cd {asked.folder}  # write your nodes into hosts.yaml, then: {pytest} --inventory hosts.yaml")
    return 0


def make(folder: Path) -> None:
    """Fill a new or empty folder with an inventory, a baseline and a check to start from.

    Raises:
        UsageError: the folder is not empty, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError("this folder is not empty", file=str(folder), hint="give a new one")
        for name in FILES:
            file = folder / (".gitignore" if name == "gitignore" else name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(files("nodegate.site").joinpath(name).read_text("utf-8"), "utf-8")
    except OSError as broken:
        raise UsageError(f"cannot be made: {broken.strerror}", file=str(folder)) from broken
