"""Platform: the node is a machine that the baselines know, and the one that the inventory says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate import part
from nodegate.unknown import Unknown
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate import Verdicts
    from nodegate.baseline.baseline import Baseline
    from nodegate.node import Node
    from nodegate.probe.host import Host

pytestmark = pytest.mark.tier("bootcheck")

HOW = "name it in the inventory (nodegate_platform), or bring a file for it (--baseline; docs/baselines.md)"


def test_known(baseline: Baseline, verdicts: Verdicts) -> None:
    """The platform is known, and the hardware is what the inventory names. (F33)

    Without a platform most limits are missing, and nothing could be accepted by them.
    """
    if not baseline.platform:
        verdicts.cannot(baseline.reason.partition(" - ")[0], next_step=HOW)
    if baseline.named and baseline.detected and baseline.named != baseline.detected:
        verdicts.found(
            Verdict.FAIL,
            part=part.host("platform"),
            text=f"the hardware is {baseline.detected}, the inventory says {baseline.named}",
            action="correct nodegate_platform, or look for the wrong machine at this address",
            quantity="platform",
            observed=baseline.detected,
        )
        return
    how = "named by the inventory" if baseline.named else "recognised from the hardware"
    verdicts.passed(
        part=part.host("platform"), text=f"{baseline.platform}, {how}", quantity="platform", observed=baseline.platform
    )


def test_serial(host: Host, node: Node, verdicts: Verdicts) -> None:
    """The machine at this address is the one of the inventory: its serial number is nodegate_serial. (F33)

    A swapped address or board would have another machine accepted in its place.
    """
    wanted = node.expected.get("serial")
    if wanted is None or str(wanted) == "":
        verdicts.skip("no serial number given: nodegate_serial names it")
    verdicts.equal(
        part=part.host("machine"),
        quantity="serial number",
        observed=host.serial if isinstance(host.serial, Unknown) else host.serial.strip(),
        expected=str(wanted),
        source=f"inventory {node.origin}".rstrip(),
        action="look which machine answers at this address; correct the inventory if the board was replaced",
    )
