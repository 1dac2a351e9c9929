"""The zones of clocks that name none: by the user, by what other lines name, by half hours at which two sides agree.

A user names `+08:00` for all logs, `worker3.log=+08:00` for one, `dmesg-*=+08:00` for several.

A job's containers mostly keep UTC, their hosts mostly the zone of their place, and `dmesg -T` and syslog do not name
it. A fault of hardware and the error of the job that it caused were within seconds of each other, whatever was printed.
"""

# ruff: noqa: RUF001 - Chinese punctuation
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from nodegate.errors import UsageError
from nodegate.knowledge.words import Role, Side, Text
from nodegate.triage import skew
from nodegate.triage.clock import Stamp, zone_name
from nodegate.triage.events import Event, Names
from nodegate.triage.log import Log
from nodegate.triage.remarks import ZONE_KNOWN
from nodegate.triage.skew import Skew
from nodegate.triage.wording import lasting

_HALF_HOUR_S = 1800.0
_EARLIEST, _LATEST = -24, 28  # half hours: UTC-12 to UTC+14
_APART = 52  # half hours between these two: of a host, where the job's zone is not known either
_BESIDE_S = 60.0  # how far a fault and its first symptom are apart where the zone is known or named
_TIGHT_S = 12.0  # the same where the zone is only guessed: one half hour in 75 is as near by chance
_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")
_HINT = "write it as +08:00, or LOG=+08:00 for the times of one log"
ALL = ""  # no log has this name


@dataclass(frozen=True)
class Clocks:
    """Seconds east of UTC of the times without a zone, by log."""

    shown_s: float  # the zone of the times in the answer
    of_log: dict[str, float] = field(default_factory=dict)
    guessed: dict[str, float] = field(default_factory=dict)  # nothing names them: by them both sides come together
    skew: Skew = field(default_factory=Skew)  # by how much clocks are ahead of others, whatever zone they name

    def seconds(self, stamp: Stamp | None, log: str) -> float | None:
        """A time of a log in seconds since 1970."""
        if stamp is None:
            return None
        return stamp.epoch_s - (0.0 if stamp.zoned else self.of_log.get(log, 0.0)) - self.skew.ahead.get(log, 0.0)

    def is_sure(self, log: str) -> bool:
        """Whether the times of this log are more than a guess."""
        doubtful = self.skew.unknown or self.skew.mixed
        return log not in self.guessed and log not in self.skew.by_length and not doubtful

    def guesses(self) -> Iterator[Text]:
        """Which zones were guessed."""
        for log, zone_s in self.guessed.items():
            name, zone = log.rsplit("/", 1)[-1], zone_name(zone_s)
            yield Text(
                f"the clock of {name} names no zone and was read as {zone}: so its errors and the job's agree",
                f"{name} 的时钟未注明时区，按 {zone} 解读：此时其错误与作业的错误同时",
            )

    def doubts(self) -> Iterator[Text]:
        """Which clocks are hours away from the others, and how that is known."""
        for log, by_s in self.skew.ahead.items():
            name, far = log.rsplit("/", 1)[-1], lasting(by_s)
            how = Text("their first and last lines", "首末两行")
            how = how if log in self.skew.by_length else Text("lines that both have", "双方都有的行")
            is_ahead, zh = ("ahead of", "快") if by_s > 0 else ("behind", "慢")
            yield Text(
                f"the clock of {name} is {far.en} {is_ahead} the others', by {how.en}: its times were moved",
                f"{name} 的时钟比其他日志{zh} {far.zh}（依据{how.zh}），其时间已相应校正",
            )
        for log, by_s in self.skew.unknown.items():
            name, far = log.rsplit("/", 1)[-1], lasting(by_s)
            does, when, others = ("begins", "after", "end") if by_s > 0 else ("ends", "before", "begin")
            yield Text(
                f"{name} {does} {far.en} {when} the other logs {others} and shares no line with them: if its clock is"
                f" wrong, the order is too; give --tz {name}=+HH:MM if you know it",
                f"{name} 与其他日志相隔 {far.zh}，且没有共同的行：若其时钟有误，先后顺序也不可信；"
                f"如已知其时区，请用 --tz {name}=+HH:MM 指定",
            )
        for log in self.skew.mixed:
            name = log.rsplit("/", 1)[-1]
            yield Text(
                f"{name} has workers whose clocks are hours apart and is too large, or has too many of them, to be"
                " taken apart: which error came first is doubtful; give one log for each worker",
                f"{name} 中各 worker 的时钟相差数小时，文件过大或 worker 过多、未能拆分：哪个错误在先并不可靠；"
                "请为每个 worker 各提供一份日志",
            )


def given_zones(said: Iterable[str], logs: Sequence[Log]) -> dict[str, float]:
    """What the user says of times that name no zone: seconds east of UTC, of all logs (by `ALL`) and of single ones.

    Raises:
        UsageError: an offset is not valid, or there is no such log.
    """
    given: dict[str, float] = {}
    for each in said:
        name, mark, offset = each.rpartition("=")
        seconds = offset_s(offset)
        meant = [log.name for log in logs if _is_meant(name, log)] if mark else [ALL]
        if not meant:
            raise UsageError(f"--tz {each!r}: no log that was given has this name", hint=_HINT)
        given.update(dict.fromkeys(meant, seconds))
    for log in logs:
        if log.name in given and log.zone_s is not None:
            log.remarks.say(ZONE_KNOWN)
    return given


def offset_s(offset: str) -> float:
    """Seconds east of UTC.

    Raises:
        UsageError: the offset is not valid.
    """
    match = _OFFSET.fullmatch(offset)
    if match is None:
        raise UsageError(f"--tz {offset!r} is not a valid UTC offset", hint=_HINT)
    seconds = int(match[2]) * 3600.0 + int(match[3]) * 60.0
    return -seconds if match[1] == "-" else seconds


def _is_meant(name: str, log: Log) -> bool:
    """Matches a log by its path, the end of its path, a pattern of either, or the node or pod that wrote it."""
    by_pattern = fnmatchcase(log.name, name) or fnmatchcase(log.name.rsplit("/", 1)[-1], name)
    return by_pattern or log.name.endswith(f"/{name}") or name in {log.place.node, log.place.pod}


def find(logs: Sequence[Log], events: Sequence[Event], names: Names, given: Mapping[str, float]) -> Clocks:
    """The zones and clocks of all logs."""
    jobs, kernels = _named(logs, kernel=False), _named(logs, kernel=True)
    jobs = [given[ALL]] if ALL in given else jobs
    named = jobs[0] if jobs else 0.0
    job_s = _of_job(events, [kernels[0], 0.0], kernels[0]) if kernels and not jobs else named
    of_log = {log.name: job_s if log.zone_s is None else log.zone_s for log in logs} | dict(given)
    found = skew.find(logs, events, Clocks(job_s, of_log).seconds, given)
    found = replace(found, ahead={**found.ahead, **_of_hosts(logs, names, found)})
    guessed: dict[str, float] = {}
    open_ = [log for log in logs if log.kernel and log.zone_s is None and log.name not in given]
    for log in open_:
        zone_s = _of_kernel(log, events, Clocks(job_s, of_log, skew=found), ([*jobs, *kernels, job_s], bool(jobs)))
        if zone_s is not None and zone_s != job_s:
            of_log[log.name] = guessed[log.name] = zone_s
    if len(set(guessed.values())) == 1:  # the hosts of one job keep one zone
        of_log |= dict.fromkeys((log.name for log in open_), next(iter(guessed.values())))
    return Clocks(job_s, of_log, guessed, found)


def _of_hosts(logs: Sequence[Log], names: Names, found: Skew) -> dict[str, float]:
    """A container has its host's clock: where it is wrong, so are the times of the host's kernel log."""
    wrong: dict[str, float] = {}
    for log in logs:
        if log.name in found.wrong:
            nodes = {names.home.get(node, node) for node in {*log.nodes, log.place.node, log.place.pod} if node}
            wrong.update(dict.fromkeys(nodes, found.ahead[log.name]))
    return {
        log.name: wrong[node] for log in logs if log.kernel for node in (log.nodes or {log.place.node}) if node in wrong
    }


def _named(logs: Sequence[Log], *, kernel: bool) -> list[float]:
    """The zones that logs of one kind name, the most frequent first."""
    named = Counter(log.zone_s for log in logs if log.kernel is kernel and log.zone_s is not None)
    return [zone_s for zone_s, _ in named.most_common()]


def _of_job(events: Sequence[Event], named: list[float], usual: float) -> float:
    """The zone of a job that names none beside kernel logs that do: the one in which both tell of one moment."""
    timed = [(event, event.stamp) for event in events if event.stamp]
    faults = [stamp.epoch_s for event, stamp in timed if stamp.zoned and event.is_fault]
    symptoms = [stamp.epoch_s - event.ran_s for event, stamp in timed if not stamp.zoned and _is_symptom(event)]
    return next(
        (zone_s for zone_s in named if _together(faults, [when - zone_s for when in symptoms], _BESIDE_S)), usual
    )


def _of_kernel(log: Log, events: Sequence[Event], clocks: Clocks, names: tuple[list[float], bool]) -> float | None:
    """The zone of one kernel log without one; None if nothing speaks for another than the job's."""
    # `names`: the zones that others name, and whether the job names its own.
    named, of_job = names
    ahead_s = clocks.skew.ahead.get(log.name, 0.0)
    faults = [
        event.stamp.epoch_s - ahead_s for event in events if event.log == log.name and event.stamp and event.is_fault
    ]
    symptoms = [
        when - event.ran_s
        for event in events
        if _is_symptom(event) and (when := clocks.seconds(event.stamp, event.log)) is not None
    ]
    possible = range(_EARLIEST, _LATEST + 1) if of_job else range(-_APART, _APART + 1)
    half_hours = sorted(possible, key=lambda each: (each != 16, each % 2, abs(each)))
    tried = [(zone_s, _BESIDE_S) for zone_s in dict.fromkeys([named[-1], *named])]
    for zone_s, within_s in (*tried, *((each * _HALF_HOUR_S, _TIGHT_S) for each in half_hours)):
        if _together([when - zone_s for when in faults], symptoms, within_s):
            return zone_s
    return None


def _is_symptom(event: Event) -> bool:
    return event.kind.side is Side.USER and event.kind.role is not Role.CONTEXT and event.stamp is not None


def _together(faults: Sequence[float], symptoms: Sequence[float], within_s: float) -> bool:
    """Whether some fault was within this time of a symptom."""
    ordered = sorted(symptoms)
    for fault in faults:
        at = bisect_left(ordered, fault - within_s)
        if at < len(ordered) and ordered[at] <= fault + within_s:
            return True
    return False
