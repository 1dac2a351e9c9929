"""Hosts and groups as the inventory files write them, before variables are merged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from nodegate.errors import UsageError
from nodegate.inventory.names import Written, check_group_name
from nodegate.inventory.ranges import MAX_NAMES

ALL, UNGROUPED = "all", "ungrouped"
MAX_DEPTH = 100  # of groups in groups: each has the hosts of all below it


@dataclass(frozen=True)
class Layer:
    """The variables that one place sets: a host's entry, the vars of a group, a file of group_vars.

    `folder` is the inventory's folder, which relative paths in the values are relative to. `lines` has the line of
    each variable where it is known, else `line` applies.
    """

    values: Mapping[str, object]
    file: str
    folder: str
    line: int = 0
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Host:
    """A host with everything that is set on it directly. `file` and `line` are where it is first named."""

    name: str
    file: str
    line: int
    layers: list[Layer] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


@dataclass
class Group:
    """A group, its own hosts and its child groups, in the order written."""

    name: str
    file: str = ""
    line: int = 0
    layers: list[Layer] = field(default_factory=list)
    hosts: dict[str, None] = field(default_factory=dict)  # an ordered set
    children: dict[str, None] = field(default_factory=dict)
    parents: dict[str, None] = field(default_factory=dict)
    priority: int = 1
    depth: int = 0


class Tree:
    """The hosts and groups of all sources together. `settle` completes it once all are read."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.groups: dict[str, Group] = {ALL: Group(ALL), UNGROUPED: Group(UNGROUPED)}

    def add_group(self, name: object, file: str, line: int) -> Group:
        """The group of this name, new or known."""
        try:
            known = check_group_name(name)
        except UsageError as problem:
            raise UsageError(problem.message, file=file, line=line, hint=problem.hint) from None
        return self.groups.setdefault(known, Group(known, file, line))

    def add_child(self, parent: Group, child: Group, file: str, line: int) -> None:
        """Put one group into another.

        Raises:
            UsageError: the parent is a child of its child.
        """
        if parent is child or (child.children and child.name in self.ancestors([parent.name])):
            hint = f"{parent.name} is in {child.name} already: remove one of the two"
            raise UsageError(f"group {child.name} would be inside itself", file=file, line=line, hint=hint)
        parent.children[child.name] = None
        child.parents[parent.name] = None

    def add_hosts(self, written: Written, group: Group, layer: Layer) -> None:
        """Put the nodes of one entry into a group, with the entry's own port, user and variables.

        As in Ansible, a port counts only where a host is first named.
        """
        entry: dict[str, object] = {"ansible_port": written.port, "ansible_user": written.user}
        own = Layer({key: value for key, value in entry.items() if value}, layer.file, layer.folder, layer.line)
        for name in written.names:
            if (host := self.hosts.get(name)) is None:
                if len(self.hosts) >= MAX_NAMES:
                    raise UsageError(f"more than {MAX_NAMES} hosts", file=layer.file, line=layer.line)
                host = self.hosts[name] = Host(name, layer.file, layer.line)
                if own.values:
                    host.layers.append(own)
            if layer.values:
                host.layers.append(layer)
            if name not in group.hosts:
                group.hosts[name] = None
                host.groups.append(group.name)

    def settle(self) -> None:
        """Put every group under `all`, hosts of no group into `ungrouped`, and find each group's depth."""
        root, ungrouped = self.groups[ALL], self.groups[UNGROUPED]
        for group in self.groups.values():
            if group is not root and not group.parents:
                self.add_child(root, group, group.file, group.line)
        for host in self.hosts.values():
            grouped = [name for name in host.groups if name not in (ALL, UNGROUPED)]
            if grouped:
                ungrouped.hosts.pop(host.name, None)
            else:
                ungrouped.hosts[host.name] = None
            host.groups = grouped
        for name in TopologicalSorter({name: group.parents for name, group in self.groups.items()}).static_order():
            group = self.groups[name]
            group.depth = 1 + max((self.groups[parent].depth for parent in group.parents), default=-1)
            if group.depth > MAX_DEPTH:
                raise UsageError(f"groups are nested deeper than {MAX_DEPTH}", file=group.file, line=group.line)

    def ancestors(self, names: Iterable[str]) -> dict[str, None]:
        """These groups and all that contain them."""
        found: dict[str, None] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = None
                waiting += self.groups[name].parents
        return found

    def members(self, group: str) -> tuple[str, ...]:
        """The hosts of a group: its own first, then those of its children, level by level."""
        found: dict[str, None] = {}
        seen: dict[str, None] = {group: None}
        level = [group]
        while level:
            for name in level:
                found |= self.groups[name].hosts
            below = dict.fromkeys(child for name in level for child in self.groups[name].children if child not in seen)
            seen |= below
            level = list(below)
        return tuple(found)
