"""What happened first and what to do now, as sentences in English and Chinese."""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.knowledge.words import UNKNOWN_LINES, Cause, Role, Text
from nodegate.triage.clock import shown
from nodegate.triage.details import foreign_memory
from nodegate.triage.groups import rank_list

if TYPE_CHECKING:
    from nodegate.triage.collectives import Mismatch
    from nodegate.triage.events import Event
    from nodegate.triage.place import Place
    from nodegate.triage.reading import Case
    from nodegate.triage.root import Root

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
_HANG_ACTION = Text(
    "give the logs and kernel logs of all ranks: who did not come to the collective is the one to look at",
    "请提供所有 rank 的日志与内核日志：没有进入该集合通信的 rank 才是要查的对象",
)
_SILENT_ACTION = Text(
    "look at this node and its kernel log first; then run pytest --profile troubleshoot on it",
    "先查该节点及其内核日志；再对其运行 pytest --profile troubleshoot",
)
_UNSTARTED_ACTION = Text(
    "on the nodes of these ranks look at nvidia-fabricmanager, the NICs and NCCL_SOCKET_IFNAME; run nodegate's checks",
    "在这些 rank 的节点上查 nvidia-fabricmanager、网卡与 NCCL_SOCKET_IFNAME；并运行 nodegate 检查",
)
_WORN_ACTION = Text(
    "drain the node and run field diagnostics on this GPU; if they pass, run the same programs on another GPU",
    "下线节点并对该 GPU 做现场诊断；若通过，在其他 GPU 上运行相同程序对比",
)
_ALL_CAME_ACTION = Text(
    "every rank reached the collective but the data did not arrive: run nodegate's NCCL and NIC checks on its nodes",
    "所有 rank 都已进入但数据未到：请对本作业节点运行 nodegate 的 NCCL 与网卡检查",
)


def meaning(root: Root, where: Place, case: Case) -> Text:
    """What happened first."""
    if root.mismatch:
        return _of_mismatch(root.mismatch)
    if root.hangs:
        return _of_hang(root, case)
    if root.event is None:
        return _ONLY_FOLLOWS if root.follows else _NOTHING
    return _of_event(root, root.event, where)


def _of_event(root: Root, event: Event, where: Place) -> Text:
    if root.programs:
        count, names = len(root.programs), ", ".join(root.programs[:4])
        return Text(
            f"{count} different programs ({names}) met an Xid of applications on this one GPU: suspect the GPU",
            f"{count} 个不同程序（{names}）都在这一块 GPU 上遇到应用类 Xid：应怀疑该 GPU",
        )
    if event.kind.id in UNKNOWN_LINES:
        return Text(f"{event.kind.meaning.en}: {event.text[:160]}", f"{event.kind.meaning.zh}：{event.text[:160]}")
    said = (root.beside or event).kind.meaning if _beside_tells(root) else event.kind.meaning
    if root.named:
        whom = where.node or where.pod
        return Text(f"{root.named_by} of {root.complaining} ranks that complain name {whom}: {said.en}",
                    f"{root.complaining} 个报错 rank 中有 {root.named_by} 个指向 {whom}：{said.zh}")  # fmt: skip
    if event.kind.id == "cuda_oom_foreign" and (foreign := foreign_memory(event.text)):
        return Text(
            f"{said.en}: process {foreign[0]} has {foreign[1]:.1f} GiB",
            f"{said.zh}：进程 {foreign[0]} 占用 {foreign[1]:.1f} GiB",
        )
    return said


def _of_mismatch(mismatch: Mismatch) -> Text:
    sequence = mismatch.sequence
    return Text(
        f"the ranks called different collectives at SeqNum {sequence}",
        f"各 rank 在 SeqNum {sequence} 调用了不同的集合通信",
    )


def _of_hang(root: Root, case: Case) -> Text:
    if root.silent:
        who = f"{root.silent.who}{f' (rank {rank_list(root.silent.ranks)})' if root.silent.ranks else ''}"
        last, others = (shown(when, zone_s=case.zone_s) for when in (root.silent.last_s, root.silent.others_s))
        return Text(
            f"{who} stopped first: it wrote nothing after {last}, the others went on until {others} without progress",
            f"{who} 最先停止：{last} 之后没有输出，其他日志到 {others} 为止没有进展",
        )
    if root.unstarted:
        ranks, done = rank_list(root.unstarted.ranks), root.unstarted.completed
        return Text(
            f"rank {ranks} began NCCL's start and did not complete it (Init START without Init COMPLETE; {done} of"
            f" {root.unstarted.world} ranks did)",
            f"rank {ranks} 开始了 NCCL 初始化但没有完成（有 Init START 无 Init COMPLETE；"
            f"{root.unstarted.world} 个 rank 中 {done} 个已完成）",
        )
    if root.laggards:
        ranks = rank_list(root.laggards.ranks)
        return Text(f"rank {ranks} did not reach a collective", f"rank {ranks} 没有进入集合通信")
    if root.came:
        return Text("a collective hangs although every rank reached it", "所有 rank 都已进入，但集合通信仍然挂起")
    ranks = rank_list(root.timed_out) or "?"
    return Text(
        f"a collective hangs: rank {ranks} timed out, and whether the other ranks came to it is not known",
        f"集合通信挂起：rank {ranks} 超时，其他 rank 是否进入该集合通信未知",
    )


def _beside_tells(root: Root) -> bool:
    return root.beside is not None and root.event is not None and root.event.kind.cause is Cause.UNKNOWN


def action(root: Root) -> Text:
    """What to do now."""
    if root.mismatch:
        return _MISMATCH_ACTION
    if root.hang:
        return _LAGGARD_ACTION if root.laggards else _ALL_CAME_ACTION if root.came else _HANG_ACTION
    if root.hangs:
        return _SILENT_ACTION if root.silent else _UNSTARTED_ACTION
    if root.programs:
        return _WORN_ACTION
    if root.event is None:
        return _LOOK_ELSEWHERE
    return (root.beside if root.beside and root.beside.kind.role is Role.PRIMARY else root.event).kind.action
