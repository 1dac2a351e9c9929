"""What ended a job: from the logs that the command line names to the answer."""

import time
from collections.abc import Iterable, Mapping, Sequence

from nodegate.errors import UsageError
from nodegate.triage import sources
from nodegate.triage.answer import Answer, answer
from nodegate.triage.reading import read
from nodegate.triage.zones import offset_s


def triage(
    logs: Sequence[str],
    *,
    kernel: Sequence[str] = (),
    zones: Sequence[str] = (),
    homes: Mapping[str, str] | None = None,
    nodes: Iterable[str] = (),
    now_s: float | None = None,
) -> Answer:
    """The answer for these logs. `homes` says on which node a pod ran, `zones` what the user says of times without one.

    `nodes` are known to be nodes: a file that is named after one is of it.

    Raises:
        UsageError: nothing to read, or an option that cannot be understood.
    """
    if not logs and not kernel:
        raise UsageError("no log was given", hint="nodegate triage LOG... (- reads standard input)")
    for each in zones:
        offset_s(each.rpartition("=")[2])  # before a long time of reading
    found = sources.find(logs, kernel)
    now = time.time() if now_s is None else now_s
    return answer(read(found, now_s=now, zones_given=zones, homes=homes, nodes=nodes))
