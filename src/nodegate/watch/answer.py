"""The result of watching a log."""

from dataclasses import dataclass
from enum import Enum

from nodegate.watch.pattern import Period

EVIDENCE = "pytest --inventory hosts.yaml --nodes NODES-OF-THE-JOB --profile troubleshoot"


class State(str, Enum):
    """The answer in a word."""

    HEALTHY = "healthy"
    SLOW = "slow"
    SILENT = "silent"
    NOT_JUDGED = "not-judged"


def of_one(per: str) -> str:
    """What a time is of, where it is not an iteration: ` a token`."""
    return "" if per == "iteration" else f" a {per}"


def counted(per: str) -> str:
    """What the numbers of a log count: iterations, or the lines of one that has no counter."""
    return per if per == "log interval" else "iteration"


def _ms(value: float, per: str) -> str:
    """Two decimals; four figures of what is smaller, such as the time of a token."""
    return f"{value:.2f} ms{of_one(per)}" if value >= 1 else f"{value:.4g} ms{of_one(per)}"


@dataclass(frozen=True)
class Slow:
    """A time in which the job was slow compared with its own usual pace."""

    since: int  # the iteration at which it began
    time: str  # what the log wrote before that iteration; empty where lines have no time
    window: tuple[int, int]  # the iterations that the smoothed time is of
    smoothed_s: float  # their mean without pauses
    baseline_s: float  # what was usual
    per: str = "iteration"  # or a sample, a token, a log interval
    until: int | None = None  # the iteration at which the pace was normal again; None while it lasts
    slowest_rank: int | None = None  # that Megatron's straggler detector named most often in this time
    against: str = ""  # where the usual time comes from, if it is not this log's own

    @property
    def excess(self) -> float:
        """How much slower: 0.5 means 50 % slower."""
        return self.smoothed_s / self.baseline_s - 1

    @property
    def measured(self) -> str:
        """The measurement in the form that users of such watchers know; `threshold ratio` is the excess."""
        smoothed, baseline = self.smoothed_s * 1000, self.baseline_s * 1000
        return (
            f"Smoothed mean (iters {self.window[0]}-{self.window[1]}: {_ms(smoothed, self.per)},"
            f" baseline: {_ms(baseline, self.per)}), threshold ratio:{self.excess:.2f}"
        )

    @property
    def line(self) -> str:
        """One line for people."""
        when = f" ({self.time})" if self.time else ""
        per, what = of_one(self.per), counted(self.per)
        until = "" if self.until is None else f" until {what} {self.until}"
        rank = "" if self.slowest_rank is None else f"; Megatron finds rank {self.slowest_rank} slowest"
        usual = f"the usual time of {self.against}" if self.against else "its own usual time"
        return (
            f"{self.measured} - slow since {what} {self.since}{when}{until}: {self.excess * 100:.0f} % over"
            f" {usual}{per}{rank}; a log cannot identify the node; to find it run: {EVIDENCE}"
        )


@dataclass(frozen=True)
class Silent:
    """A time without a new line: `seconds` long, after `iteration` (None: before the first) at `time`."""

    seconds: float
    limit_s: float
    iteration: int | None
    time: str = ""
    over: bool = False
    died: bool = False

    @property
    def line(self) -> str:
        """One line for people."""
        where = "before the first iteration" if self.iteration is None else f"after iteration {self.iteration}"
        when = f" ({self.time})" if self.time else ""
        tense = "was silent" if self.over else "is silent"
        why = "; the last lines report an end" if self.died else ""
        return (
            f"No new line for {self.seconds:.0f} s (limit {self.limit_s:.0f} s) - the log {tense} {where}{when}{why};"
            f" read it: nodegate triage LOG; then check the nodes: {EVIDENCE}"
        )


@dataclass(frozen=True)
class Answer:
    """The result for the whole log. `notes` are remarks that change no verdict."""

    state: State
    reason: str
    source: str
    points: int
    first: int
    last: int
    usual_s: float | None
    per: str = "iteration"
    slow: tuple[Slow, ...] = ()
    silent: tuple[Silent, ...] = ()
    compared_with: str = "itself"
    period: Period | None = None
    restarts: tuple[tuple[int, int], ...] = ()
    finished: bool = False
    died: bool = False
    notes: tuple[str, ...] = ()
    notes_zh: tuple[str, ...] = ()

    @property
    def exit(self) -> int:
        """0 healthy, 1 slow or silent, 2 could not tell."""
        return {State.HEALTHY: 0, State.NOT_JUDGED: 2}.get(self.state, 1)
