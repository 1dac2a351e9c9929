"""Records as plain values, as JSON has them: a field that has its default is left out, and what is read is checked."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
_MOST = 10**24  # no count and no quantity is as large


def to_plain(value: object) -> object:
    """A record, or a value of one of its fields."""
    if isinstance(value, tuple):
        return [to_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    if not is_dataclass(value):
        return value
    found = ((each, getattr(value, each.name)) for each in fields(value))
    return {each.name: to_plain(one) for each, one in found if one != each.default}


def from_plain(kind: type[T], value: object) -> T:
    """A record of this kind.

    Raises:
        ValueError: the value is not one: a field is missing, not known, of another type or beyond all bounds.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{kind.__name__} is no object")  # noqa: TRY004 - what is read is wrong, not the call
    known = _hints(kind)  # type: ignore[arg-type]
    if not known.keys() >= value.keys():
        raise ValueError(f"{kind.__name__} has no {min(value.keys() - known.keys())!r:.40}")
    try:
        return kind(**{name: _read(known[name], each) for name, each in value.items()})
    except TypeError as fault:
        raise ValueError(str(fault)) from None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, value: object) -> object:
    if get_origin(hint) is UnionType:
        return None if value is None else _read(get_args(hint)[0], value)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ValueError("no list")
        return tuple(_read(get_args(hint)[0], each) for each in value)
    if is_dataclass(hint):
        return from_plain(hint, value)  # type: ignore[arg-type]
    if issubclass(hint, Enum):
        return hint(value)
    if hint is float and type(value) is int:
        return _read(int, value) * 1.0  # type: ignore[operator]
    if type(value) is not hint or (hint in {int, float} and not -_MOST < value < _MOST):  # type: ignore[operator]
        raise ValueError(f"no {hint.__name__}")
    return value
