"""Kernel log: no error that nodegate does not know, unless most nodes of the platform print it too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from nodegate.api import KernelLog, Node, Verdict, Verdicts, part
from nodegate.kernel_log.incidents import MESSAGES
from nodegate.kernel_log.unknown_errors import MOST_SHAPES, of_one_node, speaker, unknown_errors
from nodegate.kernel_log.window import is_before_boot, times

if TYPE_CHECKING:
    from nodegate.api import Fleet, KernelLine

pytestmark = pytest.mark.tier("bootcheck")
_QUOTED = 200
_TOLD = 8  # kinds of errors of a node that is not compared
LEVELS = "let the account read the journal (group systemd-journal) or /dev/kmsg"


def test_unknown_errors(kernel_log: KernelLog, fleet: Fleet, node: Node, verdicts: Verdicts) -> None:
    """No unknown error is in this kernel log and not in that of most nodes of the platform. (F09, F33)

    What most nodes of a platform print is normal for it; what one prints alone is worth a look. Numbers and addresses
    are left out when lines are compared. It warns, with the line: what it means is not known yet. With fewer than three
    nodes of the platform there is nothing to compare: then only what a GPU, switch, NIC or disk says counts, and what
    came after the boot. A log file names no level: then errors without a word that sounds like one cannot be told from
    other lines, and are not judged.
    """
    boot_s = kernel_log.boot_epoch_s
    shapes = unknown_errors([line for line in kernel_log.lines if not is_before_boot(line.epoch_s, boot_s)])
    if fleet.log.can_judge(node.name):
        text = _among_others(shapes, fleet, node, verdicts)
        if kernel_log.levels is False:
            said = f"{kernel_log.source} has lines without a level: unknown errors were searched by keywords alone"
            _found(verdicts, Verdict.NOT_JUDGED, said, LEVELS, "no levels")
    else:
        text = _alone(of_one_node(shapes, boot_s), verdicts)
    if len(shapes) >= MOST_SHAPES:
        said = f"more kinds of unknown errors than were compared ({MOST_SHAPES})"
        _found(verdicts, Verdict.WARN, said, "read the log on the node", "too many")
    if not verdicts.findings:
        verdicts.passed(part=part.host("kernel log"), text=text)


def _among_others(shapes: Mapping[str, Sequence[KernelLine]], fleet: Fleet, node: Node, verdicts: Verdicts) -> str:
    """The errors that few nodes have; what to say where there are none."""
    common, total = 0, 0
    for shape, lines in shapes.items():
        having, total = fleet.log.having(node.name, shape)
        if 2 * having > total:
            common += 1
        else:
            _tell(verdicts, lines, f"error seen on {having} of {total} nodes, here")
    total = total or fleet.log.having(node.name, "")[1]
    said = f"; common to most nodes: {common}" if common else ""
    return f"no unknown error that is rare among {total} nodes{said}"


def _alone(shapes: Mapping[str, Sequence[KernelLine]], verdicts: Verdicts) -> str:
    """The errors of a node that is not compared; what to say where there are none."""
    for lines in list(shapes.values())[:_TOLD]:
        _tell(verdicts, lines, "unknown error")
    if len(shapes) > _TOLD:
        said = f"{len(shapes) - _TOLD} more kinds of unknown errors"
        _found(verdicts, Verdict.WARN, said, "read the log on the node", "more")
    return "no unknown error of a device or after the boot; not compared with other nodes"


def _tell(verdicts: Verdicts, lines: Sequence[KernelLine], what: str) -> None:
    when = times(len(lines), lines[0].epoch_s, lines[-1].epoch_s)
    verdicts.found(
        Verdict.WARN,
        part=speaker(lines[0].text) or part.host("kernel log"),
        text=f'{what} {when}: "{lines[0].text[:_QUOTED]}"',
        action="read the surrounding log lines on the node, and look the message up",
        quantity=MESSAGES,
        observed=len(lines),
        code="unknown error",
    )


def _found(verdicts: Verdicts, verdict: Verdict, text: str, action: str, code: str) -> None:
    verdicts.found(verdict, part=part.host("kernel log"), text=text, action=action, code=code)
