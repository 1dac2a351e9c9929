"""The numbers of a line with their names and units, and what a number measures: the words of its name tell.

No two programs name their fields alike: `step_time`, `time per iteration (ms)`, `batch_cost`, `timing_s/step` are the
time of a step, `data_time` and `optimizer_step_time` are not; `Train Steps/Sec`, `0.32 it/s` are the rate of steps,
`tps`, `tokens_per_second_per_gpu` and `312 img/sec` that of tokens or samples.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from nodegate.watch.reading import elapsed_s, positive

_WORK = frozenset(("step", "iter", "iteration", "batch", "update", "it", "ba"))
_MS = frozenset(("ms", "msec", "millisecond"))
_US = frozenset(("us", "usec", "microsecond"))
_UNIT_OF_TIME = _MS | _US | {"s", "sec", "second"}
_TIME = frozenset(
    ("time", "timing", "duration", "cost", "took", "dt", "latency", "elapsed", "t", "done", "finished", "completed")
)
_BARE = frozenset(("time", "timing", "all", "dt", "took", "duration", "train", "done", "finished", "completed", "in"))
_SINCE = frozenset(("elapsed", "wall", "runtime"))
_OF_RUN = _SINCE | {"time", "clock", "since", "start", "total", "train", "training"} | _UNIT_OF_TIME
_WORKED = {
    **dict.fromkeys(("sample", "image", "img", "example", "seq", "sequence", "sentence", "record"), "sample"),
    **dict.fromkeys(("token", "tok", "word"), "token"),
}
_RATES = {"ips": "sample", "tps": "token", "tgs": "token", "wps": "token", "bps": "iteration"}
_BESIDE = frozenset(
    (
        *("train", "trainer", "training", "perf", "performance", "throughput", "speed", "rate", "interval", "iter"),
        *("per", "in", "of", "a", "the", "this", "each", "all", "so", "mean", "avg", "average", "global", "total"),
        *("wall", "current", "device", "gpu", "chip", "npu", "rank", "node", "machine", "p"),
    )
)
_SAME = {"iters": "iter", "its": "it", "batches": "batch", "secs": "sec", "imgs": "img", "seqs": "seq", "toks": "tok"}
_WORD = re.compile(r"[a-z]+")
_THOUSANDS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6}
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,/-])(?:(?P<clock>(?:[0-9]{1,5} days?, )?[0-9]{1,6}:[0-9]{2}(?::[0-9]{2})?(?![0-9:])"
    r"|(?:[0-9]{1,5}d ?)?(?:[0-9]{1,5}h ?)?[0-9]{1,5}m ?[0-9]{1,2}s\b)"
    r"|(?P<value>[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]{1,12})?|[0-9]{1,15}(?:\.[0-9]{0,20})?(?:[eE][+-]?[0-9]{1,3})?)"
    r"(?P<scale>(?-i:[kKM])(?![A-Za-z]))?"
    r"(?P<unit> ?(?:[a-z]{1,12}(?:/| per )|/)[a-z]{1,11}\b| ?(?:[mu]?s|[mu]?secs?|(?:milli|micro)?seconds?)\b)?)",
    re.IGNORECASE,
)
_CUT = re.compile(r"[,;|\t{}]|  | - |\]\s?\[|[\])]\s")  # between two fields
_HMS = re.compile(r"(?:([0-9]{1,5})d ?)?(?:([0-9]{1,6})h ?)?(?:([0-9]{1,6})m ?)?(?:([0-9]{1,9})s)?")


class Field(NamedTuple):
    """A measured number: what it is, and its value."""

    what: str  # `step`, `elapsed` since the start, `time` (one of the two); `rate` of steps, `sample`, `token`
    value: float  # in seconds; of a rate, of samples and tokens: a second
    named: bool = True  # it has a name, or its unit says all


def words_of(name: str) -> list[str]:
    """The words of a name in small letters, in the singular."""
    found = _WORD.findall(name.lower())
    return [_SAME.get(word, word[:-1] if len(word) > 3 and word.endswith("s") else word) for word in found]


def kind(words: Iterable[str]) -> tuple[str, float]:
    """What a number with such words measures, and how many seconds its unit of time is; ("", 1) for anything else."""
    in_order = list(words)
    known = set(in_order)
    unit = 1e-3 if known & _MS else 1e-6 if known & _US else 1.0
    other = known - _WORK - _TIME - _UNIT_OF_TIME - _BESIDE - _WORKED.keys() - _RATES.keys()
    worked = next(({**_RATES, **_WORKED}[word] for word in in_order if word in _RATES or word in _WORKED), "")
    what = ""
    if known & _SINCE and known <= _OF_RUN:
        what = "elapsed"
    elif other:
        pass
    elif worked:
        a_second = known & (_RATES.keys() | {"s", "sec", "second"}) and not known & _TIME
        what = ("rate" if worked == "iteration" else worked) if a_second else ""
    elif known & _WORK:
        what = _of_work(in_order, known)
    elif known & (_TIME | {"second"}) and known - _UNIT_OF_TIME <= _BARE:
        what = "time"
    return what, unit if what in ("step", "time", "elapsed") else 1.0


def _of_work(words: list[str], known: set[str]) -> str:
    """`step` or `rate` of words of work: seconds a step, steps a second."""
    if known & _TIME:
        return "" if known & _WORK == {"update"} else "step"  # that of a policy is a part of a step
    units = [place for place, word in enumerate(words) if word in _UNIT_OF_TIME]
    work = next(place for place, word in enumerate(words) if word in _WORK)
    return "" if not units else "step" if units[0] < work else "rate"


def measured(line: str, since: int = 0) -> Iterator[Field]:
    """The measured numbers of a line, in their order; what is before the position `since` is left out."""
    end = since
    for number in _NUMBER.finditer(line, since, 2000):
        before, end = line[end : number.start()], number.end()  # a name, perhaps behind the unit of the number before
        before = before.rstrip(" :='\"\t([").lstrip().removesuffix(" (data)")  # BasicSR: `time (data): 3.01 (0.003)`
        cuts = [0, *(cut.end() for cut in _CUT.finditer(before))]
        if found := _field(before[cuts[-1] :][-60:], number):
            yield found


def _field(name: str, number: re.Match[str]) -> Field | None:
    unit = number["unit"] or ""
    what, factor, named = _meaning(name, unit.lower())
    if number["clock"]:
        seconds = (in_words(number["clock"]) or elapsed_s(number["clock"])) if what == "elapsed" else None
        return None if seconds is None else Field("elapsed", seconds)
    if not what or (what in ("count", "whole") and number["value"].isdigit()):
        return None
    value = positive(number["value"].replace(",", ""))
    value = value and value * _THOUSANDS[number["scale"] or ""] * factor
    return Field({"count": "step", "whole": "time"}.get(what, what), value, named) if value else None


@lru_cache(maxsize=1000)  # the fields of a log have few names: half of the time of its lines
def _meaning(name: str, unit: str) -> tuple[str, float, bool]:
    """What a number with this name and unit measures, its scale, and whether they say so."""
    # `count`: the time of a step if it has decimals, for `time/batch: 119` is a counter.
    words, units = words_of(name), words_of(unit)
    if unit.strip() == "/s":
        return "sample", 1.0, False
    if "/" in unit or len(units) > 1:
        return (*kind(units), True)
    if not words:
        return ("step", 1e-3, False) if set(units) & _MS else ("", 1.0, False)  # `| 1498.74 ms |`
    what, factor = kind([*words, *units])
    if words == ["iter"] or (what in ("step", "time") and not {*words, *units} & _UNIT_OF_TIME):
        return "whole" if what == "time" else "count", factor, True  # lingua: `iter: 3.0121` beside the step's number
    return what, factor, True


def in_words(text: str) -> float | None:
    """`4m 34s`, `1h 2m 3s`, `1d 2h` in seconds; None for anything else."""
    found = _HMS.fullmatch(text.strip()) if len(text) < 40 and text else None
    parts = [int(part or 0) for part in found.groups()] if found else []
    return float(((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3]) if any(parts) else None
