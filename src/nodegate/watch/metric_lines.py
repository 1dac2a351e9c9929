"""Lines of JSON with the metrics of a step (metrics.jsonl of any program, W&B's and MMEngine's files).

No two programs name the fields alike, so a field is known by the words of its name: `step_time`, `perf/time_per_step`,
`iteration_time_ms`, `timing_s/step` are the time of a step; `data_time` and `steps_per_sec` are not.
"""

import json
from collections.abc import Mapping

from nodegate.watch.fields import kind, words_of
from nodegate.watch.lines import stamp
from nodegate.watch.reading import Reading, positive, whole

_ITERATION = (
    *("train/global_step", "trainer/global_step", "global_step", "step", "_step"),
    *("iteration", "iter", "training_iteration"),
)
_TOTAL = ("max_steps", "total_steps", "num_training_steps", "total_iterations")
_STARTED = ("_runtime", "elapsed", "elapsed_s", "elapsed_time", "elapsed_seconds", "runtime", "wall_time_s")
_CLOCK = ("_timestamp", "timestamp", "time", "ts", "created_at", "datetime", "wall_time")
_EPOCH_S = (1e9, 1e10)  # clocks since 1970, of a time after 2001


def metrics(line: str) -> Reading | None:
    """The step and its time, or else the clock of the line."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or len(said) > 2000:
        return None
    step = next((step for name in _ITERATION if (step := whole(said.get(name))) is not None), None)
    if step is None:
        return None
    total = next((total for name in _TOTAL if (total := whole(said.get(name)))), 0)
    seconds = _time_of_step(said)
    if seconds is not None:
        return Reading("json", step, total=total, seconds=seconds, lap=whole(said.get("epoch")))
    clocks = (*(positive(said.get(name)) for name in _STARTED), *(_moment(said.get(name)) for name in _CLOCK))
    clock = next((each for each in clocks if each is not None), None)  # since the start, or that of the machine
    return None if clock is None else Reading("json", step, total=total, elapsed_s=clock)


def _time_of_step(said: Mapping[str, object]) -> float | None:
    """Seconds of a step, from the first field that is one."""
    if "data_time" in said:  # MMEngine: `time` is of an iteration; an evaluation's has neither loss nor lr
        return positive(said.get("time")) if "loss" in said or "lr" in said else None
    for name, value in said.items():
        what, factor = kind(words_of(str(name).replace("/", " ")[:80]))
        if what in ("step", "rate") and (found := positive(value)) is not None:
            return found * factor if what == "step" else 1 / found
    return None


def _moment(value: object) -> float | None:
    """A time of the day in whole seconds, or seconds since 1970; for differences only."""
    if isinstance(value, str):
        at = stamp(value[:40])
        return at.s if at else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if _EPOCH_S[0] < value < _EPOCH_S[1] else None
