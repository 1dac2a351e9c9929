"""What `nodegate lemons` names, with its grounds: boards, nodes, racks and batches, and the fleet as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from nodegate.past.keys import CHASSIS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.past.faults import Fault
    from nodegate.past.keys import Keys

WINDOW_DAYS = 28  # of Meta's published detection of lemon nodes (arXiv 2410.21680)
FLOOR = 3  # faults on as many days, below which nothing is named
MOST_OF_ONE = 2  # faults of a node that count for its rack or batch: one lemon makes none
BOARD, NODE, RACK, BATCH = "board", "node", "rack", "batch"
WATCH, SOAK, SWAP, SERVICE, RMA = "watch", "soak", "swap", "service", "rma"


@dataclass(frozen=True, eq=False)
class Unit:
    """A board, a node or a group of nodes, with its faults and how often it was looked at.

    `kin`: with what it is compared. `exposure`: days with a look, and looks.
    """

    what: str
    key: str
    node: str
    slot: str
    kin: tuple[str, ...]
    exposure: tuple[int, int]
    faults: tuple[Fault, ...] = ()
    members: tuple[str, ...] = ()  # of a group, its machines
    is_here: bool = True  # of a board: no other one is in its place
    number: int = 1  # of boards without a fault, which are asked together
    is_most: bool = False  # of a group: more nodes than not are in it, so it is what others are compared with

    @cached_property
    def count(self) -> int:
        """The days on which a fault began; of a group of nodes those of each, but few of one."""
        days = Counter(machine for machine, _ in {(each.machine, each.day) for each in self.faults})
        return sum(min(own, MOST_OF_ONE) for own in days.values()) if self.is_group else sum(days.values())

    @property
    def is_group(self) -> bool:
        """Whether it is a rack or a batch."""
        return self.what in (RACK, BATCH)

    @property
    def is_enough(self) -> bool:
        """Whether it has faults on as many days, a group on as many nodes, as is worth asking."""
        if self.is_group:
            return not self.is_most and len({each.machine for each in self.faults}) >= FLOOR
        return self.count >= FLOOR


@dataclass(frozen=True)
class Lemon:
    """What is named, with its grounds: its faults in so many days where others had `expected`; what to do."""

    unit: Unit
    expected: float
    chance: float
    advice: str
    days: int
    recurs: str = ""


@dataclass(frozen=True)
class Figures:
    """The fleet as a whole. Days between faults of a node and hours until one was gone are None where none was."""

    machines: int
    node_days: int
    faults: int
    at_once: int
    mtbf_days: float | None
    repair_hours: float | None
    healthy_share: float | None


@dataclass(frozen=True)
class Told:
    """The answer for a time. `recurring` are parts that a reset does not help, named or not: part -> why.

    `days`: machine -> days with a look. `not_compared`: machine -> its node, of platforms with too few.
    """

    since_s: float
    until_s: float
    figures: Figures
    named: tuple[Lemon, ...] = ()
    recurring: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    not_compared: Mapping[str, str] = field(default_factory=dict)
    days: Mapping[str, int] = field(default_factory=dict)

    def of(self, keys: Keys) -> list[tuple[str, Lemon]]:
        """What is named of a node as it is now, its own boards too: with their slots, empty for the node."""
        slots = {keys.machine: "", **{keys.of(each.slot): each.slot for each in keys.placed if each.slot != CHASSIS}}
        return [(slots[each.unit.key], each) for each in self.named if each.unit.key in slots]
