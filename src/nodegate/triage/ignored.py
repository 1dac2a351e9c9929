"""Exceptions that Python prints and ignores: those of destructors and of functions called at its exit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodegate.knowledge.signature import Hit
    from nodegate.triage.place import Place

_KINDS = frozenset(("python_error", "unknown_error", "error_line"))
_LOOK_BACK_BYTES = 8192  # a traceback of some 60 frames
_OF_TRACEBACK = (" ", "\t", "Traceback (most recent call last)")


def by_python(hit: Hit, chunk: bytes, start: int, place: Callable[[str], Place]) -> bool:
    """Whether the traceback that ends at this line of the chunk stands under "Exception ignored in"."""
    if hit.signature.id not in _KINDS or b"Exception ignored " not in chunk[max(0, start - _LOOK_BACK_BYTES) : start]:
        return False
    above = chunk[max(0, start - _LOOK_BACK_BYTES) : start].decode("utf-8", "replace")
    for line in reversed(above.splitlines()):
        text = place(line).text
        if text and not text.startswith(_OF_TRACEBACK):
            return text.startswith("Exception ignored ")
    return False
