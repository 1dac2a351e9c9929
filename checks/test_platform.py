"""Platform: the node is a machine that the baselines know, and the one that the inventory says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Unknown, Verdict, part, some
from nodegate.judge.fleet import OWN_MACHINE, SAME_MACHINE_STEP

if TYPE_CHECKING:
    from nodegate.api import Baseline, Fleet, Host, Node, Verdicts

pytestmark = pytest.mark.tier("bootcheck")

_HOW = "name it in the inventory (nodegate_platform), or supply a file for it (--baseline; nodegate explain baselines)"


def test_known(baseline: Baseline, verdicts: Verdicts) -> None:
    """The platform is known, and the hardware is what the inventory names. (F33)

    Without a platform most limits are missing, and nothing could be accepted by them.
    """
    if not baseline.platform:
        verdicts.cannot(baseline.reason, next_step=_HOW)
    if baseline.named and baseline.detected:
        verdicts.equal(
            part=part.NODE,
            quantity="platform",
            observed=baseline.detected,
            expected=baseline.named,
            source="nodegate_platform of the inventory",
            action="correct nodegate_platform, or check which machine answers at this address",
        )
        return
    how = "named by the inventory" if baseline.named else "recognised from the hardware"
    text = f"platform {baseline.platform}, {how}"
    verdicts.passed(part=part.NODE, text=text, quantity="platform", observed=baseline.platform)


def test_one_name(fleet: Fleet, node: Node, verdicts: Verdicts) -> None:
    """The node is a separate machine: no other name leads to it, and it does not answer with another's. (F33)

    Two names would have one machine accepted twice, and another one that was delivered not at all. Swapped addresses
    would have the wrong one repaired.
    """
    if wrong := fleet.wrong_machine(node.name):
        verdicts.cannot(wrong, next_step=SAME_MACHINE_STEP, lacks=OWN_MACHINE)
    if twin := fleet.twin(node.name):
        action = "correct the serial number in the machine's firmware, or check which machine was delivered"
        verdicts.found(Verdict.WARN, part=part.host("machine"), text=twin, action=action, code="serial")
        return
    text, unread = "no other name of this run leads to it", fleet.unread_names()
    if unread:
        text = f"no other name that could be read leads to it; not known of {some(unread, 8)}"
    verdicts.passed(part=part.host("machine"), text=text)


def test_serial(host: Host, node: Node, verdicts: Verdicts) -> None:
    """The machine at this address is the one of the inventory: its serial number is nodegate_serial. (F33)

    A swapped address or board would have another machine accepted in its place.
    """
    wanted = node.settings.serial
    if not wanted:
        verdicts.not_demanded("the inventory gives no serial number (nodegate_serial)")
    verdicts.equal(
        part=part.NODE,
        quantity="serial number",
        observed=host.serial if isinstance(host.serial, Unknown) else host.serial.strip(),
        expected=wanted,
        source=f"inventory {node.origin}".rstrip(),
        action="check which machine answers at this address; correct the inventory if the board was replaced",
    )
