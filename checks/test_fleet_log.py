"""Kernel log against the fleet: no errors that only few nodes of the platform print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Verdict, part
from nodegate.kernel_log.incidents import MESSAGES
from nodegate.kernel_log.unknown_errors import MOST_SHAPES, unknown_errors
from nodegate.kernel_log.window import is_before_boot, times

if TYPE_CHECKING:
    from nodegate.api import Fleet, KernelLog, Node, Verdicts

pytestmark = pytest.mark.tier("nightly")
_QUOTED = 200
LEVELS = "let the account read the journal (group systemd-journal) or /dev/kmsg"


def test_unknown_errors(kernel_log: KernelLog, fleet: Fleet, node: Node, verdicts: Verdicts) -> None:
    """No unknown error is in this kernel log and not in that of most nodes of the platform. (F09, F33)

    What most nodes of a platform print is normal for it; what one prints alone is worth a look. Numbers and addresses
    are left out when lines are compared. It warns, with the line: what it means is not known yet. A log file names no
    level: then errors without a word that sounds like one cannot be told from other lines, and are not judged.
    """
    boot_s = kernel_log.boot_epoch_s
    shapes = unknown_errors([line for line in kernel_log.lines if not is_before_boot(line.epoch_s, boot_s)])
    common = 0
    for shape, lines in shapes.items():
        having, total = fleet.log.having(node.name, shape)
        if 2 * having > total:
            common += 1
            continue
        when = times(len(lines), lines[0].epoch_s, lines[-1].epoch_s)
        verdicts.found(
            Verdict.WARN,
            part=part.host("kernel log"),
            text=f'error seen on {having} of {total} nodes, here {when}: "{lines[0].text[:_QUOTED]}"',
            action="read the surrounding log lines on the node, and look the message up",
            quantity=MESSAGES,
            observed=len(lines),
            code="unknown error",
        )
    if len(shapes) >= MOST_SHAPES:
        verdicts.found(
            Verdict.WARN,
            part=part.host("kernel log"),
            text=f"more kinds of unknown errors than were compared ({MOST_SHAPES})",
            action="read the log on the node",
            code="too many",
        )
    if kernel_log.levels is False:
        verdicts.found(
            Verdict.NOT_JUDGED,
            part=part.host("kernel log"),
            text=f"{kernel_log.source} has lines without a level: unknown errors were searched by keywords alone",
            action=LEVELS,
            code="no levels",
        )
    if not verdicts.findings:
        _, total = fleet.log.having(node.name, "")
        said = f"; common to most nodes: {common}" if common else ""
        verdicts.passed(part=part.host("kernel log"), text=f"no unknown error that is rare among {total} nodes{said}")
