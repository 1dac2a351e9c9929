"""What happened first and what to do now, as sentences in English and Chinese."""

# ruff: noqa: RUF001 - Chinese punctuation
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from shlex import quote

from nodegate.inventory.hostlist import fold
from nodegate.kernel_log import program_xids
from nodegate.knowledge import nvlink4
from nodegate.knowledge.words import UNKNOWN_LINES, Cause, Role, Text
from nodegate.knowledge.xid_lines import xid_said
from nodegate.triage import waits
from nodegate.triage.candidates import apart
from nodegate.triage.clock import shown
from nodegate.triage.details import LAST_ERROR
from nodegate.triage.episodes import Ending
from nodegate.triage.events import Event
from nodegate.triage.place import Place
from nodegate.triage.reading import Case
from nodegate.triage.root import Root
from nodegate.triage.silence import AT_START
from nodegate.triage.wording import cut, rank_list

_NVLINK = f"xid_{nvlink4.CODE}"
_CHECK = "pytest --inventory hosts.yaml --profile troubleshoot --nodes {nodes}"
_LOOK_ELSEWHERE = Text(
    f"give the logs of all ranks and the nodes' kernel logs (--kernel NODE=FILE); then check the nodes: {_CHECK}",
    f"请提供所有 rank 的日志和各节点内核日志（--kernel 节点=文件）；然后检查节点：{_CHECK}",
)
_MISMATCH_ACTION = Text(
    "compare what these ranks do before this collective: branches, data lengths, frozen or skipped layers",
    "比较这些 rank 在该集合通信之前的行为：分支、数据长度、冻结或跳过的层",
)
_LAGGARD_ACTION = Text(
    f"if these ranks still hang: py-spy dump --pid PID, cat /proc/PID/stack; then check their nodes: {_CHECK}",
    f"若这些 rank 仍在挂起：py-spy dump --pid PID、cat /proc/PID/stack；然后检查其节点：{_CHECK}",
)
_HANG_ACTION = Text(
    "give the logs of all ranks and their nodes' kernel logs (--kernel NODE=FILE): they show which is missing",
    "请提供所有 rank 的日志及其节点的内核日志（--kernel 节点=文件）：从中可以看出哪个 rank 没有进入该集合通信",
)
_SILENT_ACTION = Text(
    f"look at this node and its kernel log first; then check it: {_CHECK}",
    f"先查该节点及其内核日志；然后检查该节点：{_CHECK}",
)
_UNSTARTED_ACTION = Text(
    f"look at nvidia-fabricmanager, NICs and NCCL_SOCKET_IFNAME on the nodes of these ranks, and check them: {_CHECK}",
    f"在这些 rank 的节点上查 nvidia-fabricmanager、网卡与 NCCL_SOCKET_IFNAME，并检查节点：{_CHECK}",
)
_WITHIN_S, _SHARE, _FEWEST, _MOST_SHOWN = 60.0, 0.9, 2, 8  # the share of the nodes that started
_OF_A_LAUNCH = (Cause.HOST, Cause.ENVIRONMENT, Cause.UNKNOWN)
_OF_A_CLUSTER = ("k8s_", "slurm_node", "slurm_cancelled")  # these say what was done to each node or pod
LAUNCH_ACTION = Text(
    "look at what these nodes share (image, versions, settings, launcher, network), not at one node",
    "查这些节点共有的部分（镜像、版本、设置、启动器、网络），而不是某一个节点",
)
_ALL_CAME_ACTION = Text(
    f"every rank reached the collective, but the data did not arrive: check the nodes under load: {_CHECK} --active",
    f"所有 rank 都已进入但数据未到：请加负载检查节点：{_CHECK} --active",
)


def meaning(root: Root, where: Place, case: Case) -> Text:
    """What happened first."""
    if root.mismatch:
        at = f"SeqNum {root.mismatch.sequence}"
        return Text(f"the ranks called different collectives at {at}", f"各 rank 在 {at} 调用了不同的集合通信")
    if root.asked:
        return root.asked.text
    if root.hangs:
        return _of_hang(root, case)
    if root.names:
        return _of_peer(root, root.named, root.names.kind.meaning)
    if root.event is None:
        only = Text("they show only what follows an error", "只看到后续现象，没有首个错误")
        return only if root.follows else Text("the logs contain no error", "日志中没有错误")
    return _of_event(root, root.event, where)


def _of_event(root: Root, event: Event, where: Place) -> Text:
    if root.suspicion:
        return root.suspicion.words
    if event.kind.id in UNKNOWN_LINES:
        return event.kind.meaning.with_detail(cut(event.text, 160))
    said = _told(root.beside if root.beside and event.kind.cause is Cause.UNKNOWN else event)
    if root.named:
        return _of_peer(root, where.node or where.pod, said)
    reason = event.text.rpartition(LAST_ERROR)[2] if LAST_ERROR in event.text else ""
    return said.with_detail(cut(reason, 120)) if reason else said


def _told(event: Event) -> Text:
    """What the line means, with the part of the GPU or the link that it names."""
    said, unit = event.kind.meaning, ""
    if event.kind.id == _NVLINK:
        registers, unit = nvlink4.decode(event.text), nvlink4.link(event.text)
        said = registers.meaning if registers else said
    elif met := xid_said(event.text):
        unit = program_xids.unit_of(met)[0]
    return Text(f"{said.en} ({unit})", f"{said.zh}（{unit.replace('link', '链路')}）") if unit else said


def _of_peer(root: Root, peer: str, said: Text) -> Text:
    if root.complaining == 1:
        return Text(f"the rank that reports it names {peer}: {said.en}", f"报错的 rank 指向 {peer}：{said.zh}")
    return Text(
        f"{root.named_by} of {root.complaining} ranks that report it name {peer}: {said.en}",
        f"{root.complaining} 个报错 rank 中有 {root.named_by} 个指向 {peer}：{said.zh}",
    )


def _of_hang(root: Root, case: Case) -> Text:
    if root.silent:
        who, ranks = root.silent.who, rank_list(root.silent.ranks) if root.silent.ranks else ""
        of_ranks, of_ranks_zh = (f" (rank {ranks})", f"（rank {ranks}）") if ranks else ("", " ")
        last, others = (shown(when, zone_s=case.clocks.shown_s) for when in (root.silent.last_s, root.silent.others_s))
        return Text(
            f"{who}{of_ranks} stopped first: it wrote nothing after {last},"
            f" the others went on until {others} without progress",
            f"{who}{of_ranks_zh}最先停止：{last} 之后没有输出，其他日志到 {others} 为止没有进展",
        )
    if root.unstarted:
        ranks, done, world = rank_list(root.unstarted.ranks), root.unstarted.completed, root.unstarted.world
        return Text(
            f"rank {ranks} began NCCL's start and did not complete it (Init START without Init COMPLETE; {done} of"
            f" {world} ranks did)",
            f"rank {ranks} 开始了 NCCL 初始化但没有完成（有 Init START 无 Init COMPLETE；"
            f"{world} 个 rank 中 {done} 个已完成）",
        )
    if root.stall and (root.laggards is None or root.laggards.ranks == root.stall.behind):
        return waits.meaning(root.stall)
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


def action(root: Root, nodes: Sequence[str]) -> Text:
    """What to do now; `nodes` are those to be checked."""
    said, named = _action(root), quote(fold(nodes)) if nodes else "NODES"
    return Text(said.en.replace("{nodes}", named), said.zh.replace("{nodes}", named))


def _action(root: Root) -> Text:
    if root.mismatch:
        return _MISMATCH_ACTION
    if root.hang or root.stall or root.ras:
        return _LAGGARD_ACTION if root.laggards or root.asked else _ALL_CAME_ACTION if root.came else _HANG_ACTION
    if root.hangs:
        return _SILENT_ACTION if root.silent else _UNSTARTED_ACTION
    if root.suspicion:
        return root.suspicion.action
    if root.event is None:
        return _LOOK_ELSEWHERE
    told = root.beside if root.beside and root.beside.kind.role is Role.PRIMARY else root.event
    registers = nvlink4.decode(told.text) if told.kind.id == _NVLINK else None
    return registers.action if registers else told.kind.action


def alike(root: Root, last: Ending, case: Case) -> tuple[str, ...]:
    """The nodes or pods of a job that made no progress, if 90 % of them, two at least, met the same error in a minute.

    Then the launch is at fault, and no node. Empty if they did not, or if the error names another one than who met it.
    """
    first = root.event
    if first is None or root.named or root.beside or last.iteration is not None or first.kind.cause not in _OF_A_LAUNCH:
        return ()
    can_be_first = first.kind.role in (Role.PRIMARY, Role.EITHER)
    if not can_be_first or first.kind.id in AT_START or first.kind.id.startswith(_OF_A_CLUSTER):
        return ()
    said = [(each, each.place.node or each.place.pod) for each in last.events]
    same = [(each, machine) for each, machine in said if each.kind.id == first.kind.id and machine]
    met = {
        machine for each, machine in same if None in (each.began_s, first.began_s) or apart(each, first) <= _WITHIN_S
    }
    started = {machine for _, machine in said}.union(*(log.nodes for log in case.logs))
    started |= set(case.found.names.node_of_rank.values())
    started = {case.found.names.home.get(name, name) for name in started} - {""}
    return tuple(sorted(met)) if len(met) >= max(_FEWEST, _SHARE * len(started | met)) else ()


def of_launch(nodes: Sequence[str], said: Text) -> Text:
    """What happened on nodes that met it alike, which are named, or folded where there are many."""
    names = ", ".join(nodes) if len(nodes) <= _MOST_SHOWN else fold(nodes)
    return Text(
        f"all {len(nodes)} nodes that tried fail alike at the start ({names}): {said.en}",
        f"启动时所有 {len(nodes)} 个节点都同样失败（{names}）：{said.zh}",
    )


class Do(str, Enum):
    """What to do with the job."""

    WAIT = "wait"  # nothing shows that it ended: it goes on, or waits for its nodes
    STOP = "stop"  # it holds its nodes and does not get on
    RESTART = "restart"  # start it again, without the nodes named
    FIX = "fix"  # it would fail again: change something first


# What Slurm or Kubernetes did with a job on purpose, or did not do yet.
_BY_KIND = {"slurm_limit": Do.RESTART, "k8s_preempted": Do.RESTART, "k8s_unschedulable": Do.WAIT}


@dataclass(frozen=True)
class Advice:
    """What to do, as a program can act on it. `without` are nodes to leave out: only those of a fault that is sure."""

    do: Do
    without: tuple[str, ...]
    sure: bool

    @property
    def exclude(self) -> str:
        """The option for srun and sbatch; empty if no node is to be left out."""
        return f"--exclude={','.join(self.without)}" if self.without else ""


def advice(root: Root, cause: Cause, nodes: Sequence[str], *, failed: bool, sure: bool) -> Advice:
    """What to do, if `nodes` are those that the first error names."""
    event, of_nodes = root.event or root.hang, cause in (Cause.HARDWARE, Cause.FABRIC)
    if not failed:
        return Advice(Do.WAIT, (), sure)
    usual = Do.STOP if root.hangs else Do.RESTART if of_nodes or cause is Cause.UNKNOWN else Do.FIX
    do = _BY_KIND.get(event.kind.id, usual) if event else usual
    return Advice(do, tuple(nodes) if of_nodes and sure else (), sure)
