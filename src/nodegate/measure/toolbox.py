"""Where the tools of a node are: its PATH, the usual folders, the inventory, a container image, or brought by us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Tool:
    """A program that was found on a node. `argv` starts it, a container included; `origin` says where it was found."""

    name: str
    argv: tuple[str, ...]
    origin: str


class Toolbox(Protocol):
    """The tools of one node; looked for once, when the first is asked for."""

    def find(self, *names: str) -> Tool:
        """The first of these names that the node has.

        Raises:
            CannotMeasure: it has none; with one line on how to get it.
            Unreachable: the connection broke.
        """
        ...

    def has(self, names: Sequence[str]) -> frozenset[str]:
        """Which of these the node has."""
        ...
