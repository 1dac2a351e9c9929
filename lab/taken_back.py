"""Faults that are set on a machine and taken back, however what runs meanwhile ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# What a fault yields are variables that its machine then has in the inventory.
Broken = Iterator[dict[str, str]]


def taken_back(steps: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """As contextlib.contextmanager; what comes after the `yield` is done also where the block fails."""

    @contextmanager
    @wraps(steps)
    def fault(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        going = steps(*args, **kwargs)
        try:
            yield next(going)
        finally:
            next(going, None)

    return fault
