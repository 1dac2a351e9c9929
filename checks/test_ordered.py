"""Ordered: the node is what the site has ordered (nodegate_expect of the inventory), whatever the other nodes are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Unknown, Verdict
from nodegate.subjects.order_items import About

if TYPE_CHECKING:
    from nodegate.api import Order, Verdicts

pytestmark = pytest.mark.tier("bootcheck")


def test_versions(ordered: Order, verdicts: Verdicts) -> None:
    """Driver, firmware, BIOS, kernel, NCCL and CUDA are the versions that the site demands. (F33)

    A fleet that is on one wrong version everywhere has no odd node: only what was ordered finds it.
    """
    _judge(About.VERSIONS, ordered, verdicts, "update it to the version that was ordered")


def test_parts(ordered: Order, verdicts: Verdicts) -> None:
    """GPUs, NICs, NVSwitches, CPUs and memory are those that were ordered, in model and number. (F33)

    A fleet that was delivered short everywhere, one memory module in each node, has no odd node.
    """
    _judge(About.PARTS, ordered, verdicts, "compare the node with the order; ask the supplier for what is missing")


def test_settings(ordered: Order, verdicts: Verdicts) -> None:
    """ECC, persistence mode, MIG and power limit of each GPU are as the site demands. (F08, F33)

    A power limit that an image lowers on every node costs each of them the same share of its speed.
    """
    _judge(About.SETTINGS, ordered, verdicts, "set it, and make it persist across reboots")


def test_serials(ordered: Order, verdicts: Verdicts) -> None:
    """Chassis and GPUs have serial numbers of the order. (F33)

    A board that is not of the order was swapped on the way, or belongs to another machine.
    """
    _judge(About.SERIALS, ordered, verdicts, "find out where this part comes from; correct the list if it was replaced")


def _judge(about: About, ordered: Order, verdicts: Verdicts, action: str) -> None:
    """Hold every reading of every demanded item to what was ordered: a finding each."""
    for demand in ordered.about(about):
        item = demand.item
        for part, value in ordered.readings(demand):
            right = demand.holds(value)
            if isinstance(value, Unknown) or isinstance(right, Unknown):
                verdicts.unknown(
                    part=part, quantity=item.key, reason=right if isinstance(right, Unknown) else "unknown"
                )
                continue
            verdicts.found(
                Verdict.PASS if right else Verdict.FAIL,
                part=part,
                quantity=item.quantity,
                observed=value,
                unit=item.unit,
                limit=demand.limit,
                action=action,
                code=item.key,
            )
