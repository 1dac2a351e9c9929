"""Workers and ranks that are no longer there, and jobs in which all wait for each other."""

from collections.abc import Iterator

import numpy as np

from nodegate.job.finding import Class, Finding, places
from nodegate.job.look import WORK, Look, quiet_nan, trailing
from nodegate.job.seen import Indices
from nodegate.job.tables import say
from nodegate.knowledge.words import Text


def find(look: Look) -> Iterator[Finding]:
    """The findings of this module."""
    yield from _worker_lost(look)
    yield from _rank_gone(look)
    yield from _hang(look)


def lost(look: Look) -> Indices:
    """GPUs whose series end well before those of most others."""
    early = look.end - look.last[look.rows] >= look.steps("ended_s")
    return look.rows[early]


def idle_since(look: Look) -> int | None:
    """Since after which moment the whole job is idle; None if it is not."""
    rows = look.rows
    all_idle = (look.idle[rows] | ~look.present[rows]).mean(axis=0) > 0.95
    if not all_idle[look.end]:
        return None
    return int(trailing(all_idle[None, :], np.ones((1, len(all_idle)), dtype=bool), look.end)[0])


def _worker_lost(look: Look) -> Iterator[Finding]:
    gone = lost(look)
    if not len(gone) or len(gone) > 2 / 3 * len(look.rows):
        return
    rest = np.setdiff1d(look.rows, gone)
    first = int(look.last[gone].min())
    of_first = gone[look.last[gone] <= first + look.steps("ended_s") - 1]
    after = slice(min(int(look.last[of_first].max()) + 2, look.end), look.end + 1)
    seen = look.present[rest, after]
    stopped = (look.waiting | look.idle)[rest, after] & seen
    if not seen.any() or stopped.sum() <= 0.6 * seen.sum():
        return  # a synchronous job cannot go on without a worker
    minutes = (look.end - first) * look.step_s // 60
    yield Finding(
        Class.WORKER_LOST,
        places(look, of_first),
        float(look.seen.times[first]),
        (say("lost", gone=len(of_first), rest=len(rest), minutes=minutes), say("rest_waits")),
    )


def _rank_gone(look: Look) -> Iterator[Finding]:
    here = look.rows[look.last[look.rows] >= look.end - 1]
    idle_from = trailing(look.idle[here], ~np.isnan(look.util[here]), look.end)
    wait_from = trailing(look.waiting[here], look.present[here], look.end)
    need = look.steps("sure_s")
    gone, waits = look.end - idle_from >= need, look.end - wait_from >= need - 1
    count = int(gone.sum())
    if not count or (count > max(1, len(here) / 3) and len({look.seen.parts[row].node for row in here[gone]}) != 1):
        return
    if count >= len(here) or waits.sum() < 0.9 * (len(here) - count):
        return
    since = int(np.median(idle_from[gone]))
    yield Finding(
        Class.RANK_GONE,
        places(look, here[gone]),
        look.moment(since),
        (say("one_at_0", gone=count, rest=len(here) - count), _numbers(look, here[waits])),
    )


def _hang(look: Look) -> Iterator[Finding]:
    here = look.rows[look.last[look.rows] >= look.end - 1]
    wait_from = trailing(look.waiting[here], look.present[here], look.end)
    long = look.end - wait_from >= look.steps("sure_s")
    if not len(here) or long.sum() < max(1, 0.97 * len(here)) or len(lost(look)):
        return
    why = say("all_wait", waiting=int(long.sum()), all=len(here)), _numbers(look, here[long])
    yield Finding(Class.HANG, (), look.moment(int(np.median(wait_from[long]))), why)


def _numbers(look: Look, rows: Indices) -> Text:
    """The numbers of those that wait, over the last minutes."""
    window = slice(max(0, look.end - look.steps("sure_s") + 1), look.end + 1)
    said = []
    for quantity in WORK:
        level = quiet_nan("nanmean", look.gpus[quantity][rows, window])
        said += [] if np.isnan(level).all() else [f"{quantity} {100 * float(np.nanmedian(level)):.1f} %"]
    power, most = quiet_nan("nanmean", look.gpus["power"][rows, window]), look.greatest[rows]
    said += [f"{np.nanmedian(power):.0f} W"] if not np.isnan(power).all() else []
    return say("wait_numbers", numbers=", ".join(said), most=np.nanmedian(most))


def pauses(look: Look) -> list[tuple[int, int]]:
    """First and last moments of the pauses inside the window: most of the job idle or waiting, and at work again."""
    present = look.present[look.rows]
    off = ((look.waiting | look.idle)[look.rows] & present).sum(axis=0) > 0.6 * np.maximum(1, present.sum(axis=0))
    edges = np.diff(off[: look.end + 1].astype(np.int8))
    begins, ends = np.flatnonzero(edges == 1) + 1, np.flatnonzero(edges == -1)
    return [(int(begin), int(end)) for begin, end in zip(begins, ends[int(off[0]) :], strict=False)]
