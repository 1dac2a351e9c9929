"""A host's variables after merging all places that set them, in Ansible's order."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import Tagged, dotted
from nodegate.inventory.tree import ALL, Group, Host, Layer, Tree
from nodegate.inventory.var_files import VarFiles

_REFERENCE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_JINJA = ("{{", "{%", "{#")
_MAX_REFERENCES = 10  # references inside references
_MAX_TEXT = 65536  # characters, with references replaced
_ABSENT = object()


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
        return self.layer(name).wrong(name, f"{dotted((self.host.name, name))}: {message}", hint)

    def origin(self, name: str) -> str:
        """The `file:line` that sets this variable."""
        layer = self.layer(name)
        line = layer.lines.get(name, layer.line)
        return f"{layer.file}:{line}" if line else layer.file

    def _resolve(self, name: str, value: object, depth: int) -> object:
        if isinstance(value, Tagged):
            self._tagged(name, value)
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
            self._beyond_us(name)
        return text

    def _reference(self, name: str, other: str, depth: int) -> object:
        value = self._magic().get(other, self.values.get(other, _ABSENT))
        if value is _ABSENT:
            raise self.wrong(name, f"refers to {other}, which the inventory does not set", "set it, or write the value")
        return self._resolve(name, value, depth + 1)

    def _magic(self) -> dict[str, object]:
        return {
            "inventory_hostname": self.host.name,
            "inventory_hostname_short": self.host.name.partition(".")[0],
            "ansible_playbook_python": sys.executable,
        }

    def _tagged(self, name: str, value: Tagged) -> NoReturn:
        if value.tag == "!vault":
            raise self.wrong(name, "is encrypted, and nodegate has no vault password", "write it in plain text")
        raise self.wrong(name, f"has the tag {value.tag}", "write a plain value")

    def _beyond_us(self, name: str) -> NoReturn:
        raise self.wrong(
            name,
            "needs Jinja, but only {{ another_variable }} is replaced here (ansible-inventory would not do it either)",
            "write the value, or set it in host_vars",
        )


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
        found = self._by_groups.get(names)
        if found is None:
            groups = self._in_order(list(names))
            layers = [*self._tree.groups[ALL].layers, *(layer for group in groups for layer in group.layers)]
            layers += [layer for files in self._var_files for layer in files.layers("group_vars", ALL)]
            for files in self._var_files:
                layers += [layer for group in groups for layer in files.layers("group_vars", group.name)]
            found = self._by_groups[names] = _merged(layers, {}), tuple(layers)
        return found

    def _in_order(self, names: list[str]) -> list[Group]:
        groups = [self._tree.groups[name] for name in self._tree.ancestors(names or ["ungrouped"]) if name != ALL]
        return sorted(groups, key=lambda group: (group.depth, group.priority, group.name))


def _merged(layers: Iterable[Layer], below: Mapping[str, object]) -> Mapping[str, object]:
    values = dict(below)
    for layer in layers:
        values.update(layer.values)
    return values
