"""Bracketed ranges in names: Ansible's `gpu[001:128:2]` and `[a:c]`, Slurm's `gpu[001-128,130]`."""

import itertools
import re
import string

from nodegate.errors import UsageError
from nodegate.files.text_file import shown

MAX_NAMES = 100_000

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_COLONS = re.compile(r"(?P<low>[0-9]*):(?P<high>[0-9]+)(?::(?P<step>[0-9]+))?", re.ASCII)
_LETTERS = re.compile(r"(?P<low>[A-Za-z]):(?P<high>[A-Za-z])(?::(?P<step>[0-9]+))?", re.ASCII)
_DASHES = re.compile(r"(?P<low>[0-9]+)(?:-(?P<high>[0-9]+))?", re.ASCII)


def split_outside_brackets(text: str, separators: str) -> list[str]:
    """The parts between separators that are outside (), [] and {}; empty parts are left out."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth = max(0, depth + (letter in "([{") - (letter in ")]}"))
        if depth == 0 and letter in separators:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def expand(pattern: str) -> list[str]:
    """The names that a pattern means, in order; several brackets multiply, the last one varies fastest.

    Raises:
        UsageError: a bracket is not closed or not a range, a range runs backwards, or there are too many names.
    """
    pieces = _BRACKETS.split(pattern)  # text, bracket, text, bracket, ..., text
    if any(letter in piece for piece in pieces[::2] for letter in "[]"):
        raise UsageError(f"{shown(pattern)}: a bracket is not closed", hint="write gpu[001-128] or gpu[001:128]")
    choices: list[list[str]] = []
    count = 1
    for index, piece in enumerate(pieces):
        choices.append([piece] if index % 2 == 0 else _bracket(piece, pattern))
        count *= len(choices[-1])
        limit(count, pattern)
    return ["".join(parts) for parts in itertools.product(*choices)]


def _bracket(inner: str, pattern: str) -> list[str]:
    letters, numbers = _LETTERS.fullmatch(inner), _COLONS.fullmatch(inner)
    if letters:
        low, high = (string.ascii_letters.index(letters[end]) for end in ("low", "high"))
        _forwards(low, high, pattern)
        return list(string.ascii_letters[low : high + 1 : _step(letters["step"], pattern)])
    if numbers:
        return _numbers(numbers["low"] or "0", numbers["high"], _step(numbers["step"], pattern), pattern)
    names: list[str] = []
    for part in inner.split(","):
        if (span := _DASHES.fullmatch(part.strip())) is None:
            hint = "write gpu[001-128,130] or gpu[001:128] or [a:c]"
            raise UsageError(f"{shown(pattern)}: [{inner[:60]}] is not a range", hint=hint)
        names += _numbers(span["low"], span["high"] or span["low"], 1, pattern)
        limit(len(names), pattern)
    return names


def _numbers(low: str, high: str, step: int, pattern: str) -> list[str]:
    if len(low) > 30 or len(high) > 30:
        raise UsageError(f"{shown(pattern)}: a number has more than 30 digits")
    width = len(low) if len(low) > 1 and low.startswith("0") else 0
    if width > len(high) or (width == 0 and len(high) > 1 and high.startswith("0")):
        raise UsageError(f"{shown(pattern)}: {low} and {high} have different padding", hint="write [001-128]")
    _forwards(int(low), int(high), pattern)
    limit((int(high) - int(low)) // step + 1, pattern)
    return [str(number).zfill(width) for number in range(int(low), int(high) + 1, step)]


def _step(text: str | None, pattern: str) -> int:
    step = int(text[:9]) if text else 1
    if step == 0:
        raise UsageError(f"{shown(pattern)}: a range with step 0 never ends")
    return step


def _forwards(low: int, high: int, pattern: str) -> None:
    if low > high:
        raise UsageError(f"{shown(pattern)}: the range runs backwards")


def limit(names: int, pattern: str) -> None:
    """Refuse more names than any cluster has.

    Raises:
        UsageError: there are more than `MAX_NAMES`.
    """
    if names > MAX_NAMES:
        raise UsageError(f"{shown(pattern)}: means more than {MAX_NAMES} names")
