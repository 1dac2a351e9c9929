"""What the hosts of a job say: congestion on their ports, memory that will soon be full; and the memory of GPUs."""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from nodegate.job.finding import Class, Finding, node_places, places
from nodegate.job.look import Look, limit, quiet_nan
from nodegate.job.seen import Array, Indices
from nodegate.job.tables import say

_Key = TypeVar("_Key")
_NOTICES = ("cnp_handled", "cnp_sent", "slow_restart", "transmit_wait")
_LEAST_RATE = 10.0  # per second: below it no link slows down
_TREND_STEPS = 10
_LEAST_FALL = 0.03  # of the whole: what is held goes up and down by less
_FIT_STEPS = 2.5  # what a line through noise may miss the beginning by


def find(look: Look) -> Iterator[Finding]:
    """The findings of this module."""
    yield from _congested(look)
    yield from _memory_of_hosts(look)
    yield from _memory_of_gpus(look)


def _congested(look: Look) -> Iterator[Finding]:
    mine, hosts = look.seen.host_rows(), look.seen.hosts
    rows = np.array(list(mine.values()), dtype=np.int64)
    loud: dict[str, tuple[str, float, float]] = {}
    onsets = []
    for notice in _NOTICES:
        if notice not in hosts or not len(rows) or look.end < 2:
            continue
        now = quiet_nan("nanmean", hosts[notice][:, max(0, look.end - 3) : look.end + 1])
        usual = _usual(now, rows, hosts[notice])
        if usual is None:
            continue
        for name, row in mine.items():
            if now[row] > max(_LEAST_RATE, limit("many_notices") * usual):
                loud.setdefault(name, (notice, float(now[row]), usual))
                half = hosts[notice][row] > (now[row] + usual) / 2
                early = np.flatnonzero(~half[: look.end + 1])
                onsets.append(int(early.max()) if len(early) else -1)
    since = int(np.median(onsets)) if loud else 0
    if not loud or _goes_on(look, since):
        return
    notice, rate, usual = max(loud.values(), key=lambda each: each[1])
    why = say("notices", notice=notice, rate=rate, usual=usual)
    yield Finding(Class.CONGESTED, node_places(look, loud), look.moment(since), (why,))


def _usual(now: Array, rows: Indices, table: Array) -> float | None:
    """The fleet's median beside the job; else the job's own, or what it was at the start of the window."""
    others = np.setdiff1d(np.flatnonzero(~np.isnan(now)), rows)
    if len(others) >= 3:
        return float(np.nanmedian(now[others]))
    early = table[rows][:, :5]
    own = [float(np.nanmedian(each)) for each in (now[rows], early) if not np.isnan(each).all()]
    return min(own) if len(rows) >= 3 and own else own[-1] if own else None


def _goes_on(look: Look, since: int) -> bool:
    """Whether the job works as it did before: then the notices are the network at work."""
    if since < 3 or look.end - since < 3:
        return False
    table = look.work(look.rows)[1][look.rows]
    return float(np.nanmedian(table[:, since + 2 : look.end + 1])) > 0.97 * float(np.nanmedian(table[:, :since]))


def _fall(line: Array, step_s: int, least: float) -> float | None:
    """A steady fall over the last minutes, units a second; None if it is less than `least` or not steady."""
    tail = line[-_TREND_STEPS:]
    known = np.flatnonzero(~np.isnan(tail))
    if len(known) < 0.7 * _TREND_STEPS or len(tail) < _TREND_STEPS:
        return None
    times, level = known * float(step_s), tail[known]
    if level[0] - level[-1] <= least:
        return None
    slope, offset = np.polyfit(times, level, 1)
    rest = level - (slope * times + offset)
    if slope >= 0 or np.var(rest) > 0.08 * np.var(level):
        return None
    return -float(slope)


def _soon_empty(look: Look, lines: dict[_Key, tuple[Array, float]]) -> dict[_Key, tuple[float, float]]:
    """Of lines of what is free, with the whole: seconds until nothing is left, and what is left, where it falls."""
    found = {}
    for key, (line, whole) in lines.items():
        known = line[~np.isnan(line)]
        fall = _fall(line, look.step_s, _LEAST_FALL * whole)
        if fall is None or (left := float(known[-1])) / fall >= limit("soon_s"):
            continue
        rise = float((known - np.minimum.accumulate(known)).max())
        if rise < 0.4 * float(known.max() - left):  # a saw-tooth of checkpoints comes back
            found[key] = left / fall, left
    return found


def _memory_of_hosts(look: Look) -> Iterator[Finding]:
    if "available" not in look.seen.hosts:
        return
    table = look.seen.hosts["available"][:, : look.end + 1]
    most = np.nan_to_num(quiet_nan("nanmax", table))
    lines = {name: (table[row], float(most[row])) for name, row in look.seen.host_rows().items()}
    if found := _soon_empty(look, lines):
        soon, left = min(found.values())
        since = _since(look, [lines[name][0] for name in found])
        why = say("host_memory", gib=left / 2**30, minutes=soon / 60)
        yield Finding(Class.MEMORY, node_places(look, found), since, (why,))


def _memory_of_gpus(look: Look) -> Iterator[Finding]:
    lines = {}
    for row in look.rows.tolist():
        used = look.gpus["memory"][row, : look.end + 1]
        if not np.isnan(used).all() and not np.isnan(look.seen.free[row]):
            total = float(used[~np.isnan(used)][-1] + look.seen.free[row])
            lines[row] = total - used, total
    if found := _soon_empty(look, lines):
        soon, left = min(found.values())
        since = _since(look, [lines[row][0] for row in found])
        why = say("gpu_memory", gib=left / 1024, minutes=soon / 60)
        yield Finding(Class.MEMORY, places(look, found), since, (why,))


def _since(look: Look, lines: list[Array]) -> float | None:
    """When the fall began: where the line that it is now on meets the level before it."""
    begins = []
    for line in lines:
        level = line[: look.end + 1]
        known = np.flatnonzero(~np.isnan(level))
        tail = known[-_TREND_STEPS:]
        slope, offset = np.polyfit(tail.astype(float), level[tail], 1)
        start = float(np.nanmedian(level[known[:3]]))
        begins.append((start - offset) / slope)
    begin = float(np.median(begins))
    return None if begin <= _FIT_STEPS else float(look.seen.times[0]) + begin * look.step_s
