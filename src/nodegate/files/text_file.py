"""Text files that the user names: read whole, or an error that says which file and why; hints about what is in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.bounded import read_bounded, read_given
from nodegate.text import some

MAX_BYTES = 16 << 20


def read_text(path: Path, name: str = "", max_bytes: int = MAX_BYTES, *, found: bool = False) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; `found`: in a folder, where no pipe is read.

    Raises:
        UsageError: it does not exist, or is not readable, not UTF-8, or larger than `max_bytes`.
    """
    shown = name or str(path)
    try:
        raw = (read_bounded if found else read_given)(path, max_bytes)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise UsageError(f"cannot read it: {reason}", file=shown, hint=_neighbours(path)) from None
    if len(raw) > max_bytes:
        raise UsageError(f"it is larger than {max_bytes} bytes", file=shown)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise UsageError("this is not UTF-8 text", file=shown, line=line, hint="save the file as UTF-8") from None


def _neighbours(path: Path) -> str:
    try:
        near = get_close_matches(path.name, [each.name for each in path.parent.iterdir()], n=1)
    except OSError:
        return ""
    return f"did you mean {path.parent / near[0]}?" if near and not path.exists() else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for an unknown word: the nearest known one, else the known ones (at most 12)."""
    words = sorted(known)
    if near := get_close_matches(word, words, n=3, cutoff=0.7):
        return f"did you mean {' or '.join(near)}?"
    return f"known: {some(words, 12)}" if words else ""


def shown(text: str) -> str:
    """Foreign text for a message: quoted, control characters escaped, not too long."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


@dataclass(frozen=True, slots=True)
class Source:
    """An inventory or baseline file: its name in messages, and the SHA-256 of its text."""

    path: str
    sha256: str

    @classmethod
    def of(cls, name: str, text: str) -> Source:
        """The one with this text."""
        return cls(name, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
