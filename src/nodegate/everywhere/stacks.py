"""Where the ranks of a hanging job are in their Python code: equal stacks together, the odd ones by node and rank."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.everywhere.fold import RULE
from nodegate.files.strict_json import loads
from nodegate.inventory.hostlist import fold, natural
from nodegate.node_program import node_source
from nodegate.text import counted, some, visible
from nodegate.toolbox.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nodegate.toolbox.carried import Carried
    from nodegate.transport import Session

SPARE_S = 5.0  # of the node's time limit, for what is not py-spy
MOST_FRAMES, MOST_NAMED = 24, 20  # that are shown
MOST_SIZE = 100_000  # ranks
Frames = tuple[tuple[str, str], ...]  # (function, file) from the innermost on
_STEP = "check the node with nodegate doctor"


@dataclass(frozen=True)
class Rank:
    """A process of the job: its number ("" where no launcher gave one), and the stack of its main thread.

    `others` are those of its other threads. `error` says why nothing was read.
    """

    node: str
    pid: int
    number: str
    size: str = ""
    frames: Frames = ()
    others: tuple[tuple[str, Frames], ...] = ()
    error: str = ""

    @property
    def name(self) -> str:
        """What people call it: "node3 rank 11 (pid 4242)"."""
        return f"{self.node} rank {self.number} (pid {self.pid})" if self.number else f"{self.node} pid {self.pid}"


@dataclass(frozen=True)
class OnNode:
    """What a node's ranks are doing; `hidden` Python processes belong to others and could not be read."""

    ranks: tuple[Rank, ...]
    hidden: int


@dataclass
class Stacks:
    """The ranks of all nodes, equal stacks together, the biggest group first."""

    ranks: list[Rank]
    hidden: int = 0
    groups: list[list[Rank]] = field(init=False)

    def __post_init__(self) -> None:
        self.ranks.sort(key=lambda rank: (natural(rank.number), natural(rank.node), rank.pid))
        alike: dict[Frames, list[Rank]] = {}
        for rank in self.ranks:
            if not rank.error:
                alike.setdefault(rank.frames, []).append(rank)
        self.groups = sorted(alike.values(), key=len, reverse=True)

    @property
    def odd(self) -> list[list[Rank]]:
        """The groups beside the one that more than half of all ranks are in; none where no group is so big."""
        most = len(self.groups[0]) if self.groups else 0
        return self.groups[1:] if 2 * most > len(self.ranks) else []

    @property
    def unread(self) -> list[Rank]:
        """The ranks of which no stack could be read."""
        return [rank for rank in self.ranks if rank.error]

    @property
    def twice(self) -> list[str]:
        """Numbers that several processes have: more than one job is on these nodes."""
        counts = Counter(rank.number for rank in self.ranks if rank.number)
        return [number for number, count in counts.items() if count > 1]

    @property
    def missing(self) -> list[str]:
        """The ranks that no node has, by the number of ranks that the others were started with."""
        sizes = {int(rank.size) for rank in self.ranks if rank.size}
        if len(sizes) != 1 or self.twice or max(sizes) > MOST_SIZE:
            return []
        there = {int(rank.number) for rank in self.ranks if rank.number}
        return [str(number) for number in range(max(sizes)) if number not in there]


def asker(carried: Carried | None, jobs: Sequence[str], limit_s: float) -> Callable[[Session], OnNode]:
    """What asks a node for the stacks of its ranks; py-spy is brought to it where it has none.

    That raises CannotMeasure: there is no py-spy, or no answer in time.
    """

    def ask(session: Session) -> OnNode:
        node = session.node
        tools = Toolbox(session, node, carried=carried)
        try:
            request = {"py_spy": list(tools.find("py-spy").argv), "jobs": list(jobs), "limit_s": limit_s - SPARE_S}
            output = session.run(
                [node.connection.python, "-I", "-S", "-c", node_source("tools.rank_stacks")],
                timeout_s=limit_s,
                stdin=json.dumps(request).encode(),
                as_root=node.connection.become,
            )
        finally:
            tools.close()
        if output.timed_out:
            raise CannotMeasure(f"its stacks were not read within {limit_s:g} s", next_step=_STEP, whose=node.name)
        return parse(node.name, output.stdout)

    return ask


def parse(node: str, printed: bytes) -> OnNode:
    """The answer of node_side/tools/rank_stacks.py.

    Raises:
        CannotMeasure: it is something else.
    """
    try:
        found = loads(printed)
        rows = found["ranks"]  # type: ignore[index]
        ranks = tuple(_rank(node, row) for row in rows)
        return OnNode(ranks, int(found["hidden"]))  # type: ignore[index]
    except (ValueError, TypeError, LookupError, RecursionError, AttributeError) as error:
        reason = f"its stacks are not in nodegate's form: {type(error).__name__}"
        raise CannotMeasure(reason, next_step=_STEP, whose=node) from None


def _rank(node: str, row: dict[str, object]) -> Rank:
    threads = [(bool(each["is_main"]), str(each["name"]), _frames(each["frames"])) for each in row["threads"]]  # type: ignore[attr-defined]
    main = next((frames for is_main, _, frames in threads if is_main), threads[0][2] if threads else ())
    others = tuple((name, frames) for is_main, name, frames in threads if not is_main)
    number, size = (str(int(text)) if (text := str(row[key])).isdecimal() else "" for key in ("rank", "size"))
    error = str(row["error"]) or ("" if main else "it has no Python stack")
    return Rank(node, int(row["pid"]), number, size, main, others, error)  # type: ignore[call-overload]


def _frames(rows: Iterable[Sequence[object]]) -> Frames:
    return tuple((str(function), str(file)) for function, file in rows)


def lines(found: Stacks) -> Iterator[str]:
    """The groups for people, then the odd ranks, those that were not read, and those that are missing."""
    for group in found.groups:
        nodes = fold(rank.node for rank in group)
        yield from (RULE, visible(f"{_counted(group)} on {nodes}"), RULE)
        frames = group[0].frames
        yield from (visible(f"  {function} ({file})") for function, file in frames[:MOST_FRAMES])
        if len(frames) > MOST_FRAMES:
            yield f"  [and {len(frames) - MOST_FRAMES} frames more]"
    yield RULE
    yield f"{counted(len(found.ranks), 'rank')}: {counted(len(found.groups), 'stack')} of their main threads"
    for group in found.odd:
        where = f"{group[0].frames[0][0]} ({group[0].frames[0][1]})"
        yield visible(f"odd: {some((rank.name for rank in group), MOST_NAMED)}: in {where}")
    if not found.odd and len(found.groups) > 1:
        yield "no stack is that of more than half of the ranks: none is called odd"
    yield from _not_known(found)


def _not_known(found: Stacks) -> Iterator[str]:
    for reason, ranks in _by_error(found.unread).items():
        yield visible(f"not read: {some((rank.name for rank in ranks), MOST_NAMED)}: {reason}")
    if found.missing:
        yield f"no process: rank {_plain(found.missing)}: it has ended, or its node was not asked"
    if found.twice:
        yield f"several processes are rank {_plain(found.twice)}: more than one job? name it with --job"
    if found.hidden:
        step = "log in as root, or set ansible_become"
        yield f"{counted(found.hidden, 'Python process')} of other users could not be looked at - {step}"


def _by_error(ranks: Iterable[Rank]) -> dict[str, list[Rank]]:
    found: dict[str, list[Rank]] = {}
    for rank in ranks:
        found.setdefault(rank.error.replace(str(rank.pid), "PID"), []).append(rank)
    return found


def _counted(group: Sequence[Rank]) -> str:
    numbers = [rank.number for rank in group if rank.number]
    named = f": {_plain(numbers)}" if numbers else ""
    return f"{counted(len(group), 'rank')}{named}"


def _plain(numbers: Iterable[str]) -> str:
    return fold(numbers).strip("[]")


def as_json(found: Stacks) -> dict[str, object]:
    """The stacks in `nodegate.exec/1`."""
    odd = {id(group) for group in found.odd}
    return {
        "groups": [
            {
                "is_odd": id(group) in odd,
                "nodes": fold(rank.node for rank in group),
                "frames": [list(frame) for frame in group[0].frames],
                "ranks": [_row(rank) for rank in group],
            }
            for group in found.groups
        ],
        "unread": [{**_row(rank), "error": rank.error} for rank in found.unread],
        "missing": found.missing,
        "several": found.twice,
        "hidden": found.hidden,
    }


def _row(rank: Rank) -> dict[str, object]:
    others = [{"thread": name, "frames": [list(frame) for frame in frames]} for name, frames in rank.others]
    return {"node": rank.node, "rank": rank.number, "pid": rank.pid, "other_threads": others}
