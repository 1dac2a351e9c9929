"""How a launch over several nodes ended, by what it printed and when; and why one never came to a GPU."""

import re
from dataclasses import replace

from nodegate.errors import CannotMeasure
from nodegate.launchers import LAUNCHERS
from nodegate.measure.nccl.launches import Ending, gaps, limit_of, timed_out
from nodegate.records.program_run import LaunchPlan, ProgramRun
from nodegate.text import some
from nodegate.tools import nccl_tests
from nodegate.tools.nccl_tests import NcclTest
from nodegate.transport.call import printable

_LEFT_OUT = " left out by nodegate"
_AGAIN = "run the command in the evidence file by hand on its head node"
_SEE = "read the output in the evidence file"
# Whoever launches: the program is not there.
_NO_PROGRAM = (
    r"could not access\s{1,8}an executable|error while loading shared libraries: [^\n]{0,120}|No such file or dir",
    "install nccl-tests, and the MPI that it was built with, under the same path on all nodes",
)
DEVICE = re.compile(r"Rank +\d{1,6} .{0,300} device ")
_BEGUN = re.compile(r"^.{0,60}nodegate: ranks begin on (\S{1,255})$", re.MULTILINE)
_SHOWN = 8
_OF_LAUNCHER = (
    "start the command in the evidence file by hand on its head node; if MPI waits there, name the network between the "
    "nodes in nodegate_launch_network"
)


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
    """A launch that printed no row and no fault: a GPU may hang only where one was listed, for MPI joined all ranks."""
    if ran.timed_out and DEVICE.search(ran.stdout):
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


def without_begun(stderr: str) -> str:
    """Without the lines by which nodegate's shell around the ranks says where they begin."""
    return _BEGUN.sub("", stderr)


def refusal(text: str) -> tuple[str, str] | None:
    """What a launcher says when it cannot start a rank, and what to do; None if it says nothing that is known."""
    for pattern, step in (*(each for known in LAUNCHERS.values() for each in known.refusals), _NO_PROGRAM):
        match = re.search(pattern, text)
        if match:
            return f"the launch failed: {printable(match[0].encode(), 200)}", step
    return None


def never_began(ran: ProgramRun, count: int, refused: tuple[str, str] | None) -> tuple[str, str]:
    """Why a launch ended at its limit before a GPU was listed, and what to do: a matter of the launcher, not of a GPU.

    Args:
        ran: the launch.
        count: how many nodes it has.
        refused: what the launcher said of it.
    """
    hosts = sorted(set(_BEGUN.findall(ran.stderr)))
    began = f"ranks began on {some(hosts, _SHOWN)}" if hosts else "no rank began"
    where = f"{began} ({len(hosts)} of {count} nodes)"
    limit = f"no GPU was listed within {limit_of(ran)}: {where}"
    if refused:
        return f"{limit}; {refused[0]}", refused[1]
    first = [_first(ran.stdout), _first(without_begun(ran.stderr))]
    said = "; ".join(f"it says: {line}" for line in first if line)
    return f"{limit}{f'; {said}' if said else ', and nothing was printed'}", _OF_LAUNCHER


def _first(text: str) -> str:
    """The first line that says something."""
    return next((printable(line.encode(), 160) for line in text[:65536].splitlines() if line.strip(" #-\t\r")), "")
