"""How records are written and read: JSON by msgspec, which no other module imports.

A dataclass is an object with all of its fields, in their order; an enum is its value; a tuple is a list. What is read
may be a stranger's file: its types are checked, and a text that does not encode back to the same bytes is refused. So
a key that is missing, unknown or there twice, a number in another form and spaces between them are all one error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from inspect import cleandoc
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
MOST_LINE_BYTES = 4 << 20
_MOST_SHOWN = 200  # characters of what msgspec says
_ENCODER = msgspec.json.Encoder()
_WIDEST = 1 << 63  # integers beyond are written as texts


def to_bytes(value: object) -> bytes:
    """A record, or a mapping or sequence of records, as JSON in one line without its end.

    A number that is none (nan) is null; what JSON or UTF-8 cannot hold (an unpaired surrogate, an integer beyond 64
    bits) is written as it is printed.
    """
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return _ENCODER.encode(_writable(msgspec.to_builtins(value)))


def to_lines(values: Iterable[object]) -> bytes:
    """What `to_bytes` gives of each, a line each."""
    listed = list(values)
    try:
        return _ENCODER.encode_lines(listed)
    except (UnicodeEncodeError, OverflowError):
        return b"".join(to_bytes(each) + b"\n" for each in listed)


def from_bytes(kind: type[T], raw: bytes, most_bytes: int = MOST_LINE_BYTES) -> T:
    """The record of this kind that `to_bytes` wrote.

    Raises:
        ValueError: it is none, is longer than `most_bytes`, or is not as nodegate writes it.
    """
    if len(raw) > most_bytes:
        raise ValueError(f"longer than {most_bytes >> 20} MiB")
    try:
        value: T = _decoder(kind)(raw)  # type: ignore[arg-type]
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(str(error)[:_MOST_SHOWN]) from error
    if _ENCODER.encode(value) != raw:
        raise ValueError("not as nodegate writes it: a key is unknown or repeated, or the order differs")
    return value


def in_lines(raw: bytes) -> bytes:
    """What `to_bytes` gave, a value a line for people."""
    return msgspec.json.format(raw, indent=1) + b"\n"


def in_one_line(raw: bytes) -> bytes:
    """What `in_lines` was given.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return msgspec.json.format(raw, indent=-1)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)[:_MOST_SHOWN]) from error


def converted(kind: type[T], value: object) -> T:
    """The record of this kind from plain values, as `json.loads` gives them: for what earlier releases wrote.

    Raises:
        ValueError: a key is missing, or a value has another type.
    """
    try:
        return msgspec.convert(value, kind, strict=True)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(str(error)[:_MOST_SHOWN]) from error


def schema(kind: type, title: str) -> dict[str, Any]:
    """The JSON Schema of a record of this kind: every key is there, and no other."""
    found: dict[str, Any] = msgspec.json.schema(kind)
    for each in found["$defs"].values():
        if "description" in each:
            each["description"] = cleandoc(each["description"])
        if "properties" in each:
            each |= {"required": list(each["properties"]), "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **found}


@cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


def _writable(value: object) -> object:
    if isinstance(value, dict):
        return {_writable(key): _writable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_writable(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -_WIDEST <= value < _WIDEST:
        return str(value)
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
