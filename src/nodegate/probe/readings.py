"""Typed access to what a node sent: bounded, checked, without exceptions; an invalid value is Unknown.

A reading is the value itself, or an object `{"why": ..., "detail": ...}` that says why there is none.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TypeVar

from nodegate.errors import CannotMeasure
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or

T = TypeVar("T")
U = TypeVar("U")
Data = Known[Mapping[str, object]]  # of an object that is unknown, so is each of its values

MAX_LABEL = 300  # characters of a name, version or state
MAX_BODY = 1 << 18  # characters of a text of many lines
MAX_ITEMS = 4096  # entries of one list or object
_MAX_INTEGER = 1 << 64
_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL_POINT = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?")
_HEXADECIMAL = re.compile(r"\s*(0x)?[0-9a-fA-F]{1,8}\s*")
_NVML = re.compile(r"NVML ([0-9]{1,3}): ")
_NOT_HERE = re.compile(r"\[?(n/a|not supported|not available)\b", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")

EVIDENCE = "read what it sent in the node's facts.json"
ROOT = "run as root, or set ansible_become for this node"
HUNG = "the driver may hang: read the kernel log, then reboot the node"

_NEXT_STEPS = {
    ("nvml", Why.MISSING): "install the NVIDIA driver; in a container, mount libnvidia-ml.so.1",
    ("nvml", Why.FAILED): "run nvidia-smi on the node; if driver and library differ, reload the driver or reboot",
    ("nvml", Why.LOST): "power-cycle the node: a GPU does not respond",
    ("driver", Why.MISSING): "install and load the NVIDIA driver",
    ("infiniband", Why.MISSING): "load the RDMA driver (mlx5_ib), or deselect the RDMA checks for this node",
    ("services", Why.MISSING): "no systemd on this node: query its own service manager",
    ("kernel_log", Why.DENIED): f"{ROOT}, or let the login read the journal (group systemd-journal)",
    ("kernel_log", Why.MISSING): f"{ROOT}, or keep a journal on the node",
    **{("mounts", why): "a mount hangs: check the file servers" for why in (Why.TIMEOUT, Why.HUNG)},
    **{(section, why): HUNG for section in ("nvml", "driver") for why in (Why.TIMEOUT, Why.HUNG)},
}
_NEXT_STEPS_BY_WHY = {
    Why.DENIED: ROOT,
    Why.TIMEOUT: "the node is slow: check its load and kernel log, then run again",
    Why.BUSY: "the node's processors are busy: look at what runs on it (top), then run again",
    Why.HUNG: "a process on the node cannot be ended: read the kernel log, then reboot the node",
    Why.LOST: "power-cycle the node: a device does not respond",
}


def why_not(value: object) -> Unknown | None:
    """The reason in a reading object, or None if the value is not such an object."""
    if not isinstance(value, dict) or "why" not in value:
        return None
    detail = value.get("detail", "")
    detail = shown(detail, MAX_LABEL) if isinstance(detail, str) else ""
    why = value["why"]
    for known in Why:
        if known.value == why:
            number = value.get("nvml")  # of NVML's error; a recording by hand may have it in its text alone
            if type(number) is not int:
                number = int(found[1]) if (found := _NVML.match(detail)) else None
            return Unknown(known, detail, number)
    return Unknown(Why.FAILED, f"{shown(why)}: {detail}".rstrip(": "))


def wrong(expected: str, value: object) -> Unknown:
    """The node sent something else than expected."""
    return Unknown(Why.FAILED, f"expected {expected}, the node sent {shown(value) or 'nothing'}")


def taken(data: Data, key: str) -> object:
    """The raw value of a key; Unknown if it is absent or a reading object with its reason."""
    if isinstance(data, Unknown):
        return data
    if key not in data:
        return Unknown(Why.MISSING, f"the node sent no {key}")
    value = data[key]
    return value if (reason := why_not(value)) is None else reason


def label(value: object) -> Known[str]:
    """One line of printable text, bounded."""
    if isinstance(value, Unknown):
        return value
    return shown(value.strip(), MAX_LABEL) if isinstance(value, str) else wrong("text", value)


def text(data: Data, key: str) -> Known[str]:
    """One line of printable text, bounded; empty text stays empty."""
    return label(taken(data, key))


def body(data: Data, key: str, limit: int = MAX_BODY) -> Known[str]:
    """A text of many lines, unchanged; characters that cannot be encoded are replaced."""
    value = taken(data, key)
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, str):
        return wrong("text", value)
    if value.isascii() and "\0" not in value:
        return value[:limit]
    return value[:limit].encode("utf-8", "replace").decode("utf-8").replace("\0", "?")


def whole(value: object) -> Known[int]:
    """A whole number that is a number in JSON."""
    if isinstance(value, Unknown):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_INTEGER:
        return wrong("a whole number", value)
    return value


def integer(data: Data, key: str) -> Known[int]:
    """A whole number."""
    return whole(taken(data, key))


def real(value: object) -> Known[float]:
    """A finite number."""
    if isinstance(value, Unknown):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _MAX_INTEGER:
        return wrong("a number", value)
    return float(value)


def number(data: Data, key: str) -> Known[float]:
    """A finite number."""
    return real(taken(data, key))


def flag(data: Data, key: str) -> Known[bool]:
    """Yes or no: true, false, 1 or 0."""
    value = taken(data, key)
    return value if isinstance(value, Unknown) else switch(value)


def switch(value: object) -> Known[bool]:
    """True, false, 1 or 0 as yes or no; any other number says neither."""
    if isinstance(value, bool):
        return value
    return bool(value) if isinstance(value, int) and value in (0, 1) else wrong("true or false", value)


def counted(data: Data, key: str) -> Known[int]:
    """A whole number that the kernel wrote as text: "255", "N/A (no PMA)"."""
    value = taken(data, key)
    return integer_in(value) if isinstance(value, str) else whole(value)


def integer_in(written: str) -> Known[int]:
    """The whole number in a text that has nothing else."""
    stripped = written.strip()
    if _DECIMAL.fullmatch(stripped):
        return int(stripped)
    if _NOT_HERE.match(stripped):
        return Unknown(Why.NOT_SUPPORTED, shown(stripped))
    return wrong("a whole number", written)


def real_in(written: str) -> Known[float]:
    """The decimal number in a text that has nothing else."""
    stripped = written.strip()
    if _DECIMAL_POINT.fullmatch(stripped) and math.isfinite(value := float(stripped)):
        return value
    if _NOT_HERE.match(stripped):
        return Unknown(Why.NOT_SUPPORTED, shown(stripped))
    return wrong("a number", written)


def hexadecimal(data: Data, key: str, bits: int = 32) -> Known[int]:
    """A number that sysfs writes as "0x10de"."""
    value = taken(data, key)
    if isinstance(value, Unknown):
        return value
    if isinstance(value, str) and _HEXADECIMAL.fullmatch(value) and (found := int(value, 16)) < 1 << bits:
        return found
    return wrong("a hexadecimal number", value)


def address_in(written: str) -> Known[str]:
    """A PCI address as sysfs writes it ("0000:1b:00.0") from any tool's form ("00000000:1B:00.0", "1b:00.0")."""
    if match := _ADDRESS.fullmatch(written.strip()):
        domain, bus, slot, function = match.groups()
        return f"{int(domain or '0', 16):04x}:{bus}:{slot}.{function}".lower()
    return wrong("a PCI address", written)


def mapping(data: Data, key: str) -> Known[Mapping[str, object]]:
    """An object, at most MAX_ITEMS entries of it."""
    return record(taken(data, key))


def record(value: object) -> Known[Mapping[str, object]]:
    """An object, at most MAX_ITEMS entries of it, with bounded printable keys."""
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, dict):
        return wrong("an object", value)
    if len(value) <= MAX_ITEMS and all(len(key) <= MAX_LABEL and key.isprintable() for key in value):
        return value
    return {shown(key, MAX_LABEL): value[key] for key in list(value)[:MAX_ITEMS]}


def items(data: Data, key: str) -> Known[Sequence[object]]:
    """A list, at most MAX_ITEMS entries of it."""
    value = taken(data, key)
    if isinstance(value, Unknown):
        return value
    return value[:MAX_ITEMS] if isinstance(value, list) else wrong("a list", value)


def records(data: Data, key: str) -> Known[tuple[Mapping[str, object], ...]]:
    """A list of objects; other entries are left out."""
    found = items(data, key)
    if isinstance(found, Unknown):
        return found
    return tuple(entry for entry in found if isinstance(entry, Mapping))


def mapped(reading: Known[T], change: Callable[[T], Known[U]]) -> Known[U]:
    """The reading changed by a function if it is known."""
    return reading if isinstance(reading, Unknown) else change(reading)


def needed(reading: Known[T], what: str, next_step: str) -> T:
    """A reading without which a section says nothing. Raises CannotMeasure: it is unknown."""
    if isinstance(reading, Unknown):
        raise CannotMeasure(f"{what}: {reading}", next_step=next_step)
    return reading


def first(pattern: str, missing: str | Unknown) -> Callable[[str], Known[str]]:
    """What finds the first group of a pattern in a text of lines; without it, `missing` or what was expected."""
    compiled = re.compile(pattern, re.MULTILINE)

    def found_in(written: str) -> Known[str]:
        match = compiled.search(written)
        return match[1] if match else wrong(missing, written) if isinstance(missing, str) else missing

    return found_in


def integers(data: Data, key: str, count: int) -> Known[tuple[int, ...]]:
    """A list of exactly this many whole numbers; true and false count as 1 and 0."""
    found = items(data, key)
    if isinstance(found, Unknown):
        return found
    numbers = [whole(int(entry) if isinstance(entry, bool) else entry) for entry in found]
    right = tuple(entry for entry in numbers if not isinstance(entry, Unknown))
    return right if len(right) == len(found) == count else wrong(f"{count} whole numbers", str(found[:8]))


def scaled(reading: Known[float], factor: float) -> Known[float]:
    """A number in another unit."""
    return reading if isinstance(reading, Unknown) else reading * factor


_BY_TYPE: Mapping[str, Callable[[Data, str], object]] = {
    "Known[str]": text,
    "Known[int]": integer,
    "Known[float]": number,
    "Known[bool]": flag,
    "str": lambda data, key: value_or(text(data, key), ""),
    "int": lambda data, key: value_or(integer(data, key), 0),
    "bool": lambda data, key: value_or(flag(data, key), False),
    "int | None": lambda data, key: value_or(integer(data, key), None),
}


def filled(kind: type[T], data: Data, /, **own: object) -> T:
    """A dataclass: what is not in `own` is read from an object, by the name and the type of its field."""
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in own:
            own[field.name] = data if isinstance(data, Unknown) else _BY_TYPE[str(field.type)](data, field.name)
    return kind(**own)


def section_data(sections: Mapping[str, object], name: str) -> object:
    """The data of a section. Raises CannotMeasure: the section is absent, or gives the reason why it has none."""
    data = taken(mapping(sections, name), "data")
    if isinstance(data, Unknown):
        raise CannotMeasure(f"{name} could not be read: {data}", next_step=next_step(name, data.why), lacks=name)
    return data


def next_step(section: str, why: Why) -> str:
    """What to do about a section that has no data."""
    return _NEXT_STEPS.get((section, why)) or _NEXT_STEPS_BY_WHY.get(why, EVIDENCE)


def section_object(sections: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The data of a section whose data must be an object.

    Raises:
        CannotMeasure: it is not; the section is absent, or gives the reason why it has none.
    """
    found = record(section_data(sections, name))
    if isinstance(found, Unknown):
        raise CannotMeasure(f"{name} cannot be read: {found}", next_step=EVIDENCE, lacks=name)
    return found


def listed(data: Data, key: str, most: int = MAX_ITEMS) -> Sequence[Mapping[str, object]]:
    """The first objects of a list; none where there is no list."""
    return value_or(records(data, key), ())[:most]
