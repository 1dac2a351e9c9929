"""The verdict that one hook caches for the next: a file of this boot that only root or this user can have written."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.exit_codes import Exit
from nodegate.files.atomic import replacing
from nodegate.hook.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path("/run/nodegate/verdict.json")
_SCHEMA = "nodegate.kept/1"
_MOST_BYTES = 4096
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def now_s() -> float:
    """Seconds since this boot, including suspended time: a clock that cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def keep(file: Path, asked: str, answer: Answer, measured_s: float) -> None:
    """Store a verdict. `asked` says from which limits it comes, `measured_s` when the measurement began.

    Raises:
        OSError: the file cannot be written.
    """
    if not file.parent.exists():
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    said = {"exit_code": int(answer.exit), "line": answer.line}
    with replacing(file) as written:
        os.fchmod(written.fileno(), 0o644)
        json.dump({"schema": _SCHEMA, "boot": _boot(), "measured_s": measured_s, "asked": asked, **said}, written)


def kept(file: Path, asked: str, not_before_s: float) -> Answer | None:
    """The cached verdict, if it can be trusted, is from the same limits and is not too old."""
    try:
        said = json.loads(_read(file))
        measured_s = float(said["measured_s"])
        answer = Answer(Exit(said["exit_code"]), str(said["line"]), now_s() - measured_s)
        same = (said["schema"], said["boot"], said["asked"]) == (_SCHEMA, _boot(), asked)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return answer if same and not_before_s <= measured_s <= now_s() else None


def _read(file: Path) -> bytes:
    """The file's content, if only root or this user can have written it."""
    _check(file.parent.stat(), stat.S_ISDIR)
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(os.fstat(descriptor), stat.S_ISREG)
        return os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)


def _check(status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    foreign = status.st_uid not in (0, os.geteuid())
    if foreign or not is_kind(status.st_mode) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("other users can write it")


def _boot() -> str:
    return _BOOT.read_text().strip()
