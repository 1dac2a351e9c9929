"""A value that could not be read is `Unknown`, with the reason: never zero, never False, never good."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn, TypeVar, Union

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
_DROPPED = 26  # nvml.h, NVML_ERROR_DEPRECATED: driver 595 no longer has it


class Why(str, Enum):
    """Why a value is unknown."""

    NOT_SUPPORTED = "not supported"  # this device or driver does not have it: absence is normal
    MISSING = "missing"  # no such file, program, function or field here
    DENIED = "denied"  # needs more rights
    TIMEOUT = "timeout"  # took longer than its limit and was ended
    HUNG = "hung"  # took longer than its limit and cannot be ended (D state): a finding in itself
    BUSY = "busy"  # not done within its limit, and nothing blocked it: the node has no processor to spare
    LOST = "lost"  # the device does not answer: fallen off the bus
    IMPLAUSIBLE = "implausible"  # a number came that cannot be true: negative, or beyond what any device has
    FAILED = "failed"  # anything else: see the detail
    # Why a check says nothing of a part. Only the first two may leave a claim closed.
    BY_DESIGN = "by_design"  # this kind of part has no such thing, and a witness says so
    NOT_DEMANDED = "not_demanded"  # neither platform, order nor contract asks for it
    NOT_DONE = "not_done"  # it applies, and this run did not look at it


@dataclass(frozen=True)
class Unknown:
    """A value that could not be read.

    Using it as true or false, or comparing it, is an error, so that a check which forgets it stops instead of passing.
    """

    why: Why
    detail: str = ""
    nvml: int | None = None  # the error of NVML, where it is one

    def __bool__(self) -> NoReturn:
        raise TypeError(f"an unknown value was used as true or false: {self}")

    @property
    def is_absent(self) -> bool:
        """Whether this device, driver or system does not have the value by design, so that nothing is wrong with it."""
        return self.why in (Why.NOT_SUPPORTED, Why.MISSING) or self.nvml == _DROPPED

    def __str__(self) -> str:
        return f"{self.why.value}: {self.detail}" if self.detail else self.why.value


Known = Union[T, Unknown]  # noqa: UP007 - a generic alias needs the old spelling before Python 3.12


def known(readings: Iterable[T | Unknown]) -> list[T]:
    """Those that are known."""
    return [reading for reading in readings if not isinstance(reading, Unknown)]


def unread(*readings: object) -> Unknown | None:
    """The first that is unknown; None where all are known."""
    return next((reading for reading in readings if isinstance(reading, Unknown)), None)


def both(one: A | Unknown, other: B | Unknown, make: Callable[[A, B], T | Unknown]) -> T | Unknown:
    """What is made of two readings; the first that is unknown."""
    if isinstance(one, Unknown):
        return one
    return other if isinstance(other, Unknown) else make(one, other)


def value_or(reading: T | Unknown, default: T) -> T:
    """The reading if it is known, else `default`; for display and sorting only, never for a verdict."""
    return default if isinstance(reading, Unknown) else reading
