"""Jobs whose end is known, in layouts drawn at random: what was not recognised is not called good, nobody is blamed.

Each row is one thing that happens to a job of three workers, drawn in four layouts.
"""

# ruff: noqa: RUF001 - Chinese punctuation
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

import pytest
from support.job_logs import told, write

from nodegate.triage.triage import triage

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


NOW_S = 1_786_406_400.0  # 2026-08-11
DRAWS = 4
DATED = ("date", "brackets")
EN_WORDS = (
    "the exchange with the store was lost",
    "job failed: no heartbeat from the leader",
    "cannot go on without quorum",
)
ZH_WORDS = ("训练失败：数据管道断开", "错误：第 3 张卡掉卡", "无法连接到主节点")
OOM = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.38 GiB. GPU 0 is full."
LABELS = (
    "[rank{}]: ",
    "{}: ",
    "[1,{}]<stderr>:",
    "[prterun-h-77@1,{}]<stderr>: ",
    "[Rank {}/16] ",
    "Rank {}: ",
    "[{}] ",
)
BROKEN = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
LOST = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"
ECC = "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
SHM = (
    "[rank0]: RuntimeError: DataLoader worker (pid 8143) is killed by signal: Bus error. It is possible that"
    " dataloader's workers are out of shared memory. Please try to raise your shared memory limit."
)


def workers(language: str, *first: Line, last: tuple[Line, ...] = (), until: int = 40) -> list[list[Line]]:
    """Worker 0 prints its start and `first`; only the last worker prints iterations, as Megatron-LM does."""
    quiet = [starts(number, language) for number in range(2)]
    quiet[0] += first
    return [*quiet, [*starts(2, language), *trains(1, until, language), *last]]


def last_words(layout: Layout, number: int) -> list[list[Line]]:
    said = (EN_WORDS if layout.language == "en" else ZH_WORDS)[number % 3]
    return workers(layout.language, last=((1300, True, said),))


def nobody_knows(layout: Layout, number: int) -> list[list[Line]]:
    said = (
        ("reading the configuration", "stage of preparation") if layout.language == "en" else ("读取配置", "准备阶段")
    )
    return [[*starts(each, layout.language), (3, True, said[0]), (4, number % 2 == 0, said[1])] for each in range(3)]


def beats(layout: Layout, _: int) -> list[list[Line]]:
    def of(worker: int, until: int) -> list[Line]:
        return starts(worker, layout.language) + [(at, True, f"heartbeat of {worker}") for at in range(10, until, 20)]

    return [of(0, 300), of(1, 1800), of(2, 1800)]


def halves(layout: Layout, _: int) -> list[list[Line]]:
    seen = range(4, 8)
    return [
        [
            *starts(1, layout.language),
            *(joins(rank, 8) for rank in seen),
            *(times_out(rank, 700, timed=True) for rank in seen),
        ]
    ]


def all_time_out(layout: Layout, _: int) -> list[list[Line]]:
    hung = workers(layout.language, last=(times_out(2, 1300, timed=False),))
    return [[*lines, times_out(rank, 1300, timed=False)] if rank < 2 else lines for rank, lines in enumerate(hung)]


@dataclass(frozen=True)
class Story:
    """What happens, and what the answer has to be."""

    happens: Callable[[Layout, int], list[list[Line]]]
    expected: Mapping[str, object]
    says: str = ""
    never: tuple[str, ...] = ("no error in these logs",)
    clocks: tuple[str, ...] = TIMES
    draws: int = DRAWS


def ends_with(text: str, at: int = 1180) -> Callable[[Layout, int], list[list[Line]]]:
    return lambda layout, _: workers(layout.language, (at, False, text))


def one_of_sixteen(layout: Layout, number: int) -> list[list[Line]]:
    """The GPU of rank 5 breaks, the other ranks lose it; each launcher labels its ranks in its own way."""
    label = LABELS[number % len(LABELS)]
    found = [
        [*starts(each, layout.language), *(joins(rank, 16) for rank in range(4 * each, 4 * each + 4))]
        for each in range(4)
    ]
    found[3] += trains(1, 40, layout.language)
    for rank in (5, *(each for each in range(16) if each != 5)):
        at, said = (1180, BROKEN) if rank == 5 else (1190, LOST)
        found[rank // 4].append((at, number % 2 == 0, label.format(rank) + said))
    return found


def goes_on(layout: Layout, _: int) -> list[list[Line]]:
    return workers(
        layout.language, (2, False, OOM.replace("[rank0]: ", "")), (1500, True, "evaluation begins"), until=60
    )


UNKNOWN = {"failed": True, "cause": "unknown", "sure": False}
HEALTHY = {"failed": False}
STORIES = {
    "memory of a rank, undated": Story(ends_with(OOM), {"cause": "program", "rank": 0}),
    "ecc of a rank, undated": Story(ends_with(ECC), {"cause": "hardware", "rank": 0}),
    "one rank of sixteen": Story(one_of_sixteen, {"cause": "hardware", "rank": 5, "node": "gpu-n1"}, draws=20),
    "shared memory, undated": Story(ends_with(SHM), {"cause": "host"}),
    "all ranks time out, undated": Story(
        all_time_out, {"failed": True}, never=("no error", "did not reach", "no time-out")
    ),
    "one half of the ranks": Story(halves, {**UNKNOWN, "rank": None}, never=("no error", "did not reach")),
    "last words": Story(last_words, UNKNOWN, "cannot tell"),
    "nothing is known": Story(nobody_knows, UNKNOWN, "cannot tell: nothing was recognised in"),
    "one worker stops": Story(beats, UNKNOWN, clocks=DATED),
    "goes on": Story(lambda layout, _: workers(layout.language), HEALTHY, "no error", never=("cannot tell",)),
    "an error that is followed by lines of its worker": Story(goes_on, HEALTHY, "no error", never=(), clocks=DATED),
    "ends well": Story(
        lambda layout, _: workers(layout.language, last=((1300, True, "Training completed in 1290 s"),)),
        HEALTHY,
        "no error",
        never=(),
    ),
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, story in STORIES.items() for number in range(story.draws)]
)
def test_the_answer_is_right_in_every_layout(name, number, tmp_path):
    story = STORIES[name]
    layout = drawn(Random(f"{name} {number}"), clocks=story.clocks)  # noqa: S311 - a layout
    for file, lines in files(story.happens(layout, number), layout).items():
        write(tmp_path, file, *lines)
    answer = triage([str(tmp_path)], now_s=NOW_S)
    found = {key: getattr(value, "value", value) for key, value in told(answer).items()}
    assert {key: found[key] for key in story.expected} == story.expected, (layout, answer.sentence.en)
    assert story.says in answer.sentence.en, (layout, answer.sentence.en)
    said = " ".join([answer.sentence.en, *(reason.en for reason in answer.why)])
    assert not [word for word in story.never if word in said], (layout, said)
