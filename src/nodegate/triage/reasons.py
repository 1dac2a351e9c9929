"""The sentences of an answer, in English and Chinese: what, why it is the root cause, what to do."""

# ruff: noqa: RUF001 - Chinese punctuation
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nodegate.knowledge.words import UNKNOWN_LINES, Cause, Side, Text
from nodegate.triage import waits
from nodegate.triage.clock import shown
from nodegate.triage.episodes import SKEW_S, Ending
from nodegate.triage.events import Event
from nodegate.triage.place import Place, same_node
from nodegate.triage.reading import Case
from nodegate.triage.root import Root
from nodegate.triage.silence import AT_START, late_start
from nodegate.triage.wording import cut, lasting, later, rank_list

CLASS = {
    Cause.HARDWARE: Text("hardware", "硬件故障"),
    Cause.FABRIC: Text("fabric", "网络互联故障"),
    Cause.STORAGE: Text("storage", "存储故障"),
    Cause.HOST: Text("host", "主机系统问题"),
    Cause.ENVIRONMENT: Text("environment", "运行环境问题"),
    Cause.PROGRAM: Text("program", "程序问题"),
    Cause.UNKNOWN: Text("unknown", "未知"),
}
# Nothing failed: neither a node nor the code is to be looked at.
_ON_PURPOSE = frozenset(("slurm_limit", "stopped_by_hangup", "stopped_by_interrupt"))
_OF_AN_EARLIER_RUN = "rerun_other_gpu"  # this job ran elsewhere: not its node is bad
_OLD_KERNEL = "accelerate_kernel"
_VERSION = re.compile(r"kernel version ([0-9.]{1,20}),")
NOBODY = Text("nothing here speaks against a node", "日志中没有节点故障的迹象")


@dataclass(frozen=True)
class Read:
    """How much was read. `kernel_nodes` are the nodes whose kernel logs were read to their end."""

    job_logs: int
    kernel_logs: int
    kernel_nodes: tuple[str, ...]
    ranks: int
    lines: int
    size_bytes: int
    dumps: int = 0  # of flight recorders


def sentence(root: Root, cause: Cause, *, sure: bool, fine: bool, where: Place, meaning: Text, read: Read) -> Text:
    """The answer in one sentence."""
    if said := _without_a_class(root, cause, where, meaning):
        return said
    node = where.node or where.pod or "?"
    maybe, maybe_zh = ("", "") if sure else ("perhaps ", "可能是")
    if root.event is not None and root.event.kind.id == _OF_AN_EARLIER_RUN:
        return Text("hardware, in the run before this one", "硬件故障（在上一次运行中）").with_detail(meaning)
    if cause is Cause.HARDWARE:
        gap = " " if meaning.zh[:1].isascii() else ""  # before a Latin word, as Chinese is set
        off = _named(where)
        return Text(
            f"{maybe}hardware: move the job off {off.en} because {meaning.en}",
            f"{maybe_zh}硬件故障：把作业移出 {off.zh}，因为{gap}{meaning.zh}",
        )
    if cause is Cause.PROGRAM and fine:
        seen = any(same_node(where.node, each) for each in read.kernel_nodes)
        said = Text("the nodes are fine", "节点正常") if seen else NOBODY
        return Text(f"{said.en}: look at the code: {meaning.en}", f"{said.zh}，请检查代码：{meaning.zh}")
    at, at_zh = (f" ({node})", f"（{node}）") if where.node or where.pod else ("", "")
    return Text(f"{maybe}{CLASS[cause].en}{at}: {meaning.en}", f"{maybe_zh}{CLASS[cause].zh}{at_zh}：{meaning.zh}")


def _without_a_class(root: Root, cause: Cause, where: Place, meaning: Text) -> Text | None:
    """The answer where no class of fault is named; None where one is."""
    known = root.event.kind.id if root.event else ""
    if not known and not root.hangs and not root.follows:
        return Text("no error in these logs", "这些日志中没有错误")
    if known in _ON_PURPOSE:
        return NOBODY.with_detail(meaning)
    if cause is not Cause.UNKNOWN:
        return None
    if known in UNKNOWN_LINES:
        rank, rank_zh = ("", "") if where.rank is None else (f" (rank {where.rank})", f"（rank {where.rank}）")
        return Text(f"cannot tell{rank}", f"无法判断{rank_zh}").with_detail(meaning)
    return Text("the cause is not in these logs", "这些日志中看不出原因").with_detail(meaning)


def _named(where: Place) -> Text:
    if where.node:
        return Text(where.node, where.node)
    of = f"pod {where.pod}" if where.pod else f"rank {where.rank}" if where.rank is not None else ""
    if of:
        return Text(f"the node of {of}", f"{of} 所在节点")
    if where.local_rank is not None:
        return Text(f"the node (local rank {where.local_rank})", f"该节点（本地 rank {where.local_rank}）")
    return Text("its node", "该节点")


def why(root: Root, last: Ending, case: Case) -> Iterator[Text]:
    """Why this is the root cause."""
    first = root.event or root.hang
    if first is None and not root.stall:
        if not root.hangs and not root.follows:
            yield from _ends(last, case)
        return
    for call, called_by in root.mismatch.called[:6] if root.mismatch else ():
        yield Text(f"rank {rank_list(called_by)}: {call}", f"rank {rank_list(called_by)}：{call}")
    yield from _stalled(root, case)
    if first is None:
        return
    if first.ran_s and first.printed_s is not None:
        ran = lasting(first.ran_s)
        yield Text(f"its time-out was printed {ran.en} after the hang began", f"挂起开始 {ran.zh}后才打印超时")
    ranks = rank_list(root.laggards.ranks) if root.laggards else ""
    if root.laggards and root.laggards.sign == "behind":
        yield Text(f"rank {ranks} had enqueued the least work", f"rank {ranks} 提交的任务最少")
    elif root.laggards and root.laggards.sign == "silent":
        are = "are the ones that report" if len(root.laggards.ranks) > 1 else "is the one that reports"
        yield Text(f"rank {ranks} {are} no time-out", f"只有 rank {ranks} 没有报告超时")
    yield from _may_matter(root, last, case)
    if root.event is not None:
        yield from _why_first(root.event, last)
    yield from _witnesses(root, case)
    if last.progress_s is not None and last.overcome:
        yield Text("earlier errors do not count: the training continued after them", "更早的错误不计：其后训练仍在推进")


def _witnesses(root: Root, case: Case) -> Iterator[Text]:
    """The kernel message that names the device, and who names the peer by which NIC of its own."""
    if root.beside is not None:  # the first error itself is quoted elsewhere
        quoted = f"{root.beside.log}:{root.beside.line}: {cut(root.beside.text, 120)}"
        clock = shown(root.beside.began_s, zone_s=case.clocks.shown_s).partition(" ")[2]
        at, at_zh = (f" at {clock}", f"在 {clock} ") if clock else ("", "")
        yield Text(f"the kernel log of its node says{at}: {quoted}", f"该节点的内核日志{at_zh}报告：{quoted}")
    if root.named and root.event is not None:
        nic = root.event.device
        by, by_zh = (f", by its {nic}", f"（经其 {nic}）") if nic else ("", "")
        yield Text(f"{_who(root.event)} reports it first{by}", f"{_who(root.event)} 最先报告{by_zh}")


def _ends(last: Ending, case: Case) -> Iterator[Text]:
    """Why there is no error: how the job ended, and what it got over."""
    if last.overcome:
        yield Text("there are errors, but the training continued after them", "有错误，但其后训练仍在推进")
    if any(log.finished for log in case.logs):
        yield Text("the training came to its end", "训练正常结束")
    elif last.iteration is not None:
        yield Text("the logs do not say whether the job still runs", "日志未说明作业是否仍在运行")


def _may_matter(root: Root, last: Ending, case: Case) -> Iterator[Text]:
    """What a log says about itself or its start that can be the reason of a hang."""
    versions = (_VERSION.search(event.text) for event in last.events if event.kind.id == _OLD_KERNEL)
    found = ", ".join(sorted({match[1] for match in versions if match}))
    if found and (root.hangs or root.event is None):
        yield Text(
            f"the node's kernel is {found}, below 5.5: accelerate warns that jobs can hang; update the kernel",
            f"节点内核为 {found}，低于 5.5：accelerate 提示可能导致作业挂起；请升级内核",
        )
    waits = root.event is not None and root.event.kind.id in AT_START
    late = late_start(case) if waits or root.unstarted else None
    if late and late.late_s is None:
        yield Text(f"{late.who} never came to its launcher", f"{late.who} 一直没有启动")
    elif late and late.late_s is not None:
        after, who = lasting(late.late_s), f"{late.who} (worker {late.rank})"
        zh = f"{late.who}（worker {late.rank}）比第一个 worker 晚 {after.zh}启动"
        yield Text(f"{who} came to its launcher {after.en} after the first worker", zh)
    yield from list(case.clocks.doubts())[:3]
    yield from list(case.clocks.guesses())[:1]


def _stalled(root: Root, case: Case) -> Iterator[Text]:
    """What the flight recorders and NCCL itself show, beside an error or of the hang itself."""
    if root.ras and not root.asked:
        yield Text("ncclras", "ncclras").with_detail(root.ras.text)
    if root.stall is None:
        return
    if root.event is not None and not root.stall.mismatch:
        yield Text("flight recorder", "flight recorder").with_detail(waits.meaning(root.stall))
    yield from waits.why(root.stall, case.clocks.shown_s)


def _why_first(first: Event, last: Ending) -> Iterator[Text]:
    """What followed, and how much later."""
    if first.began_s is None:
        yield Text("no line before it in its log explains it", "其日志中此前没有能解释它的错误")
        return
    others = [
        event
        for event in last.events
        if event != first and event.began_s is not None and event.kind.id not in UNKNOWN_LINES
    ]
    hangs = [event for event in others if event.ran_s]
    if hangs:
        yield _hang_after(first, min(hangs, key=lambda event: event.began_s or 0.0))
    users = [event for event in others if not event.ran_s and event.kind.side is Side.USER]
    if users and first.kind.side is Side.KERNEL:
        user = min(users, key=lambda event: abs(_after(event, first)))
        line = cut(user.text, 100)
        if user.after_s is not None:  # it only was printed after that
            yield Text(f"{_who(user)} reported, without a time: {line}", f"{_who(user)} 报告（无时间）：{line}")
            return
        when = later(_after(user, first))
        yield Text(f"{_who(user)} reported {when.en}: {line}", f"{when.zh} {_who(user)} 报告：{line}")
    elif not hangs and any(_after(event, first) < -SKEW_S for event in others):
        yield Text("it is the earliest error that can be the cause", "它是可能作为原因的错误中最早的")
    elif not hangs:
        yield Text("it is the earliest error in these logs", "它是这些日志中最早的错误")


def _after(event: Event, first: Event) -> float:
    """By how many seconds an event began after the first error."""
    return (event.began_s or 0.0) - (first.began_s or 0.0)


def _hang_after(first: Event, hang: Event) -> Text:
    """The hang that came of an error; an error without a time of its own was put where the hang began."""
    if first.about:
        ran = lasting(hang.ran_s)
        return Text(
            f"the collectives hang; their time-outs were printed {ran.en} after the hang began",
            f"集合通信随之挂起；挂起 {ran.zh}后才打印超时",
        )
    began, spoke = later(_after(hang, first)), later((hang.printed_s or 0.0) - (first.began_s or 0.0))
    return Text(
        f"the collectives began to hang {began.en}; their time-outs were printed {spoke.en}",
        f"{began.zh}集合通信开始挂起；{spoke.zh}打印超时",
    )


def _who(event: Event) -> str:
    return f"rank {event.place.rank}" if event.place.rank is not None else event.place.node or event.log
