"""The sentences of an answer, in English and Chinese: what, why it is the root cause, what to do."""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.knowledge.words import Cause, Role, Side, Text
from nodegate.triage.clock import lasting
from nodegate.triage.groups import rank_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodegate.triage.collectives import Laggards
    from nodegate.triage.episodes import Ending
    from nodegate.triage.events import Event
    from nodegate.triage.place import Place
    from nodegate.triage.root import Root

CLASS = {
    Cause.HARDWARE: Text("hardware", "硬件"),
    Cause.FABRIC: Text("fabric", "网络互联"),
    Cause.STORAGE: Text("storage", "存储"),
    Cause.HOST: Text("host", "主机系统"),
    Cause.PROGRAM: Text("program", "程序"),
    Cause.UNKNOWN: Text("unknown", "未知"),
}
_ONLY_FOLLOWS = Text("they show only what follows an error", "只看到后续现象，没有首个错误")
_NOTHING = Text("the logs contain no error", "日志中没有错误")
_LOOK_ELSEWHERE = Text(
    "add the nodes' kernel logs (--kernel) and the logs of all ranks; then run pytest --profile troubleshoot",
    "请提供各节点内核日志（--kernel）和所有 rank 的日志；然后检查节点：pytest --profile troubleshoot",
)
_MISMATCH_ACTION = Text(
    "compare what these ranks do before this collective: branches, data lengths, frozen or skipped layers",
    "比较这些 rank 在该集合通信之前的行为：分支、数据长度、冻结或跳过的层",
)
_LAGGARD_ACTION = Text(
    "inspect this rank while it hangs (py-spy dump, /proc/PID/stack) and run pytest --profile troubleshoot on its node",
    "在挂起时查看该 rank（py-spy dump、/proc/PID/stack），并对其节点运行 pytest --profile troubleshoot",
)
_ALL_CAME_ACTION = Text(
    "every rank reached the collective but the data did not arrive: run nodegate's NCCL and NIC checks on its nodes",
    "所有 rank 都已进入但数据未到：请对本作业节点运行 nodegate 的 NCCL 与网卡检查",
)


@dataclass(frozen=True)
class Read:
    """How much was read."""

    job_logs: int
    kernel_logs: int
    kernel_nodes: tuple[str, ...]
    ranks: int
    lines: int
    size_bytes: int


def meaning(root: Root, where: Place) -> Text:
    """What happened first."""
    if root.mismatch:
        sequence = root.mismatch.sequence
        return Text(
            f"the ranks called different collectives at SeqNum {sequence}",
            f"各 rank 在 SeqNum {sequence} 调用了不同的集合通信",
        )
    if root.hang:
        if root.laggards is None:
            return Text("a collective hangs although every rank reached it", "所有 rank 都已进入，但集合通信仍然挂起")
        ranks = rank_list(root.laggards.ranks)
        return Text(f"rank {ranks} did not reach a collective", f"rank {ranks} 没有进入集合通信")
    if root.event is None:
        return _ONLY_FOLLOWS if root.follows else _NOTHING
    said = (root.beside or root.event).kind.meaning if _beside_tells(root) else root.event.kind.meaning
    if root.named:
        return Text(f"{root.named_by} of {root.complaining} ranks that complain name {where.node}: {said.en}",
                    f"{root.complaining} 个报错 rank 中有 {root.named_by} 个指向 {where.node}：{said.zh}")  # fmt: skip
    return said


def _beside_tells(root: Root) -> bool:
    return root.beside is not None and root.event is not None and root.event.kind.cause is Cause.UNKNOWN


def action(root: Root) -> Text:
    """What to do now."""
    if root.mismatch:
        return _MISMATCH_ACTION
    if root.hang:
        return _LAGGARD_ACTION if root.laggards else _ALL_CAME_ACTION
    if root.event is None:
        return _LOOK_ELSEWHERE
    return (root.beside if root.beside and root.beside.kind.role is Role.PRIMARY else root.event).kind.action


def sentence(root: Root, cause: Cause, *, sure: bool, fine: bool, where: Place, meaning: Text, read: Read) -> Text:
    """The answer in one sentence."""
    if root.event is None and root.hang is None and not root.follows:
        return Text("no error in these logs", "这些日志中没有错误")
    node = where.node or "?"
    maybe, maybe_zh = ("", "") if sure else ("perhaps ", "可能是")
    if cause is Cause.HARDWARE:
        return Text(
            f"{maybe}hardware: move the job off {_named(where, 'en')} because {meaning.en}",
            f"{maybe_zh}硬件故障：把作业移出 {_named(where, 'zh')}，因为{meaning.zh}",
        )
    if cause is Cause.PROGRAM and fine:
        en, zh = ("the nodes are fine", "节点正常")
        if not read.kernel_logs:
            en, zh = ("nothing here speaks against a node", "日志中没有节点故障的迹象")
        return Text(f"{en}: look at the code: {meaning.en}", f"{zh}，请检查代码：{meaning.zh}")
    if cause is Cause.UNKNOWN:
        return Text(f"the cause is not in these logs: {meaning.en}", f"这些日志中看不出原因：{meaning.zh}")
    at, at_zh = (f" ({node})", f"（{node}）") if where.node else ("", "")
    return Text(f"{maybe}{CLASS[cause].en}{at}: {meaning.en}", f"{maybe_zh}{CLASS[cause].zh}{at_zh}：{meaning.zh}")


def _named(where: Place, language: str) -> str:
    if where.node:
        return where.node
    if where.rank is not None:
        return f"the node of rank {where.rank}" if language == "en" else f"rank {where.rank} 所在节点"
    if where.local_rank is not None:
        return (
            f"the node (local rank {where.local_rank})"
            if language == "en"
            else f"该节点（本地 rank {where.local_rank}）"
        )
    return "its node" if language == "en" else "该节点"


def why(root: Root, last: Ending, read: Read) -> Iterator[Text]:
    """Why this is the root cause."""
    first = root.event or root.hang
    if first is None:
        if last.overcome:
            yield Text("there are errors, but the training continued after them", "有错误，但其后训练仍在推进")
        return
    for call, ranks in root.mismatch.called[:6] if root.mismatch else ():
        yield Text(f"rank {rank_list(ranks)}: {call}", f"rank {rank_list(ranks)}：{call}")
    if first.ran_s and first.printed_s is not None:
        ran = lasting(first.ran_s)
        yield Text(
            f"the watchdog spoke {ran} after the hang began",
            f"看门狗在 {ran} 后才报告：挂起开始于此前",
        )
    if root.laggards:
        yield _laggards(root.laggards)
    if root.event is not None:
        yield from _why_first(root.event, last)
    if root.beside is not None:
        yield _beside(root.beside)
    if last.progress_s is not None and last.overcome:
        yield Text("earlier errors do not count: the training continued after them", "更早的错误不计：其后训练仍在推进")
    if not read.kernel_logs:
        yield Text(
            "no kernel log was given, so the node's own messages are missing", "没有提供内核日志：缺少节点自身的记录"
        )


def _beside(said: Event) -> Text:
    return Text(
        f"the kernel of the same node says at that time: {said.text[:120]}",
        f"同一节点的内核同时报告：{said.text[:120]}",
    )


def _laggards(laggards: Laggards) -> Text:
    ranks = rank_list(laggards.ranks)
    if laggards.sign == "behind":
        return Text(f"rank {ranks} had enqueued the least work", f"rank {ranks} 提交的任务最少")
    return Text(f"rank {ranks} is the one that reports no time-out", f"只有 rank {ranks} 没有报告超时")


def _why_first(first: Event, last: Ending) -> Iterator[Text]:
    """What followed, and how much later."""
    others = [event for event in last.events if event != first and event.began_s is not None]
    hangs = [event for event in others if event.ran_s]
    if first.began_s is None:
        yield Text(
            "its line has no time; nothing before it in the log explains it",
            "该行没有时间；日志中此前没有能解释它的错误",
        )
        return
    if hangs:
        hang = min(hangs, key=lambda event: event.began_s or 0.0)
        began, spoke = (hang.began_s or 0.0) - first.began_s, (hang.printed_s or 0.0) - first.began_s
        yield Text(
            f"the collectives hang, starting {_apart(began)} it; their time-outs were printed {lasting(spoke)} later",
            f"集合通信在其{_apart_zh(began)}开始挂起；超时在 {lasting(spoke)} 后才打印",
        )
    users = [event for event in others if not event.ran_s and event.kind.side is Side.USER]
    if users and first.kind.side is Side.KERNEL:
        user = min(users, key=lambda event: abs((event.began_s or 0.0) - (first.began_s or 0.0)))
        late = (user.began_s or 0.0) - first.began_s
        yield Text(
            f"{_who(user)} reported it {_apart(late)}: {user.text[:100]}",
            f"{_who(user)} 随后报告（{_apart_zh(late)}）：{user.text[:100]}",
        )
    elif not hangs:
        yield Text("it is the earliest error on any rank and in any kernel log", "它是所有 rank 和内核日志中最早的错误")


def _who(event: Event) -> str:
    return f"rank {event.place.rank}" if event.place.rank is not None else event.place.node or event.log


def _apart(seconds: float) -> str:
    return f"{lasting(seconds)} {'after' if seconds >= 0 else 'before'}"


def _apart_zh(seconds: float) -> str:
    return f"{lasting(seconds)}{'后' if seconds >= 0 else '前'}"
