"""Launches of nccl-tests: those that are made inside a node; and what any launch gave, and how it ended."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from nodegate.errors import CannotMeasure
from nodegate.launchers import LAUNCHERS
from nodegate.measure.program_run import count_asked
from nodegate.records.program_run import ProgramRun
from nodegate.text import some
from nodegate.tools import nccl_tests
from nodegate.tools.nccl_tests import NcclTest
from nodegate.transport.call import printable
from nodegate.unknown import Unknown

RING_SETTINGS: Mapping[str, str] = {"NCCL_ALGO": "Ring", "NCCL_NVLS_ENABLE": "0"}
ALL_REDUCE, RING = "all_reduce", "all_reduce ring"
# A collective without one of these says nothing new about its node, may hang until its time limit, and breaks a
# launch over several nodes for all of them.
RESTS_ON = (
    "gpu.on_bus",
    "gpu.lost",
    "gpu.bound",
    "gpu.count",
    "gpu.recovery_action",
    "software.driver_loaded",
    "software.driver_and_library",
    "fabric.manager",
    "fabric.state",
    "host.blocked_processes",
    "idle.processes",
)
# whole: a complete and consistent table; its data may still be wrong. faulty: CUDA or NCCL failed. hung: not finished
# within its time limit, nor near it. slow: it progressed, and would not have ended in time. refused: over several nodes
# it could not be launched. incomplete: the rest.
Ending = Literal["whole", "faulty", "hung", "slow", "refused", "incomplete"]


@dataclass(frozen=True)
class Launch:
    """One launch: `what` names it in messages and evidence, `metric` is the limit key of its bandwidth."""

    what: str
    collective: str
    ring: bool = False

    @property
    def metric(self) -> str:
        """The limit key of its bus bandwidth, in GB/s."""
        return f"nccl.{self.what.replace(' ', '_')}_gb_per_s"

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings in its environment.

        WARN makes NCCL print its version and what goes wrong. For the first launch INFO on its start: whether NVLS is
        available. More would fill the evidence.
        """
        if self.ring:
            return {"NCCL_DEBUG": "WARN", **RING_SETTINGS}
        if self.what == ALL_REDUCE:
            return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NVLS"}
        return {"NCCL_DEBUG": "WARN"}


LAUNCHES = (
    Launch(ALL_REDUCE, "all_reduce"),
    Launch(RING, "all_reduce", ring=True),
    Launch("all_gather", "all_gather"),
    Launch("reduce_scatter", "reduce_scatter"),
    Launch("alltoall", "alltoall"),
    Launch("sendrecv", "sendrecv"),
)
BY_WHAT: Mapping[str, Launch] = {launch.what: launch for launch in LAUNCHES}


@dataclass(frozen=True)
class Launched:
    """One launch: `ran` without what it printed, `test` what that was, None if nothing could be read.

    `why` and `next_step` say what is wrong with it, empty if it is whole.
    """

    ran: ProgramRun
    test: NcclTest | None
    ending: Ending
    why: str = ""
    next_step: str = ""

    @property
    def what(self) -> str:
        """The collective."""
        return self.ran.what

    @property
    def is_well(self) -> bool:
        """Whether it ended, with right data."""
        return self.ending == "whole" and self.test is not None and not self.test.corrupt

    @property
    def busbw_gb_per_s(self) -> float | None:
        """The bus bandwidth of the judged size, out of place; None if the launch is not whole."""
        row = self.test.row(self.ran.plan.size_bytes) if self.test and self.ending == "whole" else None
        return row.out_of_place.busbw_gb_per_s if row else None

    def conditions_with(self, **more: str) -> dict[str, str]:
        """What two values must share to be comparable. Values that the version does not print are left out."""
        if self.test is None:
            return {}
        plan, row = self.ran.plan, self.test.row(self.ran.plan.size_bytes)
        told = {"tool_version": self.test.version, "nccl": self.test.nccl, "cuda": self.test.cuda}
        known = {name: value for name, value in told.items() if not isinstance(value, Unknown)}
        sizes = {"size_bytes": str(plan.size_bytes), "gpus": str(plan.gpus), "dtype": row.dtype if row else ""}
        return {"tool": "nccl-tests", **known, **sizes, **more}


def _limit_of(ran: ProgramRun) -> str:
    return "its time limit" if ran.plan.limit_s is None else f"{ran.plan.limit_s:g} s"


def sweep_s(turns: int, size_bytes: int, gb_per_s: float) -> float:
    """How long a sweep up to this size takes at this speed, each of its turns out of place and in place."""
    return 4.0 * (turns + 2) * size_bytes / (max(gb_per_s, 1e-6) * 1e9)


def timed_out(ran: ProgramRun, test: NcclTest | None, see: str) -> tuple[Ending, str, str]:
    """What ended at its limit: a hang, unless its rows show that it progressed and needs more time; why, what to do."""
    limit = f"did not end within {_limit_of(ran)}"
    if test and test.faults:
        limit += f", after: {test.faults[0].text}"
    if test is None or not test.rows:
        return "hung", f"{limit}, and finished no size", see
    row, plan = test.rows[-1], ran.plan
    reached = f"{limit}; the last size that it finished is {row.size_bytes} bytes"
    turns = plan.launch.turns if plan.launch else count_asked(ran, "-n") + count_asked(ran, "-w")
    if sweep_s(turns, plan.size_bytes, row.out_of_place.algbw_gb_per_s) <= (plan.limit_s or 0.0):
        return "hung", reached, see
    speed = "" if plan.launch else f"at {row.out_of_place.busbw_gb_per_s:g} GB/s "
    return "slow", f"{reached}: {speed}it needs more time than the limit", "measure it with a longer profile"


def gaps(ran: ProgramRun, test: NcclTest, collective: str) -> list[str]:
    """What is missing in a table, or contradicts itself."""
    other = [f"{test.collective} was run instead of {collective}"] if test.collective != collective else []
    return [*other, *test.gaps(ranks=ran.plan.gpus, size_bytes=ran.plan.size_bytes), *test.inconsistent[:1]]


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
        test = nccl_tests.parse(ran.stdout, _without_begun(ran.stderr), collective=ran.what)
    except CannotMeasure as said:
        return None, *_without_table(ran, said.reason)
    if _LEFT_OUT in ran.stdout and test.devices:  # of the lines of ranks the last one is there
        test = replace(test, ranks=max(device.rank for device in test.devices) + 1)
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
        return "refused", *_never_began(ran, refused)
    if refused:
        return "refused", *refused
    code = f" (exit code {ran.exit_code})" if ran.exit_code else ""
    last = printable((_without_begun(ran.stderr).strip().splitlines() or [""])[-1].encode(), 120)
    return "incomplete", f"{unread}{code}{f': {last}' if last and last not in unread else ''}", _AGAIN


def _without_begun(stderr: str) -> str:
    """Without the lines by which nodegate's shell around the ranks says where they begin."""
    return _BEGUN.sub("", stderr)


def refusal(text: str) -> tuple[str, str] | None:
    """What a launcher says when it cannot start a rank, and what to do; None if it says nothing that is known."""
    for pattern, step in (*(each for known in LAUNCHERS.values() for each in known.refusals), _NO_PROGRAM):
        match = re.search(pattern, text)
        if match:
            return f"the launch failed: {printable(match[0].encode(), 200)}", step
    return None


def _never_began(ran: ProgramRun, refused: tuple[str, str] | None) -> tuple[str, str]:
    """Why a launch ended at its limit before a GPU was listed, and what to do: it is the launcher, not a GPU."""
    hosts, nodes = sorted(set(_BEGUN.findall(ran.stderr))), ran.plan.launch.count if ran.plan.launch else 0
    began = f"ranks began on {some(hosts, _SHOWN)}" if hosts else "no rank began"
    limit = f"no GPU was listed within {_limit_of(ran)}: {began} ({len(hosts)} of {nodes} nodes)"
    if refused:
        return f"{limit}; {refused[0]}", refused[1]
    said = []
    for text in (ran.stdout, _without_begun(ran.stderr)):
        first = next((line for line in text[:65536].splitlines() if line.strip(" #-\t\r")), "")
        said += [f"it says: {printable(first.encode(), 160)}"] if first else []
    return f"{limit}; {'; '.join(said)}" if said else f"{limit}, and nothing was printed", _OF_LAUNCHER
