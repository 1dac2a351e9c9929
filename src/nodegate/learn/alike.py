"""Whether the nodes of a run measured a quantity under the same conditions: else one baseline would mean two things."""

from collections import defaultdict
from collections.abc import Sequence

from nodegate.errors import UsageError
from nodegate.metric import Metric
from nodegate.text import some

Conditions = tuple[tuple[str, str], ...]

# of a group of nodes: racks have different sizes, which is not a contradiction
_SHAPE = frozenset({"nodes", "gpus", "racks"})
_NAMED = 3  # nodes of each kind that the message names


def alike(name: str, metrics: Sequence[tuple[str, Metric]]) -> list[dict[str, str]]:
    """The conditions under which a metric was measured, one set for each variant that a node measures by design.

    A node that measures several (data types, paths, groups of several sizes) has several sets; one that lacks some of
    them is not a contradiction.

    Raises:
        UsageError: two nodes measured it differently, with the difference named.
    """
    of_node: defaultdict[str, set[Conditions]] = defaultdict(set)
    for node, metric in metrics:
        of_node[node].add(metric.key[1])
    most = {_of_any_group(each) for each in max(of_node.values(), key=len)}
    for conditions in of_node.values():
        if not {_of_any_group(each) for each in conditions} <= most:
            raise UsageError(
                f"{name} was not measured under equal conditions: {_difference(of_node)}",
                hint="measure all nodes with the same software, or learn from a run of one kind of node",
            )
    return [dict(each) for each in sorted(set().union(*of_node.values()))]


def _of_any_group(conditions: Conditions) -> Conditions:
    """The conditions without the shape of the group of nodes, if it was measured over one."""
    if "nodes" not in dict(conditions):
        return conditions
    return tuple((name, value) for name, value in conditions if name not in _SHAPE)


def _difference(of_node: dict[str, set[Conditions]]) -> str:
    """The conditions whose values differ between nodes, each value with some of its nodes."""
    held: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for node, several in of_node.items():
        for conditions in several:
            for condition, value in conditions:
                held[condition][value].add(node)
    said = []
    for condition, values in sorted(held.items()):
        not_of_all = set().union(*values.values()) != of_node.keys()
        if not_of_all or len({frozenset(nodes) for nodes in values.values()}) > 1:
            each = (f"{value} on {some(sorted(nodes), _NAMED)}" for value, nodes in values.items())
            said.append(f"{condition} " + " and ".join(each))
    return "; ".join(said)
