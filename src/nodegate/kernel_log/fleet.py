"""The kernel logs of one run compared: links that went down together, and error lines that only few nodes have."""

from collections import Counter
from collections.abc import Mapping

from nodegate.errors import NotJudged
from nodegate.kernel_log.flaps import SAME_MOMENT_S, Together
from nodegate.kernel_log.traits import LinkDown, LogTraits

MIN_NODES = 3  # of two nodes that differ, either may be the odd one; two that fall together may share a cable


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
        """How many nodes of this node's platform have an error line of this shape, of how many whose log was read.

        Raises:
            NotJudged: the platform is unknown, or fewer than three logs of it were read.
        """
        platform = self._nodes[node][0] if node in self._nodes else ""
        if not platform:
            raise NotJudged("the platform is unknown, so there is nothing to compare this node with")
        total = self._readable[platform]
        if total < MIN_NODES:
            raise NotJudged(f"only {total} kernel logs of platform {platform} in this run, {MIN_NODES} are needed")
        return self._strange[platform, shape], total


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
