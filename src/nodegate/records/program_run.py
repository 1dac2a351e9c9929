"""What ran on a node for a measurement: what was asked of each program, what it printed, what was noted of it.

None, 0 or empty: not said. Rates are Gb/s, latencies µs, sizes bytes, times seconds by the controller's clock. Of what
did not run, `cannot` is the reason without the node or host that it is about (`whose`), and `lacks` the code of what
was not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(str, Enum):
    """One of the two programs of a link; one of its two ends."""

    SERVER = "server"
    CLIENT = "client"


class Memory(str, Enum):
    """Where the buffers of a link's programs are."""

    HOST = "host"
    GPU = "gpu"


class Path(str, Enum):
    """Whether a link joins two nodes, or two NICs of one."""

    BETWEEN = "between"
    INSIDE = "inside"


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """One link, as the node sees it that keeps the run: its own `device` and `role`, and the other end."""

    peer: str  # a node
    peer_device: str = ""
    role: Role = Role.CLIENT
    device: str = ""
    round: str = ""
    memory: Memory = Memory.HOST
    path: Path = Path.BETWEEN
    of_another_rail: bool = False  # its NIC met one of another rail, because its own is down or absent


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One launch over several nodes. Of many nodes `nodes` and `good` are the first ones; `count` is how many."""

    group: str
    kind: str = ""  # pair, rack, fleet, apart or part
    head: str = ""  # where rank 0 runs and the launch is started
    nodes: tuple[str, ...] = ()
    count: int = 0
    good: tuple[str, ...] = ()  # those that were known to be good
    gpus_of_node: int = 0
    turns: int = 0  # iterations of each size, warm-up included
    builds: int = 0  # how many different builds of the program the nodes have
    asks_transports: bool = False  # NCCL was asked to say what it uses
    one_domain: bool = False  # the nodes are in one NVLink domain
    settings: str = ""  # what the inventory sets for it


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked of one program: of the GPUs of a node, of a link, or of a group of nodes."""

    mode: str = ""  # of gpu_burn
    origin: str = ""  # where the tool was found
    version: str = ""  # of perftest
    gpus: int = 0
    size_bytes: int = 0  # the size that is judged
    limit_s: float | None = None
    link: LinkPlan | None = None
    launch: LaunchPlan | None = None


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """What was noted of the program at one end of a link, and of its port."""

    counted: tuple[int, ...] | None = None  # words sent and received before, then after; empty: they cannot be read
    cpus: str = ""  # that the kernel let it use
    near: str = ""  # the place of its NIC, if it ran there
    unbound: str = ""  # why it did not
    traffic_class: str = ""  # that the node itself forces on the port


@dataclass(frozen=True, slots=True)
class LinkNotes:
    """What was noted of a link's run.

    `peer_best` is what the other end reached with others in this test, `peer_best_way` in all transfers that went the
    same way; `peer_failed`: it was tried with others, without a number; `peer_passed`: it had passed before.
    """

    program: Role = Role.CLIENT  # whose output it is; the client's has the number
    server: LinkEnd = LinkEnd()
    client: LinkEnd = LinkEnd()
    lost: str = ""  # the node to which the connection broke
    peer_best: float | None = None
    peer_best_way: float | None = None
    peer_failed: bool = False
    peer_passed: bool = False


@dataclass(frozen=True, slots=True)
class LaunchNotes:
    """What the search for the node at fault noted of a launch, on this node."""

    blamed: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # nodes on the sides of a bad path, or behind bad uplinks
    searched: str = ""
    concerned: bool = False  # this node is one of `paths`
    left_out: tuple[str, ...] = ()  # without which it is good
    racks: int = 0
    slower: str = ""  # the node of a pair that is slow with good ones too
    time_us: int = 0  # of this node's slowest rank, where each node runs by itself


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One program, and what it printed; or why it did not run (`cannot`; then there is no output).

    `what` says which part of the measurement it is ("all_reduce", "all_reduce ring", "ib_write_bw"). `exit_code` is
    None if nodegate ended it. `stuck` names processes that could not be ended.
    """

    what: str
    argv: tuple[str, ...] = ()
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    timed_out: bool = False
    truncated: bool = False
    stuck: tuple[str, ...] = ()
    started_epoch_s: float = 0.0
    duration_s: float = 0.0
    cannot: str = ""
    next_step: str = ""
    lacks: str = ""
    whose: str = ""
    plan: Plan = Plan()
    link: LinkNotes = LinkNotes()
    launch: LaunchNotes = LaunchNotes()

    @property
    def why_not(self) -> str:
        """Why it did not run, with the node that it is about; empty if it did."""
        return f"{self.whose}: {self.cannot}" if self.whose else self.cannot


@dataclass(frozen=True, slots=True)
class MissingRail:
    """A rail of a node that is not measured, and why; `by_rule`: it is none of those that have to be."""

    device: str
    cannot: str
    next_step: str = ""
    by_rule: bool = False
    lacks: str = ""
    whose: str = ""

    @property
    def why_not(self) -> str:
        """Why it did not run, with the node that it is about; empty if it did."""
        return f"{self.whose}: {self.cannot}" if self.whose else self.cannot


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a measurement on one node: what was to be measured, and what ran; or why nothing could.

    `rails` were to be measured, with `partners` other nodes; `alone` says why there is no other node to launch with.
    """

    runs: tuple[ProgramRun, ...] = ()
    node: str = ""
    hostname: str = ""  # by which its ranks call the node, if it is another name
    rails: tuple[str, ...] = ()
    partners: int = 0
    missing: tuple[MissingRail, ...] = ()
    alone: str = ""
    cannot: str = ""
    next_step: str = ""
    lacks: str = ""
    whose: str = ""

    @property
    def began(self) -> bool:
        """Whether a program ran, or none had to. If not, the next look would find no more: a tool stays missing."""
        return bool(self.rails or self.alone) or any(not ran.cannot for ran in self.runs)
