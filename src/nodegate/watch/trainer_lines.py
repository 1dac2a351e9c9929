"""The lines of any trainer: a counter of its work and a time, a rate or a clock, whatever they are called.

A record may have several lines: the counter in one, the time or rate in one below it (Composer, OLMo). The dictionaries
of the HF Trainer have no counter: their lines are counted, and only a clock before each gives them a time.
"""

import re
from dataclasses import replace

from nodegate.watch.fields import Field, measured
from nodegate.watch.reading import Reading

RISES = 6
MOST_LINES = 40  # of a record below its counter
_WORDS = ("tep", "ter", "atch", "poch", "pdate", " it ", "rain", "/it", "it/", "/sec", "loss")
_COUNT = re.compile(
    r"(?:^|(?<![A-Za-z]))(?P<name>(?:global[ _]?|current[ _]?|train(?:ing|er)?[ _/]?)?"
    r"(?:num_update|update|step|iteration|iter|batch|it)(?:es|s)?(?:_i?d?x?|_num)?)"
    r"(?:/(?:max|total)_steps)?['\"\]]{0,2} ?[:=#\[(, ]{0,3}['\"\[(]{0,2} {0,12}"
    r"(?P<n>[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,13})(?:\s?/\s{0,12}(?P<of>[0-9,]{1,15}))?"
    r"(?!\.?[0-9]|[.]?[0-9]*[%eE]|[a-zA-Z]| ?(?:[mu]?s|sec|seconds|it)\b|-)",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"(?:^|[\[(|\s])\s{0,12}(?![0-9]{2}/[0-9]{2} [0-9]{2}:)"
    r"(?P<n>[0-9]{1,13})\s?/\s{0,12}(?P<of>[0-9]{1,13})(?=[\])\s|,:])"
    r"(?! {0,2}[KMG]i?B)"
)
_EPOCHS = re.compile(r"epochs?\W{0,4}$", re.IGNORECASE)
_BARE = re.compile(r"(?:^|\s)\[ {0,9}(?P<n>[0-9]{1,13})(?P<of>)\] |^\s{0,9}([0-9]{1,13})\s?[|:]\s")
_NOT_ITS = re.compile(
    r"(?:max|min|total|num|warm-?up|eval|val|valid|validation|test|save|sav|log|logging|micro|accum|accumulation|per|"
    r"every|last|next|previous|prev|best|remaining|inner|ppo|each|of|at|from|for|until|after|before|to|on|s|ms|sec)s?"
    r"[ _/-]{1,2}$",
    re.IGNORECASE,
)
_NO_TRAINING = re.compile(
    r"(?<![/\w.])(?:sav(?:e|ed|ing)|(?:write|writing|wrote)|checkpoint\w*|eval\w*|validat\w*|valid|val|test(?:ing)?|"
    r"predict\w*|infer\w*|load(?:ed|ing)|resum\w*|restor\w*|skip\w* to|warm-?up done)\b(?![./])(?!_)",
    re.IGNORECASE,
)
_LAP = re.compile(r"(?:epoch|\btrain:)[\W_]{0,4}(?P<lap>[0-9]{1,6})(?![0-9.]*[0-9])", re.IGNORECASE)
_TRAINS = re.compile(r"loss|\blr\b|learning[_ ]rate|grad[_ ]?norm", re.IGNORECASE)
_DICT = re.compile(
    r"\{.{0,400}?['\"]loss['\"]: .{1,1500}['\"]epoch['\"]: ['\"]?(?P<epoch>[0-9]{1,6}(?:\.[0-9]{1,20})?)"
)
_BEST = ("step", "time", "elapsed", "rate", "sample", "token")


class TrainerLines:
    """Reads the lines of one log; it remembers the counter of an open record."""

    def __init__(self) -> None:
        self._open: Reading | None = None
        self._lines = 0
        self._dicts = 0
        self._epoch = 0.0
        self._rising: list[float] = []
        self._is_own: bool | None = None

    def __call__(self, line: str) -> Reading | None:
        """The reading of a line; one with neither time nor rate counts only with the clock of its line."""
        self._lines += 1
        if self._open and self._lines <= MOST_LINES and (found := _below(line)):
            done, self._open = _with(self._open, found), None
            return done
        if not any(word in line for word in _WORDS):
            return None
        counted = _counter(line)
        if counted is None:
            return self._dictionary(line)
        reading, end, start = counted
        every = [*measured(line, end), *measured(line[:start])]
        found = min(every, key=lambda field: (_BEST.index(field.what), not field.named), default=None)
        if found:
            self._open = None
            return self._own(reading, found) if found.what == "time" else _with(reading, found)
        self._open, self._lines = reading, 0
        return replace(reading, kind=f"{reading.kind} clock", by_clock=True) if _TRAINS.search(line, 0, 2000) else None

    def _own(self, reading: Reading, field: Field) -> Reading | None:
        """A time that does not say of what: if it rises for RISES lines and doubles, it is the time since the start."""
        if self._is_own is None:
            self._rising = [*self._rising, field.value] if field.value > (self._rising or [0.0])[-1] else []
            if not self._rising or len(self._rising) > RISES:
                self._is_own = not self._rising or self._rising[-1] < 2 * self._rising[0]
        if self._is_own is None:
            return None
        return _with(reading, field._replace(what="step" if self._is_own else "elapsed"))

    def _dictionary(self, line: str) -> Reading | None:
        found = _DICT.search(line, 0, 3000) if "loss" in line and "eval_" not in line else None
        if found is None:
            return None
        epoch = float(found["epoch"])
        self._dicts = self._dicts + 1 if epoch >= self._epoch else 1
        self._epoch = epoch
        return Reading("steps", self._dicts, per="log interval", kind="dict", by_clock=True)


def _pair(line: str) -> tuple[re.Match[str] | None, int | None]:
    """A counter without a name, `[10/1500]` or `[10]`, and the epoch before it, `[3/90][10/1500]`."""
    lap, last = None, -9
    best = None
    for found in _PAIR.finditer(line, 0, 300):
        if _EPOCHS.search(line, max(0, found.start() - 10), found.start("n")) or int(found["of"]) < int(found["n"]):
            continue
        if best is not None and (found.start() > last + 2 or line[last : last + 1] != "]"):
            break
        lap = int(best["n"]) if best is not None else None
        best, last = found, found.end()
    if best is None and _TRAINS.search(line, 0, 2000):
        best = _BARE.search(line, 0, 300)
    return best, lap


def _counter(line: str) -> tuple[Reading, int, int] | None:
    """What the line counts, and where that ends and begins."""
    lap = None
    every = _COUNT.finditer(line, 0, 1000)
    found = next((each for each in every if not _NOT_ITS.search(line, max(0, each.start() - 16), each.start())), None)
    name = found["name"].lower().lstrip("_/ ") if found else "pair"
    if found is None:
        found, lap = _pair(line)
    if found is None or _NO_TRAINING.search(line, 0, found.end() + 24) or "%|" in line:
        return None
    number, of = int((found["n"] or found[3]).replace(",", "")), int((found["of"] or "0").replace(",", "") or 0)
    if not number:
        return None
    if lap is None and (epoch := _LAP.search(line, 0, 400)):
        lap = int(epoch["lap"])
    reading = Reading("steps", number, total=of if lap is None else 0, kind=name, lap=lap)
    return reading, found.end(), found.start()


def _below(line: str) -> Field | None:
    """The time of a step, or a rate, that is alone in a line of an open record."""
    if len(line) > (200 if line[:1].isspace() else 60):
        return None
    found = list(measured(line))
    return found[0] if len(found) == 1 and found[0].named and found[0].what not in ("elapsed", "time") else None


def _with(reading: Reading, field: Field) -> Reading:
    if field.what == "elapsed":
        return replace(reading, elapsed_s=field.value)
    seconds = field.value if field.what == "step" else 1 / field.value
    per = field.what if field.what in ("sample", "token") else "iteration"
    return replace(reading, seconds=seconds, per=per, kind=f"{reading.kind} {field.what}")
