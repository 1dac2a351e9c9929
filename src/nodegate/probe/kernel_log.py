"""Kernel messages with their time, from the source that the node used. Section `kernel_log`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nodegate.probe import readings as read
from nodegate.probe.kernel_line import KernelLine, parse_line
from nodegate.probe.section import EVIDENCE
from nodegate.unknown import Known, Unknown, Why, value_or

__all__ = ["KernelLine", "KernelLog", "Lost", "parse", "parse_lines"]

ANY_KIND = ""


@dataclass(frozen=True)
class Lost:
    """Lines of interest that did not fit, the newest of them at `until_epoch_s`; their kind, or `ANY_KIND`."""

    kind: str
    lines: int
    until_epoch_s: Known[float]


@dataclass(frozen=True)
class KernelLog:
    """The interesting kernel messages, oldest first.

    `since_epoch_s` is how far back the log reaches: earlier messages are unknown. `boot_epoch_s` is the start of the
    present boot; a message before it belongs to an earlier one. `lost` lines did not fit the size limit, and `missed`
    messages of this boot were overwritten before they were read. `levels`: whether the lines of level warning and
    above were sent, whoever wrote them; otherwise only what known words name was. None: recorded by a release that
    did not say.
    """

    source: str
    lines: tuple[KernelLine, ...]
    since_epoch_s: Known[float]
    boot_epoch_s: Known[float]
    lost: tuple[Lost, ...] = ()
    missed: int = 0
    levels: bool | None = None

    @property
    def dropped(self) -> int:
        """How many lines did not fit."""
        return sum(lost.lines for lost in self.lost)


def parse(found: Mapping[str, object], *, epoch_s: float, uptime_s: Known[float]) -> KernelLog:
    """The data of section `kernel_log`, with the node's clock and uptime at the time of the probe.

    Raises:
        CannotMeasure: it has no list of lines, or not how many were left out.
    """
    told = read.integer(found, "dropped")
    if isinstance(told, int) and told < 0:
        told = read.wrong("how many lines were left out", told)
    lines = read.needed(read.items(found, "lines"), "kernel log cannot be read", EVIDENCE)
    dropped = read.needed(told, "kernel log cannot be read", EVIDENCE)
    boot = read.mapped(uptime_s, lambda uptime: epoch_s - uptime)
    texts = [line for line in lines if isinstance(line, str)]
    source = value_or(read.text(found, "source"), "unknown")
    parsed = partial(parse_lines, now_epoch_s=epoch_s, boot_epoch_s=boot, names_host=source == "journal")
    first_s = parsed(texts[:1])[0].epoch_s if texts[:1] and texts[0] else Unknown(Why.MISSING, "no line")
    older = max(len(texts) - value_or(read.integer(found, "of_this_boot"), 0), 0)
    return KernelLog(
        source=source,
        lines=(*parsed(texts[:older]), *(_not_before(boot, line) for line in parsed(texts[older:]))),
        since_epoch_s=read.number(found, "since_epoch_s"),
        boot_epoch_s=boot,
        lost=_lost(found, dropped + len(lines) - len(texts), first_s),
        missed=value_or(read.integer(found, "missed"), 0),
        levels=levels if isinstance(levels := found.get("levels"), bool) else None,
    )


def _lost(found: Mapping[str, object], dropped: int, first_s: Known[float]) -> tuple[Lost, ...]:
    """What did not fit, by kind.

    An older release named no kind, and left out what was older than its first line: it may be of any kind.
    """
    records = value_or(read.records(found, "lost"), ())
    told = tuple(
        Lost(value_or(read.text(one, "kind"), ANY_KIND), lines, read.number(one, "until_epoch_s"))
        for one in records
        if (lines := value_or(read.integer(one, "lines"), 0)) > 0
    )
    rest = dropped - sum(lost.lines for lost in told)
    return (*told, Lost(ANY_KIND, rest, first_s)) if rest > 0 else told


def parse_lines(
    lines: Sequence[str], *, now_epoch_s: float, boot_epoch_s: Known[float], names_host: bool = False
) -> tuple[KernelLine, ...]:
    """Lines of any source, each without its prefix; empty ones left out."""
    made = (
        parse_line(line, now_epoch_s=now_epoch_s, boot_epoch_s=boot_epoch_s, names_host=names_host) for line in lines
    )
    return tuple(line for line in made if line.text)


def _not_before(boot_epoch_s: Known[float], line: KernelLine) -> KernelLine:
    """A line of this boot: a time before the boot means that it was written before the clock was set."""
    if isinstance(boot_epoch_s, Unknown) or isinstance(line.epoch_s, Unknown) or line.epoch_s >= boot_epoch_s:
        return line
    return replace(line, epoch_s=boot_epoch_s)
