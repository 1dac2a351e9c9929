"""`site.yaml`: what a site sets once for all of its runs. Read strictly; a command line wins over it.

Paths in it start at its own folder. It has no secrets: a target of notices names the file or the
variable that has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.strict_yaml import shown
from nodegate.files.typed_yaml import mapping
from nodegate.measure.durations import LONGEST_BURN_S, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.files.strict_yaml import Loaded

NAME = "site.yaml"
LONGEST_KEPT_S = 3660 * 86400.0  # ten years
LONGEST_CYCLE_S = 366 * 86400.0
_MOST_NODES = 1_000_000
_HIDDEN = ("@", "$")  # a target that begins so has its secret elsewhere
_OPEN = ("mailto", "program")  # schemes whose targets may be read by all


class _Wrong(Exception):  # noqa: N818 - reads as the sentence that it raises
    """A value that is not of its kind: what it should be."""


def _text(value: object, _: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Wrong("some text")
    return value


def _texts(value: object, folder: Path) -> tuple[str, ...]:
    return tuple(_text(each, folder) for each in (value if isinstance(value, list) else [value]))


def _path(value: object, folder: Path) -> Path:
    return folder / Path(_text(value, folder)).expanduser()


def _sources(value: object, folder: Path) -> tuple[str, ...]:
    """Values of --inventory: files of the folder, and what is none, as it is."""
    found = _texts(value, folder)
    return tuple(str(folder / each) if (folder / each).exists() else each for each in found)


def _time(most_s: float, least_s: float = 1.0) -> Callable[[object, Path], float]:
    def read(value: object, _: Path) -> float:
        try:
            found = seconds(value, "", most_s=most_s) if isinstance(value, str) else 0.0
        except UsageError:
            found = 0.0
        if found < least_s:
            raise _Wrong(f"a time with its unit (10m, 24h, 2d), from {least_s:g} s to {most_s / 86400:g} days")
        return found

    return read


def _number(value: object, _: Path) -> int:
    if type(value) is not int or not 0 < value <= _MOST_NODES:
        raise _Wrong(f"a whole number from 1 to {_MOST_NODES}")
    return value


def _language(value: object, _: Path) -> str:
    if value not in ("en", "zh"):
        raise _Wrong("en or zh")
    return str(value)


def _targets(value: object, folder: Path) -> tuple[str, ...]:
    found = _texts(value, folder)
    for each in found:
        scheme, _, rest = each.partition(":")
        if rest and scheme not in _OPEN and not rest.startswith(_HIDDEN):
            raise _Wrong(f"targets whose secrets are elsewhere: {scheme}:@FILE or {scheme}:$NAME")
    return found


# block -> key -> how its value is read
BLOCKS: Mapping[str, Mapping[str, Callable[[object, Path], Any]]] = {
    "night": {
        "inventory": _sources,
        "nodes": _text,
        "within": _time(LONGEST_BURN_S, 60.0),
        "every": _time(LONGEST_CYCLE_S, 3600.0),
        "most_nodes": _number,
        "delay": _time(86400.0),
        "options": _texts,
    },
    "notices": {"to": _targets, "lang": _language},
    "record": {"file": _path, "keep": _time(LONGEST_KEPT_S, 86400.0)},
}


@dataclass(frozen=True)
class Site:
    """What a site file sets, by block; of a block or key that it leaves out there is none. Times are in seconds."""

    file: str = ""
    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, block: str, key: str, otherwise: Any) -> Any:
        """A value, or `otherwise` where the file has none."""
        return self.blocks.get(block, {}).get(key, otherwise)


def read(file: Path) -> Site:
    """The settings of a site.

    Raises:
        UsageError: it cannot be read, has an unknown key, or a value that is not of its kind; with file and line.
    """
    loaded = strict_yaml.load_file(file)
    found = {
        block: {key: _value(loaded, (block, key), each, file.parent) for key, each in rest.items()}
        for block, rest in _mapping(loaded, (), loaded.value, BLOCKS).items()
        for rest in [_mapping(loaded, (block,), rest, BLOCKS[block])]
    }
    return Site(loaded.name, found)


def _mapping(loaded: Loaded, path: tuple[str, ...], value: object, known: Mapping[str, object]) -> dict[str, Any]:
    what, hint = path[-1] if path else "a site file", f"known here: {', '.join(known)}"
    return {} if value is None else mapping(loaded, path, value, what, known, hint=hint)


def _value(loaded: Loaded, path: tuple[str, str], value: object, folder: Path) -> object:
    block, key = path
    try:
        return BLOCKS[block][key](value, folder)
    except _Wrong as said:
        raise loaded.wrong(f"{block}.{key} must be {said}, not {shown(str(value))}", path) from None
