"""The block `order` of a site file: what is demanded of the nodes of a group, as `nodegate_expect` of each of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nodegate.files.strict_yaml import did_you_mean, shown
from nodegate.node import Node
from nodegate.site.site_file import Site
from nodegate.subjects.order import ORDER


def ordered(nodes: Sequence[Node], site: Site, groups: Iterable[str]) -> tuple[Node, ...]:
    """The nodes with what the site file orders for their groups; `groups` are all of the inventory.

    Raises:
        UsageError: it names a group that there is not, or contradicts the inventory or itself; with both places.
    """
    known = {*groups, "all"}
    for name in (each for each in site.order if each not in known):
        raise site.wrong(f"order: the inventory has no group {shown(name)}", did_you_mean(name, known), name)
    merged: dict[tuple[int, tuple[str, ...]], tuple[Mapping[str, object], str]] = {}  # shared: it may list thousands
    found = []
    for node in nodes:
        own = tuple(each for each in site.order if each in (*node.groups, "all"))
        key = id(node.expected.get(ORDER)), own
        if own and key not in merged:
            merged[key] = _merged(node, site, own)
        if own:
            asked, place = merged[key]
            node = replace(node, expected={**node.expected, ORDER: asked}, origins={ORDER: place, **node.origins})  # noqa: PLW2901
        found.append(node)
    return tuple(found)


def _merged(node: Node, site: Site, groups: Sequence[str]) -> tuple[Mapping[str, object], str]:
    """What the inventory and these groups of the order demand together, and where the order begins."""
    file, line = node.place(ORDER)
    own, where = dict(node.settings.expect), dict.fromkeys(node.settings.expect, f"{file}:{line}" if line else file)
    for group, key, value in ((each, *item) for each in groups for item in site.order[each].items()):
        if key in own and own[key] != value:
            said = f"order.{group}.{key} is {shown(str(value))} here and {shown(str(own[key]))} at {where[key]}"
            raise site.wrong(f"{said}, both for {node.name}", "leave out one of them", group, key)
        own[key], where[key] = value, f"{site.file}:{site.lines[group, key]}"
    return own, where[next(iter(site.order[groups[0]]))]
