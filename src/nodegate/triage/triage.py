"""What ended a job: from the logs that the command line names to the answer."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.triage import sources
from nodegate.triage.answer import answer
from nodegate.triage.reading import read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.triage.answer import Answer

_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")


def triage(
    logs: Sequence[str],
    *,
    kernel: Sequence[str] = (),
    utc_offset: str = "",
    homes: Mapping[str, str] | None = None,
    now_s: float | None = None,
) -> Answer:
    """The answer for these logs. `homes` says on which node a pod ran.

    Raises:
        UsageError: nothing to read, or an option that cannot be understood.
    """
    if not logs and not kernel:
        raise UsageError("no log was given", hint="nodegate triage LOG... (- reads standard input)")
    found = sources.find(logs, kernel)
    now = time.time() if now_s is None else now_s
    return answer(read(found, now_s=now, zone_s=_zone_s(utc_offset), homes=homes))


def _zone_s(offset: str) -> float | None:
    if not offset:
        return None
    match = _OFFSET.fullmatch(offset)
    if match is None:
        raise UsageError(f"--utc-offset {offset!r} is not a valid UTC offset", hint="write it as +08:00")
    seconds = int(match[2]) * 3600.0 + int(match[3]) * 60.0
    return -seconds if match[1] == "-" else seconds
