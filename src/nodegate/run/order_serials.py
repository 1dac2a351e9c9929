"""Serial numbers of the order that no node of a run has: what was paid for and is not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nodegate.inventory.hostlist import fold
from nodegate.node import Node
from nodegate.run.contexts import NodeSummary
from nodegate.subjects.order import Demand, demands
from nodegate.text import counted, some

_WHAT = {"gpu_serial": "GPU", "chassis_serial": "chassis"}  # items of the order, and how a summary names the parts
_MOST_SHOWN = 8


def unseen(nodes: Mapping[str, Node], summaries: Mapping[str, NodeSummary | None]) -> Iterator[str]:
    """A sentence for each kind of part with ordered serial numbers that no node reports.

    Args:
        nodes: all nodes of the inventory; of a run over a part of them nothing can be said.
        summaries: what was read of each; None where nothing was.
    """
    read: dict[int, tuple[Demand, ...]] = {}  # nodes of a group share an order, which may list thousands
    for node in nodes.values():
        order = id(node.settings.expect)
        read[order] = read.get(order) or demands(node)
    for key, what in _WHAT.items():
        of_order = {order: _serials(found, key) for order, found in read.items()}
        of_node = {name: of_order[id(node.settings.expect)] for name, node in nodes.items()}
        ordered = frozenset().union(*of_order.values())
        seen = {serial for summary in summaries.values() for serial in _reported(summary, what)}
        missing = sorted(ordered - seen)
        if not missing:
            continue
        silent = [name for name in nodes if of_node[name] and not any(_reported(summaries.get(name), what))]
        said = f"{len(missing)} of {counted(len(ordered), f'{what} serial number')} of the order"
        more = f"; of {fold(silent)} none could be read" if silent else ""
        yield f"{said} were seen on no node: {some(missing, _MOST_SHOWN)}{more}"


def _serials(order: Iterable[Demand], key: str) -> frozenset[str]:
    """The serial numbers that are written out in an order; a pattern names none."""
    return frozenset().union(*(demand.exact for demand in order if demand.item.key == key))


def _reported(summary: NodeSummary | None, what: str) -> Iterator[str]:
    return (serial for part, serial in (summary.serials if summary else {}).items() if part.startswith(what))
