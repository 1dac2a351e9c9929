"""The block `order` of a site file: what is demanded of the nodes of a group, as `nodegate_expect` of each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nodegate.files.strict_yaml import did_you_mean, shown
from nodegate.node import Node
from nodegate.site.site_file import Site

VARIABLE = "expect"  # nodegate_expect, as a node has it


def ordered(nodes: Sequence[Node], site: Site, groups: Iterable[str]) -> tuple[Node, ...]:
    """The nodes with what the site file orders for their groups; `groups` are all of the inventory.

    Raises:
        UsageError: it names a group that there is not, or contradicts the inventory or itself; with both places.
    """
    known = {*groups, "all"}
    for name in (each for each in site.order if each not in known):
        raise site.wrong(f"order: the inventory has no group {shown(name)}", did_you_mean(name, known), name)
    return tuple(_of_node(node, site) for node in nodes)


def _of_node(node: Node, site: Site) -> Node:
    own, where = dict(node.settings.expect), dict.fromkeys(node.settings.expect, _inventory(node))
    first = ""
    for group in (each for each in site.order if each in (*node.groups, "all")):
        for key, value in site.order[group].items():
            if key in own and own[key] != value:
                said = f"order.{group}.{key} is {shown(str(value))} here and {shown(str(own[key]))} at {where[key]}"
                raise site.wrong(f"{said}, both for {node.name}", "leave out one of them", group, key)
            own[key], where[key] = value, f"{site.file}:{site.lines[group, key]}"
            first = first or where[key]
    if not first:
        return node
    expected: Mapping[str, object] = {**node.expected, VARIABLE: own}
    return replace(node, expected=expected, origins={VARIABLE: first, **node.origins})


def _inventory(node: Node) -> str:
    file, line = node.place(VARIABLE)
    return f"{file}:{line}" if line else file
