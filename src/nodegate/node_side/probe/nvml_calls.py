"""How a function of NVML is called: an error becomes a reading that says why there is none.

A name that the binding lacks and a function that the driver's library lacks are `missing`, a device without such
a thing is `not supported`.
"""

import math
from types import ModuleType
from typing import Any, Callable, Dict, List, Tuple

from nodegate.node_side.probe import reading

Handle = Any  # an opaque pointer of pynvml
Reader = Callable[[ModuleType, Handle], object]

_WHY = {3: "not supported", 4: "denied", 10: "timeout", 13: "missing", 15: "lost", 16: "lost"}
_UNION_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t


def ask(nvml: ModuleType, name: str, *args: object) -> Any:
    """Call a function of the binding; bytes come back as text.

    Raises:
        reading.CannotRead: it is missing or returned an error; `nvml` in the reading is the error's number.
    """
    function = getattr(nvml, name, None)
    if function is None:
        raise reading.CannotRead(reading.unknown("missing", f"the NVML binding has no {name}"))
    try:
        value = function(*args)
    except nvml.NVMLError as error:
        raise reading.CannotRead(failure(error.value, str(error))) from None
    except Exception as error:  # text that is not UTF-8, or a mismatch that the binding reports in its own way
        raise reading.CannotRead(reading.unknown("failed", f"{name}: {type(error).__name__}: {error}")) from None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def failure(number: int, message: str) -> Dict[str, object]:
    """The reading for an NVML error."""
    return reading.unknown(_WHY.get(number, "failed"), f"NVML {number}: {message}", nvml=number)


def reading_of(nvml: ModuleType, name: str, *args: object) -> object:
    """The result of a function, as a reading."""
    return guarded(lambda nvml, _: ask(nvml, name, *args))(nvml, None)


def guarded(reader: Reader) -> Reader:
    """A reader whose first failure becomes its reading."""

    def read(nvml: ModuleType, handle: Handle) -> object:
        try:
            return reader(nvml, handle)
        except reading.CannotRead as error:
            return error.reading

    return read


def fields(nvml: ModuleType, handle: Handle, wanted: List[Tuple[int, int]]) -> List[object]:
    """Readings of several (field, scope) pairs by one call."""
    try:
        found = ask(nvml, "nvmlDeviceGetFieldValues", handle, wanted)
    except reading.CannotRead as error:
        return [error.reading for _ in wanted]
    return [_field(nvml, value) for value in found]


def _field(nvml: ModuleType, found: Any) -> object:
    """The value counts only when its own return code says so, and is in the union member of its type."""
    if found.nvmlReturn != 0:
        return failure(found.nvmlReturn, str(nvml.NVMLError(found.nvmlReturn)))
    if found.valueType >= len(_UNION_MEMBERS):
        return reading.unknown("failed", f"field {found.fieldId} has the unknown type {found.valueType}")
    value = getattr(found.value, _UNION_MEMBERS[found.valueType])
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return value if is_finite else reading.unknown("failed", f"field {found.fieldId} is not a number")


def one_field(number: int) -> Reader:
    """A field of the device itself."""
    return lambda nvml, handle: fields(nvml, handle, [(number, 0)])[0]
