"""The launches of NCCL inside a node: bandwidths, hangs, faults, wrong data, and what could not be measured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nodegate.errors import CannotMeasure, tried
from nodegate.measure.nccl.launches import ALL_REDUCE, BY_WHAT, LAUNCHES, RING, Ending, Launched, gaps, timed_out
from nodegate.measure.program_run import not_run, reason
from nodegate.metric import Metric, joined
from nodegate.records.program_run import Attempt, ProgramRun
from nodegate.tools import nccl_tests
from nodegate.tools.nccl_tests import NcclTest
from nodegate.unknown import Known, Unknown, Why, known

_UNSAID = Unknown(Why.MISSING, "NCCL did not report it")
_NVLS = re.compile(r"NVLS multicast support is (not )?available")
_AGAIN = "measure this node again, or run the command in the evidence file by hand"
_OURS = "read the output of nccl-tests in the evidence file"
_NOT_RUN = CannotMeasure("not run", next_step=_AGAIN)


@dataclass(frozen=True)
class Outcome(Launched):
    """One launch of one attempt. `nvls_there`: whether NCCL calls multicast for NVLS available."""

    nvls_there: Known[bool] = _UNSAID

    @property
    def conditions(self) -> Mapping[str, str]:
        """What two values must share to be comparable."""
        return self.conditions_with(algorithm="ring" if self.what == RING else "default")


@dataclass(frozen=True)
class Nccl:
    """All launches of a node. `attempts` in their order, each with one outcome of every launch that it names."""

    attempts: tuple[tuple[Outcome, ...], ...]

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The bus bandwidth of each launch at the judged size, one value for each attempt that was whole.

        An attempt under other conditions than the first (another NCCL, other sizes) is a separate metric.
        """
        found = ((each, each.busbw_gb_per_s, dict(sorted(each.conditions.items()))) for each in self.all)
        return joined(
            Metric(BY_WHAT[each.what].metric, (value,), "GB/s", conditions=conditions)
            for each, value, conditions in found
            if value is not None
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
        best = {what: max(each.busbw_gb_per_s or 0.0 for each in self.of(what)) for what in (ALL_REDUCE, RING)}
        for what, value in best.items():
            if value <= 0.0:
                return Unknown(Why.MISSING, f"{what}: {self.final(what).why or 'no bandwidth'}")
        return best[ALL_REDUCE] / best[RING]

    @property
    def version(self) -> Known[str]:
        """The version of NCCL that ran."""
        told = [outcome.test.nccl for outcome in self.all if outcome.test]
        return next(iter([*known(told), *told]), Unknown(Why.MISSING, self.all[0].why))


def parse(attempts: Sequence[Attempt]) -> Nccl:
    """The result of the attempts on one node.

    Raises:
        CannotMeasure: no launch of any attempt ran, and all lacked the same.
    """
    attempts = [attempt for attempt in attempts if attempt.runs or attempt.cannot]
    all_runs = [each for attempt in attempts for each in (attempt.runs or (attempt,))]
    if not all_runs:
        raise CannotMeasure("nothing was run", next_step=_AGAIN)
    if all(each.cannot for each in all_runs) and len({each.lacks for each in all_runs}) == 1:
        raise reason(all_runs[0])
    found = []
    for attempt in attempts:  # one outcome for each planned launch, in their order: one without output is not forgotten
        ran_of = {ran.what: ran for ran in attempt.runs}
        why = reason(attempt) if attempt.cannot else _NOT_RUN
        found.append(tuple(_outcome(ran_of.get(each.what) or not_run(each.what, why)) for each in LAUNCHES))
    return Nccl(tuple(found))


def _outcome(ran: ProgramRun) -> Outcome:
    said = [found[1] for found in _NVLS.finditer(ran.stdout)]
    return Outcome(replace(ran, stdout="", stderr=""), *_read(ran), _UNSAID if not said else not any(said))


def _read(ran: ProgramRun) -> tuple[NcclTest | None, Ending, str, str]:
    if ran.cannot:
        return None, "incomplete", ran.cannot, ran.next_step or _AGAIN
    collective = BY_WHAT[ran.what].collective
    test = tried(lambda: nccl_tests.parse(ran.stdout, ran.stderr, collective=collective))
    if ran.timed_out:
        known = None if isinstance(test, CannotMeasure) else test
        return known, *timed_out(ran, known, _OURS)
    if isinstance(test, CannotMeasure):
        code = "" if ran.exit_code in (0, None) else f" (exit code {ran.exit_code})"
        if ran.exit_code in (126, 127):
            code = f" ({ran.stderr.strip()[:120] or 'the program could not be started'})"
        return None, "incomplete", f"{test.reason}{code}", _AGAIN
    if test.faults:  # CUDA or NCCL failed: the first report is the decisive one
        fault = test.faults[0]
        text = fault.text if isinstance(fault.rank, Unknown) else f"{fault.text} (rank {fault.rank})"
        if fault.is_out_of_memory:
            return test, "incomplete", text, "check which process uses GPU memory (idle.processes, nvidia-smi)"
        return test, "faulty", text, _OURS
    doubts = gaps(ran, test, collective)
    if ran.exit_code and not (test.corrupt and ran.exit_code in (1, 7)):  # wrong data: 7, or 1 before version 2.17.5
        doubts.append(f"exit code {ran.exit_code}")
    return (test, "incomplete", "; ".join(doubts), _AGAIN) if doubts else (test, "whole", "", "")
