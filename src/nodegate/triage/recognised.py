"""Whether the end of a log was understood: it goes on, it came to its end, or its last words are known.

What a log shows of itself is weighed only if no error was found in it. A program that prints a growing count of steps
goes on; one that prints a line of `healthy_lines.csv` works or has ended well. A last line with a word for a failure
that no row knows is neither.
"""

# ruff: noqa: RUF001 - Chinese punctuation
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from statistics import median

from nodegate.knowledge.tables import rows
from nodegate.triage.clock import Stamp
from nodegate.triage.events import Event
from nodegate.triage.place import Place
from nodegate.triage.secrets import without_secrets
from nodegate.triage.writers import name_of

MOST_WORTH = 12  # lines of one log that are kept for a reader
_SHOWN = 300
_LOOKED_AT = 400  # characters of a line
_LAST = 4  # lines of a writer that are its last words
_QUIET_S = 600.0  # an evaluation or a checkpoint between two steps
_PACES = 5  # steps that a program may be late by
LAST_LINES, LAST_LINES_OF_MANY = 120, 2000  # of a log, that show how it ends; where several write
_FEWEST = 3  # growing counts
_COUNT = re.compile(
    r"(?<![a-zA-Z])(?P<word>(?:global|current|train)?[_ ]?(?:steps?|iter(?:ation)?s?|epochs?|batch(?:es)?|updates?"
    r"|rollouts?)|samples|it)"
    r"(?:\(\w{1,12}\))?['\"]?[\s:=#\[\]'\"]{0,8}(?P<number>[0-9]{1,15}(?:\.[0-9]{1,12})?)"
    r"|(?P<zh>步骤|步数|步|迭代|轮次|轮|第|进度)[\s:：=]{0,4}(?P<zh_number>[0-9]{1,15})"
    r"|^ {0,12}(?P<size>[0-9]{1,15}) {1,14}[0-9]{1,15} {1,9}(?:float|half|double|bfloat16|u?int[0-9]{1,2}|fp?8\w{0,6}) "
    r"|(?<![0-9/.:-])(?P<bar>[0-9]{1,12}) ?/ ?[0-9]{1,12}(?![0-9/])",
    re.IGNORECASE,
)
_NO_STEP = re.compile(
    r"\b(?:re-?tr(?:y|ies|ying)|attempts?|wait|waiting|loading|download)|重试|等待|加载|下载", re.IGNORECASE
)
_BAD = re.compile(
    r"error|exception|fail|fatal|abort|\btime[ds]?[ -]?out|\blost\b|refused|denied|not found|no such|killed|crash"
    r"|cannot|can't|could not|couldn't|unable|panic|corrupt|unreachable|invalid"
    r"|exit(?:ed)?(?: with)? (?:code|status):? -?[1-9]"
    r"|错误|失败|异常|超时|掉卡|崩溃|无法|拒绝|丢失|未找到|中断|终止|断开|不可达|报错|故障",
    re.IGNORECASE,
)
_NOT_BAD = re.compile(
    r"\b(?:no|0|zero|without) (?:\w{1,20} )?(?:errors?|failures?|exceptions?)\b"
    r"|(?:errors?|failures?|failed)['\"]?[=: ]{1,3}0\b"
    r"|time_?out['\"]?[=:(]|(?:没有|无|0 ?个)(?:错误|异常|故障)|fail(?:over|safe)"
    r"|error[_ ](?:rate|bar|feedback|correct)|low error"
    r"|\bWARN(?:ING)?\b|Warning:|\bDEBUG\b|^[WID][0-9]{4} |\b[A-Z][A-Z0-9_]{4,60}=",
    re.IGNORECASE,
)
_ENDS_EXCEPTION = re.compile(r"^[\w.]{0,120}(?:Error|Exception|Interrupt|Exit)\b")
_NAMES_PLACE = re.compile(
    r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b|\[?\brank[ _:=]?[0-9]{1,6}\b"
    r"|\b(?:node|host|pod|worker)[/ _:=-]{0,2}[\w.-]{0,60}[0-9]"
    r"|(?:节点|主机)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Worth:
    """A line that is worth reading where nothing else is known; the lower its `order`, the more it says."""

    log: str
    line: int
    text: str
    order: int


@dataclass
class End:
    """How a log ends. `unknown_word`: the last line of a writer with a word for a failure, if no row knows it."""

    works: bool = False
    unknown_word: Worth | None = None
    worth: tuple[Worth, ...] = ()


@dataclass(frozen=True)
class Said:
    """A line as it is weighed: its number, writer, text without prefixes, and its time."""

    number: int
    writer: str
    text: str
    when_s: float | None


@dataclass
class Tail:
    """The last lines of a log of so many lines, weighed when they are asked for: only where no log has an error."""

    log: str
    lines: int
    text: str
    place_of: Callable[[str], Place]
    time_of: Callable[[str], Stamp | None]
    knows: Callable[[str], bool]  # whether a line has a row

    @cached_property
    def fails(self) -> bool:
        """Whether a word for a failure is in them at all.

        Without one they are not weighed for last words: a third of the CPU time of 30 healthy logs. In JSON such a word
        may be escaped.
        """
        return "\\u" in self.text or bool(_BAD.search(self.text))

    @cached_property
    def end(self) -> End:
        """What they show; the text is not needed any more."""
        _ = self.fails
        said, found = [], self.text.split("\n")
        for number, whole in enumerate(found, self.lines + 2 - len(found)):
            line = whole[whole[:-1].rfind("\r") + 1 :]  # what a progress bar shows at last
            if line.strip():
                where, stamp = self.place_of(line[:2000]), self.time_of(line[:300])
                said.append(Said(number, name_of(where), where.text, stamp.epoch_s if stamp else None))
        self.text = ""
        return _end_of(self.log, said, self.knows)


def lines_around(event: Event | None) -> tuple[Worth, ...]:
    """The lines around an error that no row knows."""
    return tuple(Worth(event.log, at, text, 0) for at, text in event.around) if event else ()


def _end_of(log: str, lines: Sequence[Said], knows: Callable[[str], bool]) -> End:
    writers: dict[str, list[Said]] = {}
    for line in lines:
        writers.setdefault(line.writer, []).append(line)
    bad = [found for own in writers.values() if (found := _last_words(own, knows))]
    worth = [_worth(log, line, 0) for line in bad[-_LAST:]]
    worth += [_worth(log, line, 1) for line in lines if _ENDS_EXCEPTION.match(line.text)][-_LAST:]
    worth += [_worth(log, line, 2) for line in lines[-_LAST:]]
    worth += [_worth(log, line, 3) for line in lines if _NAMES_PLACE.search(line.text[:_LOOKED_AT])][-MOST_WORTH:]
    return End(
        works=any(_works(own) for own in writers.values()),
        unknown_word=_worth(log, bad[-1], 0) if bad else None,
        worth=tuple({each.line: each for each in reversed(worth[:MOST_WORTH])}.values()),
    )


def _worth(log: str, line: Said, order: int) -> Worth:
    return Worth(log, line.number, without_secrets(" ".join(line.text[:2000].split()))[:_SHOWN], order)


def _last_words(own: Sequence[Said], knows: Callable[[str], bool]) -> Said | None:
    """The last words of a writer that look like a failure no row knows; a step after it shows that it goes on."""
    for line in reversed(own[-_LAST:]):
        text = line.text[:_LOOKED_AT]
        if _healthy(text) or _counts(text):
            return None
        if _BAD.search(text) and not _NOT_BAD.search(text):
            return None if knows(line.text) else line
    return None


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row["pattern"]) for row in rows("healthy_lines.csv"))


def _healthy(text: str) -> bool:
    return any(pattern.search(text) for pattern in _patterns())


def _counts(text: str) -> list[tuple[str, float]]:
    """The counts of steps that a line prints, each with what is counted."""
    if _NO_STEP.search(text) or _BAD.search(text):
        return []
    found = []
    for match in _COUNT.finditer(text):
        word = (match["word"] or match["zh"] or ("size" if match["size"] else "/")).lower()
        found.append((word, float(match["number"] or match["zh_number"] or match["size"] or match["bar"])))
    return found[:8]


def _works(own: Sequence[Said]) -> bool:
    """Whether a writer counts steps to its end, ended well, or works."""
    steps: dict[str, list[tuple[float, float | None]]] = {}
    for line in own:
        for word, number in _counts(line.text[:_LOOKED_AT]):
            steps.setdefault(word, []).append((number, line.when_s))
    last_s = next((line.when_s for line in reversed(own) if line.when_s is not None), None)
    return any(_goes_on(each, last_s) for each in steps.values()) or any(
        _healthy(line.text[:_LOOKED_AT]) for line in own
    )


def _goes_on(steps: Sequence[tuple[float, float | None]], last_s: float | None) -> bool:
    """Whether a count grows, and the writer did not go on for much longer than a step takes, without one."""
    changes = [later - earlier for (earlier, _), (later, _) in pairwise(steps)]
    up, down = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    if up < _FEWEST - 1 or up <= 2 * down:
        return False
    times = [when for _, when in steps if when is not None]
    if last_s is None or len(times) < _FEWEST:
        return True
    pace = median(later - earlier for earlier, later in pairwise(times))
    return last_s - times[-1] <= max(_QUIET_S, _PACES * pace)
