"""Plain lists of nodes: one `user@host:port` or Slurm hostlist per line, or the same with commas in one argument."""

from __future__ import annotations

from nodegate.errors import UsageError
from nodegate.inventory import ranges
from nodegate.inventory.names import parse_entry
from nodegate.inventory.tree import UNGROUPED, Layer, Tree


def read(text: str, name: str, folder: str, tree: Tree, *, lines: bool = True) -> None:
    """Add the nodes of a plain list to the tree; `name` is its name in messages, `lines` whether it has lines.

    Raises:
        UsageError: a name is not allowed, with file and line.
    """
    group = tree.groups[UNGROUPED]
    for number, row in enumerate(text.splitlines(), start=1):
        line = number if lines else 0
        for entry in ranges.split_outside_brackets(row.partition("#")[0], ", \t"):
            try:
                written = parse_entry(entry)
            except UsageError as problem:
                raise UsageError(problem.message, file=name, line=line, hint=problem.hint) from None
            tree.add_hosts(written, group, Layer({}, name, folder, line))
