"""The relevant content of the logs, each thing once: errors with their time and place, collectives, who is where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nodegate.knowledge.words import UNKNOWN_LINES, Cause, Role, Side, Signature
from nodegate.probe.jobs import Owner
from nodegate.triage.clock import Stamp
from nodegate.triage.place import Place

if TYPE_CHECKING:
    from nodegate.triage.flight_recorder import Dump
    from nodegate.triage.held_memory import Held
    from nodegate.triage.ras import Finding
    from nodegate.triage.recognised import Tail

MOST_EVENTS = 40_000  # that can be a first error; as many again that only follow
MOST_COLLECTIVES = 100_000
MOST_NAMES = 100_000
MOST_HELD = 8 << 20  # characters of the ends of logs, which are weighed when they are asked for
TEXT_SHOWN = 300
MOST_AROUND = 2000  # events with the lines around them
_VOLATILE = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")
_TEMPLATE_CHARACTERS = 160


@dataclass(frozen=True)
class Event:
    """One thing that a log says, `count` times.

    `stamp` is its own time; a line without one was printed `after` a time and `until` another one, as its neighbours
    say. `printed_s` is when (None: unknown), `early_s` and `late_s` when at the earliest and at the latest.
    """

    kind: Signature
    text: str
    log: str
    line: int
    place: Place
    stamp: Stamp | None = None
    after: Stamp | None = None
    until: Stamp | None = None
    ran_s: float = 0.0  # how long a collective had run when its watchdog spoke
    device: str = ""  # a PCI address, a NIC or a disk
    peer: str = ""  # whom the error names
    episode: int = 0  # how often the training had continued in this log after earlier errors
    count: int = 1
    clock_s: float | None = None  # the time of day that its line has instead: seconds of a day
    around: tuple[tuple[int, str], ...] = ()  # lines near one that no row knows, with their numbers
    held: Held | None = None  # of an allocation that failed: who holds the GPU's memory
    printed_s: float | None = None
    early_s: float | None = None
    late_s: float | None = None

    @property
    def about(self) -> bool:
        """Whether its time is not its own, but that of lines nearby."""
        return self.stamp is None

    @property
    def is_fault(self) -> bool:
        """Whether it is a kernel's message of a machine's fault that can be a first error."""
        machine = self.kind.cause in (Cause.HARDWARE, Cause.FABRIC, Cause.HOST)
        return machine and self.kind.side is Side.KERNEL and self.kind.role is Role.PRIMARY

    @property
    def after_s(self) -> float | None:
        """The time before a line without one, if nothing says until when it was printed: it was later than that."""
        return self.early_s if self.about and self.until is None else None

    @property
    def began_s(self) -> float | None:
        """When it began: a hang began before its watchdog spoke."""
        return None if self.printed_s is None else self.printed_s - self.ran_s


@dataclass(frozen=True)
class Collective:
    """A collective that a rank's watchdog aborted. `group` is "" if the line names none."""

    rank: int | None
    group: str
    sequence: int
    operation: str
    numel_in: str
    numel_out: str


@dataclass(frozen=True)
class Reached:
    """How far a rank's process group got: the last work it enqueued."""

    rank: int | None
    group: str
    enqueued: int


@dataclass
class Names:
    """Who is where, according to the logs; the first entry counts. A node may be named by its pod, until `settle`."""

    node_of_rank: dict[int, str] = field(default_factory=dict)
    gpu_of_rank: dict[int, int] = field(default_factory=dict)
    node_of_address: dict[str, str] = field(default_factory=dict)
    gpu_at: dict[tuple[str, str], int] = field(default_factory=dict)  # (node, PCI address) -> CUDA index
    rank_at: dict[tuple[str, str], int] = field(default_factory=dict)  # (node, PCI address) -> rank
    starts: dict[tuple[str, int, int], bool] = field(default_factory=dict)  # (communicator, rank, size) -> completed
    home: dict[str, str] = field(default_factory=dict)  # pod -> node
    pods: set[str] = field(default_factory=set)
    pids: set[int] = field(default_factory=set)  # of the job's own processes
    owners: dict[tuple[str, int], Owner] = field(default_factory=dict)  # (node, process) -> whose, by the node's facts
    seen: set[str] = field(default_factory=set)  # nodes that lines name
    no_nodes: set[str] = field(default_factory=set)  # names of files that no log knows as nodes
    world: int = 0  # the largest communicator that was seen

    def learn(self, place: Place) -> None:
        """Add what a line with rank and node says."""
        if place.pod and len(self.pods) < MOST_NAMES:
            self.pods.add(place.pod)
            if place.node and place.node != place.pod:
                self.home.setdefault(place.pod, place.node)
        if place.rank is not None and len(self.node_of_rank) < MOST_NAMES:
            if place.node or place.pod:
                self.node_of_rank.setdefault(place.rank, place.node or place.pod)
            if place.gpu is not None:
                self.gpu_of_rank.setdefault(place.rank, place.gpu)

    def see(self, place: Place) -> Place:
        """Add the node that a line itself names."""
        if place.node and len(self.seen) < MOST_NAMES:
            self.seen.add(place.node)
        return place

    def settle(self) -> None:
        """Put the nodes in the place of the pods, now that all is read."""
        home = self.home
        self.node_of_rank = {rank: home.get(name, name) for rank, name in self.node_of_rank.items()}
        self.node_of_address = {address: home.get(name, name) for address, name in self.node_of_address.items()}
        self.gpu_at = {(home.get(name, name), bus): gpu for (name, bus), gpu in self.gpu_at.items()}
        self.rank_at = {(home.get(name, name), bus): rank for (name, bus), rank in self.rank_at.items()}

    def at_home(self, place: Place) -> Place:
        """The place with the node of its pod; a pod is never left where a node is meant."""
        pod = place.pod or (place.node if place.node in self.pods or place.node in self.home else "")
        node = "" if place.node in self.pods or place.node in self.no_nodes else place.node
        return replace(place, pod=pod, node=self.home.get(pod, node) if pod else node)

    def resolve(self, place: Place) -> Place:
        """The place, with the node and GPU of its rank if the line did not name them."""
        if place.rank is not None:
            place = replace(
                place,
                node=place.node or self.node_of_rank.get(place.rank, ""),
                gpu=self.gpu_of_rank.get(place.rank) if place.gpu is None else place.gpu,
            )
        return self.at_home(place)


@dataclass
class Events:
    """All that was read, bounded: equal lines of one place are one event, and beyond the limits they are counted."""

    names: Names = field(default_factory=Names)
    collectives: list[Collective] = field(default_factory=list)
    reached: list[Reached] = field(default_factory=list)
    dumps: dict[int, Dump] = field(default_factory=dict)  # of flight recorders, by rank
    ras: list[Finding] = field(default_factory=list)  # what NCCL said when it was asked
    reports: int = 0  # of NCCL, when it was asked
    left_out: int = 0
    _events: dict[tuple[object, ...], tuple[Event, list[int]]] = field(default_factory=dict)
    _roots: int = 0
    _held: int = 0

    def hold(self, tail: Tail) -> None:
        """Keep the last lines of a log until they are asked for; beyond the limit they are weighed at once."""
        self._held += len(tail.text)
        if self._held > MOST_HELD:
            self._held -= len(tail.text)
            _ = tail.end

    def known(self, key: tuple[object, ...]) -> bool:
        """Whether an event with this key is there; if so it is counted again."""
        held = self._events.get(key)
        if held:
            held[1][0] += 1
        return held is not None

    def shows(self, kind: Signature) -> bool:
        """Whether the lines around a line of this kind are kept: no row knows it, and there are not too many."""
        return kind.id in UNKNOWN_LINES and self._roots < MOST_AROUND

    def add(self, key: tuple[object, ...], event: Event) -> None:
        """Keep an event whose key is new."""
        can_be_root = event.kind.role in (Role.PRIMARY, Role.EITHER)
        if (self._roots if can_be_root else len(self._events) - self._roots) >= MOST_EVENTS:
            self.left_out += 1
            return
        self._roots += can_be_root
        self._events[key] = (event, [1])

    def change(self, key: tuple[object, ...], *, until: Stamp | None = None, episode: int | None = None) -> None:
        """What is known later: a line `until` which it was printed; or it may have come after the training went on."""
        if held := self._events.get(key):
            was = held[0]
            episode = was.episode if episode is None else episode
            self._events[key] = (replace(was, until=until or was.until, episode=episode), held[1])

    def add_dump(self, dump: Dump) -> None:
        """Keep the newest dump of a rank's flight recorder."""
        known = self.dumps.get(dump.rank)
        if (known is None and len(self.dumps) < MOST_NAMES) or (known and known.newest_s < dump.newest_s):
            self.dumps[dump.rank] = dump

    def all(self) -> Iterator[Event]:
        """The events with their counts."""
        for event, count in self._events.values():
            yield replace(event, count=count[0])


def template(text: str) -> str:
    """A text without what changes from line to line: numbers and addresses."""
    return _VOLATILE.sub("#", text[:_TEMPLATE_CHARACTERS])
