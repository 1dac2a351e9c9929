"""Records as plain values, as JSON has them: a field that has its default is left out, and what is read is checked.

For evidence, which a node without any library reads too (store.py needs one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_Read = Callable[[Any], object]
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
    found: T = _reader(kind)(value)  # type: ignore[assignment, arg-type]
    return found


@cache
def _reader(hint: Any) -> _Read:
    """What reads a value of this type; looked up once a type, since a node under load has 6,000 values."""
    if get_origin(hint) is UnionType:
        known = _reader(get_args(hint)[0])
        return lambda value: None if value is None else known(value)
    if get_origin(hint) is tuple:
        return lambda value: _items(_reader(get_args(hint)[0]), value)
    if is_dataclass(hint):
        readers = {name: _reader(each) for name, each in get_type_hints(hint).items()}
        return lambda value: _record(hint, readers, value)  # type: ignore[arg-type]
    if issubclass(hint, Enum):
        return hint  # type: ignore[no-any-return]
    return (lambda value: _number(hint, value)) if hint in {int, float} else lambda value: _same(hint, value)


def _record(kind: type, readers: dict[str, _Read], value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError(f"{kind.__name__} is no object")  # noqa: TRY004 - what is read is wrong, not the call
    try:
        return kind(**{name: readers[name](each) for name, each in value.items()})
    except KeyError as fault:
        raise ValueError(f"{kind.__name__} has no {fault!s:.40}") from None
    except TypeError as fault:
        raise ValueError(str(fault)) from None


def _items(read: _Read, value: object) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise ValueError("no list")  # noqa: TRY004
    return tuple(map(read, value))


def _number(hint: type, value: Any) -> object:
    if type(value) is int and hint is float:
        value = value * 1.0
    if type(value) is not hint or not -_MOST < value < _MOST:  # type: ignore[operator]
        raise ValueError(f"no {hint.__name__}")
    return value


def _same(hint: type, value: object) -> object:
    if type(value) is not hint:
        raise ValueError(f"no {hint.__name__}")
    return value
