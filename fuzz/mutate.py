"""Changes of inputs that know more of their form than single bytes: JSON that stays JSON, lines that stay lines."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Mutator = Callable[[bytes, int, int], bytes]
    Plain = Callable[[bytes, int], bytes]

Place = tuple["dict[object, object] | list[object]", object]

_ODD: tuple[object, ...] = (
    *(None, True, False, 0, -1, 1, 63, 64, 2**31, 2**53, 2**63, 2**64, 10**30, 10**400, -(10**400), 0.5, -0.0),
    *(1e308, float("inf"), float("-inf"), float("nan"), "", " ", "0", "-1", "nan", "1e999", "9" * 400, "0x10", "N/A"),
    *("\ud800", "\x00", "\n", "\u0665", "\x1b[31m", "é", "a" * 5000, "1,2", "00000000:1B:00.0", "P" * 3),
    *([], {}, [[]], [None], {"": None}, {"why": "missing"}, {"why": "not supported", "detail": "x"}, {"why": 7}),
    *([1, 2, 3], [float("nan")] * 3, ["1"] * 3, [10**400] * 3, {"1": "2"}, {"a": {"b": {}}}),
)
_MARKS: tuple[bytes, ...] = (
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\r",
    b"\r\n",
    b"\x0b",
    b"\x85",
    b"\xe2\x80\xa8",
    b"\xd9\xa5",
)
_MARKS += (b"9" * 30, b"-", b"nan", b"inf", b"1e999", b"\t", b"  ", b"\x1b[0m", b"0x", b":", b"N/A", b'"', b"[" * 200)


def json_mutator(plain: Plain) -> Mutator:
    """Changes one to four values of a JSON document; now and then its bytes."""

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)  # noqa: S311 - no secret
        if chance.random() < 0.1:
            return plain(data, most)
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return plain(data, most)
        for _ in range(chance.randint(1, 4)):
            value = _changed(value, chance, plain)
        written = json.dumps(value).encode()
        return written if len(written) <= most else plain(data, most)

    return mutate


def _changed(value: object, chance: random.Random, plain: Plain) -> object:
    places: list[Place] = []
    _collect(value, places)
    if not places or chance.random() < 0.01:
        return copy.deepcopy(chance.choice(_ODD))
    holder, key = chance.choice(places)
    old = holder[key]  # type: ignore[call-overload]
    what = chance.random()
    if what < 0.45:
        new = copy.deepcopy(chance.choice(_ODD))
    elif what < 0.6 and isinstance(old, str):
        new = plain(old.encode("utf-8", "replace"), len(old) + 40).decode("utf-8", "replace")
    elif what < 0.7 and isinstance(old, (int, float)):
        new = old * chance.choice((-1, 0, 2, 1000, 1e-9)) if abs(old) < 1e300 else 0
    elif what < 0.8:
        other, where = chance.choice(places)
        new = copy.deepcopy(other[where])  # type: ignore[call-overload]
    elif what < 0.9 and isinstance(holder, dict):
        del holder[key]
        return value
    elif isinstance(holder, list):
        holder.extend(copy.deepcopy(old) for _ in range(chance.choice((1, 2, 70))))
        return value
    else:
        new = str(old)
    holder[key] = new  # type: ignore[call-overload]
    return value


def _collect(value: object, places: list[Place]) -> None:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        places.append((value, key))  # type: ignore[arg-type]
        _collect(child, places)


def text_mutator(plain: Plain) -> Mutator:
    """Repeats, drops, cuts, joins and swaps lines and puts marks into them; every other time only bytes change."""

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)  # noqa: S311 - no secret
        if chance.random() < 0.5 or not data:
            return plain(data, most)
        lines = data.split(b"\n")
        for _ in range(chance.randint(1, 3)):
            _line_changed(lines, chance)
        return b"\n".join(lines)[:most]

    return mutate


def _line_changed(lines: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    line, cut = lines[at], chance.randint(0, len(lines[at]))
    what = chance.randrange(8)
    if what == 0:
        lines.insert(at, line)
    elif what == 1 and len(lines) > 1:
        del lines[at]
    elif what == 2:
        lines[at] = line[:cut]
    elif what == 3:
        lines[at] = line[:cut] + chance.choice(_MARKS) + line[cut:]
    elif what == 4:
        other = chance.choice(lines)
        lines[at] = line[:cut] + other[chance.randint(0, len(other)) :]
    elif what == 5:
        lines[at] = _fields_changed(line, chance)
    elif what == 6:
        lines[at] = line[:cut] + line[max(0, cut - 12) : cut] * chance.choice((1, 3, 60)) + line[cut:]
    else:
        lines.insert(chance.randrange(len(lines) + 1), line)


def _fields_changed(line: bytes, chance: random.Random) -> bytes:
    fields = line.split(b" ")
    fields[chance.randrange(len(fields))] = chance.choice(_MARKS + tuple(fields))
    return b" ".join(fields)
