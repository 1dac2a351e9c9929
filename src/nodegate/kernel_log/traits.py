"""What is kept of a node's kernel log after its facts are gone: what only the fleet can judge, and little of it."""

import math
from contextlib import suppress
from dataclasses import dataclass

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.kernel_log import flaps
from nodegate.kernel_log.unknown_errors import unknown_errors
from nodegate.unknown import Unknown

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
        for device, is_down, line in flaps.changes(lines)
        if is_down and not isinstance(line.epoch_s, Unknown) and math.isfinite(line.epoch_s)
    ]
    newest = sorted(downs, key=lambda down: down.epoch_s)[-MOST_LINK_DOWNS:]
    return LogTraits(tuple(newest), frozenset(unknown_errors(lines)), readable=True)


def _rail(device: str, rails: dict[str, str]) -> str:
    """The adapter of a device that the kernel names "0000:5c:00.0 ibp92s0" or "mlx5_3"; "" where it is no adapter."""
    first = device.split(" ", 1)[0]
    return rails.get(first, first if first in rails.values() else "")
