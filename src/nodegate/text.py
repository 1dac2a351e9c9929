"""Text from nodes made safe to show: bounded, and without characters that hide, reorder or break a file."""

import datetime as dt
import math
import re
from collections.abc import Iterable

from nodegate.words.catalogue import number_of, say, term

MOST_CHARACTERS = 1000
_WHOLE = frozenset({"MHz", "°C", "W"})  # the limit of these
_THREE_DIGITS = frozenset({"TFLOPS", "GB/s", "Gb/s", "µs", "%"})
_LARGEST = 1e15  # more digits mean nothing
_LAST_PORT = 65535
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)  # Python 3.11 reads weeks as days too
_MAX_INTEGER = 1 << 64  # Python refuses to write out an integer of thousands of digits

# Control characters (not tab and newline), marks that reorder text, halves of characters, XML's non-characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


def visible(text: str, *, most: int = MOST_CHARACTERS) -> str:
    """The text with hidden characters written out as their codes, cut at `most` characters with a mark."""
    if len(text) > most:
        text = f"{text[:most]} [cut: {len(text)} characters]"
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(_written_out, text)


def number(value: object, unit: str = "", *, exact: bool = False) -> str:
    """A value as the field writes it in this unit: 671 (TFLOPS), 1455 (MHz), 0.98; `exact` to six digits."""
    if value is None:
        return ""
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    if exact:
        return f"{value:g}"
    if unit in _WHOLE or 1000 <= abs(value) < _LARGEST:
        return f"{value:.0f}"
    return f"{value:.3g}" if unit in _THREE_DIGITS else f"{value:.4g}"


def with_unit(value: object, unit: str, *, exact: bool = False) -> str:
    """A value with its unit: "245 Gb/s", "16 lanes", "yes", "one of a, b"; nothing for None."""
    if isinstance(value, tuple):
        are_texts = all(isinstance(each, str) for each in value)
        listed = ", ".join(number(each, unit, exact=exact) for each in value)
        return say("one of {names}", names=listed) if are_texts else f"{listed} {term(unit)}".strip()
    if isinstance(value, bool):
        return say("yes") if value else say("no")
    return f"{number(value, unit, exact=exact)} {term(unit)}".strip()


def counted(count: int, noun: str) -> str:
    """A count and its noun: "1 node", "16 nodes"."""
    return number_of(f"{{n}} {noun}", f"{{n}} {noun}s", count)


def some(names: Iterable[str], most: int) -> str:
    """At most `most` names, and how many more there are: "a, b, c and 5 more"."""
    listed = list(names)
    said = ", ".join(listed[:most])
    return say("{names} and {n} more", names=said, n=len(listed) - most) if len(listed) > most else said


def names(asked: object) -> tuple[str, ...]:
    """Names or numbers that the inventory lists: one, a text with commas, or a list."""
    if isinstance(asked, int) and not isinstance(asked, bool):
        return (str(asked),)
    parts = asked.split(",") if isinstance(asked, str) else asked if isinstance(asked, (list, tuple)) else ()
    return tuple(name for name in (str(part).strip() for part in parts) if name)


def port_number(written: str) -> int | None:
    """The TCP port that a text from the inventory says; None where it says none of 1 to 65535."""
    number = int(written) if re.fullmatch(r"[0-9]{1,5}", written) else 0
    return number if 1 <= number <= _LAST_PORT else None


def day(value: object) -> dt.date | None:
    """A day written as 2026-12-31; None if it is anything else."""
    try:
        return dt.date.fromisoformat(value) if isinstance(value, str) and _DAY.fullmatch(value) else None
    except ValueError:
        return None


def day_of(epoch_s: float) -> str:
    """The day of a time, UTC; "?" for one that no calendar holds."""
    try:
        return dt.datetime.fromtimestamp(epoch_s, tz=dt.timezone.utc).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return "?"


def shown(value: object, limit: int = 60) -> str:
    """A value for a message: one line, printable, bounded."""
    text_form = value[: limit + 1] if isinstance(value, str) else type(value).__name__
    if isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < _MAX_INTEGER):
        text_form = str(value)
    printable = "".join(letter if letter.isprintable() else "?" for letter in text_form)
    return printable if len(printable) <= limit else printable[:limit] + "..."


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
