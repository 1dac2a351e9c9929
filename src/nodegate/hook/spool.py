"""The verdicts of the hooks, kept on their node until a run collects them: one a line, at most 256 KiB.

The first line counts those that were dropped. A hook's exit does not hang on it: whatever fails here is the caller's to
ignore, and a line is there whole or not at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from nodegate.files.atomic import replacing_bytes
from nodegate.files.bounded import open_trusted
from nodegate.hook.current_verdict import boot_id, now_s
from nodegate.probe.hooks import MOST_CAUSES, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nodegate.hook.hooks import HookResult

FILE = "spool.jsonl"
MOST_BYTES = 256 << 10
_ROOM_BYTES = 64 << 10  # that is made at once, so that most verdicts are only appended
_MOST_LINE_BYTES = 4096
_LONGEST = 200  # characters of a cause's id
_WAIT_S = 1.0


def note(folder: Path, hook: str, result: HookResult) -> None:
    """Add what a hook found and did to the spool in this folder.

    Raises:
        OSError: it cannot be written, others can write it, or another hook holds it for too long.
    """
    folder.mkdir(mode=0o755, exist_ok=True)
    file = folder / FILE
    with _locked(file) as opened:
        opened.seek(max(0, os.fstat(opened.fileno()).st_size - 2 * MOST_BYTES))
        held = opened.read(2 * MOST_BYTES)
        if held and not held.endswith(b"\n"):
            held += b"\n"  # of a hook that was killed
        line = _line(hook, result, _next_sequence(held))
        if len(held) + len(line) <= MOST_BYTES:
            _append(opened, held, line)
            return
        with replacing_bytes(file) as fresh:
            os.fchmod(fresh.fileno(), 0o644)
            fresh.write(_shortened(held) + line)


@contextmanager
def _locked(file: Path) -> Iterator[IO[bytes]]:
    """The spool, for this hook alone; it may have been replaced while another hook had it."""
    end = time.monotonic() + _WAIT_S
    while True:
        descriptor = open_trusted(file, os.O_RDWR | os.O_CREAT, 0o644)
        with open(descriptor, "r+b", buffering=0) as opened:  # noqa: PTH123 - what is open already has no path
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_it = os.fstat(descriptor).st_ino == file.stat().st_ino
            except (BlockingIOError, FileNotFoundError):
                is_it = False
            if is_it:
                yield opened
                return
        if time.monotonic() > end:
            raise TimeoutError(f"{file} is held by another hook")
        time.sleep(0.02)


def _append(opened: IO[bytes], held: bytes, line: bytes) -> None:
    size = os.fstat(opened.fileno()).st_size
    added = held[size:] + line
    if opened.write(added) != len(added):
        opened.truncate(size)
        raise OSError("the disk took a part of the line only")
    if not size:
        os.fchmod(opened.fileno(), 0o644)


def _line(hook: str, result: HookResult, sequence: int) -> bytes:
    answer = result.answer
    value: dict[str, object] = {
        "epoch_s": round(time.time(), 3),
        "boot_id": boot_id(),
        "sequence": sequence,
        "hook": hook,
        "answer": answer.exit.word,
        "exit": result.exit,
        "line": result.line[:300],
        "done": result.done,
        "causes": [cause[:_LONGEST] for cause in answer.causes[:MOST_CAUSES]],
        "demands": answer.demands,
    }
    raw = json.dumps(value).encode()
    return (raw if len(raw) < _MOST_LINE_BYTES else json.dumps({**value, "causes": []}).encode()) + b"\n"


def _next_sequence(held: bytes) -> int:
    """The number after the last of this boot; where there is none it begins with the seconds since boot.

    So a spool that was deleted does not use a number twice.
    """
    boot, least = boot_id(), int(now_s())
    for line in reversed(held.splitlines()):
        value = _value(line)
        if value.get("boot_id") == boot and isinstance(last := value.get("sequence"), int):
            return last + 1 if last < 1 << 53 else least
    return least


def _shortened(held: bytes) -> bytes:
    """What is kept of a full spool: the newest lines, below a first one that counts all that were dropped."""
    lines = held.splitlines(keepends=True)
    head = _value(lines[0])
    is_head = head.get("schema") == SCHEMA
    before = head.get("dropped") if is_head else 0
    lines, kept, size = lines[is_head:], 0, 0
    for line in reversed(lines):
        size += len(line)
        if size > MOST_BYTES - _ROOM_BYTES:
            break
        kept += 1
    dropped = (before if isinstance(before, int) else 0) + len(lines) - kept
    first = json.dumps({"schema": SCHEMA, "dropped": dropped}).encode() + b"\n"
    return first + b"".join(lines[len(lines) - kept :])


def _value(line: bytes) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
