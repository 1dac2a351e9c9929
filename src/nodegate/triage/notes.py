"""The notes of an answer: what is to be known of the logs before it is believed, and what was left out."""

# ruff: noqa: RUF001 - Chinese punctuation
from collections.abc import Iterable, Iterator, Sequence

from nodegate.kernel_log.unknown_errors import unknown_errors
from nodegate.knowledge.failure_modes import failure_modes
from nodegate.knowledge.signatures import signatures
from nodegate.knowledge.words import Cause, Side, Text
from nodegate.text import counted
from nodegate.triage.clock import shown
from nodegate.triage.episodes import Ending, job_logs
from nodegate.triage.events import Event
from nodegate.triage.log import Log
from nodegate.triage.reading import Case
from nodegate.triage.recognised import Worth
from nodegate.triage.remarks import Note
from nodegate.triage.wording import cut

_MOST_UNREAD, _MOST_WORTH = 20, 40
_QUIET_S = 3600.0  # an evaluation or a checkpoint after the last iteration
_OF_DEVICES = (Cause.HARDWARE, Cause.FABRIC)
_KERNEL = "--kernel NODE=FILE"
NO_KERNEL_LOG = Text(
    f"no kernel log was given: what the nodes' GPUs and NICs reported is not known; add {_KERNEL}",
    "没有提供内核日志，节点的 GPU 与网卡报告了什么未知；请加 --kernel 节点=文件",
)


def kernel_log_helps(cause: Cause, modes: Iterable[str]) -> bool:
    """Whether the nodes' kernel logs could say more of an error: not of a name, a version or a full disk."""
    if cause in (*_OF_DEVICES, Cause.UNKNOWN):
        return True
    known = failure_modes()
    asked = {mode for mode in modes if known[mode].cause is not Cause.HOST}
    return any(
        row.side is Side.KERNEL and row.cause in _OF_DEVICES and not asked.isdisjoint(row.failure_modes)
        for row in (signatures() if asked else ())
    )


def notes(case: Case, faults: Sequence[Event], *, why: Iterable[Text], do: Text | None, sure: bool) -> tuple[Note, ...]:
    """The notes. `faults` are kernel messages of another time; what `why` or `do` say already is not said again.

    `do` is what to do now; None if nothing failed or kernel logs could not say more. Where the cause is not `sure`,
    what kernels said that no row knows is reported too.
    """
    said = set(why)
    asks = do is not None and _KERNEL not in do.en
    return tuple(
        note for note in (*_all(case, faults, asks=asks), *(() if sure else _strange(case))) if note.text not in said
    )


def _strange(case: Case) -> Iterator[Note]:
    """For each kernel log, how many kinds of errors it has that no row knows, and the first of them."""
    for log in [log for log in case.logs if log.kernel][:_MOST_UNREAD]:
        if shapes := list(unknown_errors(log.strange).values()):
            kinds, first = counted(len(shapes), "kind"), cut(shapes[0][0].text, 120)
            said = Text(
                f"{kinds} of kernel messages that sound like an error and that nodegate does not know, the first:"
                f' "{first}"',
                f"有 {len(shapes)} 种像是错误、但 nodegate 不认识的内核消息，第一条：“{first}”",
            )
            yield Note(said, (log.name,))


def _all(case: Case, faults: Sequence[Event], *, asks: bool) -> Iterator[Note]:
    yield from _of_logs(case)
    yield from (Note(Text(f"not read: {why}", f"未读取：{why}")) for why in case.unread[:_MOST_UNREAD])
    if (more := len(case.unread) - _MOST_UNREAD) > 0:
        yield Note(Text(f"not read: {counted(more, 'more log')}", f"另有 {more} 个日志未读取"))
    yield from map(Note, case.clocks.guesses())
    yield from map(Note, list(case.clocks.doubts())[:_MOST_UNREAD])
    if faults:
        yield Note(_of_another_time(faults, case))
    by_kernel = any(log.kernel and log.lines for log in case.logs) or any(
        event.kind.side is Side.KERNEL for event in case.events
    )
    if asks and not by_kernel:
        yield Note(NO_KERNEL_LOG)
    if case.passed_over:
        count, (path, why) = len(case.passed_over), case.passed_over[0]
        en, zh = f"{counted(count, 'file')} skipped, the first: {path}: {why.en}", f"跳过 {count} 个文件，第一个："
        yield Note(Text(en, f"{zh}{path}：{why.zh}"))
    if count := case.found.left_out:
        en = f"{counted(count, 'more kind')} of error left out: there are too many"
        yield Note(Text(en, f"错误种类过多，另有 {count} 种未计入"))


def _of_logs(case: Case) -> Iterator[Note]:
    """The same remark about several logs is one note."""
    said: dict[Text, list[str]] = {}
    for log in case.logs:
        for remark in log.remarks.said:
            said.setdefault(remark, []).append(log.name)
    yield from (Note(remark, tuple(names)) for remark, names in said.items())


def _of_another_time(faults: Sequence[Event], case: Case) -> Text:
    last = faults[-1]
    where, when = last.place.node or last.log, shown(last.printed_s, zone_s=case.clocks.shown_s)
    are = "is" if len(faults) == 1 else "are"
    return Text(
        f"{counted(len(faults), 'kernel message')} of a fault {are} of another time than the job; the last:"
        f" {where}, {when}: {cut(last.text, 80)}",
        f"有 {len(faults)} 条内核故障消息不在作业期间；最后一条：{where}，{when}：{cut(last.text, 80)}",
    )


ACTION = Text(
    "read these lines: the last ones, and those that name an exception, a host, a rank or an address",
    "请阅读下列原文：最后几行，以及提到异常、主机、rank 或地址的行",
)


def doubt(case: Case, last: Ending) -> tuple[Text, tuple[Worth, ...]] | None:
    """Why logs without an error are not "no error", and the lines worth reading; None if there is no error in them.

    Kernel logs alone answer for themselves.
    """
    logs = [log for log in job_logs(case) if log.size_bytes]
    said = _unread(case) or _unknown_words(logs) or _unrecognised(logs, last) or _only_dumps(case, logs)
    if not said:
        return None
    found = [(worth.order, number, worth.line, worth) for number, log in enumerate(logs) for worth in log.end.worth]
    return said, tuple(each[3] for each in sorted(found, key=lambda each: each[:3])[:_MOST_WORTH])


def _unread(case: Case) -> Text | None:
    """The logs that were not read, or not to their end, with the reason of the first."""
    lost = {log.part_of or log.name: log.remarks.lost for log in case.logs if log.remarks.lost}
    logs = [*(Text(why, why) for why in case.unread), *(Note(why, (name,)).text for name, why in lost.items())]
    if not logs:
        return None
    count, first = len(logs), logs[0]
    return Text(
        f"cannot tell: no error in what could be read, but {counted(count, 'log')} could not be, or not all of it:"
        f" {cut(first.en, 160)}",
        f"无法判断：可读部分没有错误，但有 {count} 个日志未能读取或未能完整读取：{cut(first.zh, 160)}",
    )


def _unknown_words(logs: Sequence[Log]) -> Text | None:
    """The last words of a writer that look like a failure and that no row knows."""
    ends = (log.tail.end for log in logs if not log.finished and log.tail and log.tail.fails)
    first = next((end.unknown_word for end in ends if end.unknown_word), None)
    if first is None:
        return None
    said = f'{first.log}:{first.line}: "{cut(first.text, 120)}"'
    return Text(
        f"cannot tell: the last words of a log look like a failure that nodegate does not know: {said}",
        f"无法判断：日志的最后一行像是故障，但 nodegate 不认识：{said}",
    )


def _unrecognised(logs: Sequence[Log], last: Ending) -> Text | None:
    if not logs or any(log.finished or _goes_on(log) or log.end.works for log in logs):
        return None
    lines = sum(log.lines for log in logs)
    if last.iteration is None:
        count = counted(lines, "line")
        return Text(f"cannot tell: nothing was recognised in {count}", f"无法判断：{lines} 行中没有可识别的内容")
    return Text(
        f"cannot tell: nothing was recognised after iteration {last.iteration}",
        f"无法判断：第 {last.iteration} 次迭代之后没有可识别的内容",
    )


def _only_dumps(case: Case, logs: Sequence[Log]) -> Text | None:
    """What dumps and reports say that show no rank to be late: they are of one moment."""
    if logs or not (case.found.dumps or case.found.reports):
        return None
    if near := next((each.text for each in case.found.ras), None):
        return Text(
            f"cannot tell: {near.en}; a job that goes on looks so too: it hangs if the next report is the same",
            f"无法判断：{near.zh}；正常运行的作业也可能如此：若下一次报告相同，则为挂起",
        )
    if count := len(case.found.dumps):
        ranks = counted(count, "rank")
        return Text(
            f"cannot tell: no rank waited in a collective when the flight recorder was dumped ({ranks})",
            f"无法判断：flight recorder 转储时没有 rank 在集合通信中等待（{count} 个 rank）",
        )
    return Text(
        "cannot tell: no rank was missing or behind when NCCL was asked", "无法判断：查询 NCCL 时没有 rank 缺失或落后"
    )


def _goes_on(log: Log) -> bool:
    """Whether the last lines of a log are not long after its last iteration."""
    done = log.iteration.stamp if log.iteration else None
    if done is None or log.last is None or done.zoned != log.last.zoned:
        return log.iteration is not None
    return log.last.epoch_s - done.epoch_s <= _QUIET_S
