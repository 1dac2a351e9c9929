"""The inventory: its nodes, its groups, and the selection among them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TextIO

from nodegate.errors import UsageError
from nodegate.files.text_file import Source
from nodegate.inventory import patterns
from nodegate.inventory.ansible_cfg import Defaults, defaults
from nodegate.inventory.connection import connection, other_become_user, passwords_left_out
from nodegate.inventory.sources import SourceReader
from nodegate.inventory.tree import ALL, UNGROUPED, Tree
from nodegate.inventory.variables import Merger, VarFiles, Variables
from nodegate.node import Node
from nodegate.node_settings.table import CONNECTION, PREFIX

_DEFAULT_PORT = 22
_NAME = re.compile(r"\w{1,100}")


def read(sources: Sequence[str], *, stdin: TextIO | None = None, environ: Mapping[str, str] | None = None) -> Inventory:
    """Read the sources, each a value of --inventory, into one inventory; in a conflict the later source wins.

    A source is an Ansible inventory (YAML or INI, with group_vars/ and host_vars/ beside it), a plain list, a folder
    of such files, `host1,host2`, `localhost,`, an engine's nodes
    (`NAME:[...]`, see nodegate.engines), or `-` for a list or inventory on `stdin`. What must be executed
    (scripts, inventory plugins) is left to ansible-inventory. `environ` gives Ansible's defaults, before its
    ansible.cfg: see nodegate.inventory.ansible_cfg.

    Raises:
        UsageError: a source is missing or malformed, or there are no hosts.
    """
    env = os.environ if environ is None else environ
    tree = Tree()
    reader = SourceReader(tree, sys.stdin if stdin is None else stdin, env)
    for source in sources:
        reader.source(source)
    tree.settle()
    if not tree.hosts:
        hint = "add hosts, or check --inventory"
        raise UsageError("the inventory names no hosts", file=", ".join(sources), hint=hint)
    return Inventory(tree, reader, defaults(env))


class Inventory:
    """The hosts and groups of all sources.

    A host becomes a `Node` when it is requested, so that an error in the variables of hosts that are not selected
    (the passwords of network switches, for example) does not matter.
    """

    def __init__(self, tree: Tree, reader: SourceReader, known: Defaults) -> None:
        self._tree, self._reader, self._defaults = tree, reader, known
        self._notes: dict[str, None] = dict.fromkeys(known.notes)
        self._merger = Merger(tree, [VarFiles(folder, reader.read_files, self._note) for folder in reader.folders])
        self._nodes: dict[str, Node] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all hosts, in the order in which they are first written."""
        return tuple(self._tree.hosts)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in the order in which they are first written.

        Raises:
            UsageError: variables of a host are wrong, or two hosts are the same machine.
        """
        return self._as_nodes(self.names)

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the hosts of each group, those of its children included. `all` and `ungrouped` are groups."""
        return {name: self._tree.members(name) for name in self._tree.groups}

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every file that was read so far, those of group_vars and host_vars included, with its SHA-256."""
        return tuple(dict.fromkeys(self._reader.read_files))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the nodes requested so far, one line each: nothing that stops a run."""
        return tuple(self._notes)

    def select(self, pattern: str) -> tuple[Node, ...]:
        """The nodes of a --nodes pattern, in the order of the inventory: see nodegate.inventory.patterns.

        Raises:
            UsageError: nothing matches, or variables of a selected host are wrong.
        """
        return self._as_nodes(patterns.select(pattern, self.names, self.groups))

    def variables(self, name: str) -> Variables:
        """All merged variables of a host, unchanged from the files."""
        return self._merger.variables(self._tree.hosts[name])

    def _as_nodes(self, names: Iterable[str]) -> tuple[Node, ...]:
        names = tuple(names)
        self._refuse_colliding(names)
        nodes = tuple(self._node(name) for name in names)
        self._refuse_twins(nodes)
        return nodes

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            host, variables = self._tree.hosts[name], self.variables(name)
            means_here = len(self._tree.hosts) == 1 or host.file in self._reader.typed
            how, expected = connection(variables, self._defaults, means_here=means_here), _expected(variables)
            node = Node(
                name=name,
                connection=how,
                groups=tuple(sorted(set(self._tree.ancestors(host.groups)) - {ALL, UNGROUPED})),
                expected=expected,
                origin=f"{host.file}:{host.line}" if host.line else host.file,
                origins={each: variables.origin(PREFIX + each) for each in expected},
            )
            _ = node.settings  # a wrong value is refused here
            self._nodes[name] = node
            for origin in passwords_left_out(variables):
                self._note(f"{origin}: the password is not used: nodegate needs SSH keys and NOPASSWD sudo")
            if how.become and (origin := other_become_user(variables)):
                self._note(f"{origin}: ansible_become_user is not used: nodegate can only become root, by sudo -n")
            if name in self._tree.groups:
                self._note(f"{node.origin}: {name} is both a host and a group; --nodes {name} means the host")
        return self._nodes[name]

    def _refuse_colliding(self, names: Iterable[str]) -> None:
        """Some file systems would give names that differ only in upper and lower case one folder."""
        seen: dict[str, str] = {}
        for name in names:
            first, host = self._tree.hosts[seen.setdefault(name.casefold(), name)], self._tree.hosts[name]
            if first is not host:
                message = f"{name} and {first.name} differ only in upper and lower case"
                hint = f"the other is in {first.file}:{first.line}: both would share one folder, rename one"
                raise UsageError(message, file=host.file, line=host.line, hint=hint)

    def _refuse_twins(self, nodes: Iterable[Node]) -> None:
        """Two names for one machine would measure it twice, at once."""
        seen: dict[tuple[object, ...], Node] = {}
        for node in nodes:
            how = node.connection
            if how.transport in ("local", "replay"):
                continue
            machine = (node.address.casefold(), how.port or _DEFAULT_PORT, how.ssh_args, how.command)
            other = seen.setdefault(machine, node)
            if other is not node:
                host = self._tree.hosts[node.name]
                where = f"{node.address} port {how.port or _DEFAULT_PORT}"
                message = f"{node.name} and {other.name} ({other.origin}) are the same machine: {where}"
                hint = "correct ansible_host of one of them, or remove one"
                raise UsageError(message, file=host.file, line=host.line, hint=hint)

    def _note(self, text: str) -> None:
        self._notes[text] = None


def _expected(variables: Variables) -> dict[str, object]:
    """The `nodegate_*` variables without their prefix; one that is empty (null) is left out.

    Raises:
        UsageError: a value cannot be resolved, or a name is none.
    """
    found: dict[str, object] = {}
    for name in variables.values:
        short = name.removeprefix(PREFIX)
        if short == name or short in CONNECTION or (value := variables.get(name)) is None:
            continue
        if not _NAME.fullmatch(name):
            raise variables.wrong(name, "not a valid variable name", "use letters, digits and '_'")
        found[short] = value
    return found
