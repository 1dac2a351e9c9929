"""Records as plain values, as JSON has them: a field that has its default is left out, and what is read is checked.

For evidence, which a node without any library reads too (store.py needs one).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
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


def attempt_from_labels(runs: object) -> dict[str, object]:
    """An attempt in today's plain form. What was kept as a run that never ran becomes a field of the attempt.

    Raises:
        ValueError: it is no list of runs.
    """
    if not isinstance(runs, list) or not all(isinstance(ran, dict) and "what" in ran for ran in runs):
        raise ValueError("no list of runs")
    attempt: dict[str, object] = {}
    kept: list[object] = []
    missing: list[object] = []
    for ran in runs:
        said = ran.get("labels")
        label = {str(name): str(each) for name, each in said.items()} if isinstance(said, dict) else {}
        why = {name: ran[name] for name in ("cannot", "next_step", "lacks", "whose") if name in ran}
        attempt |= {name: label[name] for name in ("node", "hostname") if name in label}
        if ran["what"] == "plan" and "rails" in label:
            attempt |= {"rails": label["rails"].split(), "partners": _count(label.get("partners", ""))}
        elif ran["what"] == "alone":
            attempt["alone"] = why.get("cannot") or label.get("why", "")
        elif "device" in label and "peer" not in label:
            missing.append({"device": label["device"], **why, "by_rule": "left_out" in label})
        elif ran["what"] == "":
            attempt |= why
        else:
            kept.append({**{name: each for name, each in ran.items() if name != "labels"}, **_of_run(label)})
    return {**attempt, "runs": kept, "missing": missing}


def _of_run(label: Mapping[str, str]) -> dict[str, object]:
    """The plan and the notes of a run: each label where it stands today."""
    found: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for place, read, names in _PLACES:
        for old, _, new in (name.partition(":") for name in names.split()):
            if old in label:
                found[place][new or old] = read(label[old])
    plan = found["plan"] | {"link": found["of_link"] if "peer" in label else None}
    plan |= {"launch": found["of_launch"] if "group" in label else None}
    link = found["link"] | {end: found[end] for end in ("server", "client")}
    return {"plan": plan, "link": link | {"peer_failed": label.get("peer_best") == "none"}, "launch": found["launch"]}


def _names(text: str) -> list[str]:
    """Of many nodes the first ones are there, and how many more there are."""
    return text.split(" and ", maxsplit=1)[0].split()


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 24 else 0


def _counts(text: str) -> list[int]:
    return [_count(word) for word in text.split()]


def _amount(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


# Which labels a record is made of, and how each is read; after a colon its name today, where it has another one.
_PLACES: Sequence[tuple[str, Callable[[str], object], str]] = (
    ("plan", str, "mode origin version"),
    ("plan", _count, "gpus size_bytes"),
    ("plan", _amount, "limit_s"),
    ("of_link", str, "role device peer peer_device round memory path"),
    ("of_link", bool, "of_another_rail"),
    ("of_launch", str, "group kind head settings"),
    ("of_launch", _count, "count gpus_of_node turns builds"),
    ("of_launch", _names, "nodes good"),
    ("of_launch", bool, "asked:asks_transports nvlink:one_domain"),
    ("link", str, "program lost"),
    ("link", _amount, "peer_best peer_best_way"),
    ("link", bool, "peer_passed"),
    ("server", str, "server_cpus:cpus server_near:near server_unbound:unbound server_class:traffic_class"),
    ("server", _counts, "server_counted:counted"),
    ("client", str, "client_cpus:cpus client_near:near client_unbound:unbound client_class:traffic_class"),
    ("client", _counts, "client_counted:counted"),
    ("launch", str, "searched slower"),
    ("launch", _names, "blamed paths left_out"),
    ("launch", _count, "racks time_us"),
    ("launch", bool, "concerned"),
)
