"""A host's variables: the files of group_vars and host_vars, and all places that set them merged in Ansible's order."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.strict_yaml import Tagged, dotted
from nodegate.files.text_file import Source, read_text
from nodegate.inventory.tree import ALL, UNGROUPED, Host, Layer, Tree

_REFERENCE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_JINJA = ("{{", "{%", "{#")
_MAX_REFERENCES = 10  # references inside references
_MAX_TEXT = 65536  # characters, with references replaced
_BEYOND_US = "needs Jinja, but only {{ another_variable }} is replaced here (ansible-inventory would not do it either)"
_ABSENT = object()
Kind = Literal["group_vars", "host_vars"]

ENDINGS = ("", ".yml", ".yaml", ".json")  # Ansible's order: the first that exists is the only one read
VAULT_HEADER = "$ANSIBLE_VAULT;"
_MAX_DEPTH = 8


@dataclass(frozen=True)
class Variables:
    """The merged variables of one host. `layers` are the places that set them; a later one wins."""

    host: Host
    values: Mapping[str, object]
    layers: tuple[Layer, ...]

    def get(self, name: str) -> object:
        """The value of a variable that is needed, its references to others replaced; None if it is not set.

        Raises:
            UsageError: it is encrypted, has another tag, or needs Jinja other than `{{ another_variable }}`.
        """
        value = self.values.get(name)
        return None if value is None else self._resolve(name, value, 0)

    def last(self, *names: str) -> str:
        """The last of these names that is set, as Ansible has several names for one setting; "" when none is."""
        return next((name for name in reversed(names) if self.values.get(name) is not None), "")

    def layer(self, name: str) -> Layer:
        """The place whose value of this variable applies."""
        for layer in reversed(self.layers):
            if name in layer.values:
                return layer
        return Layer({}, self.host.file, "", self.host.line)

    def wrong(self, name: str, message: str, hint: str = "") -> UsageError:
        """The error to raise about one of the variables, with the place that sets it."""
        layer, said = self.layer(name), f"{dotted((self.host.name, name))}: {message}"
        return UsageError(said, file=layer.file, line=layer.lines.get(name, layer.line), hint=hint)

    def origin(self, name: str) -> str:
        """The `file:line` that sets this variable."""
        layer = self.layer(name)
        line = layer.lines.get(name, layer.line)
        return f"{layer.file}:{line}" if line else layer.file

    def _resolve(self, name: str, value: object, depth: int) -> object:
        if isinstance(value, Tagged):
            if value.tag == "!vault":
                raise self.wrong(name, "is encrypted, and nodegate has no vault password", "write it in plain text")
            raise self.wrong(name, f"has the tag {value.tag}", "write a plain value")
        if isinstance(value, list):
            return [self._resolve(name, item, depth) for item in value]
        if isinstance(value, dict):
            return {key: self._resolve(name, item, depth) for key, item in value.items()}
        if not isinstance(value, str) or not any(mark in value for mark in _JINJA):
            return value
        if depth >= _MAX_REFERENCES:
            raise self.wrong(name, "its references form a loop or are nested too deep")
        if whole := _REFERENCE.fullmatch(value.strip()):
            return self._reference(name, whole[1], depth)
        text = _REFERENCE.sub(lambda match: str(self._reference(name, match[1], depth)), value)
        if len(text) > _MAX_TEXT:
            raise self.wrong(name, f"longer than {_MAX_TEXT} characters with its references replaced")
        if any(mark in text for mark in _JINJA):
            raise self.wrong(name, _BEYOND_US, "write the value, or set it in host_vars")
        return text

    def _reference(self, name: str, other: str, depth: int) -> object:
        host = self.host.name
        magic = {"inventory_hostname": host, "inventory_hostname_short": host.partition(".")[0]}
        magic["ansible_playbook_python"] = sys.executable
        value = magic.get(other, self.values.get(other, _ABSENT))
        if value is _ABSENT:
            raise self.wrong(name, f"refers to {other}, which the inventory does not set", "set it, or write the value")
        return self._resolve(name, value, depth + 1)


class VarFiles:
    """The variable files of one inventory folder. Those that are read are added to `read_files`."""

    def __init__(self, folder: Path, read_files: list[Source], on_note: Callable[[str], None]) -> None:
        self._folder, self._read_files, self._on_note = folder, read_files, on_note
        kinds: tuple[Kind, ...] = ("group_vars", "host_vars")
        self._entries = {kind: _names(folder / kind) for kind in kinds}
        self._known: dict[tuple[Kind, str], tuple[Layer, ...]] = {}

    def layers(self, kind: Kind, name: str) -> tuple[Layer, ...]:
        """What is set for a group or host of this name, in the order in which it counts.

        Raises:
            UsageError: a file cannot be read, is not YAML, or is not a mapping.
        """
        if not self._entries[kind]:
            return ()
        if (found := self._known.get((kind, name))) is None:
            files = self._files(kind, name)
            found = self._known[kind, name] = tuple(layer for file in files for layer in self._read(file))
        return found

    def _files(self, kind: Kind, name: str) -> Iterable[Path]:
        for ending in ENDINGS:
            if name + ending in self._entries[kind]:
                path = self._folder / kind / (name + ending)
                return list(_files_below(path, 0)) if path.is_dir() else [path]
        return ()

    def _read(self, path: Path) -> Iterable[Layer]:
        text = read_text(path, found=True)
        self._read_files.append(Source.of(str(path), text))
        if text.startswith(VAULT_HEADER):
            self._on_note(f"{path}: encrypted as a whole, not read")
            return
        loaded = strict_yaml.load(text, str(path))
        if loaded.value is None:
            return
        if not isinstance(loaded.value, dict):
            raise loaded.wrong("a file of variables must be a mapping", (), "write name: value")
        for name in loaded.value:
            if not isinstance(name, str):
                raise loaded.wrong(f"the variable name {name} is not text", (name,))
        lines = loaded.lines(loaded.value)
        yield Layer(loaded.value, str(path), str(self._folder), loaded.line(()), lines)  # type: ignore[arg-type]


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(each.name for each in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as problem:
        raise UsageError(f"cannot list it: {problem.strerror}", file=str(folder)) from None


def _files_below(folder: Path, depth: int) -> Iterable[Path]:
    if depth > _MAX_DEPTH:
        raise UsageError(f"folders nest deeper than {_MAX_DEPTH}", file=str(folder), hint="look for a loop of links")
    for path in sorted(folder.iterdir(), key=lambda each: each.name):
        if path.name.startswith(".") or path.name.endswith("~"):
            continue
        if path.is_dir() and not path.suffix:
            yield from _files_below(path, depth + 1)
        elif path.is_file() and path.suffix in ENDINGS:
            yield path


class Merger:
    """Merges variables in Ansible's order.

    all < parents < children (by depth, then ansible_group_priority, then name) < group_vars/all < group_vars/*
    < the host's own < host_vars/*.
    """

    def __init__(self, tree: Tree, var_files: Sequence[VarFiles]) -> None:
        self._tree, self._var_files = tree, var_files
        self._by_groups: dict[tuple[str, ...], tuple[Mapping[str, object], tuple[Layer, ...]]] = {}

    def variables(self, host: Host) -> Variables:
        """The merged variables of a host.

        Raises:
            UsageError: a file of group_vars or host_vars cannot be read.
        """
        values, layers = self._of_groups(tuple(host.groups))
        own = [*host.layers, *(layer for files in self._var_files for layer in files.layers("host_vars", host.name))]
        return Variables(host, _merged(own, values) if own else values, (*layers, *own))

    def _of_groups(self, names: tuple[str, ...]) -> tuple[Mapping[str, object], tuple[Layer, ...]]:
        if (found := self._by_groups.get(names)) is None:
            within = self._tree.ancestors(names or [UNGROUPED])
            groups = [self._tree.groups[name] for name in within if name != ALL]
            groups.sort(key=lambda group: (group.depth, group.priority, group.name))
            layers = [*self._tree.groups[ALL].layers, *(layer for group in groups for layer in group.layers)]
            layers += [layer for files in self._var_files for layer in files.layers("group_vars", ALL)]
            for files in self._var_files:
                layers += [layer for group in groups for layer in files.layers("group_vars", group.name)]
            found = self._by_groups[names] = _merged(layers, {}), tuple(layers)
        return found


def _merged(layers: Iterable[Layer], below: Mapping[str, object]) -> Mapping[str, object]:
    values = dict(below)
    for layer in layers:
        values.update(layer.values)
    return values
