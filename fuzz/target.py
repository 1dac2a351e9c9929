"""What a target is: a reader, fed with bytes, that may refuse them in the ways it documents and in no other."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nodegate.errors import CannotMeasure, NotApplicable, NotJudged, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REFUSALS = (CannotMeasure, NotApplicable, NotJudged, UsageError)
SHORT_BYTES = 100_000  # an input below this may take SLOW_S of processor time, whatever it holds
SLOW_S = 1.0


@dataclass(frozen=True)
class Target:
    """One reader.

    Args:
        run: reads the bytes as the program would; raises one of REFUSALS, or nothing.
        seeds: healthy and faulty inputs to begin with.
        form: how inputs are changed: as text, or as JSON documents that stay JSON.
        slow_s: seconds of processor time that a short input may take.
    """

    run: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    form: Literal["text", "json"] = "text"
    slow_s: float = SLOW_S

    def read(self, data: bytes) -> None:
        """Read one input; a refusal is an answer too."""
        with refusals_allowed():
            self.run(data)


@contextlib.contextmanager
def refusals_allowed() -> Iterator[None]:
    """What a reader may raise."""
    with contextlib.suppress(*REFUSALS):
        yield


def text_of(data: bytes) -> str:
    """Bytes as the program decodes what a node printed."""
    return data.decode("utf-8", "replace")
