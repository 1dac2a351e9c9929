"""What looks like an error and is none: exceptions that Python ignores (of destructors, at exit), notes of XLA."""

import re
from collections.abc import Callable

from nodegate.knowledge.signature import Hit
from nodegate.triage.place import Place

_KINDS = frozenset(("python_error", "unknown_error", "error_line"))
# XLA and JAX at their level I: "2026-05-02 03:14:41.1: I xla/a.cc:7]", "I0000 00:00:17.1 42 a.cc:7]"
_INFORMS = re.compile(rb"(?:^|[\s:])I(?:[0-9]{4} [0-9:.]{8,30} {1,4}[0-9]{1,10})? [\w./-]{1,160}\.cc:[0-9]{1,6}\]")
_HEAD_BYTES = 300
_LOOK_BACK_BYTES = 8192  # a traceback of some 60 frames
_OF_TRACEBACK = (" ", "\t", "Traceback (most recent call last)")


def is_ignored(hit: Hit, chunk: bytes, start: int, place: Callable[[str], Place]) -> bool:
    """Whether this line of the chunk is a note of XLA, or the end of a traceback under "Exception ignored in"."""
    if _INFORMS.search(chunk[start : start + _HEAD_BYTES].partition(b"\n")[0]):
        return True
    if hit.signature.id not in _KINDS or b"Exception ignored " not in chunk[max(0, start - _LOOK_BACK_BYTES) : start]:
        return False
    above = chunk[max(0, start - _LOOK_BACK_BYTES) : start].decode("utf-8", "replace")
    for line in reversed(above.splitlines()):
        text = place(line).text
        if text and not text.startswith(_OF_TRACEBACK):
            return text.startswith("Exception ignored ")
    return False
