"""How a launch over several nodes ended, by what it printed and when."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from nodegate.errors import CannotMeasure
from nodegate.measure.groups.refused import has_devices, limit_of, never_began, refusal, without_begun
from nodegate.records.program_run import LaunchPlan
from nodegate.tools import nccl_tests
from nodegate.transport.call import printable

if TYPE_CHECKING:
    from nodegate.records.program_run import ProgramRun
    from nodegate.tools.nccl_rows import Row
    from nodegate.tools.nccl_tests import NcclTest

# whole: a complete and consistent table; its data may still be wrong. hung: not finished within its time limit, nor
# near it. slow: it progressed, and needs more time. faulty: CUDA or NCCL failed. refused: it could not be launched.
Ending = Literal["whole", "hung", "slow", "faulty", "refused", "incomplete"]

_LEFT_OUT = " left out by nodegate"
_AGAIN = "run the command in the evidence file by hand on its head node"
_SEE = "read the output in the evidence file"


def read_test(ran: ProgramRun) -> tuple[NcclTest | None, Ending, str, str]:
    """What a launch measured, how it ended, why, and what to do."""
    if ran.cannot:
        return None, "refused", ran.why_not, ran.next_step or _AGAIN
    try:
        test = _all_ranks(ran, nccl_tests.parse(ran.stdout, without_begun(ran.stderr), collective=ran.what))
    except CannotMeasure as said:
        return None, *_without_table(ran, said.reason)
    return test, *_ended(ran, test)


def row_of(test: NcclTest, size_bytes: int) -> Row | None:
    """The row of a size: collectives that distribute a message round it down to a multiple of the ranks."""
    least = size_bytes - size_bytes // 100
    return next((row for row in reversed(test.rows) if least <= row.size_bytes <= size_bytes), None)


def _ended(ran: ProgramRun, test: NcclTest) -> tuple[Ending, str, str]:
    if ran.timed_out:
        return _timed_out(ran, test)
    if test.faults:
        fault = test.faults[0]
        text = f"{fault.host}: {fault.text}" if fault.host else fault.text
        if fault.is_out_of_memory:
            return "incomplete", text, "check which process uses GPU memory (idle.processes)"
        return "faulty", text, _SEE
    no_row = f"no row of {ran.plan.size_bytes} bytes"
    gaps = [gap for gap in test.gaps(ranks=ran.plan.gpus, size_bytes=ran.plan.size_bytes) if gap != no_row]
    gaps += [*([] if row_of(test, ran.plan.size_bytes) else [no_row]), *test.inconsistent[:1]]
    if test.collective != ran.what:
        gaps.append(f"{test.collective} was run instead of {ran.what}")
    if ran.exit_code and not (test.corrupt and not gaps):  # wrong data has an exit code, which mpirun passes on
        gaps.append(f"exit code {ran.exit_code}")
    return ("incomplete", "; ".join(gaps), _AGAIN) if gaps else ("whole", "", "")


def _without_table(ran: ProgramRun, unread: str) -> tuple[Ending, str, str]:
    """A launch that printed no row and no fault: a GPU may hang only where one was listed."""
    if ran.timed_out and has_devices(ran.stdout):
        return _timed_out(ran, None)
    refused = refusal(f"{ran.stdout}\n{ran.stderr}")
    if ran.timed_out:
        return "refused", *never_began(ran, (ran.plan.launch or LaunchPlan("")).count, refused)
    if refused:
        return "refused", *refused
    code = f" (exit code {ran.exit_code})" if ran.exit_code else ""
    last = printable((without_begun(ran.stderr).strip().splitlines() or [""])[-1].encode(), 120)
    return "incomplete", f"{unread}{code}{f': {last}' if last and last not in unread else ''}", _AGAIN


def _timed_out(ran: ProgramRun, test: NcclTest | None) -> tuple[Ending, str, str]:
    limit = f"did not end within {limit_of(ran)}"
    if test and test.faults:
        limit += f", after: {test.faults[0].text}"
    if test is None or not test.rows:
        return "hung", f"{limit}, and finished no size", _SEE
    row = test.rows[-1]
    speed = max(row.out_of_place.algbw_gb_per_s, 1e-6) * 1e9
    turns = ran.plan.launch.turns if ran.plan.launch else 0
    needed_s = 4.0 * (turns + 2) * ran.plan.size_bytes / speed
    reached = f"{limit}; the last size that it finished is {row.size_bytes} bytes"
    if needed_s > (ran.plan.limit_s or 0.0):
        return "slow", f"{reached}: it needs more time than the limit", "measure it with a longer profile"
    return "hung", reached, _SEE


def _all_ranks(ran: ProgramRun, test: NcclTest) -> NcclTest:
    """With the number of ranks if lines of ranks were left out of the evidence: the last one is there."""
    if _LEFT_OUT not in ran.stdout or not test.devices:
        return test
    return replace(test, ranks=max(device.rank for device in test.devices) + 1)
