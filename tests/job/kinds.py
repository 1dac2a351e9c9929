"""What happens in each kind of made story: faults, healthy jobs with what looks like a fault, and what cannot be known.

Like `stories`, it imports nothing of what it tests.
"""

import zlib
from collections.abc import Callable

import numpy as np
from job.stories import (
    APART_S,
    EPOCH,
    LEAD_S,
    MODELS,
    PROFILING,
    STYLES,
    WINDOW_S,
    Story,
    hosts,
    idle,
    others,
    slowed,
    uuid_of,
    waiting,
    working,
)

# --- faults ------------------------------------------------------------------------------------------------------


def worker_lost(story):
    """A node dies, or its pod ends; the others wait for it, and may end later."""
    moment, node = story.onset(-22, -7), int(story.rng.integers(len(story.nodes)))
    moment = max(moment, -WINDOW_S + 180.0)  # what ended before the window is no longer seen
    story.began = story.end + moment
    rows, story.where = story.rows_of(node), [(story.nodes[node], None)]
    gone = story.times > moment
    pod_only = story.style in ("exported", "honoured") and story.rng.random() < 0.5
    (story.labelled if pod_only else story.alive)[np.ix_(np.array(rows), gone)] = 0
    if pod_only:
        story.mix(rows, story.after(moment), idle(story, empty=True))
    story.mix(others(story, rows), story.after(moment + 20), waiting(story))
    if story.rng.random() < 0.4:  # the watchdog ends the rest
        story.alive[:, story.times > moment / 3] = 0


def rank_gone(story):
    """The process of one GPU ended; the others wait."""
    moment, row = story.onset(), story.victim()
    story.where = [story.place(row)]
    story.mix([row], story.after(moment), idle(story, empty=bool(story.rng.random() < 0.6)))
    story.mix(others(story, [row]), story.after(moment + 15), waiting(story))


def _one_part(story, share):
    """The GPUs of a node, in this share of the stories with several, else one GPU; sets the truth too."""
    if story.rng.random() < share and len(story.nodes) > 2:
        node = int(story.rng.integers(len(story.nodes)))
        story.where = [(story.nodes[node], None)]
        return story.rows_of(node)
    row = story.victim()
    story.where = [story.place(row)]
    return [row]


def throttled(story):
    """One GPU, or one node, runs at a lower clock: it works all the time, the others wait for it."""
    moment, share = story.onset(), story.drawn(0.25, 0.72)
    _, clock, _ = MODELS[story.model]
    rows = _one_part(story, 0.3)
    slow, after = slowed(story, share), story.after(moment)
    story.mix(others(story, rows), after, slow)
    power = story.values["power"] * (0.35 + 0.3 * share)
    low = np.round(clock * share * story.noise(0.005) / 15) * 15
    busier, lower = np.clip(story.values["sm"] * 1.12, 0, 1), story.values["dram"] * share
    engine = waiting(story)["engine"]
    story.mix(rows, after, {"clock": low, "power": power, "engine": engine, "sm": busier, "dram": lower})


def shared_gpu(story):
    """Another process holds memory of one GPU and computes there; the job's other GPUs wait for its rank."""
    row, share = story.victim(), story.drawn(0.35, 0.7)
    total = MODELS[story.model][2]
    story.where, story.began = [story.place(row)], None
    held = story.values["memory"]
    held *= min(1.0, 0.7 * total / held.max())
    held[row] = np.round(np.minimum(held[row] + total * story.drawn(0.14, 0.26), 0.985 * total))
    story.mix(others(story, [row]), np.ones(story.shape[1]), slowed(story, share))
    story.values["sm"][row] = np.clip(story.values["sm"][row] * 1.1, 0, 1)
    story.values["engine"][row] = waiting(story)["engine"][row]
    if story.counters == "smi" and story.rng.random() < 0.5:
        for moment in np.arange(-LEAD_S - WINDOW_S, 1, 60):
            for pid in (81_455, 90_210):
                at, node = story.end + moment, story.nodes[row // story.gpus]
                labels = f'instance="{node}:9835",uuid="{uuid_of(story, row)}",pid="{pid}"'
                story.extra.append(f"nvidia_smi_compute_app_info{{{labels}}} 1 {at:.3f}")


def congested(story):
    """The ports of some nodes, or of the whole job, get congestion notices far above the fleet's; traffic falls."""
    moment, share, times = story.onset(), story.drawn(0.35, 0.75), story.drawn(40, 900)
    fleet = len(story.host["idle"]) - len(story.nodes)
    whole = fleet >= 4 and (len(story.nodes) < 4 or story.rng.random() < 0.4)
    count = len(story.nodes) if whole else int(story.rng.integers(1, max(2, len(story.nodes) // 4)))
    chosen = sorted(story.rng.choice(len(story.nodes), count, replace=False))
    story.where = [] if whole else [(story.nodes[node], None) for node in chosen]
    after = story.after(moment)
    for each in ("cnp_handled", "cnp_sent", "slow_restart"):
        story.host[each][chosen] *= 1 + times * after
    story.host["sent"][: len(story.nodes)] *= 1 - (1 - share) * after
    story.mix(slice(None), after, slowed(story, share))


def memory_host(story):
    """A leak: the memory of one host falls steadily and will be full within the hour."""
    moment, node = story.onset(-26, -14), int(story.rng.integers(len(story.nodes)))
    left, now = story.drawn(5, 35) * 60, story.host["available"][node].mean()
    slope = now / (left - moment)
    story.host["available"][node] -= slope * np.maximum(story.times - moment, 0)
    story.where = [(story.nodes[node], None)]


def memory_gpu(story):
    """The memory of one GPU rises step by step towards full."""
    moment, row = story.onset(-26, -14), story.victim()
    total, held = MODELS[story.model][2] - 600, story.values["memory"]
    held *= min(1.0, 0.75 * total / held.max())
    left = story.drawn(3, 25) * 60
    slope = (total - held[row].mean()) / (left - moment)
    held[row] = np.round(held[row] + slope * np.maximum(story.times - moment, 0))
    story.where = [story.place(row)]


def hang(story):
    """All GPUs wait in a collective."""
    moment = story.onset()
    story.mix(slice(None), story.after(moment), waiting(story))
    if story.host:
        story.host["sent"] *= 1 - 0.9999 * story.after(moment)


def imbalance(story):
    """One part has much more work than the rest, at the same clock."""
    moment, share = story.onset(), story.drawn(0.3, 0.62)
    rows = _one_part(story, 0.4)
    story.mix(others(story, rows), story.after(moment), slowed(story, share))
    story.values["memory"][rows] = np.round(story.values["memory"][rows] * story.drawn(1.0, 1.04))


def _partly(story, rest, share):
    """Working for this share of the time, else as in `rest`."""
    return {each: story.values[each] * share + rest[each] * (1 - share) for each in ("util", *PROFILING, "power")}


def input_bound(story):
    """The GPUs wait for their data: ragged and low use, hosts full or waiting for storage."""
    moment, share = story.onset(-26, -14), story.drawn(0.2, 0.55)
    ragged = np.clip(share + 0.5 * share * story.rng.standard_normal(story.shape), 0.02, 0.95)
    story.mix(slice(None), story.after(moment), _partly(story, idle(story), ragged))
    if story.host:
        full, after = story.rng.random() < 0.5, story.after(moment)
        story.host["idle"] = story.host["idle"] * (1 - after) + (0.03 if full else 0.45) * after
        story.host["iowait"] = story.host["iowait"] * (1 - after) + (0.005 if full else story.drawn(0.2, 0.4)) * after


def communication_bound(story):
    """Busy, with little computed: power between waiting and work, not even; ports near their rate."""
    limit = MODELS[story.model][0]
    share, story.began = story.drawn(0.12, 0.25), None
    uneven = np.clip(share * story.noise(0.35), 0.03, 0.5)
    wait, now = waiting(story), story.values
    for each in ("sm", "tensor", "dram"):
        now[each] = np.minimum(now[each], {"sm": 0.8, "tensor": 0.45, "dram": 0.4}[each]) * uneven + 0.03 * uneven
    now["power"] = limit * (story.drawn(0.36, 0.46) * story.noise(0.08))
    now["engine"] = wait["engine"]
    story.host["sent"][: len(story.nodes)] = 5e10 * np.clip(
        story.drawn(0.78, 0.93) * (1 + 0.03 * story.rng.standard_normal((len(story.nodes), story.shape[1]))), 0, 1
    )


# --- healthy -----------------------------------------------------------------------------------------------------


def plain(story):
    """Nothing happens."""


def checkpoints(story):
    """Regular pauses: one GPU of the job writes, or all are idle, for one or two minutes."""
    every, long = story.drawn(8, 12) * 60, story.drawn(60, 130)
    pause = ((story.times + story.drawn(0, every)) % every < long).astype(float)
    if story.rng.random() < 0.5:
        story.mix(slice(None), pause, idle(story))
    else:
        story.mix(others(story, [0]), pause, waiting(story))
        story.mix([0], pause, idle(story))


def evaluation(story):
    """An evaluation of some minutes: less power and tensor work, at one moment of the window or at its end."""
    start = story.drawn(-20, -3) * 60
    during = story.after(start) * (1 - story.after(start + story.drawn(180, 330)))
    shares = {"tensor": 0.4, "power": 0.62, "util": 0.8, "engine": 0.78}
    story.mix(slice(None), during, {each: story.values[each] * share for each, share in shares.items()})


def stages(story):
    """Pipeline stages of equal size that differ in memory and, mildly, in work."""
    count = 4 if len(story.nodes) % 4 == 0 else 2
    stage = np.arange(story.shape[0]) * count // story.shape[0]
    work = 1 + story.drawn(0.03, 0.09) * (stage - (count - 1) / 2)
    for each in ("tensor", "dram", "power", "sm"):
        story.values[each] *= np.minimum(work, 1.14)[:, None]
    memory = story.values["memory"] * (1.0 - 0.1 * stage.astype(float))[:, None]
    story.values["memory"] = np.round(memory).astype(float)


def ended(story):
    """The job ends as it should: all within a scrape or two."""
    moment = story.drawn(-16, -5) * 60
    late = moment + story.rng.uniform(0, 20, len(story.nodes)).repeat(story.gpus)
    over = story.times[None, :] > late[:, None]
    if story.style in ("exported", "honoured", "slurm"):
        story.labelled[over] = 0
    for row in range(story.shape[0]):
        story.mix([row], story.after(late[row]), idle(story, empty=True))


def gap_of_prometheus(story):
    """The server itself scraped nothing for some minutes."""
    start = story.drawn(-22, -9) * 60
    story.alive[:, (story.times > start) & (story.times < start + story.drawn(120, 420))] = 0
    story.host = {}


def exporter_restart(story):
    """A new exporter on one node: nothing for two minutes, then the same GPUs under other labels."""
    node, start = int(story.rng.integers(len(story.nodes))), story.drawn(-20, -6) * 60
    story.relabelled[node] = start
    story.alive[
        np.ix_(np.array(story.rows_of(node)), (story.times > start) & (story.times < start + story.drawn(40, 130)))
    ] = 0


def beside(story):
    """GPUs of the same nodes that are not the job's: a notebook, or a server of a model."""
    rows = [row for row in range(story.shape[0]) if row % story.gpus >= story.gpus // 2]
    notebook = story.rng.random() < 0.5
    rest = idle(story)
    uneven = np.clip(0.3 + 0.25 * story.rng.standard_normal(story.shape), 0, 1)
    story.mix(rows, np.ones(story.shape[1]), rest if notebook else _partly(story, rest, uneven))
    story.values["memory"][rows] = np.round(story.drawn(3000, 30_000))
    if story.style in ("exported", "honoured", "slurm"):
        story.labelled[rows] = 0
    else:
        story.values["memory"][rows] = 900.0
        story.mix(rows, np.ones(story.shape[1]), rest)


def mig(story):
    """Two instances on each board; the driver's use is not there."""
    story.mig = True
    for each in PROFILING:
        story.values[each] *= 0.43


def first_minutes(story):
    """The job began in the window: loading, then compilation, then work."""
    start = story.drawn(-18, -10) * 60
    ready = start + story.drawn(120, 300)
    story.values["memory"] = np.where(
        story.times < start, 4.0, story.values["memory"] * np.clip(0.3 + (story.times - start) / 300, 0, 1)
    )
    story.mix(slice(None), 1 - story.after(ready), idle(story))
    if story.style in ("exported", "honoured", "slurm"):
        story.labelled[:, story.times < start] = 0


def replicas(story):
    """Two servers scrape, and nothing takes the copies out."""
    story.replicas = 2


def reordered(story):
    """One node was rebooted before the job began: its GPUs have other indices now."""
    node = int(story.rng.integers(len(story.nodes)))
    story.order[node] = start = -WINDOW_S - 120.0
    story.alive[np.ix_(np.array(story.rows_of(node)), (story.times > start - 240) & (story.times < start))] = 0


def profiling_is_zero(story):
    """The profiling fields of one GPU, or of all, read 0 while it works."""
    rows: list[int] | slice = slice(None) if story.rng.random() < 0.4 else [story.victim()]
    for each in PROFILING:
        story.values[each][rows] = 0


def profiling_stands_still(story):
    """The profiling fields stopped at some value hours ago, on one node."""
    rows = story.rows_of(int(story.rng.integers(len(story.nodes))))
    for each in PROFILING:
        story.values[each][rows] = story.values[each][rows][:, :1] * story.drawn(0.05, 1)


def old_xid(story):
    """The gauge of the last Xid, never reset."""
    story.values["xid"] = np.zeros(story.shape)
    story.values["xid"][story.victim()] = 79


def more_on_rank_0(story):
    """The contexts of the siblings hold some GiB of GPU 0 of each node."""
    story.values["memory"] = np.round(story.values["memory"] * 0.9)
    story.values["memory"][:: story.gpus] += story.drawn(1500, 4200)


def full_from_the_start(story):
    """The memory was taken at once and is constant."""
    story.values["memory"][:] = np.round(MODELS[story.model][2] * story.drawn(0.955, 0.98))


def many_old_notices(story):
    """Congestion notices at one low rate everywhere; the hosts' memory goes up and down with checkpoints."""
    saw = (story.times % 900) / 900
    story.host["available"] *= 1 - 0.35 * saw


def applied_clock(story):
    """All boards run at a lower application clock, and vary with their power caps."""
    clock = MODELS[story.model][1]
    story.values["clock"] = np.round(clock * story.drawn(0.72, 0.9) * story.noise(0.012) / 15) * 15


# --- what cannot be known ----------------------------------------------------------------------------------------


def frozen(story):
    """The exporters serve their last values for ever."""
    story.values.setdefault("energy", 1e9 + np.cumsum(story.values["power"], axis=1) * 30_000)
    last = int(np.flatnonzero(story.times > story.drawn(-26, -10) * 60)[0])
    for each in story.values:
        story.values[each][:, last:] = story.values[each][:, last : last + 1]


def stopped(story):
    """The server stopped some minutes ago: nothing of any target is newer."""
    story.alive[:, story.times > story.drawn(-18, -8) * 60] = 0


def no_such_job(story):
    """The name fits nothing."""
    story.asked = (
        ["--pods", f"nothing-{story.number}-.*"]
        if story.rng.random() < 0.5
        else ["--nodes", f"absent{story.number}-[1-4]"]
    )


def ninety_seconds(story):
    """The job began 90 s ago."""
    story.alive[:, story.times < -90] = 0


# --- the list ----------------------------------------------------------------------------------------------------

FAULTS: list[tuple[str, Callable[[Story], None], int]] = [
    ("worker-lost", worker_lost, 4), ("rank-gone", rank_gone, 4), ("throttled", throttled, 5),
    ("shared-gpu", shared_gpu, 4), ("congested", congested, 3), ("memory-soon-full", memory_host, 2),
    ("memory-soon-full", memory_gpu, 2), ("hang", hang, 5), ("imbalance", imbalance, 3),
    ("input-bound", input_bound, 3), ("communication-bound", communication_bound, 3),
]  # fmt: skip
HEALTHY: list[tuple[Callable[[Story], None], int]] = [
    (plain, 1), (checkpoints, 2), (evaluation, 2), (stages, 2), (ended, 2), (gap_of_prometheus, 1),
    (exporter_restart, 1), (beside, 2), (mig, 1), (first_minutes, 1), (replicas, 1), (reordered, 1),
    (profiling_is_zero, 2), (profiling_stands_still, 1), (old_xid, 1), (more_on_rank_0, 1), (full_from_the_start, 1),
    (many_old_notices, 1), (applied_clock, 1),
]  # fmt: skip
UNKNOWN: list[tuple[Callable[[Story], None], int]] = [(frozen, 2), (stopped, 1), (no_such_job, 1), (ninety_seconds, 1)]
NEEDS_HOSTS = (congested, memory_host, communication_bound, many_old_notices)
NEEDS_DCGM = (mig, profiling_is_zero, profiling_stands_still, old_xid, reordered)
SEVERAL_NODES = (worker_lost, stages, congested)


def made(seed, *, only=None):
    """All stories, or one: 38 faults, 25 healthy jobs, 5 that cannot be known. Another seed draws all levels anew."""
    plan = [(truth, happens) for truth, happens, count in FAULTS for _ in range(count)]
    plan += [("healthy", happens) for happens, count in HEALTHY for _ in range(count)]
    plan += [("cannot-tell", happens) for happens, count in UNKNOWN for _ in range(count)]
    return [_story(seed, number, *each) for number, each in enumerate(plan) if only in (None, number)]


def _story(seed, number, truth, happens):
    rng = np.random.default_rng([seed, number, zlib.crc32(happens.__name__.encode())])
    counters = ("smi", "default", "full", "default")[number % 4]
    if counters == "smi" and happens in NEEDS_DCGM:
        counters = "default"
    style = "bare" if counters == "smi" else STYLES[int(rng.integers(4))]
    most = 128.99 if rng.random() < 0.12 else 8.99
    count = int(np.exp(rng.uniform(0, np.log(most))))
    if happens in SEVERAL_NODES:
        count = max(2, count)
    if happens is stages:
        count = -(-count // 4) * 4
    if happens is mig:
        style = "exported"
    names = [f"s{number}gpu{each:03d}" for each in range(1, count + 1)]
    kind = happens.__name__.replace("_", "-")
    model, scrape_s = list(MODELS)[int(rng.integers(3))], (15, 30, 30, 60)[int(rng.integers(4))]
    end = EPOCH + number * APART_S + 5400
    story = Story(number, kind, truth, style, counters, names, model, rng, scrape_s, end)
    working(story)
    if happens in NEEDS_HOSTS or rng.random() < 0.4:
        hosts(story, 6 if happens in NEEDS_HOSTS else 0)
    happens(story)
    return story
