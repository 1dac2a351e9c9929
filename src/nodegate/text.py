"""Text from nodes made fit to be shown: bounded, and with nothing in it that hides, reorders or breaks a file."""

from __future__ import annotations

import re

MOST_CHARACTERS = 1000

# Control characters (not tab and newline), marks that reorder text, halves of characters, XML's non-characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


def visible(text: str, *, most: int = MOST_CHARACTERS) -> str:
    """The text with hidden characters written out as their codes, cut at `most` characters with a mark."""
    if len(text) > most:
        text = f"{text[:most]} [cut: {len(text)} characters]"
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(_written_out, text)


def number_or_text(value: object) -> str:
    """A value as people read it: 16, 52.3125, yes; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def with_unit(value: object, unit: str) -> str:
    """A value with its unit beside it."""
    return f"{number_or_text(value)} {unit}".strip()


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
