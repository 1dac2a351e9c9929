"""What each GPU of a job did at each moment: at work, in a busy-wait, idle, unseen; and what can be believed."""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from nodegate.job.seen import Array, Indices, Mask, Seen
from nodegate.job.tables import row, rows

PROFILING = ("engine", "sm", "tensor", "dram")
WORK = ("tensor", "sm", "dram")  # the first that is known says how much a GPU works
_STILL_STEPS = 8
_SAME = 1e-9  # means of equal numbers differ by rounding


@cache
def limit(name: str) -> float:
    """A limit of the table, which has its reason too."""
    return float(row("limits.csv", name)["value"])


def quiet_nan(function: str, table: Array, axis: int = 1, **options: float) -> Array:
    """Numpy's nan-function where a row may be all NaN: then NaN, without its warning."""
    if table.size == 0:
        return np.full(table.shape[1 - axis], np.nan)
    with np.errstate(all="ignore"):
        empty = np.isnan(table).all(axis=axis)
        filled = np.where(np.expand_dims(empty, axis), 0.0, table)
        found: Array = getattr(np, function)(filled, *options.values(), axis=axis)
        return np.where(empty, np.nan, found)


def trailing(mask: Mask, known: Mask, end: int) -> Indices:
    """For each row: the last moment up to `end` that was known and not so; -1 if there was none in the window."""
    broken = (known & ~mask)[:, : end + 1]
    last = broken.shape[1] - 1 - np.argmax(broken[:, ::-1], axis=1)
    return np.where(broken.any(axis=1), last, -1).astype(np.int64)


@dataclass
class Look:
    """The GPUs of a job as states. `rows` are those that belong to it; tables are [GPU, moment]."""

    seen: Seen

    def __post_init__(self) -> None:
        self.gpus = dict(self.seen.gpus)
        self.present = self.seen.present
        self.distrusted = self._distrusted()
        for each in PROFILING:
            self.gpus[each] = np.where(self.distrusted[:, None], np.nan, self.gpus[each])
        self.last = np.where(
            self.present.any(axis=1), self.present.shape[1] - 1 - np.argmax(self.present[:, ::-1], axis=1), -1
        )
        self.rows = np.flatnonzero(self.last >= 0)
        self.beside = self._beside()
        self.rows = np.setdiff1d(self.rows, self.beside)
        ended = np.sort(self.last[self.rows])
        # The end of the job's data: the last moment that at least a third of its GPUs reached.
        self.end = int(ended[-1 - len(ended) // 3]) if len(ended) else -1

    @property
    def step_s(self) -> int:
        """Seconds between two moments."""
        return self.seen.job.step_s

    def steps(self, name: str) -> int:
        """A time of the table of limits in moments, at least three."""
        return max(3, -int(-limit(name) // self.step_s))

    def moment(self, index: int | np.int64) -> float | None:
        """When a state began that was not there at `index`: within that interval; None before the window."""
        return None if index < 0 else float(self.seen.times[index]) - self.step_s / 2

    @cached_property
    def util(self) -> Array:
        """0 to 1: the driver's use, or the engine's where there is none (MIG: as a share of the most that was seen)."""
        util, engine = self.seen.gpus["util"] / 100, self.seen.gpus["engine"]
        most = np.maximum(quiet_nan("nanmax", engine), 0.05)[:, None]
        alone = np.isnan(util).all(axis=1, keepdims=True)
        return np.where(alone, np.where(most < limit("busy"), engine / most, engine), util)

    @cached_property
    def greatest(self) -> Array:
        """W, by GPU: the greatest power of the window and of the hours before, or what its board draws at work."""
        boards = {each["name"]: float(each["watts"]) for each in rows("boards.csv")}
        watts = {
            model: next((boards[name] for name in boards if name in model), np.nan)
            for model in {part.model for part in self.seen.parts}
        }
        usual = np.array([limit("usual_power") * watts[part.model] for part in self.seen.parts])
        found: Array = np.fmax(np.fmax(quiet_nan("nanmax", self.gpus["power"]), self.seen.past_power), usual)
        return found

    @cached_property
    def idle(self) -> Mask:
        """Nothing runs."""
        return np.asarray(self.util < limit("idle"), dtype=bool)

    @cached_property
    def waiting(self) -> Mask:
        """A busy-wait: use at 100 %, nothing computed. Without profiling fields: low and flat power."""
        busy = self.util > limit("busy")
        share = self.gpus["power"] / self.greatest[:, None]
        quiet, asked, nought = np.ones_like(busy), np.zeros_like(busy), np.ones_like(busy)
        for each in WORK:
            level, known = self.gpus[each], ~np.isnan(self.gpus[each])
            quiet &= ~known | (level < limit(f"quiet_{each}"))
            asked |= known
            nought &= ~known | (level == 0)
        # All of them at exactly 0 may be a fault of theirs: then power decides.
        at_work = nought & (share > limit("work_power")) & ~self._flat(busy & quiet & asked)[:, None]
        measured = busy & quiet & asked & ~at_work
        by_power = busy & ~asked & (share < limit("wait_power"))
        return np.asarray(measured | (by_power & self._flat(by_power)[:, None]), dtype=bool)

    def _flat(self, mask: Mask) -> Mask:
        """By GPU: whether its power hardly varies in these moments (the first and last are of two states)."""
        inner = mask.copy()
        inner[:, 1:] &= mask[:, :-1]
        power = np.where(inner, self.gpus["power"], np.nan)
        deviation, mean = quiet_nan("nanstd", power), quiet_nan("nanmean", power)
        return np.asarray(~(deviation > limit("flat") * mean) & (inner.sum(axis=1) >= 2), dtype=bool)

    @cached_property
    def working(self) -> Mask:
        """At work in some way: seen, neither idle nor waiting."""
        return self.present & ~self.idle & ~self.waiting

    def work(self, rows: Indices) -> tuple[str, Array]:
        """The quantity that shows how much these GPUs work, and its table; power if no profiling field is known."""
        for each in WORK:
            if not np.isnan(self.gpus[each][rows]).all(axis=1).any():
                return each, self.gpus[each]
        return "power", self.gpus["power"]

    @cached_property
    def recent(self) -> Indices:
        """The newest moments, at most six of the last twelve, in which the job was busy and one of it at work."""
        first = max(0, self.end - max(12, 720 // self.step_s) + 1)
        busy, present = self.util[self.rows] > 0.5, self.present[self.rows].sum(axis=0)
        at_work = (busy & self.working[self.rows]).any(axis=0)
        share = np.where(at_work, busy.sum(axis=0) / np.maximum(1, present), 0.0)
        found = [each for each in range(first, self.end + 1) if share[each] > 0.5]
        return np.array(found[-6:], dtype=np.int64)

    @cached_property
    def frozen(self) -> Mask:
        """By GPU: whether all its series, the power among them, did not change in the last minutes."""
        steps = max(5, self.steps("sure_s"))
        still = np.ones(len(self.present), dtype=bool)
        for table in self.seen.gpus.values():
            still &= _still(table[:, -steps:]) | np.isnan(table[:, -steps:]).all(axis=1)
        power = self.seen.gpus["power"][:, -steps:]
        known = (~np.isnan(power)).sum(axis=1) >= steps - 1
        return np.asarray(still & known & (quiet_nan("nanmax", power) > 0), dtype=bool)

    def _distrusted(self) -> Mask:
        """By GPU: whether its profiling fields read 0, or do not change, while use and power say otherwise."""
        util, engine, power = self.seen.gpus["util"] / 100, self.seen.gpus["engine"], self.seen.gpus["power"]
        busy = util > limit("busy")
        zero = (busy & (engine < 0.01)).sum(axis=1) > 0.8 * np.maximum(3, (busy & ~np.isnan(engine)).sum(axis=1))
        still = np.zeros(len(zero), dtype=bool)
        for each in WORK:
            table = self.seen.gpus[each]
            enough = (~np.isnan(table)).sum(axis=1) >= _STILL_STEPS
            still |= enough & _still(table) & (quiet_nan("nanmax", table) > 0)
        return np.asarray(zero | (still & ~_still(power)), dtype=bool)

    def _beside(self) -> Indices:
        """GPUs that were idle in the whole window while others of the same look worked: not a part of this job."""
        idle = np.asarray((self.idle | ~self.present).all(axis=1) & self.present.any(axis=1), dtype=bool)
        rest = self.rows[~idle[self.rows]]
        ends = (self.waiting[rest] | ~self.present[rest])[:, -self.steps("sure_s") :].all(axis=1)
        hang = not len(rest) or ends.mean() > 0.5
        return self.rows[:0] if hang else np.flatnonzero(idle)


def _still(table: Array) -> Mask:
    low, high = quiet_nan("nanmin", table), quiet_nan("nanmax", table)
    return np.asarray((high - low) <= _SAME * np.abs(high), dtype=bool)
