"""Drift: the node's versions, firmware and sizes are those of most nodes of its platform in this run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import part

if TYPE_CHECKING:
    from nodegate.api import Fleet, Node, Verdicts

pytestmark = pytest.mark.tier("nightly")


def test_same_as_fleet(fleet: Fleet, node: Node, verdicts: Verdicts) -> None:
    """Driver, firmware, kernel, BIOS, NCCL, CUDA and memory are those of most nodes of the platform. (F33)

    A few nodes that were updated apart, or not at all, make jobs slow or fail in ways that no single node explains.
    It warns: which of the values is right is the site's choice.
    """
    for name in fleet.agreeing(node.name):
        verdicts.passed(part=part.setting(name), text="as on most nodes")
    for odd in fleet.compare(node.name):
        action = "update it to the fleet's version" if odd.majority else "decide on one version for the platform"
        verdicts.add(odd.finding(part.setting(odd.characteristic), action=action))
    if not verdicts.findings:
        verdicts.not_done("no characteristic could be read on three nodes of this platform")
