"""What an engine is: three things, behind which the rest of nodegate does not know one from another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nodegate.scheduler.hold import Holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nodegate.node import Node
    from nodegate.transport.call import Request
    from nodegate.transport.session import Output, Session

BUSY = "has_gpu_jobs"  # the group of nodes whose GPUs were given to jobs when the inventory was read


@dataclass(frozen=True)
class Answer:
    """What a node answered, and when it was received, in seconds since 1970 by the controller's clock."""

    output: Output
    received_epoch_s: float


@dataclass(frozen=True)
class Obstacle:
    """What an engine's own settings do to a run on these nodes, and the next step; `stops`: no run reaches them."""

    nodes: tuple[str, ...]
    what: str
    next_step: str
    stops: bool = False


@dataclass(frozen=True)
class Member:
    """A pod of a job, the node that it is or was on ("": none yet), and which of the job's it is, from 0."""

    pod: str
    namespace: str
    node: str
    rank: int | None


class Reach(Holder, Protocol):
    """The way of one run to its nodes: `hold` lends them for all of the run, `give_back` is its end.

    Safe to use from several threads.
    """

    def connect(self, node: Node) -> Session:
        """A session with a node that is held. Each program in it has the node's lease.

        Raises:
            Unreachable: it is not held, or not reached.
        """
        ...

    def at_once(self, request: Request, nodes: Sequence[Node]) -> Mapping[str, Answer]:
        """The answers of one short program on many nodes, by the inventory's names: of those that have sent their end.

        Only for what may be repeated: one bad node may end the program on others. What is missing is asked for node
        by node. An engine that cannot do it in less than one call a node returns nothing.
        """
        ...


class Engine(Protocol):
    """One engine: the value ENGINE of a module in `registry.ENGINES`."""

    def listing(self, asked: Sequence[str]) -> Mapping[str, object]:
        """The nodes of an inventory source, as `ansible-inventory --list` prints them.

        `asked` are the words behind the engine's name (NAME:[WORD,...]); none for all nodes. Each host has
        ansible_connection, and what the engine knows of its place: nodegate_rack, nodegate_leaf. Its groups are those
        of the engine: partitions, features, pools.

        Raises:
            UsageError: the engine does not answer here, or does not know a word.
        """
        ...

    def reach(self, nodes: Sequence[Node]) -> Reach:
        """The way to these nodes, all of which have this engine's name as their connection. Asks nothing yet."""
        ...

    def obstacles(self, nodes: Sequence[Node]) -> Iterable[Obstacle]:
        """What to know before a run on these nodes, all of which have this engine's name as their connection."""
        ...

    def holder(self, nodes: Sequence[Node]) -> Holder | None:
        """Who holds these nodes while they are under load; None where `reach` lends them for all of a run."""
        ...


@dataclass(frozen=True)
class Ended:
    """A launch: its exit code (None: it was ended after its time), and what it printed, 1 MiB of each at most."""

    exit_code: int | None
    stdout: str
    stderr: str


class Job(Protocol):
    """A job: its name, its nodes in the scheduler's order, and the GPUs of each (0: the scheduler does not say)."""

    @property
    def job(self) -> str: ...  # noqa: D102

    @property
    def nodes(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def gpus(self) -> int: ...  # noqa: D102

    def step(self, nodes: Sequence[str], ranks: int, words: Sequence[str], limit_s: float, network: str = "") -> Ended:
        """A program with so many ranks on each of these nodes, beside whatever else runs in the job.

        `network` is where ranks of MPI meet, as `measure.groups.settings.networks` says it; empty: not known.
        """
        ...
