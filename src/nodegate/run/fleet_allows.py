"""What the size of a fleet and its noise do not allow to find by comparing nodes: said once with the run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from nodegate.baseline.baseline import Baseline
from nodegate.errors import NotJudged
from nodegate.inventory.hostlist import natural
from nodegate.metric import Metric
from nodegate.metric_names import words
from nodegate.numbers.against_others import fleet
from nodegate.numbers.margins import Margins
from nodegate.numbers.peers import NoPeers, Peers
from nodegate.text import counted, some

_COMPARED = frozenset({"TFLOPS", "GB/s", "Gb/s"})  # units of what devices do
_MUCH = 2.0  # times the floor: what is sought
_NAMED = 2


def fleet_allows(
    nodes: Mapping[str, str],
    metrics: Callable[[str], Sequence[Metric]],
    peers: Peers,
    baseline: Callable[[str], Baseline],
) -> str:
    """The platforms with too few measured nodes, or with numbers that hide slow nodes; empty if there are none.

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
    said = []
    for platform, known in sorted(platforms.items()):
        first = min(known, key=natural)
        try:
            margins = Margins.of(baseline(first))
        except NotJudged:
            continue
        if len(known) < margins.peers_min:
            said.append(f"{platform} ({counted(len(known), 'node')}, {margins.peers_min:g} are needed)")
        elif hidden := _hidden(metrics(first), peers, first, margins):
            said.append(f"{platform} in {hidden}")
    return f"comparing nodes finds no slow one: {some(said, _NAMED)}" if said else ""


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
