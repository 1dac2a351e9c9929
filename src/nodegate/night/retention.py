"""What a site no longer keeps: run folders of old nights. Never an acceptance, and nothing that the record lacks."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.past import database
from nodegate.past.store import number_of
from nodegate.profile import Profile
from nodegate.records.run_folder import RunFolder
from nodegate.run import conditions
from nodegate.run.rebuild import run_folders

_GOING = ".deleted-"  # so a folder is named while it is deleted: what is left of it after a kill goes the next time


def expire(reports: Path, record: Path, before_s: float) -> tuple[list[str], list[str]]:
    """Delete the folders of the nights that began before a time (seconds since the epoch).

    Returns the names of those that are gone, and of those that are old and stay, with the reason.
    """
    gone, left = list[str](), list[str]()
    if not reports.is_dir():
        return gone, left
    for rest in reports.glob(f"{_GOING}*"):
        shutil.rmtree(rest, ignore_errors=True)
    latest = (reports / "latest").resolve()
    with contextlib.ExitStack() as opened:
        try:
            base = opened.enter_context(database.reading(record)) if record.exists() else None
        except UsageError:
            base = None
        for folder in run_folders(reports):
            why = _stays(folder, base, before_s)
            if why is None and folder.resolve() != latest:
                going = folder.with_name(f"{_GOING}{folder.name}")
                try:
                    folder.rename(going)
                    shutil.rmtree(going)
                except OSError as broken:
                    left.append(f"{folder.name}: {broken.strerror}")
                else:
                    gone.append(folder.name)
            elif why:
                left.append(f"{folder.name}: {why}")
    return gone, left


def _stays(folder: Path, base: sqlite3.Connection | None, before_s: float) -> str | None:
    """Why an old night's folder stays; empty if that needs no word; None if it may go."""
    try:
        run = conditions.read(RunFolder(folder))
    except UsageError:
        return ""
    if run.profile != Profile.NIGHTLY or run.started_epoch_s >= before_s:
        return ""
    if base is None or number_of(base, run.id, run.started_epoch_s) is None:
        return "the record does not have it (nodegate record rebuild)"
    return None
