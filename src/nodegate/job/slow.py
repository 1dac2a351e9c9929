"""Jobs that go on slowly: a low clock, a GPU that others use too, uneven work, waiting for data or for the network."""

from collections.abc import Iterator

import numpy as np

from nodegate.job.finding import Class, Finding, places
from nodegate.job.look import WORK, Look, limit, quiet_nan
from nodegate.job.seen import Array, Indices, Mask
from nodegate.job.tables import say
from nodegate.knowledge.words import Text


def find(look: Look) -> Iterator[Finding]:
    """The findings of this module; what explains the uneven work of others stands for it."""
    explained = [*_throttled(look), *_shared(look)]
    yield from explained or _imbalance(look)
    yield from _input_bound(look)
    yield from _communication_bound(look)


def _mean(table: Array, rows: Indices, moments: Indices) -> Array:
    return quiet_nan("nanmean", table[np.ix_(rows, moments)])


def _peers(look: Look, rows: Indices, values: Array) -> Array:
    """For each GPU the median of those of its model."""
    models = np.array([look.seen.parts[row].model for row in rows])
    found = np.full(len(rows), np.nan)
    for model in set(models.tolist()):
        found[models == model] = quiet_nan("nanmedian", values[models == model][None, :])[0]
    return found


def _onset(look: Look, bad: Mask) -> float | None:
    """When a state of some GPUs began: `bad` is [GPU, moment], and most of them decide."""
    share = bad.mean(axis=0)[: look.end + 1]
    good = np.flatnonzero(share < 0.5)
    # Two moments in a row: one alone is noise, or a pause.
    pairs = [at for at in good if at - 1 in good] or [at for at in good if at == 0]
    return look.moment(max(pairs) if pairs else -1)


def _throttled(look: Look) -> Iterator[Finding]:
    rows, recent = look.rows, look.recent
    if len(recent) < 3:
        return
    clock = np.where(look.util > 0.5, look.gpus["clock"], np.nan)
    now = _mean(clock, rows, recent)
    before = _own_past(look, clock, rows)
    usual = np.fmax(_peers(look, rows, now), before)
    reported = np.array([look.seen.identities[row] in look.seen.names.slowed for row in rows], dtype=bool)
    low = (now < limit("low_clock") * usual) | (reported & (now < 0.95 * usual))
    if not low.any():
        return
    guilty = rows[low]
    bad = ~(clock[guilty] >= limit("low_clock") * usual[low][:, None])
    why = say("clock", level=np.nanmedian(now[low]), usual=np.nanmedian(usual[low]))
    yield Finding(Class.THROTTLED, places(look, guilty), _onset(look, bad), (why, *_comparison(look, guilty)))


def _own_past(look: Look, clock: Array, rows: Indices) -> Array:
    """The clock at which a GPU worked earlier in the window; NaN unless it fell by a quarter, with its work."""
    early = np.arange(max(0, int(look.recent[0])))
    worked, power = look.working[rows][:, early], look.gpus["power"]
    past, drawn = (
        quiet_nan("nanmedian", np.where(worked, each[np.ix_(rows, early)], np.nan)) for each in (clock, power)
    )
    now, draws = _mean(clock, rows, look.recent), _mean(power, rows, look.recent)
    return np.where((now < 0.75 * past) & (draws < 0.85 * drawn), past, np.nan)


def _comparison(look: Look, guilty: Indices) -> tuple[Text, ...]:
    rest = np.setdiff1d(look.rows, guilty)
    if not len(rest) or not len(look.recent):
        return ()
    quantity, table = look.work(look.rows)
    mine, theirs = (float(np.nanmedian(_mean(table, rows, look.recent))) for rows in (guilty, rest))
    said = [f"{value:.0f} W" if quantity == "power" else f"{100 * value:.0f} %" for value in (mine, theirs)]
    return (say("there", quantity=quantity, mine=said[0], theirs=said[1], rest=len(rest)),)


def _uneven(look: Look) -> tuple[Mask, Array]:
    """Which GPUs work much more than the median of the others, and by which factor."""
    rows = look.rows
    quantity, table = look.work(rows)
    level = _mean(table, rows, look.recent)
    usual = _peers(look, rows, level)
    spread = np.nanmedian(np.abs(level - usual)) / max(float(np.nanmedian(usual)), 1e-9)
    least = limit("uneven_power" if quantity == "power" else "uneven_work")
    ratio = level / np.maximum(usual, 1e-9)
    return (ratio > least) & (ratio - 1 > 5 * spread), ratio


def _shared(look: Look) -> Iterator[Finding]:
    rows, names = look.rows, look.seen.names.shared
    told = np.array([look.seen.identities[row] in names for row in rows], dtype=bool)
    memory = look.gpus["memory"]
    if told.any() and told.sum() <= len(rows) / 2:
        what = {names[look.seen.identities[row]] for row in rows[told]}
        both = say("two_pods") if what == {"pods"} else say("two_processes")
        yield Finding(Class.SHARED_GPU, places(look, rows[told]), None, (both, *_comparison(look, rows[told])))
        return
    if len(look.recent) < 3 or len(rows) < 3:
        return
    held = _mean(memory, rows, look.recent)
    total = quiet_nan("nanmax", held[None, :])[0] + np.nanmin(np.append(look.seen.free[rows], 1e9))
    more = held - _peers(look, rows, held)
    uneven, _ = _uneven(look)
    first = quiet_nan("nanmax", memory[rows][:, : max(3, len(look.recent))]) - np.nanmedian(memory[rows][:, :3])
    guilty = (more > limit("foreign_memory") * total) & (first > 0.6 * more) & uneven
    if guilty.any() and guilty.sum() <= max(1, len(rows) // 8):
        why = say("more_memory", gib=float(np.nanmedian(more[guilty])) / 1024)
        yield Finding(Class.SHARED_GPU, places(look, rows[guilty]), None, (why, *_comparison(look, rows[guilty])))


def _imbalance(look: Look) -> Iterator[Finding]:
    rows = look.rows
    if len(look.recent) < 3 or len(rows) < 3:
        return
    guilty, ratio = _uneven(look)
    nodes = {look.seen.parts[row].node for row in rows[guilty]}
    few = guilty.sum() <= max(1, len(rows) // 4) or (len(nodes) == 1 and guilty.sum() <= len(rows) / 2)
    if not guilty.any() or not few:
        return
    _, table = look.work(rows)
    usual = quiet_nan("nanmedian", table[rows], axis=0)[None, :]
    bad = table[rows[guilty]] > (1 + (float(np.nanmedian(ratio[guilty])) - 1) / 2) * usual
    yield Finding(Class.IMBALANCE, places(look, rows[guilty]), _onset(look, bad), _comparison(look, rows[guilty]))


def _long_from(look: Look, state: Mask) -> int | None:
    """Since which moment a state of the whole job has lasted, if it lasted long; one moment in eight may differ."""
    need = look.steps("long_s")
    last, wrong = look.end + 1, 0
    for at in range(look.end, -1, -1):
        wrong += not state[at]
        if wrong > max(1, (look.end - at + 1) // 8):
            break
        last = at if state[at] else last
    return last - 1 if look.end - last + 1 >= need else None


def _input_bound(look: Look) -> Iterator[Finding]:
    util = look.util[look.rows]
    state = quiet_nan("nanmean", util, axis=0) < limit("starved")
    state &= quiet_nan("nanmedian", util, axis=0) > limit("idle")
    since = _long_from(look, state)
    if since is None:
        return
    window = slice(since + 1, look.end + 1)
    level = float(np.nanmean(util[:, window]))
    rows, hosts = list(look.seen.host_rows().values()), look.seen.hosts
    beside = say("hosts_unknown")
    if rows and "idle" in hosts:
        busy = 100 * (1 - float(np.nanmean(hosts["idle"][rows, window])))
        wait = 100 * float(np.nanmean(hosts["iowait"][rows, window])) if "iowait" in hosts else 0.0
        beside = say("hosts", busy=busy, wait=wait)
    yield Finding(Class.INPUT, (), look.moment(since), (say("low_use", percent=100 * level), beside))


def _communication_bound(look: Look) -> Iterator[Finding]:
    rows = look.rows
    if np.isnan(look.seen.gpus["util"][rows]).all():
        return  # MIG: how much of its instance a job uses is not measured
    quantity, _ = look.work(rows)
    busy = quiet_nan("nanmedian", look.util[rows], axis=0) > limit("busy")
    ports = _ports(look)
    if quantity == "power":
        state = np.zeros_like(busy) if ports is None else busy & (ports > limit("full_port"))
    else:
        state = busy.copy()
        for each in WORK:
            if not np.isnan(look.gpus[each][rows]).all():
                state &= quiet_nan("nanmedian", look.gpus[each][rows], axis=0) < limit("little_work")
    hung = look.waiting[rows].mean(axis=0) > 0.5
    since = _long_from(look, state & ~hung)
    if since is None:
        return
    level = float(np.nanmedian(quiet_nan("nanmean", look.gpus[quantity][rows, since + 1 : look.end + 1])))
    why = [say("little_work", quantity=quantity, level=f"{level:.2g}")]
    if ports is not None:
        why.append(say("ports", percent=100 * float(np.nanmean(ports[since + 1 : look.end + 1]))))
    yield Finding(Class.COMMUNICATION, (), look.moment(since), tuple(why))


def _ports(look: Look) -> Array | None:
    """How full the ports of the job's hosts are, 0 to 1, by moment."""
    rows, hosts = list(look.seen.host_rows().values()), look.seen.hosts
    if not rows or "sent" not in hosts or "port_rate" not in hosts:
        return None
    return quiet_nan("nanmedian", hosts["sent"][rows] / hosts["port_rate"][rows], axis=0)
