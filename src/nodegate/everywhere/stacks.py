"""Where the ranks of a hanging job are in their Python code: equal stacks together, the odd ones by node and rank."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from nodegate.errors import CannotMeasure
from nodegate.everywhere.fold import OUT, RULE
from nodegate.files.strict_json import loads
from nodegate.inventory.hostlist import fold, natural
from nodegate.node_program import node_source
from nodegate.text import counted, some, visible
from nodegate.toolbox.carried import Carried
from nodegate.toolbox.toolbox import Toolbox
from nodegate.transport import Session

SPARE_S = 5.0  # of the node's time limit, for what is not py-spy
MOST_FRAMES, MOST_NAMED, MOST_SIZE = 24, 20, 100_000  # frames and ranks that are shown, ranks of a job
_STEP = "check the node with nodegate doctor"


@dataclass(frozen=True)
class Rank:
    """A process of a job: its number ("" where no launcher gave one), and the stack of its main thread.

    `frames` are "function (file)" from the innermost one outwards; `error` says why there are none.
    """

    node: str
    pid: int
    rank: str
    size: str = ""
    frames: tuple[str, ...] = ()
    error: str = ""

    @property
    def name(self) -> str:
        """What people call it: "node3 rank 11 (pid 4242)"."""
        return f"{self.node} rank {self.rank} (pid {self.pid})" if self.rank else f"{self.node} pid {self.pid}"


OnNode = tuple[list[Rank], int]  # and how many Python processes of others could not be looked at


class Stacks:
    """The ranks of all nodes; `groups` have equal stacks, the biggest first."""

    def __init__(self, nodes: Iterable[OnNode]) -> None:
        told = list(nodes)
        self.hidden = sum(hidden for _, hidden in told)
        self.ranks = sorted(
            (rank for ranks, _ in told for rank in ranks), key=lambda rank: (natural(rank.rank), rank.node, rank.pid)
        )
        alike: dict[tuple[str, ...], list[Rank]] = {}
        for rank in self.ranks:
            alike.setdefault(rank.frames, []).append(rank)
        self.unread = alike.pop((), [])
        self.groups = sorted(alike.values(), key=len, reverse=True)
        has_most = bool(self.groups) and 2 * len(self.groups[0]) > len(self.ranks)
        self.odd = self.groups[1:] if has_most else []
        counts = Counter(rank.rank for rank in self.ranks if rank.rank)
        self.twice = [number for number, count in counts.items() if count > 1]
        sizes = {min(int(rank.size), MOST_SIZE) for rank in self.ranks if rank.size}
        whole = range(sizes.pop()) if len(sizes) == 1 and not self.twice else ()
        self.missing = [str(number) for number in whole if str(number) not in counts]

    def as_json(self) -> dict[str, object]:
        """The part `stacks` of `nodegate.exec/1`."""
        groups = [{"is_odd": each in self.odd, "ranks": [asdict(rank) for rank in each]} for each in self.groups]
        unread = [asdict(rank) for rank in self.unread]
        return {"groups": groups, "unread": unread, "missing": self.missing, "hidden": self.hidden}

    def lines(self) -> Iterator[str]:
        """The groups for people, then the odd ranks, those that were not read, and those that are missing."""
        for group in self.groups:
            numbers = _numbers(rank.rank for rank in group)
            nodes = fold(rank.node for rank in group)
            yield from (RULE, visible(f"{counted(len(group), 'rank')}{numbers} on {nodes}"), RULE)
            yield from (OUT + visible(frame) for frame in group[0].frames[:MOST_FRAMES])
            if (more := len(group[0].frames) - MOST_FRAMES) > 0:
                yield f"[and {more} frames more]"
        found = f"{counted(len(self.ranks), 'rank')}: {counted(len(self.groups), 'stack')} of their main threads"
        yield f"\n{found if self.ranks else 'no rank was found: no Python process has a number, or holds a GPU'}"
        for group in self.odd:
            yield visible(f"odd: {some((rank.name for rank in group), MOST_NAMED)}: in {group[0].frames[0]}")
        if not self.odd and len(self.groups) > 1:
            yield "no stack is that of more than half of the ranks: none is called odd"
        for why in dict.fromkeys(rank.error for rank in self.unread):
            names = some((rank.name for rank in self.unread if rank.error == why), MOST_NAMED)
            yield visible(f"not read: {names}: {why}")
        if self.missing:
            yield f"no process{_numbers(self.missing)}: it has ended, or its node was not asked"
        if self.twice:
            yield f"several processes have one number{_numbers(self.twice)}: more than one job? name it with --job"
        if self.hidden:
            step = "log in as root, or set ansible_become"
            yield f"{self.hidden} Python processes of other users could not be looked at - {step}"


def _numbers(numbers: Iterable[str]) -> str:
    listed = fold(filter(None, numbers)).strip("[]")
    return f": {listed}" if listed else ""


def asker(carried: Carried | None, jobs: Sequence[str], limit_s: float) -> Callable[[Session], OnNode]:
    """What asks a node for the stacks of its ranks; py-spy is brought to it, and removed again.

    That raises CannotMeasure: there is no py-spy, or no answer in time.
    """

    def ask(session: Session) -> OnNode:
        node = session.node
        tools = Toolbox(session, node, carried=carried)
        try:
            request = {"py_spy": tools.find("py-spy").argv, "jobs": list(jobs), "limit_s": limit_s - SPARE_S}
            argv = [node.connection.python, "-I", "-S", "-c", node_source("tools.rank_stacks")]
            sent, as_root = json.dumps(request).encode(), node.connection.become
            output = session.run(argv, timeout_s=limit_s, stdin=sent, as_root=as_root)
        finally:
            tools.close()
        if output.timed_out:
            raise CannotMeasure(f"its stacks were not read within {limit_s:g} s", next_step=_STEP)
        return parse(node.name, output.stdout)

    return ask


def parse(node: str, printed: bytes) -> OnNode:
    """The answer of node_side/tools/rank_stacks.py. Raises CannotMeasure: it is something else."""
    try:
        found = loads(printed)
        ranks = []
        for row in found["ranks"]:  # type: ignore[index]
            rank, size = (str(int(text)) if (text := str(row[key])).isdecimal() else "" for key in ("rank", "size"))
            frames = tuple(map(str, row["frames"]))
            error = "" if frames else str(row["error"]) or "it has no Python stack"
            ranks.append(Rank(node, int(str(row["pid"])), rank, size, frames, error))
        return ranks, int(found["hidden"])  # type: ignore[index]
    except (ValueError, TypeError, LookupError, RecursionError, AttributeError) as error:
        raise CannotMeasure(f"its stacks are not in nodegate's form: {type(error).__name__}", next_step=_STEP) from None
