"""How a launch over several nodes ended, by what it printed and when."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.measure.groups.refused import has_devices, never_began, refusal, without_begun
from nodegate.measure.nccl.launched import gaps, timed_out
from nodegate.records.program_run import LaunchPlan
from nodegate.tools import nccl_tests
from nodegate.transport.call import printable

if TYPE_CHECKING:
    from nodegate.measure.nccl.launched import Ending
    from nodegate.records.program_run import ProgramRun
    from nodegate.tools.nccl_tests import NcclTest

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


def _ended(ran: ProgramRun, test: NcclTest) -> tuple[Ending, str, str]:
    if ran.timed_out:
        return timed_out(ran, test, _SEE)
    if test.faults:
        fault = test.faults[0]
        text = f"{fault.host}: {fault.text}" if fault.host else fault.text
        if fault.is_out_of_memory:
            return "incomplete", text, "check which process uses GPU memory (idle.processes)"
        return "faulty", text, _SEE
    found = gaps(ran, test, ran.what)
    if ran.exit_code and not (test.corrupt and not found):  # wrong data has an exit code, which mpirun passes on
        found.append(f"exit code {ran.exit_code}")
    return ("incomplete", "; ".join(found), _AGAIN) if found else ("whole", "", "")


def _without_table(ran: ProgramRun, unread: str) -> tuple[Ending, str, str]:
    """A launch that printed no row and no fault: a GPU may hang only where one was listed."""
    if ran.timed_out and has_devices(ran.stdout):
        return timed_out(ran, None, _SEE)
    refused = refusal(f"{ran.stdout}\n{ran.stderr}")
    if ran.timed_out:
        return "refused", *never_began(ran, (ran.plan.launch or LaunchPlan("")).count, refused)
    if refused:
        return "refused", *refused
    code = f" (exit code {ran.exit_code})" if ran.exit_code else ""
    last = printable((without_begun(ran.stderr).strip().splitlines() or [""])[-1].encode(), 120)
    return "incomplete", f"{unread}{code}{f': {last}' if last and last not in unread else ''}", _AGAIN


def _all_ranks(ran: ProgramRun, test: NcclTest) -> NcclTest:
    """With the number of ranks if lines of ranks were left out of the evidence: the last one is there."""
    if _LEFT_OUT not in ran.stdout or not test.devices:
        return test
    return replace(test, ranks=max(device.rank for device in test.devices) + 1)
