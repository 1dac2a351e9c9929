"""The launches of NCCL inside a node: bandwidths, hangs, faults, wrong data, and what could not be measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from nodegate.errors import CannotMeasure
from nodegate.measure.nccl.launches import ALL_REDUCE, BY_WHAT, LAUNCHES, RING
from nodegate.measure.program_run import not_run, reason
from nodegate.metric import Metric
from nodegate.tools import nccl_tests
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.records.program_run import Attempt, ProgramRun
    from nodegate.tools.nccl_tests import NcclTest

# whole: a complete and consistent table; its data may still be wrong. faulty: CUDA or NCCL failed. hung: not finished
# within the limit, nor near it. slow: it progressed, and would not have ended in time. incomplete: the rest.
Ending = Literal["whole", "faulty", "hung", "slow", "incomplete"]

MAX_RANKS = 1024
_UNSAID = Unknown(Why.MISSING, "NCCL did not report it")
_NVLS = re.compile(r"NVLS multicast support is (not )?available")
_AGAIN = "measure this node again, or run the command in the evidence file by hand"
_OURS = "read the output of nccl-tests in the evidence file"


@dataclass(frozen=True)
class Outcome:
    """One launch of one attempt.

    `why` and `next_step` say what is wrong with it, empty if it is whole. `test` is its output, None if
    nothing could be read. `stuck` names processes that could not be killed. `lacks` is the code of what was not there.
    """

    what: str
    ending: Ending
    gpus: int
    size_bytes: int
    limit_s: float
    duration_s: float
    why: str = ""
    next_step: str = ""
    test: NcclTest | None = None
    stuck: tuple[str, ...] = ()
    nvls_there: Known[bool] = _UNSAID
    lacks: str = ""

    @property
    def busbw_gb_per_s(self) -> float | None:
        """The bus bandwidth of the judged size, out of place; None if the launch is not whole."""
        row = self.test.row(self.size_bytes) if self.test and self.ending == "whole" else None
        return row.out_of_place.busbw_gb_per_s if row else None

    @property
    def conditions(self) -> Mapping[str, str]:
        """What two values must share to be comparable. Values that the version does not print are left out."""
        if self.test is None:
            return {}
        row = self.test.row(self.size_bytes)
        told = {"tool_version": self.test.version, "nccl": self.test.nccl, "cuda": self.test.cuda}
        return {
            "tool": "nccl-tests",
            **{name: value for name, value in told.items() if not isinstance(value, Unknown)},
            "size_bytes": str(self.size_bytes),
            "gpus": str(self.gpus),
            "algorithm": "ring" if self.what == RING else "default",
            "dtype": row.dtype if row else "",
        }


@dataclass(frozen=True)
class Nccl:
    """All launches of a node. `attempts` in their order, each with one outcome of every launch that it names."""

    attempts: tuple[tuple[Outcome, ...], ...]

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The bus bandwidth of each launch at the judged size, one value for each attempt that was whole.

        An attempt under other conditions than the first (another NCCL, other sizes) is a separate metric.
        """
        found: dict[tuple[str, tuple[tuple[str, str], ...]], list[Outcome]] = {}
        for outcome in self.all:
            if outcome.busbw_gb_per_s is not None:
                key = BY_WHAT[outcome.what].metric, tuple(sorted(outcome.conditions.items()))
                found.setdefault(key, []).append(outcome)
        return tuple(
            Metric(
                name,
                values=tuple(each.busbw_gb_per_s or 0.0 for each in outcomes),
                unit="GB/s",
                conditions=dict(conditions),
            )
            for (name, conditions), outcomes in found.items()
        )

    @property
    def all(self) -> tuple[Outcome, ...]:
        """Every outcome of every attempt."""
        return tuple(outcome for attempt in self.attempts for outcome in attempt)

    def of(self, what: str) -> tuple[Outcome, ...]:
        """The outcomes of a launch, one for each attempt; never empty for a planned launch."""
        return tuple(outcome for outcome in self.all if outcome.what == what)

    def final(self, what: str) -> Outcome:
        """The outcome that counts: the last whole one, else the last."""
        outcomes = self.of(what)
        return next((each for each in reversed(outcomes) if each.ending == "whole"), outcomes[-1])

    def named(self, *whats: str) -> tuple[Metric, ...]:
        """The metrics of these launches."""
        names = {BY_WHAT[what].metric for what in whats}
        return tuple(metric for metric in self.metrics if metric.name in names)

    @property
    def over_ring(self) -> Known[float]:
        """The ratio of all_reduce with NCCL's own choice to all_reduce with Ring, by the best of each."""
        best = {}
        for what in (ALL_REDUCE, RING):
            values = [outcome.busbw_gb_per_s for outcome in self.of(what) if outcome.busbw_gb_per_s is not None]
            if not values or max(values) <= 0.0:
                return Unknown(Why.MISSING, f"{what}: {self.final(what).why or 'no bandwidth'}")
            best[what] = max(values)
        return best[ALL_REDUCE] / best[RING]

    @property
    def version(self) -> Known[str]:
        """The version of NCCL that ran."""
        told = [outcome.test.nccl for outcome in self.all if outcome.test]
        known = next((version for version in told if not isinstance(version, Unknown)), None)
        if known is not None:
            return known
        return told[0] if told else Unknown(Why.MISSING, self.all[0].why)


def parse(attempts: Sequence[Attempt]) -> Nccl:
    """The result of the attempts on one node.

    Raises:
        CannotMeasure: no launch of any attempt ran, and all lacked the same.
    """
    tried = [each for attempt in attempts for each in (attempt.runs or (attempt,)) if attempt.runs or attempt.cannot]
    if not tried:
        raise CannotMeasure("nothing was run", next_step=_AGAIN)
    if all(each.cannot for each in tried) and len({each.lacks for each in tried}) == 1:
        raise reason(tried[0])
    return Nccl(tuple(_attempt(attempt) for attempt in attempts if attempt.runs or attempt.cannot))


def _attempt(attempt: Attempt) -> tuple[Outcome, ...]:
    """One outcome for each planned launch, in their order: one without output is not forgotten."""
    ran_of = {ran.what: ran for ran in attempt.runs}
    whole = not_run("", reason(attempt)) if attempt.cannot else None
    return tuple(_outcome(launch.what, ran_of.get(launch.what) or whole) for launch in LAUNCHES)


def _outcome(what: str, ran: ProgramRun | None) -> Outcome:
    if ran is None:
        return Outcome(what, "incomplete", 0, 0, 0.0, 0.0, "not run", _AGAIN)
    base = _Launched(ran)
    if ran.cannot:
        return base.outcome(what, "incomplete", ran.cannot, ran.next_step or _AGAIN)
    try:
        test: NcclTest | None = nccl_tests.parse(ran.stdout, ran.stderr, collective=BY_WHAT[what].collective)
        unread = ""
    except CannotMeasure as said:
        test, unread = None, said.reason
    if ran.timed_out:
        return base.timed_out(what, test)
    if test is None:
        return base.outcome(what, "incomplete", f"{unread}{_how_it_ended(ran)}", _AGAIN)
    if test.faults:
        return base.faulty(what, test)
    gaps = [*base.gaps(what, test), *_believed(ran, test)]
    return base.outcome(what, "incomplete" if gaps else "whole", "; ".join(gaps), _AGAIN if gaps else "", test)


class _Launched:
    """A program that was started, and its settings."""

    def __init__(self, ran: ProgramRun) -> None:
        self.ran = ran
        self.gpus = min(ran.plan.gpus, MAX_RANKS)
        self.size_bytes = ran.plan.size_bytes
        self.limit_s = ran.plan.limit_s or 0.0

    def outcome(self, what: str, ending: Ending, why: str, next_step: str, test: NcclTest | None = None) -> Outcome:
        said = [found[1] for found in _NVLS.finditer(self.ran.stdout)]
        return Outcome(
            what,
            ending,
            self.gpus,
            self.size_bytes,
            self.limit_s,
            self.ran.duration_s,
            why,
            next_step,
            test,
            self.ran.stuck,
            _UNSAID if not said else not any(said),
            self.ran.lacks,
        )

    def gaps(self, what: str, test: NcclTest) -> list[str]:
        """What is missing in its output."""
        wanted = BY_WHAT[what].collective
        other = [f"{test.collective} was run instead of {wanted}"] if test.collective != wanted else []
        return other + list(test.gaps(ranks=self.gpus, size_bytes=self.size_bytes))

    def timed_out(self, what: str, test: NcclTest | None) -> Outcome:
        """It was ended at its limit: a hang, unless its rows show that it progressed and needs more time."""
        limit = f"did not end within {self.limit_s:g} s"
        if test and test.faults:
            limit += f", after: {test.faults[0].text}"
        if test is None or not test.rows:
            return self.outcome(what, "hung", f"{limit}, and finished no size", _OURS, test)
        row = test.rows[-1]
        reached = f"{limit}; the last size that it finished is {row.size_bytes} bytes"
        if self.needed_s(test) > self.limit_s:
            speed = f"at {row.out_of_place.busbw_gb_per_s:g} GB/s it needs more time than the limit"
            return self.outcome(what, "slow", f"{reached}: {speed}", "measure it with a longer profile", test)
        return self.outcome(what, "hung", reached, _OURS, test)

    def needed_s(self, test: NcclTest) -> float:
        """How long the whole sweep takes at the speed of the last row, each iteration out of place and in place."""
        iterations = _option(self.ran.argv, "-n") + _option(self.ran.argv, "-w") + 2
        speed = max(test.rows[-1].out_of_place.algbw_gb_per_s, 1e-6) * 1e9
        return 2.0 * iterations * 2.0 * self.size_bytes / speed

    def faulty(self, what: str, test: NcclTest) -> Outcome:
        """CUDA or NCCL failed: the first report is the decisive one."""
        fault = test.faults[0]
        rank = "" if isinstance(fault.rank, Unknown) else f" (rank {fault.rank})"
        if fault.is_out_of_memory:
            step = "check which process uses GPU memory (idle.processes, nvidia-smi)"
            return self.outcome(what, "incomplete", f"{fault.text}{rank}", step, test)
        return self.outcome(what, "faulty", f"{fault.text}{rank}", _OURS, test)


def _how_it_ended(ran: ProgramRun) -> str:
    if ran.exit_code in (126, 127):
        return f" ({ran.stderr.strip()[:120] or 'the program could not be started'})"
    return "" if ran.exit_code in (0, None) else f" (exit code {ran.exit_code})"


def _believed(ran: ProgramRun, test: NcclTest) -> list[str]:
    """Why a whole table cannot be trusted. Wrong data has exit code 7, or 1 before version 2.17.5."""
    doubts = list(test.inconsistent[:1])
    if ran.exit_code and not (test.corrupt and ran.exit_code in (1, 7)):
        doubts.append(f"exit code {ran.exit_code}")
    return doubts


def _option(argv: Sequence[str], name: str) -> int:
    return next((_number(value) for word, value in pairwise(argv) if word == name), 0)


def _number(text: str | None) -> int:
    """A count in a command line, which was read from a file."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 15 else 0
