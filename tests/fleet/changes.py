"""What is done to a made-up machine, document or measurement: planted now, made when the fleet is."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def changes(function: Callable[Concatenate[T, P], object]) -> Callable[P, Callable[[T], object]]:
    """What it does to something is given later: called with the rest of its arguments it is a change."""
    return lambda *given, **named: lambda thing: function(thing, *given, **named)
