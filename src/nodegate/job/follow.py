"""`nodegate job --follow`: a look every minute, and a line for each change that held for two looks."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from nodegate.notices.tell import tell_line
from nodegate.watch.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nodegate.job.answer import Answer
    from nodegate.notices.target import Target

EVERY_S = 60.0


def follow(looks: Callable[[], Answer], show: Callable[[Answer], str], targets: Sequence[Target]) -> int:
    """Looks until the job's series have ended together, then 0; until a signal, then as the last answer says.

    `show` prints an answer and returns the line for `targets`, which get each change.
    """
    told = before = None
    answer = None
    with Stop() as stop:
        while not stop.asked:
            begun = time.monotonic()
            answer = looks()
            state = answer.kind, answer.finding.where
            if state == before and state != told:
                told = state
                line = show(answer)
                for failed in tell_line(line, targets, "job"):
                    sys.stderr.write(f"nodegate: {failed}\n")
            if answer.ended and state == before:
                return 0
            before = state
            _wait(stop, begun + EVERY_S)
    return answer.exit if answer is not None else 2


def _wait(stop: Stop, until: float) -> None:
    while not stop.asked and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.5))
