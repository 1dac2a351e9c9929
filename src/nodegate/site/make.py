"""`nodegate init`: a site's own folder, to run pytest in."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from nodegate.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("hosts.yaml", "pytest.ini", "baselines/site.yaml", "checks/test_site.py", "gitignore")


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
