"""GPUs before a job: nothing else runs on them and nothing else holds their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Known, Profile, Unknown, Verdict, Whose, absence, mebibytes, part, percent, value_or
from nodegate.node_side.probe.system import is_resident
from nodegate.subjects.gpu import answering, owners

if TYPE_CHECKING:
    from nodegate.api import Baseline, Gpu, GpuProcess, Gpus, Host, Jobs, Verdicts

pytestmark = pytest.mark.tier("bootcheck")

_END = "find its job (ps -fp PID) and end it before the node takes work"
_MOVE = "end it, or move it to a GPU of its own"
_WHOSE = "find its owner (ps -fp PID): the job in question, or one that was left behind"


def test_processes(gpus: Gpus, jobs: Jobs, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """No process is left on any GPU when a job is about to start. (F15)

    A process of an earlier or another job takes memory and time from the new one: out of memory, or half speed.
    NVIDIA's own daemons and an MPS server may run, a client of MPS is a job. A desktop's process (kind `graphics`)
    only warns. Under troubleshoot the job may still run: its processes are named and pass (by their cgroup, under Slurm
    also by their user), as does one that cannot be told from them. One of another job or login warns, and one where no
    job is known. Several jobs may use a GPU that MPS, MIG or time-slicing shares.
    """
    for gpu in answering(gpus, verdicts):
        if isinstance(gpu.processes, Unknown):
            verdicts.unknown(
                part=gpu.part,
                quantity="its list of processes",
                reason=gpu.processes,
                absent=absence("processes", gpu, gpus, baseline),
            )
            continue
        strays = [process for process in gpu.processes if not is_resident(process.name)]
        whose = owners(gpu, jobs) if profile is Profile.TROUBLESHOOT else {}
        for stray in strays:
            owner = whose.get(stray.pid)
            text = f"{_words(stray)}, {owner.words}" if owner and owner.words else _words(stray)
            foreign = owner is not None and owner.whose is Whose.FOREIGN
            if owner and owner.words and not foreign:
                verdicts.passed(part=gpu.part, text=text)
                continue
            verdict = Verdict.WARN if stray.kind == "graphics" or profile is Profile.TROUBLESHOOT else Verdict.FAIL
            action = _MOVE if foreign else _WHOSE if profile is Profile.TROUBLESHOOT else _END
            verdicts.found(verdict, part=gpu.part, text=text, action=action, code="foreign" if foreign else stray.kind)
        if not strays:
            verdicts.passed(part=gpu.part, text="no job process")


def test_memory(gpus: Gpus, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """The memory of every GPU is free when a job is about to start. (F15)

    Memory that is in use with no process in sight belongs to a process in another container, or leaked when one was
    killed: the next job runs out of memory. What the driver reserves for itself is not counted, nor what graphics
    processes use: idle.processes reports those. Under troubleshoot what running processes hold is theirs.
    """
    limit = baseline.number("gpu.idle_memory_mib")
    for gpu in answering(gpus, verdicts):
        if profile is Profile.TROUBLESHOOT and not isinstance(gpu.processes, Unknown) and gpu.processes:
            verdicts.passed(part=gpu.part, text="its memory is held by running processes")
            continue
        verdicts.at_most(
            part=gpu.part,
            quantity="memory in use",
            observed=mebibytes(_unexplained_bytes(gpu)),
            limit=limit,
            action="end the processes that hold it; if there are none, reset the GPU",
        )


def test_swap(host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """Swap space, where there is any, is not full when a job is about to start. (F15, F17)

    Full swap means that more memory was asked for than there is, by an earlier job or by what it left behind: the next
    one is slow, then killed. It warns, since the kernel keeps there what nobody has touched for long.
    """
    if host.swap_total_bytes == 0:
        verdicts.passed(part=part.MEMORY, text="no swap space")
        return
    verdicts.at_least(
        part=part.MEMORY,
        quantity="free share of the swap space",
        observed=percent(host.swap_free_bytes, host.swap_total_bytes),
        limit=baseline.number("host.swap_free_min_percent"),
        action="look for leftover processes (ps -eo pid,rss,comm --sort=-rss); swapoff -a && swapon -a empties it",
        otherwise=Verdict.WARN,
    )


def _unexplained_bytes(gpu: Gpu) -> Known[int]:
    processes = () if isinstance(gpu.processes, Unknown) else gpu.processes
    drawn = sum(value_or(process.memory_bytes, 0) for process in processes if process.kind == "graphics")
    used = gpu.memory_used_bytes
    return used if isinstance(used, Unknown) else max(used - drawn, 0)


def _words(process: GpuProcess) -> str:
    name = process.name or "name unknown"
    used = mebibytes(process.memory_bytes)
    memory = "memory unknown" if isinstance(used, Unknown) else f"{used} MiB"
    return f"{process.kind} process {process.pid} ({name}) is running, {memory}"
