"""Slurm behind the Protocols of an engine."""

from collections.abc import Iterable, Mapping, Sequence

from nodegate.engines.engine import Engine, Obstacle, Reach
from nodegate.engines.slurm.nodes import listing
from nodegate.node import Node


class Slurm:
    """See `Engine`."""

    def listing(self, asked: Sequence[str]) -> Mapping[str, object]:
        """The nodes of these partitions."""
        return listing(asked)

    def reach(self, nodes: Sequence[Node]) -> Reach:
        """By jobs of our own."""
        from nodegate.engines.slurm.reach import SlurmReach  # noqa: PLC0415 - an inventory needs none

        return SlurmReach.to(nodes)

    def obstacles(self, nodes: Sequence[Node]) -> Iterable[Obstacle]:
        """Settings, partitions, rights."""
        from nodegate.engines.slurm.ready import obstacles  # noqa: PLC0415 - for doctor

        return obstacles(nodes)

    def holder(self, nodes: Sequence[Node]) -> None:
        """None: the jobs that lend them hold them."""


ENGINE: Engine = Slurm()
