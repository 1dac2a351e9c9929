"""The kernel logs of one run compared: links that went down together, and error lines that only few nodes have."""

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.kernel_log.flaps import SAME_MOMENT_S, Together, changes
from nodegate.kernel_log.unknown_errors import unknown_errors
from nodegate.unknown import Unknown

MIN_NODES = 3  # of two nodes that differ, either may be the odd one; two that fall together may share a cable
MOST_LINK_DOWNS = 64  # of one node, the newest: beyond that their reason no longer matters


@dataclass(frozen=True)
class LinkDown:
    """One moment at which a link went down. `device` is as the kernel names it, `rail` the RDMA adapter ("mlx5_2")."""

    epoch_s: float
    device: str
    rail: str


@dataclass(frozen=True)
class LogTraits:
    """Link-downs, oldest first, and the shapes of unknown error lines. `readable` is False without a log."""

    link_downs: tuple[LinkDown, ...] = ()
    strange: frozenset[str] = frozenset()
    readable: bool = False


def log_traits(facts: NodeFacts) -> LogTraits:
    """The traits of one node's kernel log; of a log that cannot be read there are none."""
    try:
        lines = facts.kernel_log.lines
    except CannotMeasure:
        return LogTraits()
    rails: dict[str, str] = {}
    with suppress(CannotMeasure):
        rails = {device.address: device.name for device in facts.rdma.devices if device.address}
    downs = [
        LinkDown(line.epoch_s, device, _rail(device, rails))
        for device, is_down, line in changes(lines)
        if is_down and not isinstance(line.epoch_s, Unknown) and math.isfinite(line.epoch_s)
    ]
    newest = sorted(downs, key=lambda down: down.epoch_s)[-MOST_LINK_DOWNS:]
    return LogTraits(tuple(newest), frozenset(unknown_errors(lines)), readable=True)


def _rail(device: str, rails: dict[str, str]) -> str:
    """The adapter of a device that the kernel names "0000:5c:00.0 ibp92s0" or "mlx5_3"; "" where it is no adapter."""
    first = device.split(" ", 1)[0]
    return rails.get(first, first if first in rails.values() else "")


class FleetLog:
    """The kernel logs of all nodes of a run.

    Args:
        nodes: for each node its platform ("" when unknown) and what is kept of its log.
    """

    def __init__(self, nodes: Mapping[str, tuple[str, LogTraits]]) -> None:
        self._nodes = nodes
        self._together = _events(nodes)
        readable = [(platform, traits) for platform, traits in nodes.values() if traits.readable]
        self._readable = Counter(platform for platform, _ in readable)
        self._strange = Counter((platform, shape) for platform, traits in readable for shape in traits.strange)

    def together(self, node: str, device: str, epoch_s: float) -> Together | None:
        """The event in which this link-down was one of at least three nodes'; None when it was not."""
        return self._together.get((node, device, epoch_s))

    def can_judge(self, node: str) -> bool:
        """Whether enough logs of this node's platform were read to compare it with them."""
        return node in self._nodes and bool(self._nodes[node][0]) and self._readable[self._nodes[node][0]] >= MIN_NODES

    def having(self, node: str, shape: str) -> tuple[int, int]:
        """How many nodes of a platform that can be judged have an error line of this shape, of how many logs."""
        platform, _ = self._nodes[node]
        return self._strange[platform, shape], self._readable[platform]


def _events(nodes: Mapping[str, tuple[str, LogTraits]]) -> dict[tuple[str, str, float], Together]:
    """Each link-down that at least three nodes shared. One pass over all of them in the order of time."""
    downs = sorted(
        ((down, node) for node, (_, traits) in nodes.items() for down in traits.link_downs),
        key=lambda each: each[0].epoch_s,
    )
    found: dict[tuple[str, str, float], Together] = {}
    near: Counter[str] = Counter()
    rails: Counter[str] = Counter()
    first = last = 0
    for down, node in downs:
        while last < len(downs) and downs[last][0].epoch_s <= down.epoch_s + SAME_MOMENT_S:
            _count(near, rails, downs[last], 1)
            last += 1
        while downs[first][0].epoch_s < down.epoch_s - SAME_MOMENT_S:
            _count(near, rails, downs[first], -1)
            first += 1
        if len(near) >= MIN_NODES:
            found[node, down.device, down.epoch_s] = Together(
                len(near) - 1, next(iter(rails)) if len(rails) == 1 else ""
            )
    return found


def _count(near: Counter[str], rails: Counter[str], each: tuple[LinkDown, str], step: int) -> None:
    for counter, key in ((near, each[1]), (rails, each[0].rail)):
        counter[key] += step
        if not counter[key]:
            del counter[key]
