"""NCCL over made-up nodes: launched by the measurement itself, over sessions that answer as nodes with MPI would.

Who is launched with whom, who is looked for in halves and what each node keeps is the measurement's own doing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple, TypeVar

from fleet.changes import changes
from fleet.load import boards, nccl
from fleet.load.plan import BEGIN_S, BURN_S, Attempts, near
from fleet.machine import Machine, facts_of
from fleet.racks import racks
from nodegate.errors import CannotMeasure
from nodegate.measure.groups.launch import RANK, WHOLE_UP_TO
from nodegate.measure.groups.plan import PAIR
from nodegate.measure.groups.result import NAMES, parse
from nodegate.measure.groups.run import NCCL_GROUPS
from nodegate.measure.measurement import Target
from nodegate.measure.nccl.run import Sweep
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.numbers.assessments import Doubt, Suspects
from nodegate.records.program_run import Attempt, ProgramRun
from nodegate.records.taken_key import TakenKey
from nodegate.toolbox.tool_list import CublasPlaces, how_to_get, lacks
from nodegate.toolbox.toolbox import Tool
from nodegate.transport.session import NodeLock, Output

T = TypeVar("T")
NAME = "nccl_groups"
AGAIN = 2  # a suspect is measured so often once more
_FOLDER = "/opt/nccl-tests/build"
_MPIRUN = "/usr/bin/mpirun"
_PID = 20412
_LEFT_OUT = "..."  # of the command line: the lines of shell around each rank, and the mark of a run
_SUSPECT_BELOW = 0.95  # of what good nodes reach


@dataclass
class Shape:
    """What a node brings to a group: the shares of the bandwidth that it reaches, and whether it ends at all."""

    shares: dict[str, float]
    hangs: bool = False
    missing: bool = False


def recorded(machines: Sequence[Machine]) -> Mapping[str, Attempts]:
    """What the launches left on each node: the first time, and twice more on suspects with nodes that passed."""
    taking_part = [machine for machine in machines if NAME not in machine.load.refused]
    where = racks(machine.name for machine in machines)
    found: dict[str, list[Attempt]] = {machine.name: [] for machine in taking_part}
    suspects: Suspects = dict.fromkeys(found, ())
    for attempt in range(1 + AGAIN):
        made = {machine.name: _made(machine, attempt) for machine in taking_part}
        nodes = [Node(machine.name, expected={"rack": where[machine.name]}) for machine in taking_part]
        facts = [facts_of(machine) for machine in taking_part]
        targets = [
            Target(node, _Session(node, made), each, _Tools(made[node.name]), nccl.LENGTH)  # type: ignore[arg-type]
            for node, each in zip(nodes, facts, strict=True)
        ]
        runs = NCCL_GROUPS.again(targets, _Crew(), suspects) if attempt else NCCL_GROUPS.measure(targets, _Crew())
        for name in [name for name in suspects if name in runs]:
            tidy = tuple(_tidy(ran, made[name].machine) for ran in runs[name].runs)
            found[name].append(replace(runs[name], runs=tidy))
        suspects = _suspects(found, {name: each.good for name, each in made.items()})
    return found


@changes
def slower(shape: Shape, share: float, *whats: str) -> None:
    """A node with which these collectives, or all of them, reach only this share of their bandwidth."""
    for what in whats or tuple(shape.shares):
        shape.shares[what] *= share


def hangs(shape: Shape) -> None:
    """Nothing ends that the node takes part in."""
    shape.hangs = True


def no_tool(shape: Shape) -> None:
    """nccl-tests is not on the node."""
    shape.missing = True


class _Made(NamedTuple):
    machine: Machine
    shape: Shape
    good: Mapping[str, tuple[float, float]]
    attempt: int


def _made(machine: Machine, attempt: int) -> _Made:
    figures = boards.of(machine.sections["nvml"]["gpus"])
    good = dict(zip(("all_reduce", "alltoall", "sendrecv"), figures.groups, strict=True))
    shape = Shape(dict.fromkeys(good, 1.0))
    machine.load.apply(NAME, attempt, shape)
    return _Made(machine, shape, good, attempt)


def _suspects(
    found: Mapping[str, Sequence[Attempt]], good: Mapping[str, Mapping[str, tuple[float, float]]]
) -> dict[str, tuple[Doubt, ...]]:
    """The nodes that gave no number, or one that is clearly below what good nodes of their kind reach together."""
    suspects: dict[str, tuple[Doubt, ...]] = {}
    for name, attempts in found.items():
        metrics = _metrics(attempts)
        doubts = []
        for metric in metrics:
            what = next((what for what, named in NAMES.items() if named == metric.name), "")
            enough = _SUSPECT_BELOW * good[name][what][metric.conditions["group"] != PAIR] if what else 0.0
            doubts += [Doubt(metric, enough)] if metric.best < enough else []
        if doubts or not metrics:
            suspects[name] = tuple(doubts)
    return suspects


def _metrics(attempts: Sequence[Attempt]) -> Sequence[Metric]:
    try:
        return parse(attempts).metrics
    except CannotMeasure:
        return ()


def _tidy(ran: ProgramRun, machine: Machine) -> ProgramRun:
    """As if it had been launched at the time of the demo, and without what is new in every run."""
    words = (_LEFT_OUT if word == RANK or word.startswith("nodegate-launch-") else word for word in ran.argv)
    started_s = 0.0 if ran.cannot or not ran.plan.launch else machine.epoch_s + BEGIN_S + BURN_S + 120
    return replace(ran, argv=tuple(words), started_epoch_s=started_s)


class _Crew:
    """Does one job after the other."""

    cancelled = False

    def at_once(self, jobs: Mapping[str, Callable[[], T]]) -> dict[str, T | CannotMeasure]:
        done: dict[str, T | CannotMeasure] = {}
        for name, job in jobs.items():
            try:
                done[name] = job()
            except CannotMeasure as why:  # noqa: PERF203 - a job's failure is its own
                done[name] = why
        return done


class _Tools:
    """nccl-tests with MPI, and Open MPI to launch them, unless the node lacks the first."""

    def __init__(self, made: _Made) -> None:
        self._missing = made.shape.missing

    def find(self, *names: str) -> Tool:
        if names[0] == "mpirun":
            return Tool("mpirun", (_MPIRUN,), "PATH")
        if self._missing:
            raise CannotMeasure(f"no {names[0]} was found", next_step=how_to_get(names), lacks=lacks(names))
        return Tool(names[0], (f"{_FOLDER}/{names[0]}",), _FOLDER)

    def has(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset(names)

    def cublas(self) -> CublasPlaces:
        return CublasPlaces()

    def close(self) -> None:
        pass


class _Keeper:
    """What keeps a node clean, as long as it is there."""

    def line(self) -> str:
        return "kept"

    def ended(self, within_s: float) -> bool:
        return False

    def stop(self) -> Output:
        return Output(b"", b"", 0, 0.1)


class _Session:
    """A node that answers what the measurement asks of it."""

    def __init__(self, node: Node, made: Mapping[str, _Made]) -> None:
        self.node, self._made = node, made
        self.taken_keys: tuple[TakenKey, ...] = ()

    def run(self, argv: Sequence[str], **_: object) -> Output:
        if _MPIRUN in argv and "-H" in argv:
            return self._launched(list(argv))
        if "nodegate-look" in argv:
            version = nccl.nccl_of(self._made[self.node.name].machine)
            said = f"launcher mpirun (Open MPI) 4.1.6\nprogram 5d0c6a1b77e2\nnccl {_digest(version)}\n"
            own = f"10.20.0.{sorted(self._made).index(self.node.name) + 1}"
            said += f"means {own}\naddress bond0 {own}/16\naddress docker0 172.17.0.1/16\n"
            return Output(said.encode(), b"", 0, 0.4)
        return Output(b'{"stuck": []}', b"", 0, 0.2)

    def start(self, argv: Sequence[str], **_: object) -> _Keeper:
        return _Keeper()

    def hold_lock(self, *_: object, **__: object) -> NodeLock:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def _launched(self, argv: list[str]) -> Output:
        nodes = [self._made[host.partition(":")[0]] for host in argv[argv.index("-H") + 1].split(",")]
        path = next(word for word in argv if word.startswith(_FOLDER))
        least, most, times, warmup = (int(argv[argv.index(option) + 1]) for option in ("-b", "-e", "-n", "-w"))
        collective = path.removeprefix(f"{_FOLDER}/").removesuffix("_perf_mpi")
        ended = not any(made.shape.hangs for made in nodes)
        lines = _printed(collective, nodes, Sweep(least, most, times, warmup), ended=ended)
        text = "".join(f"{line}\n" for line in lines)
        return Output(text.encode(), b"", 0 if ended else None, 11.8 if ended else nccl.LENGTH.group_s, not ended)


def _printed(collective: str, nodes: Sequence[_Made], chosen: Sweep, *, ended: bool) -> Iterator[str]:
    version = nccl.nccl_of(nodes[0].machine)
    yield from nccl.header(collective, chosen, version, 1)
    gpus = [(made.machine, gpu) for made in nodes for gpu in made.machine.sections["nvml"]["gpus"]]
    for number, (machine, gpu) in enumerate(gpus):
        yield nccl.rank(machine, gpu, number, _PID + gpu["index"])
    yield f"NCCL version {version}+cuda12.4"
    if collective == "all_reduce" and len(nodes) <= WHOLE_UP_TO:
        for place, made in enumerate(nodes):
            yield from _transports([each.machine for each in nodes], place * len(gpus) // len(nodes), made.machine)
    if ended:
        names = (f"{made.machine.name} {made.attempt}" for made in nodes)
        good = nodes[0].good[collective][len(nodes) > 2]
        noise = boards.of([gpu for _, gpu in gpus]).noise.groups
        slowest = min(made.shape.shares[collective] for made in nodes)
        yield from nccl.table(collective, near(good * slowest, noise, collective, *names), chosen, len(gpus))


def _transports(machines: Sequence[Machine], rank: int, machine: Machine) -> Iterator[str]:
    """What NCCL says on a node of its ways to the others."""
    domains = {str(_domain(each)) for each in machines}
    mnnvl = len(domains) == 1 and set(domains.pop()) - set("0-") != set()
    start = f"{machine.name}:{_PID}:{_PID} [0] NCCL INFO "
    count = len(machine.sections["nvml"]["gpus"])
    ranks = sum(len(each.sections["nvml"]["gpus"]) for each in machines)
    yield f"{start}Using network IB"
    yield (
        f"{start}comm 0x55d0c8a3b2f0 rank {rank} nRanks {ranks} nNodes {1 if mnnvl else len(machines)} "
        f"localRanks {ranks if mnnvl else count} localRank {rank if mnnvl else 0} MNNVL {int(mnnvl)}"
    )
    if not mnnvl:
        yield f"{start}Channel 00/0 : {(rank - 1) % ranks}[{count - 1}] -> {rank}[0] [receive] via NET/IB/0/GDRDMA"


def _domain(machine: Machine) -> str:
    """The cluster of its first GPU; empty where it has none."""
    fabric = machine.sections["nvml"]["gpus"][0].get("fabric")
    return str(fabric.get("cluster_uuid", "")) if isinstance(fabric, dict) else ""


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]
