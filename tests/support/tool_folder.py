"""A toolbox of one folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.toolbox.tool_list import CublasPlaces
from nodegate.toolbox.toolbox import Tool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Folder:
    """The tools of a folder `without` some of them, each behind the words of `runner`."""

    def __init__(self, folder: Path, without: Sequence[str] = (), runner: Sequence[str] = ()) -> None:
        self.folder, self.without, self.runner = folder, without, runner

    def find(self, *names: str) -> Tool:
        for name in names:
            if name in self.has([name]):
                return Tool(name, (*self.runner, str(self.folder / name)), "a folder of the test")
        raise CannotMeasure(f"no {names[0]} on the node", next_step="install it")

    def has(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset(name for name in names if name not in self.without and (self.folder / name).exists())

    def cublas(self) -> CublasPlaces:
        return CublasPlaces()
