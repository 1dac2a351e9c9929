"""Logs of small jobs in layouts drawn at random: the order of the workers, what a collector wraps around each line,
the form of the time, the language. What happened is chosen first, so the truth is known.

The lines are in the forms of PyTorch (ProcessGroupNCCL.cpp, CUDACachingAllocator.cpp), Megatron-LM (training.py), NCCL
(init.cc), Kubernetes (`kubectl logs --prefix`), stern, Docker compose and Fluent Bit.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

ORDERS = ("files", "worker after worker", "last worker first", "merged by time")
WRAPPINGS = ("none", "kubectl", "stern", "json", "compose", "tag")
TIMES = ("date", "brackets", "clock")
LANGUAGES = ("en", "zh")
_START = datetime(2026, 8, 10, 7, 0, 0)  # noqa: DTZ001 - as the logs print it
_TAIL = "| elapsed time per iteration (ms): 3000.1 | lm loss: 7.1E+00 | number of skipped iterations:   0 |"


@dataclass(frozen=True)
class Layout:
    """How the lines of the workers are handed in."""

    order: str
    wrapping: str
    time: str
    language: str


Line = tuple[int, bool, str]  # seconds since the start, whether it prints a time, the text


def drawn(random, *, orders=ORDERS, clocks=TIMES):
    """A layout; lines without any wrapping are in one file a worker, since nothing else tells the workers apart."""
    order, wrapping = random.choice(orders), random.choice(WRAPPINGS)
    if wrapping == "none":
        order = "files"
    return Layout(order, wrapping, random.choice(clocks), random.choice(LANGUAGES))


def files(workers, layout):
    """The lines of each file of this job."""
    written = [
        [(at, _wrapped(number, _timed(at, timed, text, layout), layout)) for at, timed, text in lines]
        for number, lines in enumerate(workers)
    ]
    if layout.order == "files":
        return {f"part-{number}.log": [text for _, text in lines] for number, lines in enumerate(written)}
    if layout.order == "last worker first":
        written.reverse()
    together = [line for lines in written for line in lines]
    if layout.order == "merged by time":
        together.sort(key=lambda line: line[0])
    return {"job.log": [text for _, text in together]}


def _timed(at, timed, text, layout):
    if not timed:
        return text
    when = _START + timedelta(seconds=at)
    form = {"date": "%Y-%m-%d %H:%M:%S ", "brackets": "[%Y-%m-%d %H:%M:%S] ", "clock": "%H:%M:%S.120 "}[layout.time]
    return when.strftime(form) + text


def _wrapped(worker, text, layout):
    pod = f"lm-worker-{worker}"
    if layout.wrapping == "json":
        return json.dumps({"log": text + "\n", "stream": "stdout", "kubernetes": {"pod_name": pod}}, ensure_ascii=False)
    prefix = {"none": "", "kubectl": f"[pod/{pod}/main] ", "stern": f"{pod} main "}
    return {**prefix, "compose": f"{pod}  | ", "tag": f"[worker-{worker}] "}[layout.wrapping] + text


def starts(worker, language):
    """The first lines of a worker."""
    return [(worker, True, f"starts, RANK: {worker}" if language == "en" else f"启动训练进程 RANK: {worker}")]


def trains(first, last, language, *, every_s=30):
    """Iterations of Megatron-LM, or of a loop that prints in Chinese."""
    return [
        (
            number * every_s,
            True,
            f"iteration {number:8}/    5000 {_TAIL}"
            if language == "en"
            else f"步骤 {number} 损失 {9 - number / 50:.2f}",
        )
        for number in range(first, last)
    ]


def times_out(rank, at, *, timed):
    """The watchdog of a rank gives up."""
    said = (
        f"[rank{rank}]: [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, "
        "OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600021 milliseconds."
    )
    return (at, timed, said)


def joins(rank, world, at=5):
    """NCCL completed the start of a rank."""
    said = (
        f"gpu-n{rank // 4}:41{rank:02}:41{rank:02} [{rank % 4}] NCCL INFO ncclCommInitRank comm 0x5 rank {rank} nranks "
        f"{world} cudaDev {rank % 4} nvmlDev {rank % 4} busId 19000 commId 0x7 - Init COMPLETE"
    )
    return (at, False, said)
