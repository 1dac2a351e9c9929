"""Inventories in Ansible's INI form: `[group]`, `[group:vars]`, `[group:children]`, lines of hosts; and plain lists."""

import ast
import math
import re
import shlex
import warnings
from ipaddress import ip_address

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean, scalar, shown
from nodegate.inventory import ranges
from nodegate.inventory.ansible_yaml import priority
from nodegate.inventory.names import NUMBER, parse_entry
from nodegate.inventory.tree import UNGROUPED, Group, Layer, Tree

SECTION = re.compile(r"\[(?P<group>[^:\]\s]+)(?::(?P<kind>\w+))?\]\s*(?:#.*)?")
KINDS = ("hosts", "vars", "children")

_GROUP_LINE = re.compile(r"(?P<group>[^:\]\s]+)\s*(?:#.*)?")
_MAX_LINE = 65_536  # characters of a host with its variables: shlex takes quadratic time
_MAX_LITERAL = 4096  # characters: no real list is longer, and a literal nests as deep as it is long
ONE_A_LINE = "write one node per line, as `sinfo -h -N -o %N | sort -u` prints them"
OF_SLURM = re.compile(r"(?:(?:Node|Partition|Cluster)Name|Slurm\w+)=", re.IGNORECASE)  # of slurm.conf and scontrol
_HEADINGS = frozenset({"NODELIST", "HOSTNAMES", "NAME"})  # of sinfo, squeue and kubectl
# What sinfo, pbsnodes and kubectl print beside a node, without the signs that Slurm sets behind it.
_STATES = (
    "alloc allocated allocating blkd blocked boot busy cloud comp completing down drain drained draining drng err error"
    " fail failing failg free future futr idle inval invalid maint maintenance mix mixed no_respond notready npc"
    " offline online perfctrs planned plnd pow_dn pow_up power_down power_up powered_down powering_down powering_up"
    " ready reboot reboot_issued rebooting reserved resv schedulingdisabled unk unkn unknown unreachable up"
)
_WORDS = frozenset(_STATES.split())
_SIGNS = "*~#!%$@^-"


class Reader:
    """Adds the groups and hosts of an INI inventory to the tree; `name` is the file's name in messages."""

    def __init__(self, name: str, folder: str, tree: Tree) -> None:
        self.name, self.folder, self.tree = name, folder, tree
        self.line = 0
        self.group: Group = tree.groups[UNGROUPED]
        self.kind = "hosts"
        self.declared = set(tree.groups)
        self.mentioned: dict[str, tuple[int, str]] = {}  # a group that must be declared in some section: line, section

    def read(self, text: str) -> None:
        """Add them. Raises UsageError: the file is malformed, with file and line."""
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
                what = f"[{header}] names the group {group}, which is not declared"
                hint = did_you_mean(group, self.declared - {"all", UNGROUPED}) or f"add a section [{group}]"
                raise UsageError(what, file=self.name, line=where, hint=hint)

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
                hint = "write one host per line, followed by its variables"
                raise self._wrong(f"{shown(word)} is not key=value", hint)
            values[key] = value_of(key, value)
        self.tree.add_hosts(written, self.group, Layer(values, self.name, self.folder, self.line))

    def _variable(self, line: str) -> None:
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            raise self._wrong(f"[{self.group.name}:vars]: {shown(line)} is not key=value")
        if key == "ansible_group_priority":
            if (found := priority(literal(value))) is None:
                raise self._wrong("ansible_group_priority must be a whole number")
            self.group.priority = found
            return
        self.variables[key], self.lines[key] = value_of(key, value), self.line

    def _child(self, line: str) -> None:
        if (match := _GROUP_LINE.fullmatch(line)) is None:
            what = f"[{self.group.name}:children]: {shown(line)} is not a valid group name"
            raise self._wrong(what, "write one group per line")
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


def read_plain(text: str, name: str, folder: str, tree: Tree, *, lines: bool = True) -> None:
    """Add the nodes of a plain list to the tree; `name` is its name in messages, `lines` whether it has lines.

    Raises:
        UsageError: a name is not allowed, or a line is one of a table, with file and line.
    """
    group = tree.groups[UNGROUPED]
    for number, row in enumerate(text.splitlines(), start=1):
        line = number if lines else 0
        words = ranges.split_outside_brackets(row.partition("#")[0], ", \t")
        if why := _no_list(words):
            raise UsageError(f"{shown(' '.join(words))}: {why}", file=name, line=line, hint=ONE_A_LINE)
        for entry in words:
            try:
                written = parse_entry(entry)
            except UsageError as problem:
                raise UsageError(problem.message, file=name, line=line, hint=problem.hint) from None
            tree.add_hosts(written, group, Layer({}, name, folder, line))


def _no_list(words: list[str]) -> str:
    """Why these words are a row of a table, not a list of nodes; empty if they may be a list."""
    if words and words[0] in _HEADINGS:
        return "this is a heading"
    if number := next((word for word in words if NUMBER.fullmatch(word)), ""):
        return f"{number} is a number, not a node"
    states = (word for word in words[1:] if all(part.rstrip(_SIGNS) in _WORDS for part in word.lower().split("+")))
    if state := next(states, ""):
        return f"{shown(state)} is the state of a node"
    addresses = [word for word in words if _is_address(word)]
    return "an address and names of one node" if addresses and len(addresses) < len(words) else ""


def _is_address(word: str) -> bool:
    try:
        return bool(ip_address(word))
    except ValueError:
        return False
