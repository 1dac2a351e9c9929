"""What one line of a log says about the training's pace, and what a point of the series is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MOST_ITERATION = 10**12
MOST_S = 1e8
GROUPS = ("iteration", "ms", "s", "per_s", "elapsed", "total", "batch", "sequence", "world", "tokens", "epoch")
_SCALED = re.compile(r"([0-9.]{1,20})([kKM])")
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6}
_ELAPSED = re.compile(r"(?:([0-9]{1,5}) days?, )?([0-9]{1,6}):([0-9]{2})(?::([0-9]{2}))?")


@dataclass(frozen=True)
class Reading:
    """One line: the iteration that it ends and either the time of an iteration or the time since the start."""

    source: str  # the format, as `formats.FORMATS` names it
    iteration: int  # the last one that the line covers
    total: int = 0  # how many the run will have; 0 if unknown
    seconds: float | None = None  # mean of the iterations since the line before; None if only `elapsed_s` is known
    elapsed_s: float | None = None  # since the start of this run, in whole seconds
    per: str = "iteration"  # what `seconds` is the time of; a sample or token if the batch is not known
    alone: bool = False  # the line measures its own iteration only, not the mean since the line before
    batch: int | None = None  # global batch size, in samples
    sequence: int | None = None  # sequence length, in tokens
    world: int | None = None  # how many ranks
    tokens: int | None = None  # consumed since the start
    bar: str = ""  # which progress bar it is
    kind: str = ""  # what of several lines of one format it is: those of one kind make a series
    lap: int | None = None  # the epoch, if the iterations are counted in it
    lap_s: float | None = None  # the time of all iterations since the line before
    by_clock: bool = False  # the line has no time of its own but that of its writing
    tflops: float | None = None  # what the program says each GPU does, in TFLOP/s
    mfu: float | None = None  # what it says of the GPUs' peak it uses, in percent


class Span(NamedTuple):
    """What a value stands for: how many `iterations`, and how many `seconds` of training (0: unknown)."""

    iterations: int
    seconds: float


ONE = Span(1, 0.0)


@dataclass(frozen=True)
class Point:
    """The pace between two lines: mean seconds of the iterations `first` to `last`."""

    first: int
    last: int
    seconds: float
    key: tuple[object, ...]  # equal for comparable ones: format, batch, sequence, world, whether tokens are known
    tokens: float | None = None  # of an iteration
    time: str = ""
    pause: str = ""  # what was in between: a checkpoint, an evaluation
    warming: bool = False  # of the first iterations after a start
    restarted: bool = False  # the first one of a run
    span: Span = ONE  # what it stands for
    tflops: float | None = None  # what the line says of each GPU, and the same of the peak
    mfu: float | None = None


def whole(text: object) -> int | None:
    """A count from a log: None if it is invalid or implausibly large."""
    if isinstance(text, str):
        text = text.strip()
        if not (text.isascii() and text.isdigit() and len(text) <= 13):
            return None
        text = int(text)
    if isinstance(text, bool) or not isinstance(text, int):
        return None
    return text if 0 <= text <= MOST_ITERATION else None


def positive(text: object) -> float | None:
    """A time or rate from a log, above zero and finite; None if it is invalid."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)) or (isinstance(text, str) and len(text) > 40):
        return None
    try:
        value = float(text)
    except (ValueError, OverflowError):
        return None
    return value if 0 < value <= MOST_S else None


def elapsed_s(text: object) -> float | None:
    """`0:12:34`, `01:23` and `1 day, 2:03:04` in seconds."""
    found = _ELAPSED.fullmatch(text) if isinstance(text, str) and len(text) <= 40 else None
    if found is None:
        return None
    days, first, second, third = (int(part or 0) for part in found.groups())
    return float(days * 86400 + (first * 3600 + second * 60 + third if found[4] else first * 60 + second))


def _scaled(text: str | None) -> str | None:
    """`3.01K` as `3010.0`, anything else as it is."""
    found = _SCALED.fullmatch(text or "")
    value = positive(found[1]) if found else None
    return text if found is None or value is None else str(round(value * _SCALES[found[2]], 6))


def reading(
    source: str, parts: Mapping[str, str | None], *, per: str = "iteration", alone: bool = False
) -> Reading | None:
    """The reading of a line by its named parts: GROUPS, of which one is a time or a rate, `mfu`, `lap`, `iterations`.

    `lap` is the time of all iterations since the line before, or of so many `iterations`. A letter `k` or `M` behind
    the counter or the time is its scale.
    """
    count = _scaled(parts["iteration"])
    iteration = whole(count.removesuffix(".0") if count else None)
    ms, s, rate, lap = (positive(_scaled(parts.get(name))) for name in ("ms", "s", "per_s", "lap"))
    seconds = ms / 1000 if ms else 1 / rate if rate else s
    if lap and (several := whole(parts.get("iterations"))):
        seconds, lap = lap / several, None
    elapsed, since_ms = elapsed_s(parts.get("elapsed")), positive(parts.get("elapsed_ms"))
    if elapsed is None:
        elapsed = since_ms / 1000 if since_ms else positive(parts.get("elapsed"))
    if iteration is None or (seconds is None and elapsed is None and lap is None):
        return None
    epoch = whole(parts.get("epoch"))
    return Reading(
        source,
        iteration,
        total=0 if epoch is not None else whole(parts.get("total")) or 0,
        seconds=seconds,
        elapsed_s=elapsed,
        per=per,
        alone=alone,
        batch=whole(parts.get("batch")),
        sequence=whole(parts.get("sequence")),
        world=whole(parts.get("world")),
        tokens=whole(parts.get("tokens")),
        lap=epoch,
        lap_s=lap,
        mfu=positive(parts.get("mfu")),
    )
