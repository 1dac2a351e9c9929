"""A start that fails on all nodes alike: the launch is at fault, and no node."""

# ruff: noqa: RUF001 - Chinese punctuation
from collections.abc import Sequence

from nodegate.inventory.hostlist import fold
from nodegate.knowledge.words import Cause, Role, Text
from nodegate.triage.candidates import apart
from nodegate.triage.episodes import Ending
from nodegate.triage.events import Event
from nodegate.triage.reading import Case
from nodegate.triage.reasons import AT_START
from nodegate.triage.root import Root

_WITHIN_S = 60.0
_SHARE = 0.9  # of the nodes that started
_FEWEST = 2
_MOST_SHOWN = 8
_CAUSES = (Cause.HOST, Cause.ENVIRONMENT, Cause.UNKNOWN)
_OF_A_CLUSTER = ("k8s_", "slurm_node", "slurm_cancelled")  # these say what was done to each node or pod
ACTION = Text(
    "look at what these nodes share (image, versions, settings, launcher, network), not at one node",
    "查这些节点共有的部分（镜像、版本、设置、启动器、网络），而不是某一个节点",
)


def alike(root: Root, last: Ending, case: Case) -> tuple[str, ...]:
    """The nodes or pods of a job that made no progress, if 90 % of them, two at least, met the same error in a minute.

    Empty if they did not, or if the error names another one than who met it.
    """
    first = root.event
    if first is None or root.named or root.beside or last.iteration is not None or not _can_be_shared(first):
        return ()
    alike = [each for each in last.events if each.kind.id == first.kind.id]
    met = {_machine(each) for each in alike if None in (each.began_s, first.began_s) or apart(each, first) <= _WITHIN_S}
    met -= {""}
    started = {_machine(each) for each in last.events} | {node for log in case.logs for node in log.nodes}
    started |= set(case.found.names.node_of_rank.values())
    started = {case.found.names.home.get(name, name) for name in started} - {""}
    return tuple(sorted(met)) if len(met) >= max(_FEWEST, _SHARE * len(started | met)) else ()


def _can_be_shared(event: Event) -> bool:
    fits = event.kind.cause in _CAUSES and event.kind.role in (Role.PRIMARY, Role.EITHER)
    return fits and event.kind.id not in AT_START and not event.kind.id.startswith(_OF_A_CLUSTER)


def _machine(event: Event) -> str:
    return event.place.node or event.place.pod


def meaning(nodes: Sequence[str], said: Text) -> Text:
    """What happened, with the nodes by name, or folded where there are many."""
    names = ", ".join(nodes) if len(nodes) <= _MOST_SHOWN else fold(nodes)
    return Text(
        f"all {len(nodes)} nodes that tried fail alike at the start ({names}): {said.en}",
        f"启动时所有 {len(nodes)} 个节点都同样失败（{names}）：{said.zh}",
    )
