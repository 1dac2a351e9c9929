"""What is true of a run as a whole and no check says.

Serial numbers of the order that no node has, demands files that ask for something else, and what the size of the fleet
and its noise do not allow to find by comparing nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from nodegate.baseline.baseline import Baseline
from nodegate.demands.here import FILE
from nodegate.demands.of_site import SiteDemands
from nodegate.errors import NotJudged
from nodegate.inventory.hostlist import fold, natural
from nodegate.metric import Metric
from nodegate.metric_names import words
from nodegate.node import Node
from nodegate.numbers.against_others import fleet
from nodegate.numbers.comparison import Margins, NoPeers
from nodegate.numbers.peers import Peers
from nodegate.run.contexts import NodeSummary
from nodegate.subjects.order import Demand, demands
from nodegate.text import counted, some
from nodegate.unknown import Unknown, Why

_WHAT = {"gpu_serial": "GPU", "chassis_serial": "chassis"}  # items of the order, and how a summary names the parts
_MOST_SHOWN = 8
_HOW = "write them again with nodegate demands, this inventory, and the --baseline and --policy of this run"
_COMPARED = frozenset({"TFLOPS", "GB/s", "Gb/s"})  # units of what devices do
_MUCH = 2.0  # times the floor: what is sought
_NAMED = 2
_ONE_IS_TOLD = 3  # nodes, from which on one that is far behind is named


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


def stale_demands(
    nodes: Mapping[str, Node], summaries: Mapping[str, NodeSummary | None], asked: SiteDemands
) -> Iterator[str]:
    """A sentence for each way in which demands files differ; nothing where no node of the run has one.

    Args:
        nodes: the nodes of the run.
        summaries: what was read of each; None where nothing was.
        asked: the site's limits, of which every node is asked.
    """
    found = {name: summary.demands for name, summary in summaries.items() if summary and summary.demands != ""}
    how: dict[str, list[str]] = {}
    for name, has in found.items():
        if isinstance(has, Unknown):
            how.setdefault("is missing" if has.why is Why.MISSING else "could not be read", []).append(name)
        elif has != asked.of(nodes[name]).sha256:
            how.setdefault("is not what this run asks", []).append(name)
    if len(how.get("is missing", ())) < len(found):  # where all are missing, the site uses none
        for what, names in how.items():
            yield f"{FILE} of {fold(names)} {what}: {_HOW}"


def fleet_allows(
    nodes: Mapping[str, str],
    metrics: Callable[[str], Sequence[Metric]],
    peers: Peers,
    baseline: Callable[[str], Baseline],
) -> Iterator[str]:
    """A line on the platforms with too few measured nodes or numbers that hide slow ones, and one on those with few.

    Args:
        nodes: the platform of each node.
        metrics: gives what a node measured.
        peers: the same, for comparison.
        baseline: gives that of a node.
    """
    platforms: defaultdict[str, list[str]] = defaultdict(list)
    for node, platform in nodes.items():
        if platform and any(metric.unit in _COMPARED for metric in metrics(node)):
            platforms[platform].append(node)
    said, few = [], []
    for platform, known in sorted(platforms.items()):
        first = min(known, key=natural)
        try:
            margins = Margins.of(baseline(first))
        except NotJudged:
            continue
        if len(known) >= _ONE_IS_TOLD and len(known) < margins.peers_min:
            few.append(f"{platform} ({counted(len(known), 'node')}, {margins.peers_min:g} are needed)")
        elif len(known) < margins.peers_min:
            said.append(f"{platform} ({counted(len(known), 'node')}, {margins.peers_min:g} are needed)")
        elif hidden := _hidden(metrics(first), peers, first, margins):
            said.append(f"{platform} in {hidden}")
    if said:
        yield f"comparing nodes finds no slow one: {some(said, _NAMED)}"
    if few:
        yield f"comparing so few nodes finds only one that is far behind: {some(few, _NAMED)}"


def _hidden(metrics: Sequence[Metric], peers: Peers, node: str, margins: Margins) -> str:
    """The numbers whose spread hides what is sought, each with how far below the others a device fails."""
    found: dict[str, float] = {}
    for metric in metrics:
        group = peers.group(node, metric, margins) if metric.unit in _COMPARED and not metric.launch else NoPeers("")
        if isinstance(group, NoPeers) or not group.median:
            continue
        limit = fleet(metric, group.median, group, margins).limit
        if limit is not None and isinstance(limit.value, (int, float)):
            apart = abs(group.median - limit.value) / abs(group.median)
            found[metric.name] = max(apart, found.get(metric.name, 0.0))
    much = sorted(((apart, name) for name, apart in found.items() if apart > _MUCH * margins.fleet_floor), reverse=True)
    named = [f"{words(name)} (below {100 * apart:.0f} %)" if apart < 1 else words(name) for apart, name in much]
    return some(named, _NAMED) if much else ""
