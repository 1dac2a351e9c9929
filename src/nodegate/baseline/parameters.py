"""The parameters of a stored value: under which conditions a measured value may be compared with it."""

import math
from collections.abc import Mapping

AT_LEAST = "_min"  # size_bytes_min: applies to this size_bytes and more


def difference(parameters: Mapping[str, object], conditions: Mapping[str, str]) -> str:
    """How a measurement differs from the conditions of a stored value; "" if it does not.

    Only the parameters that the stored value names must agree: a value that names no NCCL version applies to all. A
    condition that the measurement does not report is a difference: unknown is not taken for equal.

    Args:
        parameters: of the stored value; a list means any of its items, and a name that ends in "_min" means
            this number or more.
        conditions: of the measurement, as text.
    """
    return "; ".join(found for name, wanted in parameters.items() if (found := _one(name, wanted, conditions)))


def shown(parameters: Mapping[str, object]) -> str:
    """The parameters for a message: "size_bytes 8589934592, gpus 8"."""
    return ", ".join(f"{name} {_words(name, wanted)}" for name, wanted in parameters.items())


def _one(name: str, wanted: object, conditions: Mapping[str, str]) -> str:
    condition = name.removesuffix(AT_LEAST)
    if (measured := conditions.get(condition)) is None:
        return f"stored for {condition} {_words(name, wanted)}, but the measurement does not report its {condition}"
    if name.endswith(AT_LEAST):
        number = _number(measured)
        same = number is not None and isinstance(wanted, (int, float)) and number >= wanted
    else:
        same = any(_equal(each, measured) for each in _items(wanted))
    return "" if same else f"stored for {condition} {_words(name, wanted)}, measured with {measured[:80]}"


def _equal(wanted: object, measured: str) -> bool:
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        return _number(measured) == wanted
    return str(wanted).lower() == measured.lower()


def _items(wanted: object) -> tuple[object, ...]:
    return tuple(wanted) if isinstance(wanted, (list, tuple)) else (wanted,)


def _words(name: str, wanted: object) -> str:
    prefix = "from " if name.endswith(AT_LEAST) else ""
    return prefix + " or ".join(str(each) for each in _items(wanted))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
