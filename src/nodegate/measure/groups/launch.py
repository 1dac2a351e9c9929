"""One launch of nccl-tests over several nodes: its command line, its run from the head, and the clean-up after it.

A rank on another node is not a child process of the controller. Three things end it with the controller: mpirun or
srun, which the guard of the head ends; a few lines of shell around each rank, which end it when its daemon is gone or
its time limit is reached; and a program on each node (node_side/tools/end_ranks.py), which ends with the connection and
then kills processes with the mark.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce

from nodegate.errors import CannotMeasure
from nodegate.launchers import LAUNCHERS
from nodegate.launchers.launcher import Launcher
from nodegate.measure.durations import Durations
from nodegate.measure.groups.group_node import GroupNode
from nodegate.measure.groups.plan import Group
from nodegate.measure.groups.settings import networks
from nodegate.measure.measurement import Target
from nodegate.measure.nccl.launches import DEVICE, RING_SETTINGS
from nodegate.measure.nccl.run import MIB, UNSET, Sweep
from nodegate.measure.program_run import run
from nodegate.node_program import node_source
from nodegate.records.program_run import LaunchPlan, Plan, ProgramRun
from nodegate.transport.call import printable

SWEEP_LIMIT_S = 15.0
RANK_EXTRA_S = 20  # after the launch's own time limit a rank ends by itself
SHOWN_NODES = 64
WHOLE_UP_TO = 8  # up to this group size each node keeps the whole output
OF_RANKS = "[... {count} lines of ranks left out by nodegate: the evidence of the head has them ...]\n"

# $1: the mark, $2: seconds, $3: whether NCCL says what it uses; then the rank. The first rank on a node says that it
# is there, and its NCCL the rest. A rank ends when its daemon or this shell is gone, and at its time limit. The daemon
# is looked for in /proc, where it is visible: Slurm's is root's and cannot be signalled. What watches ends with it.
_LOCAL_RANK = reduce(lambda other, each: f"${{{each.local_rank}:-{other}}}", reversed(LAUNCHERS.values()), "0")
RANK = (
    f"""\
NODEGATE_LAUNCH=$1; export NODEGATE_LAUNCH
left=$2; says=$3; shift 3
place={_LOCAL_RANK}
"""
    """\
[ "$place" = 0 ] && echo "nodegate: ranks begin on $(uname -n)" >&2
NCCL_DEBUG=WARN; NCCL_DEBUG_FILE=; export NCCL_DEBUG NCCL_DEBUG_FILE
if [ "$says$place" = yes0 ]; then
  NCCL_DEBUG=INFO; NCCL_DEBUG_SUBSYS=INIT,NET; export NCCL_DEBUG_SUBSYS
fi
"$@" </dev/null &
rank=$!
trap 'kill -TERM $rank 2>/dev/null' TERM INT HUP
seen=; [ -d "/proc/$PPID" ] && seen=yes
(
  trap '' TERM INT HUP
  while [ "$left" -gt 0 ] && kill -0 $rank && kill -0 $$; do
    [ -n "$seen" ] && [ ! -d "/proc/$PPID" ] && break
    sleep 1
    left=$((left - 1))
  done
  kill -TERM $rank && sleep 1 && kill -KILL $rank
) >/dev/null 2>&1 &
watch=$!
wait $rank; code=$?
while kill -0 $rank 2>/dev/null; do wait $rank; code=$?; done
kill -KILL $watch 2>/dev/null
exit $code
"""
)


@dataclass(frozen=True)
class Launch:
    """What is run over a group: the collective, its sizes, its time limit in seconds."""

    collective: str
    sweep: Sweep
    limit_s: float


def sweep(durations: Durations, *, rdma: bool, short: bool = False) -> Sweep:
    """Which sizes are run: a link of 25 Gb/s carries 4 GiB in 1.4 s, and 64 MiB are enough to fill one.

    `short`: one size a few times, which shows whether a part of a group succeeds.
    """
    judged = (64 if not rdma else 4096 if durations.group_s >= 300.0 else 1024) * MIB
    if short:
        return Sweep(judged, judged, iterations=3, warmup=1)
    return Sweep(judged // 4, judged, iterations=10, warmup=3)


def words(launch: Launch, members: Sequence[GroupNode], launcher: Launcher, mark: str) -> tuple[str, ...]:
    """The whole command line. The settings of ranks are given by `env` after their shell, the same for all launchers.

    The first of `members` is the head, where rank 0 runs and the launch is started; `launcher` is its own. By `mark`
    all processes are found.
    """
    head = members[0]
    unset = [word for name in (*UNSET, *RING_SETTINGS) for word in ("-u", name)]
    network = head.settings.network or networks([member.door for member in members])
    settings = dict(launcher.for_ranks(network))
    says = "yes" if _says(launch, len(members)) else "no"
    rank = ("sh", "-c", RANK, "nodegate-rank", mark, str(int(launch.limit_s) + RANK_EXTRA_S), says)
    program = ("env", *unset, *(f"{name}={value}" for name, value in settings.items()))
    program = (*program, head.programs[launch.collective], *launch.sweep.options, "-g", "1")
    hosts = [member.host for member in members]
    return (*launcher.start(hosts, head.gpus, network, launch.limit_s), *rank, *program)


def _says(launch: Launch, count: int) -> bool:
    """Whether NCCL says what it uses: once is enough, and a big group would print too much."""
    return launch.collective == "all_reduce" and count <= WHOLE_UP_TO


def run_group(launch: Launch, group: Group, members: Sequence[GroupNode], mark: str) -> ProgramRun:
    """Launch, wait, and clean up on every node if it did not end by itself.

    Raises:
        Unreachable: the connection to the head broke.
        CannotMeasure: it cannot be launched.
    """
    for member in members:
        if launch.collective in member.missing:
            raise member.missing[launch.collective]
    head, launcher = head_of(members)
    ordered = [head, *(member for member in members if member is not head)]
    argv = words(launch, ordered, launcher, mark)
    plan = plan_of(launch, group, ordered)
    return run(head.target.session, launch.collective, argv, timeout_s=launch.limit_s, plan=plan)


def head_of(members: Sequence[GroupNode]) -> tuple[GroupNode, Launcher]:
    """The first node that can launch, and its launcher. Raises CannotMeasure: none can."""
    for member in members:
        if not isinstance(member.launcher, CannotMeasure):
            return member, member.launcher
    why = [member.launcher for member in members if isinstance(member.launcher, CannotMeasure)]
    raise why[0] if why else CannotMeasure("no node can start the launch", next_step="install openmpi-bin")


def plan_of(launch: Launch, group: Group, members: Sequence[GroupNode]) -> Plan:
    """The nodes and options of the launch: what parsing needs in addition to the text."""
    names = tuple(member.name for member in members)
    of_group = LaunchPlan(
        group=group.name,
        kind=group.kind,
        head=names[0],
        nodes=names[:SHOWN_NODES],
        count=len(names),
        good=tuple(sorted(group.good)[:SHOWN_NODES]),
        gpus_of_node=members[0].gpus,
        turns=launch.sweep.iterations + launch.sweep.warmup,
        builds=len({member.build for member in members}),
        asks_transports=_says(launch, len(members)),
        one_domain=bool(members[0].domain) and len({member.domain for member in members}) == 1,
        settings=members[0].settings.said if members[0].settings.environment else "",
    )
    return Plan(
        gpus=sum(member.gpus for member in members),
        size_bytes=launch.sweep.judged_bytes,
        limit_s=round(launch.limit_s, 1),
        launch=of_group,
    )


def keep_argv(target: Target) -> list[str]:
    """The command of group_keep.py on a node."""
    return [target.node.connection.python, "-I", "-S", "-c", node_source("tools.end_ranks")]


def keep_request(mark: str, *, stay: bool) -> bytes:
    """The input of group_keep.py: not as arguments, by which it would find itself."""
    return json.dumps({"mark": mark, "stay": stay}).encode()


def sweep_node(target: Target, mark: str) -> tuple[str, ...]:
    """End what a launch left behind on a node; what cannot be ended is named.

    Raises:
        Unreachable: the connection broke; the node's own keeper does it then.
    """
    output = target.session.run(keep_argv(target), timeout_s=SWEEP_LIMIT_S, stdin=keep_request(mark, stay=False))
    with suppress(ValueError, TypeError, LookupError, RecursionError):
        stuck = json.loads(output.stdout)["stuck"]
        return tuple(printable(str(each).encode(), 100) for each in stuck[:20])
    return ()


def for_node(ran: ProgramRun, node: str, stuck: tuple[str, ...] = ()) -> ProgramRun:
    """The run as one node keeps it: of a big group only the head keeps every line and the whole command."""
    ran = replace(ran, stuck=(*ran.stuck, *stuck))
    plan = ran.plan.launch
    if plan is None or plan.head == node or plan.count <= WHOLE_UP_TO:
        return ran
    return replace(ran, stdout=_without_devices(ran.stdout), argv=(), stderr=ran.stderr[:4096])


def _without_devices(text: str) -> str:
    lines = text.splitlines(keepends=True)
    devices = [place for place, line in enumerate(lines) if DEVICE.search(line)]
    gone = frozenset(devices[:-1])
    note = {devices[0]: OF_RANKS.format(count=len(gone))} if gone else {}
    return "".join(note.get(place, "") if place in gone else line for place, line in enumerate(lines))
