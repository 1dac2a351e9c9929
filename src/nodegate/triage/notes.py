"""The notes of an answer: what is to be known of the logs before it is believed, and what was left out."""

# ruff: noqa: RUF001 - Chinese punctuation
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from nodegate.kernel_log.unknown_errors import unknown_errors
from nodegate.knowledge.failure_modes import failure_modes
from nodegate.knowledge.signatures import signatures
from nodegate.knowledge.words import Cause, Side, Text
from nodegate.text import counted
from nodegate.triage.clock import shown
from nodegate.triage.events import Event
from nodegate.triage.reading import Case
from nodegate.triage.remarks import Note
from nodegate.triage.wording import cut

_MOST_UNREAD = 20
_OF_DEVICES = (Cause.HARDWARE, Cause.FABRIC)
_KERNEL = "--kernel NODE=FILE"
NO_KERNEL_LOG = Text(
    f"no kernel log was given: what the nodes' GPUs and NICs reported is not known; add {_KERNEL}",
    "没有提供内核日志，节点的 GPU 与网卡报告了什么未知；请加 --kernel 节点=文件",
)


def kernel_log_helps(cause: Cause, modes: Iterable[str]) -> bool:
    """Whether the nodes' kernel logs could say more of an error: not of a name, a version or a full disk."""
    return cause in (*_OF_DEVICES, Cause.UNKNOWN) or not _modes_of_devices().isdisjoint(modes)


@cache
def _modes_of_devices() -> frozenset[str]:
    """The failure modes that kernel messages of GPUs, switches and NICs show."""
    rows = (row for row in signatures() if row.side is Side.KERNEL and row.cause in _OF_DEVICES)
    known = failure_modes()
    return frozenset(mode for row in rows for mode in row.failure_modes if known[mode].cause is not Cause.HOST)


def notes(case: Case, faults: Sequence[Event], *, why: Iterable[Text], do: Text | None, sure: bool) -> tuple[Note, ...]:
    """The notes. `faults` are kernel messages of another time; what `why` or `do` say already is not said again.

    `do` is what to do now; None if nothing failed or kernel logs could not say more. Where the cause is not `sure`,
    what kernels said that no row knows is reported too.
    """
    said = set(why)
    asks = do is not None and _KERNEL not in do.en
    strange = [] if sure else list(_strange(case))
    return tuple(note for note in (*_all(case, faults, asks=asks), *strange) if note.text not in said)


def _strange(case: Case) -> Iterator[Note]:
    """For each kernel log, how many kinds of errors it has that no row knows, and the first of them."""
    for log in [log for log in case.logs if log.kernel][:_MOST_UNREAD]:
        shapes = list(unknown_errors(log.strange).values())
        if shapes:
            kinds, first = counted(len(shapes), "kind"), cut(shapes[0][0].text, 120)
            yield Note(
                Text(
                    f"{kinds} of kernel messages that sound like an error and that nodegate does not know, the first:"
                    f' "{first}"',
                    f"有 {len(shapes)} 种像是错误、但 nodegate 不认识的内核消息，第一条：“{first}”",
                ),
                (log.name,),
            )


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
        yield Note(
            Text(
                f"{counted(count, 'file')} skipped, the first: {path}: {why.en}",
                f"跳过 {count} 个文件，第一个：{path}：{why.zh}",
            )
        )
    if case.found.left_out:
        count = case.found.left_out
        yield Note(
            Text(
                f"{counted(count, 'more kind')} of error left out: there are too many",
                f"错误种类过多，另有 {count} 种未计入",
            )
        )


def _of_logs(case: Case) -> Iterator[Note]:
    """The same remark about several logs is one note."""
    said: dict[Text, list[str]] = {}
    for log in case.logs:
        for remark in log.remarks.said:
            said.setdefault(remark, []).append(log.name)
    yield from (Note(remark, tuple(names)) for remark, names in said.items())


def _of_another_time(faults: Sequence[Event], case: Case) -> Text:
    last = faults[-1]
    where, when = last.place.node or last.log, shown(last.printed_s, zone_s=case.zone_s)
    are = "is" if len(faults) == 1 else "are"
    return Text(
        f"{counted(len(faults), 'kernel message')} of a fault {are} of another time than the job; the last:"
        f" {where}, {when}: {cut(last.text, 80)}",
        f"有 {len(faults)} 条内核故障消息不在作业期间；最后一条：{where}，{when}：{cut(last.text, 80)}",
    )
