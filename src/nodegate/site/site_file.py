"""`site.yaml`: what a site sets once for all of its runs. Read strictly; a command line wins over it.

Paths in it start at its own folder. It has no secrets: a target of notices names the file or the
variable that has them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodegate.claims.table import titles
from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.strict_yaml import Loaded, shown
from nodegate.files.typed_yaml import mapping
from nodegate.measure.durations import LONGEST_BURN_S, seconds
from nodegate.records.run import PARTIES, Contract, Criterion, Party
from nodegate.words.catalogue import LANGUAGES

NAME, ORDER = "site.yaml", "order"
LONGEST_KEPT_S = 3660 * 86400.0  # ten years
LONGEST_CYCLE_S = 366 * 86400.0
_MOST_NODES = 1_000_000
_LONGEST_LINE = 500
_HERE = Path()
_HIDDEN = ("@", "$")  # a target that begins so has its secret elsewhere
_OPEN = ("mailto", "program")  # schemes whose targets may be read by all


class _Wrong(Exception):  # noqa: N818 - reads as the sentence that it raises
    """A value that is not of its kind: what it should be."""


class _Unknown(Exception):  # noqa: N818 - as above
    """A key that a mapping does not have: the key, and those that it has."""


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
    if value not in LANGUAGES:
        raise _Wrong(" or ".join(LANGUAGES))
    return str(value)


def _languages(value: object, folder: Path) -> tuple[str, ...]:
    found = tuple(_language(each, folder) for each in (value if isinstance(value, list) else [value]))
    if not found or len(set(found)) < len(found):
        raise _Wrong("each language once, the first one first")
    return found


def _targets(value: object, folder: Path) -> tuple[str, ...]:
    found = _texts(value, folder)
    for each in found:
        scheme, _, rest = each.partition(":")
        if rest and scheme not in _OPEN and not rest.startswith(_HIDDEN):
            raise _Wrong(f"targets whose secrets are elsewhere: {scheme}:@FILE or {scheme}:$NAME")
    return found


def _line(value: object, _: Path = _HERE) -> str:
    """A line for the paper; a number is taken as it is written, but for decimals: 1.10 would become 1.1."""
    if type(value) is int or (isinstance(value, str) and value.strip() and len(value) <= _LONGEST_LINE):
        return str(value).strip()
    raise _Wrong(f"some text of at most {_LONGEST_LINE} characters (a decimal number in quotes)")


def _lines(value: object, known: tuple[str, ...]) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _Wrong(f"a mapping of {', '.join(known)}")
    for key in value:
        if key not in known:
            raise _Unknown(key, known)
    return {key: _line(each) for key, each in value.items()}


def _party(value: object, _: Path) -> Party:
    return Party(**_lines(value if isinstance(value, dict) else {"name": value}, ("name", "address", "contact")))


def _criterion(value: object, _: Path) -> Criterion:
    return Criterion(**_lines(value, ("text", "clause")))


def _source(value: object, folder: Path) -> str:
    return _sources(value, folder)[0] if isinstance(value, str) else _text(value, folder)


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
    "parties": dict.fromkeys(PARTIES, _party),
    "contract": dict.fromkeys(("number", "project", "date"), _line),
    "lot": dict.fromkeys(("number", "text"), _line),
    "site": dict.fromkeys(("name", "address"), _line),
    "criteria": {},  # a claim's name each
}
VALUES: Mapping[str, Callable[[object, Path], Any]] = {"policy": _source, "languages": _languages}


@dataclass(frozen=True)
class Site:
    """What a site file sets, by block; of a block or key that it leaves out there is none. Times are in seconds.

    `blocks[""]` has what is in no block; `policy_line` is where the policy is named. `order` has by group what is
    demanded of its nodes, `lines` the line of each group and item of it.
    """

    file: str = ""
    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    policy_line: int = 0
    order: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def wrong(self, message: str, hint: str, *order: str) -> UsageError:
        """The error for a group of the order, or an item of it, with its place."""
        return UsageError(message, file=self.file, line=self.lines[order], hint=hint)

    def of(self, block: str, key: str, otherwise: Any) -> Any:
        """A value, or `otherwise` where the file has none."""
        return self.blocks.get(block, {}).get(key, otherwise)

    @property
    def contract(self) -> Contract:
        """What it says of an acceptance."""
        texts = {name: self.blocks.get(name, {}) for name in ("parties", "contract", "lot", "site", "criteria")}
        return Contract(self.file, **texts, languages=self.of("", "languages", ()))


def beside(inventory: Sequence[str], baselines: Sequence[Path] = ()) -> Path | None:
    """The site file in the folder of the first inventory (values of --inventory), where there is one.

    A file of that name that the command line gives as a baseline is none.
    """
    if not inventory or not Path(inventory[0]).is_file():
        return None
    file = Path(inventory[0]).with_name(NAME)
    return file if file.is_file() and not any(each.exists() and each.samefile(file) for each in baselines) else None


def read(file: Path) -> Site:
    """The settings of a site.

    Raises:
        UsageError: it cannot be read, has an unknown key, or a value that is not of its kind; with file and line.
    """
    loaded, found = strict_yaml.load_file(file), dict[str, dict[str, Any]]()
    order: dict[str, Mapping[str, object]] = {}
    for block, rest in _mapping(loaded, (), loaded.value, {**BLOCKS, **VALUES, ORDER: None}).items():
        if block == ORDER:
            order = _order(loaded, rest)
            continue
        if block in VALUES:
            found.setdefault("", {})[block] = _value(loaded, (block,), VALUES[block], rest, file.parent)
            continue
        known = dict.fromkeys(titles(), _criterion) if block == "criteria" else BLOCKS[block]
        given = _mapping(loaded, (block,), rest, known)
        found[block] = {key: _value(loaded, (block, key), known[key], each, file.parent) for key, each in given.items()}
    lines: dict[tuple[str, ...], int] = {(group,): loaded.line((ORDER, group)) for group in order}
    lines |= {(group, key): loaded.line((ORDER, group, key)) for group, items in order.items() for key in items}
    return Site(loaded.name, found, loaded.line(("policy",)), order, lines)


def _order(loaded: Loaded, value: object) -> dict[str, Mapping[str, object]]:
    """Group -> what is demanded of its nodes; the items are read with those of the inventory."""
    if not isinstance(value, dict) or not all(isinstance(items, dict) and items for items in value.values()):
        said = "order must be a mapping of groups, each with items of nodegate_expect"
        raise loaded.wrong(said, (ORDER,), "order: {all: {gpus: 8, nics: 10}}")
    return {str(group): items for group, items in value.items()}


def _mapping(loaded: Loaded, path: tuple[str, ...], value: object, known: Mapping[str, object]) -> dict[str, Any]:
    what, hint = path[-1] if path else "a site file", f"known here: {', '.join(known)}"
    return {} if value is None else mapping(loaded, path, value, what, known, hint=hint)


def _value(
    loaded: Loaded, path: tuple[str, ...], kind: Callable[[object, Path], Any], value: object, folder: Path
) -> object:
    try:
        return kind(value, folder)
    except _Unknown as said:
        raise loaded.unknown_key((*path, said.args[0]), said.args[1]) from None
    except _Wrong as said:
        raise loaded.wrong(f"{'.'.join(path)} must be {said}, not {shown(str(value))}", path) from None
