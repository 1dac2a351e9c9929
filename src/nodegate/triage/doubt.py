"""The answer where no error was found and nothing shows that the job is well: "cannot tell", and what to read."""

# ruff: noqa: RUF001 - Chinese punctuation
from collections.abc import Sequence
from dataclasses import dataclass

from nodegate.knowledge.words import Text
from nodegate.text import counted
from nodegate.triage.episodes import Ending, job_logs
from nodegate.triage.log import Log
from nodegate.triage.reading import Case
from nodegate.triage.recognised import Worth
from nodegate.triage.remarks import Note
from nodegate.triage.wording import cut

_MOST_WORTH = 40
_QUIET_S = 3600.0  # an evaluation or a checkpoint after the last iteration
ACTION = Text(
    "read these lines: the last ones, and those that name an exception, a host, a rank or an address",
    "请阅读下列原文：最后几行，以及提到异常、主机、rank 或地址的行",
)


@dataclass(frozen=True)
class Doubt:
    """Why the logs give no all-clear, in one sentence, and the lines that are worth reading."""

    sentence: Text
    worth: tuple[Worth, ...]


def doubt(case: Case, last: Ending) -> Doubt | None:
    """Why logs without an error are not "no error"; None if they are. Kernel logs alone answer for themselves."""
    logs = [log for log in job_logs(case) if log.size_bytes]
    said = _unread(case) or _unknown_words(logs) or _unrecognised(logs, last) or _only_dumps(case, logs)
    return Doubt(said, _worth(logs)) if said else None


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
    words = [word for log in logs if not log.finished and (word := log.unknown_word)]
    if not words:
        return None
    first = words[0]
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


def _worth(logs: Sequence[Log]) -> tuple[Worth, ...]:
    """The lines that say the most, in the order of the logs."""
    found = [(worth.order, number, worth.line, worth) for number, log in enumerate(logs) for worth in log.end.worth]
    best = sorted(found, key=lambda each: each[:3])[:_MOST_WORTH]
    return tuple(each[3] for each in best)
