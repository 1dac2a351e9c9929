"""GPUs before a job: nothing else runs on them and nothing else holds their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.subjects.gpu import answering, mebibytes
from nodegate.subjects.reported import absence
from nodegate.unknown import Known, Unknown, value_or
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate import Verdicts
    from nodegate.baseline.baseline import Baseline
    from nodegate.probe.gpu import Gpu, GpuProcess, Gpus

pytestmark = pytest.mark.tier("bootcheck")

# Daemons of the node that hold a GPU without using it. Prefixes, since the kernel cuts a name after 15 characters.
_RESIDENTS = ("nvidia-persiste", "nv-hostengine", "dcgm", "nv-fabricmanage", "nvidia-cuda-mps", "nvidia-imex")


def test_processes(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No process is left on any GPU when a job is about to start. (F15)

    A process of an earlier or another job takes memory and time from the new one: out of memory, or half speed.
    NVIDIA's own daemons and an MPS server may run. A desktop's process (kind `graphics`) only warns.
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
        strays = [process for process in gpu.processes if not _is_resident(process)]
        for stray in strays:
            verdict = Verdict.WARN if stray.kind == "graphics" else Verdict.FAIL
            action = "find its job (ps -fp PID) and end it before the node takes work"
            verdicts.found(verdict, part=gpu.part, text=_words(stray), action=action, code=stray.kind)
        if not strays:
            verdicts.passed(part=gpu.part, text="no job process")


def test_memory(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The memory of every GPU is free when a job is about to start. (F15)

    Memory that is in use with no process in sight belongs to a process in another container, or leaked when one was
    killed: the next job runs out of memory. What the driver reserves for itself is not counted, nor what graphics
    processes use: idle.processes reports those.
    """
    limit = baseline.number("gpu.idle_memory_mib")
    for gpu in answering(gpus, verdicts):
        verdicts.at_most(
            part=gpu.part,
            quantity="memory in use",
            observed=mebibytes(_unexplained_bytes(gpu)),
            limit=limit,
            action="end the processes that hold it; if none is seen, reset the GPU",
        )


def _unexplained_bytes(gpu: Gpu) -> Known[int]:
    processes = () if isinstance(gpu.processes, Unknown) else gpu.processes
    drawn = sum(value_or(process.memory_bytes, 0) for process in processes if process.kind == "graphics")
    used = gpu.memory_used_bytes
    return used if isinstance(used, Unknown) else max(used - drawn, 0)


def _is_resident(process: GpuProcess) -> bool:
    name = process.name.rpartition("/")[2]
    return process.kind == "mps" or name.startswith(_RESIDENTS)


def _words(process: GpuProcess) -> str:
    name = process.name or "name unknown"
    used = mebibytes(process.memory_bytes)
    memory = "memory unknown" if isinstance(used, Unknown) else f"{used} MiB"
    return f"{process.kind} process {process.pid} ({name}) is running, {memory}"
