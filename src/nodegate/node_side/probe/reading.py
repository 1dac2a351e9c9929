"""A reading: the value itself, or an object that says why there is none."""

from typing import Dict

Reading = Dict[str, object]


class CannotRead(Exception):  # noqa: N818 - reads as the sentence that it raises
    """A section, or a part of one, that could not be read: `reading` says why."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(str(reading))
        self.reading = reading


def unknown(why: str, detail: str, **more: object) -> Reading:
    """A reading with the reason why there is no value; `why` is a value of nodegate.unknown.Why."""
    return dict({"why": why, "detail": detail[:500]}, **more)
