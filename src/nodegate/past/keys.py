"""By what parts are known over months: a board by its serial number, else by its place; and what is kept of a run."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nodegate.metric import Metric
from nodegate.past.event import Event
from nodegate.records.cause import Cause
from nodegate.records.run import NodeReport, Run

CHASSIS = "chassis"
SERIAL, PLACE = "S/N ", "node "
_NODE = ("", "node", CHASSIS)  # what findings and numbers call the node as a whole


@dataclass(frozen=True, slots=True)
class Placed:
    """A part where a run saw it.

    `slot` is its name in the node: "GPU 3", "mlx5_2", `CHASSIS`. `serial` is its serial number, of a GPU without one
    its UUID, of an adapter its GUID; empty where none is known. `uuid` is a GPU's, beside its serial number.
    """

    slot: str
    serial: str
    uuid: str = ""


class Keys:
    """The keys of one node's parts. A serial number that several machines or boards report (`shared`) is none."""

    def __init__(self, node: str, placed: Iterable[Placed] = (), shared: Container[str] = ()) -> None:
        self.node = node
        self.placed = tuple(each for each in placed if each.serial and each.serial not in shared)
        self._boards = {each.slot: SERIAL + each.serial for each in self.placed}
        self.machine = self._boards.get(CHASSIS, PLACE + node)

    def of(self, device: str) -> str:
        """The key of a device by its name in the node ("GPU 3", "mlx5_2:1"; empty: the node itself)."""
        if device in _NODE:
            return self.machine
        slot, colon, port = device.partition(":")
        if colon and port.isdecimal() and slot in self._boards:
            return f"{self._boards[slot]}:{port}"
        return self._boards.get(device, f"{self.machine}/{device}")

    def all_of(self, device: str) -> tuple[str, ...]:
        """Its key, and those of its place, where values are that were kept when no serial number was known."""
        end = "" if device in _NODE else f"/{device}"
        return tuple(dict.fromkeys((self.of(device), self.machine + end, f"{PLACE}{self.node}{end}")))


@dataclass(frozen=True)
class KeptNode:
    """A node of a run.

    `sound`: whether its numbers are what later runs are compared with. `placed` are its parts, `traits` its versions,
    firmware and models by name, `events` what its kernel log has.
    """

    report: NodeReport
    sound: bool
    causes: tuple[Cause, ...] = ()
    placed: tuple[Placed, ...] = ()
    traits: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()

    @property
    def name(self) -> str:
        """Its name in the inventory of that run."""
        return self.report.node


@dataclass(frozen=True)
class KeptRun:
    """A run. `metrics` gives what was measured on a node, one node at a time, which keeps few of them in memory."""

    run: Run
    folder: str
    nodes: Sequence[KeptNode]
    shared: frozenset[str]
    metrics: Callable[[str], Sequence[Metric]]

    def keys(self, node: KeptNode) -> Keys:
        """By what the parts of one of its nodes are known."""
        return Keys(node.name, node.placed, self.shared)
