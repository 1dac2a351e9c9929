"""Kernel log against the fleet: no errors that only few nodes of the platform print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate import part
from nodegate.finding import Limit
from nodegate.kernel_log.unknown_errors import MOST_SHAPES, unknown_errors
from nodegate.kernel_log.window import LogWindow, times
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate import Verdicts
    from nodegate.judge.fleet import Fleet
    from nodegate.node import Node
    from nodegate.probe.host import Host
    from nodegate.probe.kernel_log import KernelLog
    from nodegate.profile import Profile

pytestmark = pytest.mark.tier("nightly")
_QUOTED = 200


def test_unknown_errors(  # noqa: PLR0917 - arguments are facts
    kernel_log: KernelLog, host: Host, fleet: Fleet, node: Node, profile: Profile, verdicts: Verdicts
) -> None:
    """No unknown error is in this kernel log and not in that of most nodes of the platform. (F09, F33)

    What most nodes of a platform print is its habit; what one prints alone is worth a look. Numbers and addresses are
    put aside before lines are compared. It warns, with the line: nobody can say yet what it means.
    """
    window = LogWindow.of(kernel_log, host.clock_epoch_s, Limit(0, "h", ""), profile)
    shapes = unknown_errors([line for line in kernel_log.lines if not window.earlier_boot(line.epoch_s)])
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
            text=f'an error that {having} of {total} nodes have, {when}: "{lines[0].text[:_QUOTED]}"',
            action="read what stands around it on the node, and look the line up",
            quantity=shape,
            observed=len(lines),
            unit="lines",
        )
    if len(shapes) >= MOST_SHAPES:
        message = f"{MOST_SHAPES} sorts of unknown errors were compared, and there are more"
        verdicts.found(
            Verdict.WARN, part=part.host("kernel log"), text=message, action="read the log on the node by hand"
        )
    if not verdicts.findings:
        _, total = fleet.log.having(node.name, "")
        said = f", {common} sorts that most nodes have" if common else ""
        verdicts.passed(part=part.host("kernel log"), text=f"no unknown error of its own among {total} nodes{said}")
