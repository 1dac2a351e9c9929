"""Runs over nodes, with faults that last as long as the run does."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from lab.run import Outcome, Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lab.nodes.fault import Fault
    from lab.nodes.node import LabNode
    from lab.nodes.nodes import Nodes


def start(
    lab: Nodes,
    folder: Path,
    nodes: Sequence[LabNode],
    *arguments: str,
    variables: Mapping[str, Mapping[str, str]] | None = None,
) -> Run:
    """One run over some nodes, without load: their GPUs cannot burn. `variables`: the inventory's, by node."""
    inventory = lab.inventory([node.name for node in nodes], variables or {})
    usual = ("-p", "lab.slow_probe", "--passive", "--tb=no")
    return Run(folder, inventory, *usual, *arguments, within=lab.space.in_network())


def run_with_faults(lab: Nodes, folder: Path, faults: Mapping[str, Fault], *arguments: str) -> Outcome:
    """A run over the nodes named in `faults`, each with its fault for as long as the run takes."""
    nodes = [node for node in lab.nodes if node.name in faults]
    with ExitStack() as broken:
        variables = {node.name: broken.enter_context(faults[node.name](node)) for node in nodes}
        return start(lab, folder, nodes, *arguments, variables=variables).outcome()
