"""What nccl-tests 2.17 prints on a made-up node, launch by launch.

Source of the layout: NVIDIA/nccl-tests v2.17.5 (src/common.cu, src/util.cu).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.changes import changes
from fleet.load import boards
from fleet.load.plan import BEGIN_S, BURN_S, Attempts, near
from fleet.machine import Machine, facts_of
from nodegate.errors import CannotMeasure
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.nccl.launches import ALL_REDUCE, LAUNCHES, RING, Launch
from nodegate.measure.nccl.run import Sweep, gpu_count, links, sweep
from nodegate.measure.program_run import not_run
from nodegate.profile import Profile
from nodegate.records.program_run import Attempt, Plan, ProgramRun
from nodegate.toolbox.tool_list import how_to_get, lacks
from nodegate.tools.nccl_rows import FACTORS

NAME = "nccl"
LENGTH = OF_PROFILE[Profile.DELIVERY]
WHATS = (ALL_REDUCE, RING, "all_gather", "reduce_scatter", "alltoall", "sendrecv")
_START_US = 42.0  # of each operation; it counts less the larger the message is
_PID = 104711


@dataclass
class Launched:
    """One launch as it will be: its bus bandwidth in GB/s, or that it hangs, or why it is not made."""

    busbw: float
    hangs: bool = False
    cannot: CannotMeasure | None = None
    nvls: bool = True


Collectives = dict[str, Launched]  # by the name of the launch


def recorded(machines: Sequence[Machine]) -> Mapping[str, Attempts]:
    """What the launches left on each node."""
    return {machine.name: _attempts(machine) for machine in machines if NAME not in machine.load.refused}


@changes
def slower(found: Collectives, share: float, *whats: str) -> None:
    """These launches, or all of them, reach only this share of their bandwidth."""
    for what in whats or tuple(found):
        found[what].busbw *= share


def without_nvls(found: Collectives) -> None:
    """all_reduce is what Ring is."""
    found[ALL_REDUCE].busbw = found[RING].busbw * 1.004
    found[ALL_REDUCE].nvls = False


def hung(found: Collectives) -> None:
    """all_reduce never ends, by Ring neither; the rest is then left out."""
    why = CannotMeasure(
        f"not run: {ALL_REDUCE} did not end within {LENGTH.collective_s:g} s before",
        next_step=f"see the finding on {ALL_REDUCE}",
    )
    for what, launched in found.items():
        launched.hangs = what in {ALL_REDUCE, RING}
        launched.cannot = None if launched.hangs else why


def no_tool(found: Collectives) -> None:
    """nccl-tests is not on the node."""
    for launch in LAUNCHES:
        found[launch.what].cannot = lacking(launch.collective)


def lacking(collective: str) -> CannotMeasure:
    """What is said where the program of a collective is not on the node."""
    program = f"{collective}_perf"
    reason = f"no {program} or {program}_mpi was found"
    return CannotMeasure(reason, next_step=how_to_get([program]), lacks=lacks([program]))


def _attempts(machine: Machine) -> Attempts:
    facts = facts_of(machine)
    chosen, gpus = sweep(LENGTH, nvlink=links(facts) != "none"), gpu_count(facts)
    board = boards.of(machine.sections["nvml"]["gpus"])
    good = dict(zip(WHATS, board.nccl, strict=True))
    done = []
    for attempt in range(machine.load.attempts(NAME)):
        found = {
            what: Launched(near(value, board.noise.nccl, machine.name, what, attempt), nvls=board.nvls)
            for what, value in good.items()
        }
        machine.load.apply(NAME, attempt, found)
        runs = (_ran(machine, launch, found[launch.what], chosen, gpus) for launch in LAUNCHES)
        done.append(Attempt(tuple(runs)))
    return done


def _ran(machine: Machine, launch: Launch, launched: Launched, chosen: Sweep, gpus: int) -> ProgramRun:
    plan = Plan(gpus=gpus, size_bytes=chosen.judged_bytes, limit_s=LENGTH.collective_s)
    if launched.cannot:
        return not_run(launch.what, launched.cannot, plan)
    settings = [f"{name}={value}" for name, value in launch.settings.items()]
    program = f"/opt/nccl-tests/build/{launch.collective}_perf"
    return ProgramRun(
        launch.what,
        ("env", *settings, program, *chosen.options, "-g", str(gpus)),
        stdout="\n".join(_printed(machine, launch, launched, chosen, gpus)) + "\n",
        exit_code=None if launched.hangs else 0,
        timed_out=launched.hangs,
        started_epoch_s=machine.epoch_s + BEGIN_S + BURN_S + 30,
        duration_s=LENGTH.collective_s if launched.hangs else 9.4,
        plan=plan,
    )


def _printed(machine: Machine, launch: Launch, launched: Launched, chosen: Sweep, gpus: int) -> Iterator[str]:
    version = nccl_of(machine)
    yield from header(launch.collective, chosen, version, gpus)
    yield from (rank(machine, gpu, gpu["index"], _PID) for gpu in machine.sections["nvml"]["gpus"])
    yield from _said_by_nccl(machine, launch, launched, version)
    if not launched.hangs:
        yield from table(launch.collective, launched.busbw, chosen, gpus)


def header(collective: str, chosen: Sweep, version: str, gpus: int) -> Iterator[str]:
    """What it prints before its ranks; `gpus` are those of one process."""
    major, minor, patch = map(int, version.split("."))
    code = major * 10000 + minor * 100 + patch
    yield f"# nccl-tests version 2.17.5 nccl-headers={code} nccl-library={code}"
    yield f"# Collective test starting: {collective}_perf"
    yield (
        f"# nThread 1 nGpus {gpus} minBytes {chosen.first_bytes} maxBytes {chosen.judged_bytes} step: 2(factor) warmup "
        f"iters: {chosen.warmup} iters: {chosen.iterations} agg iters: 1 validation: 1 graph: 0"
    )
    yield "#\n# Using devices"


def rank(machine: Machine, gpu: Mapping[str, Any], number: int, pid: int) -> str:
    """One rank in its list."""
    place = machine.gpu_address(gpu["index"]).rpartition(".")[0]
    return (
        f"#  Rank {number:2} Group  0 Pid {pid:6} on {machine.name:>10} device {gpu['index']:2} [{place}] {gpu['name']}"
    )


def _said_by_nccl(machine: Machine, launch: Launch, launched: Launched, version: str) -> Iterator[str]:
    if launch.settings["NCCL_DEBUG"] != "INFO":
        yield f"NCCL version {version}+cuda12.4"
        return
    yield f"{machine.name}:{_PID}:{_PID} [0] NCCL INFO NCCL version {version}+cuda12.4"
    for gpu in machine.sections["nvml"]["gpus"] if machine.sections["nvml"]["gpus"][0]["nvlinks"] else ():
        there = "" if launched.nvls else "not "
        yield (
            f"{machine.name}:{_PID}:{_PID + 9 + gpu['index']} [{gpu['index']}] NCCL INFO NVLS multicast support is "
            f"{there}available on dev {gpu['index']}" + (" (NVLS_NCHANNELS 16)" if launched.nvls else "")
        )


def table(collective: str, busbw: float, chosen: Sweep, ranks: int) -> Iterator[str]:
    """The table, and the lines below it."""
    halves = "  %7s  %6s  %6s  %6s" * 2
    yield f"#\n#{'':62}out-of-place                       in-place          "
    yield f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}" + halves % (
        ("time", "algbw", "busbw", "#wrong") * 2
    )
    yield f"# {'(B)':>10}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}" + halves % (
        ("(us)", "(GB/s)", "(GB/s)", "") * 2
    )
    redop = "sum" if collective in {"all_reduce", "reduce_scatter"} else "none"
    shared = ranks if collective in {"all_gather", "reduce_scatter", "alltoall"} else 1
    in_place = "N/A" if collective in {"alltoall", "sendrecv"} else "0"  # how many are wrong: those are not compared
    size = chosen.first_bytes
    while size <= chosen.judged_bytes:
        out = _half(collective, busbw, size, ranks)
        row = f"{size:12d}  {size // 4 // shared:12d}  {'float':>8}  {redop:>6}  {-1:6d}"
        yield f"{row}{out}  {'0':>6}{_half(collective, busbw * 0.998, size, ranks)}  {in_place:>6}"
        size *= 2
    yield "# Out of bounds values : 0 OK"
    yield f"# Avg bus bandwidth    : {busbw * 0.972:g} \n#"
    yield f"# Collective test concluded: {collective}_perf\n"


def _half(collective: str, busbw: float, size: int, ranks: int) -> str:
    factor = {"2(n-1)/n": 2.0 * (ranks - 1) / ranks, "(n-1)/n": (ranks - 1) / ranks, "1": 1.0}[FACTORS[collective]]
    time_us = size / 1e3 / (busbw / factor) + _START_US
    algbw = size / 1e3 / time_us
    return f"  {_fitted(time_us, 7):>7}  {_fitted(algbw, 6):>6}  {_fitted(algbw * factor, 6):>6}"


def _fitted(value: float, width: int) -> str:
    """As many decimals as the column has room for, two at most."""
    return next(text for decimals in (2, 1, 0) if len(text := f"{value:.{decimals}f}") <= width or decimals == 0)


def nccl_of(machine: Machine) -> str:
    """The NCCL that the node's programs use."""
    name: str = machine.sections["software"]["nccl"][0]["file"]
    return name.rpartition(".so.")[2]
