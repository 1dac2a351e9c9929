"""Nodes whose demands file is not what this run asks of them: their bootchecks and hooks ask for something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodegate.demands.here import FILE
from nodegate.demands.of_site import SiteDemands
from nodegate.inventory.hostlist import fold
from nodegate.node import Node
from nodegate.run.contexts import NodeSummary
from nodegate.unknown import Unknown, Why

_HOW = "write them again with nodegate demands, this inventory, and the --baseline and --policy of this run"


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
