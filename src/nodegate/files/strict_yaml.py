"""YAML read strictly: plain data with line numbers, and a typing error is an error instead of a surprise.

What differs from PyYAML's safe loader, and why:

* a key given twice in one mapping is an error (PyYAML silently keeps the last one);
* only plain decimal numbers become numbers. `0123456`, `12:34:56`, `0x2330`, `1_000`, `.nan`, dates and whole numbers
  of more than 18 digits stay text, since serials, MAC addresses and PCI ids look like that. `1.10` is the number 1.1:
  put versions in quotes. `yes`, `no`, `on`, `off` are true and false, as in Ansible;
* no object is ever constructed: `!vault` and any other tag gives a `Tagged` value, which means "not readable
  here" and is an error only for the reader that needs it;
* aliases share the value that they name (treat loaded values as read-only); their expanded size is counted, so that a
  few lines cannot become millions of values. Depth and size are limited too.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import yaml

from nodegate.errors import UsageError
from nodegate.files.text_file import MAX_BYTES, did_you_mean, read_text, shown

Lines = Mapping[object, int]  # key of a mapping, or index of a list -> line
__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Loaded",
    "Tagged",
    "did_you_mean",
    "dotted",
    "load",
    "load_file",
    "scalar",
    "shown",
]

MAX_DEPTH = 50
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
MAX_VALUES = 2_000_000  # keys, values and everything that aliases expand to

_YAML = "tag:yaml.org,2002:"
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {
    spelling: value
    for value, words in ((True, "true yes on"), (False, "false no off"))
    for word in words.split()
    for spelling in (word, word.capitalize(), word.upper())
}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,29})?\.[0-9]{1,30}(?:[eE][-+][0-9]{1,2})?", re.ASCII)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is seven times as fast, if PyYAML has it


@dataclass(frozen=True)
class Tagged:
    """A value whose tag is not understood here: `!vault`, `!unsafe`, `!!python/...`.

    Using it as true or false is an error, so that a reader which forgets it stops instead of taking it for a setting.
    `text` is the scalar as written; empty for a tagged list or mapping.
    """

    tag: str
    text: str = field(repr=False)  # it may be a secret

    def __bool__(self) -> NoReturn:
        raise TypeError(f"a value tagged {self.tag} was used as true or false")

    def __str__(self) -> str:
        return f"a value tagged {self.tag}"


@dataclass(frozen=True)
class Loaded:
    """A YAML document: `value` is made of dict, list, str, int, float, bool, None and `Tagged`.

    `name` is the file as the user named it, `sha256` the digest of its text in UTF-8.
    """

    value: object
    name: str
    sha256: str
    _lines: Mapping[int, tuple[object, Lines]] = field(repr=False)  # by id() of the container
    _first_line: int = 1

    def line(self, path: Iterable[object]) -> int:
        """The line of the value at this path of keys and indices, or of the nearest part of the path that exists."""
        value, line = self.value, self._first_line
        for step in path:
            try:
                found = self.lines(value).get(step)
            except TypeError:  # an unhashable step
                return line
            if found is None:
                return line
            line, value = found, value[step]  # type: ignore[index]  # a container: it has lines
        return line

    def lines(self, container: object) -> Lines:
        """The lines of the keys of one of the document's mappings, or of the items of one of its lists."""
        found = self._lines.get(id(container))
        return found[1] if found else {}

    def wrong(self, message: str, path: Iterable[object] = (), hint: str = "") -> UsageError:
        """The error to raise about the value at this path."""
        return UsageError(message, file=self.name, line=self.line(path), hint=hint)

    def unknown_key(self, path: Iterable[object], allowed: Iterable[str]) -> UsageError:
        """The error to raise about the key at the end of this path, with the nearest of the keys allowed there."""
        steps = tuple(path)
        message = f"{dotted(steps[:-1])}: " if steps[:-1] else ""
        message += f"unknown key {shown(str(steps[-1]))}"
        return self.wrong(message, steps, did_you_mean(str(steps[-1]), allowed))


def dotted(path: Iterable[object]) -> str:
    """A path for a message, `all.hosts.gpu1`: control characters escaped, not too long."""
    text = ".".join(map(str, path))[:160]
    return text if text.isprintable() else ascii(text)


def load(text: str, name: str) -> Loaded:
    """The one YAML document in this text; `name` is its name in messages. An empty text gives None.

    Raises:
        UsageError: it is not YAML, has a key twice, more than one document, or is too large or too deep.
    """
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > MAX_BYTES:
        raise UsageError(f"larger than {MAX_BYTES >> 20} MiB", file=name)
    builder = _Builder(name)
    try:
        value = builder.document(yaml.parse(text.removeprefix("\ufeff"), Loader=_LOADER))
    except yaml.YAMLError as problem:
        raise _syntax_error(problem, text, name) from None
    except UnicodeEncodeError:
        raise UsageError("this is not valid Unicode text", file=name) from None
    return Loaded(value, name, hashlib.sha256(raw).hexdigest(), builder.lines, builder.first_line)


def load_file(path: Path, name: str = "") -> Loaded:
    """The YAML document in this file; `name` is its name in messages, by default its path.

    Raises:
        UsageError: as `load`, or the file cannot be read.
    """
    return load(read_text(path, name), name or str(path))


def _syntax_error(problem: yaml.YAMLError, text: str, name: str) -> UsageError:
    mark = getattr(problem, "problem_mark", None) or getattr(problem, "context_mark", None)
    line = mark.line + 1 if mark is not None else 0
    said = getattr(problem, "problem", None) or getattr(problem, "reason", None) or str(problem).partition("\n")[0]
    if "nesting depth" in said:  # libyaml has a limit of its own since PyYAML 6.0.4, and may come to it first
        return UsageError(_TOO_DEEP, file=name, line=line)
    rows = text.splitlines()
    row = rows[line - 1] if 0 < line <= len(rows) else ""
    hint = "indent with spaces: YAML allows no tabs" if row[: len(row) - len(row.lstrip())].count("\t") else ""
    return UsageError(f"this is not YAML: {said}", file=name, line=line, hint=hint)


class _Builder:
    """Plain data from the parser's events, in one pass and with limits that apply before anything is built."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[int, tuple[object, Lines]] = {}
        self.first_line = 1
        self._anchors: dict[str, tuple[object, int]] = {}  # value, and how many values it expands to
        self._values = 0
        self._events: Iterator[yaml.Event] = iter(())

    def document(self, events: Iterator[yaml.Event]) -> object:
        self._events = events
        value: object = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._wrong("a second document begins here", event, "write one document per file")
                root = next(events)
                self.first_line = _line(root)
                value = self._node(root, 0)
        return value

    def _wrong(self, message: str, event: yaml.Event, hint: str = "") -> UsageError:
        return UsageError(message, file=self.name, line=_line(event), hint=hint)

    def _count(self, event: yaml.Event, values: int = 1) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise self._wrong(f"more than {MAX_VALUES} values with aliases expanded", event)

    def _node(self, event: yaml.Event, depth: int) -> object:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._wrong(f"*{event.anchor} refers to an anchor that was not defined before", event)
            value, values = self._anchors[event.anchor]
            self._count(event, values)
            return value
        if depth > MAX_DEPTH:
            raise self._wrong(_TOO_DEEP, event)
        before = self._values
        self._count(event)
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            value = self._container(event, depth)
        else:
            raise self._wrong("this is not YAML", event)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._values - before)
        return value

    def _container(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, depth: int) -> object:
        if event.anchor:
            self._anchors.pop(event.anchor, None)  # an alias inside its own anchor finds nothing
        mapping = isinstance(event, yaml.MappingStartEvent)
        value: object = self._mapping(depth) if mapping else self._sequence(depth)
        usual = event.tag in (None, "!", _YAML + ("map" if mapping else "seq"))
        return value if usual else Tagged(_short(event.tag or ""), "")

    def _sequence(self, depth: int) -> list[object]:
        items: list[object] = []
        lines: dict[object, int] = {}
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            lines[len(items)] = _line(event)
            items.append(self._node(event, depth + 1))
        self.lines[id(items)] = (items, lines)
        return items

    def _mapping(self, depth: int) -> dict[object, object]:
        items: dict[object, object] = {}
        lines: dict[object, int] = {}
        merged: list[object] | None = None
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
                if merged is not None:
                    raise self._wrong("the key << occurs twice", event, "write a list: << : [*one, *two]")
                merged = self._merge(event, depth)
                continue
            key = self._key(event, depth)
            if key in items:
                hint = f"it is already in {self.name}:{lines[key]}"
                raise self._wrong(f"the key {shown(str(key))} occurs twice", event, hint)
            lines[key] = _line(event)
            items[key] = self._node(next(self._events), depth + 1)
        for source in merged or ():
            inherited = self.lines[id(source)][1]
            for key, value in source.items():  # type: ignore[attr-defined]  # _merge gives mappings
                if key not in items:
                    items[key], lines[key] = value, inherited[key]
        self.lines[id(items)] = (items, lines)
        return items

    def _key(self, event: yaml.Event, depth: int) -> object:
        key = self._node(event, depth + 1)
        if key is None or isinstance(key, (dict, list, Tagged)):
            raise self._wrong("a key must be plain text", event, "put it in quotes")
        return key

    def _merge(self, event: yaml.Event, depth: int) -> list[object]:
        value = self._node(next(self._events), depth + 1)
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise self._wrong("<< needs a mapping, or a list of mappings", event)
        return sources

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        if event.tag is None or event.tag == "!":
            return scalar(text) if event.implicit[0] and event.tag is None else text
        kind = event.tag.removeprefix(_YAML)
        if kind in ("str", "timestamp"):
            return text
        if kind not in ("int", "float", "bool", "null"):
            return Tagged(_short(event.tag), text)
        value = scalar(text)
        if kind == "float" and type(value) is int:
            return float(value)
        if type(value) is not {"int": int, "float": float, "bool": bool, "null": type(None)}[kind]:
            raise self._wrong(f"{shown(text)} is not a valid {kind}", event)
        return value


def scalar(text: str) -> object:
    """What an unquoted scalar means: None, true or false, a plain decimal number, else the text itself."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_YAML) if tag.startswith(_YAML) else tag
