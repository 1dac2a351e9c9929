"""The whole fleet in one launch, each node by itself (NCCL_TESTS_SPLIT): every node with its own time.

Only rank 0 prints a table, so the times are read from the JSON report (-I 1 -J, nccl-tests 2.19.4 or later). The report
contains the environment of the head: it is read into memory, and only the times are kept.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from nodegate.errors import CannotMeasure, Unreachable
from nodegate.measure.groups.launch import Launch
from nodegate.measure.groups.launch_session import LaunchSession
from nodegate.measure.groups.plan import Group
from nodegate.tools import nccl_json

SINCE = (2, 19, 4)
MAX_REPORT_BYTES = 48 << 20
READ_S = 60.0


def measure_split(launch_session: LaunchSession, names: Sequence[str], launch: Launch) -> None:
    """Launch it, and add each node's time to its evidence; nothing if the version has no such times."""
    if not _has_times(launch_session.version):
        return
    group = Group("apart", "fleet, each node by itself", tuple(names))
    try:
        head, path = launch_session.report_path(names)
        run = launch_session.launch([group], replace(launch, report=path))[group]
        times = _times(launch_session, head, path, names) if run.is_well else {}
    except CannotMeasure:  # the launch has the reason
        return
    for name, time_us in times.items():
        launch_session.note(group, launch.collective, partial(replace, time_us=round(time_us)), name)


def _has_times(version: str) -> bool:
    parts = version.split(".")
    return all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts) and (
        tuple(map(int, parts)) >= SINCE
    )


def _times(launch_session: LaunchSession, head: str, path: str, names: Sequence[str]) -> dict[str, float]:
    """The slowest rank's median time of each node, in µs; nothing if the report does not match the launch."""
    session = launch_session.members[head].target.session
    try:
        output = session.run(["cat", path], timeout_s=READ_S, max_output_bytes=MAX_REPORT_BYTES)
        session.run(["rm", "-f", path], timeout_s=READ_S)
        report = nccl_json.parse(output.stdout.decode("utf-8", "replace"))
    except Unreachable:
        raise
    except CannotMeasure:
        return {}
    gpus = launch_session.members[head].gpus
    order = [head, *(name for name in names if name != head)]
    hosts, medians = report.hosts, report.medians_us
    blocks = [set(hosts[first : first + gpus]) for first in range(0, len(hosts), gpus)]
    if len(hosts) != gpus * len(order) or any(len(block) != 1 for block in blocks) or len(medians) != len(hosts):
        return {}
    return {name: max(medians[place * gpus : (place + 1) * gpus]) for place, name in enumerate(order)}
