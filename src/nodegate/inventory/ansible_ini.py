"""Ansible's INI inventories: `[group]`, `[group:vars]`, `[group:children]`, and lines of hosts with variables."""

import ast
import math
import re
import shlex
import warnings

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean, scalar, shown
from nodegate.inventory.ansible_yaml import priority
from nodegate.inventory.names import parse_entry
from nodegate.inventory.plain_list import OF_SLURM, ONE_A_LINE
from nodegate.inventory.tree import UNGROUPED, Group, Layer, Tree

SECTION = re.compile(r"\[(?P<group>[^:\]\s]+)(?::(?P<kind>\w+))?\]\s*(?:#.*)?")
KINDS = ("hosts", "vars", "children")

_GROUP_LINE = re.compile(r"(?P<group>[^:\]\s]+)\s*(?:#.*)?")
_MAX_LINE = 65_536  # characters of a host with its variables: shlex takes quadratic time
_MAX_LITERAL = 4096  # characters: no real list is longer, and a literal nests as deep as it is long


def read(text: str, name: str, folder: str, tree: Tree) -> None:
    """Add the groups and hosts of an INI inventory to the tree; `name` is the file's name in messages.

    Raises:
        UsageError: the file is malformed, with file and line.
    """
    _Reader(name, folder, tree).read(text)


class _Reader:
    def __init__(self, name: str, folder: str, tree: Tree) -> None:
        self.name, self.folder, self.tree = name, folder, tree
        self.line = 0
        self.group: Group = tree.groups[UNGROUPED]
        self.kind = "hosts"
        self.declared = set(tree.groups)
        self.mentioned: dict[str, tuple[int, str]] = {}  # a group that must be declared in some section: line, section

    def read(self, text: str) -> None:
        for self.line, raw in enumerate(text.splitlines(), start=1):
            line = raw.strip()
            if not line or line[0] in "#;":
                continue
            if line.startswith("[") and (section := SECTION.fullmatch(line)):
                self._section(section["group"], section["kind"] or "hosts")
            elif self.kind == "hosts":
                self._hosts(line)
            elif self.kind == "vars":
                self._variable(line)
            else:
                self._child(line)
        for group, (where, header) in self.mentioned.items():
            if group not in self.declared:
                raise UsageError(
                    f"[{header}] names the group {group}, which is not declared",
                    file=self.name,
                    line=where,
                    hint=did_you_mean(group, self.declared - {"all", UNGROUPED}) or f"add a section [{group}]",
                )

    def _wrong(self, message: str, hint: str = "") -> UsageError:
        return UsageError(message, file=self.name, line=self.line, hint=hint)

    def _section(self, group: str, kind: str) -> None:
        if kind not in KINDS:
            raise self._wrong(f"[{group}:{kind}]: unknown kind of section", did_you_mean(kind, KINDS))
        self.group, self.kind = self.tree.add_group(group, self.name, self.line), kind
        if kind != "vars":
            self.declared.add(group)
        elif group not in self.declared:
            self.mentioned.setdefault(group, (self.line, f"{group}:vars"))
        if kind == "vars":
            self.variables: dict[str, object] = {}
            self.lines: dict[str, int] = {}
            self.group.layers.append(Layer(self.variables, self.name, self.folder, self.line, self.lines))

    def _hosts(self, line: str) -> None:
        if len(line) > _MAX_LINE:
            raise self._wrong(f"a line of more than {_MAX_LINE} characters", "put long values below [group:vars]")
        try:
            words = shlex.split(line, comments=True) if set(line) & set("\"'\\#") else line.split()
        except ValueError as problem:
            raise self._wrong(f"{shown(line)}: {str(problem).lower()}", "close the quote") from None
        if not words:
            return
        if OF_SLURM.match(words[0]):
            raise self._wrong(f"{shown(words[0])} is a line of Slurm", ONE_A_LINE)
        try:
            written = parse_entry(words[0])
        except UsageError as problem:
            section = "all" if self.group.name == UNGROUPED else self.group.name
            hint = f"put it below [{section}:vars]" if "=" in words[0] else problem.hint
            raise self._wrong(problem.message, hint) from None
        values: dict[str, object] = {}
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if not equals or not key:
                raise self._wrong(
                    f"{shown(word)} is not key=value", "write one host per line, followed by its variables"
                )
            values[key] = value_of(key, value)
        self.tree.add_hosts(written, self.group, Layer(values, self.name, self.folder, self.line))

    def _variable(self, line: str) -> None:
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            raise self._wrong(f"[{self.group.name}:vars]: {shown(line)} is not key=value")
        if key == "ansible_group_priority":
            found = priority(literal(value))
            if found is None:
                raise self._wrong("ansible_group_priority must be a whole number")
            self.group.priority = found
            return
        self.variables[key], self.lines[key] = value_of(key, value), self.line

    def _child(self, line: str) -> None:
        match = _GROUP_LINE.fullmatch(line)
        if match is None:
            raise self._wrong(
                f"[{self.group.name}:children]: {shown(line)} is not a valid group name", "write one group per line"
            )
        child = self.tree.add_group(match["group"], self.name, self.line)
        self.mentioned.setdefault(child.name, (self.line, f"{self.group.name}:children"))
        self.tree.add_child(self.group, child, self.name, self.line)


def value_of(name: str, text: str) -> object:
    """The value of a variable: Ansible's, but a serial such as 12e5 or 0x1f in a `nodegate_*` variable stays text."""
    value = literal(text)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return text if number and name.startswith("nodegate_") and isinstance(scalar(text), str) else value


def literal(text: str) -> object:
    """A value of an INI file as Ansible reads it: a Python literal if it is one, else the text."""
    if len(text) > _MAX_LITERAL:
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "1is" is text here, not a questionable literal
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return _plain(value, text)


def _plain(value: object, text: str) -> object:
    if isinstance(value, (list, tuple, set)):
        return [_plain(item, str(item)) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, str(item)) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return text
    return value if isinstance(value, (str, int, float, type(None))) else text
