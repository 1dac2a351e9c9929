"""A toolbox of one folder."""

from nodegate.errors import CannotMeasure
from nodegate.toolbox.tool_list import CublasPlaces
from nodegate.toolbox.toolbox import Tool


class ToolFolder:
    """The tools of a folder, none if there is no folder; `without` are not found, and `start` starts the others."""

    def __init__(self, folder, without=(), start=()):
        self.folder, self.without, self.start = folder, without, start

    def has(self, names):
        return frozenset(
            name for name in names if self.folder and name not in self.without and (self.folder / name).exists()
        )

    def find(self, *names):
        for name in names:
            if self.folder and self.has([name]):
                return Tool(name, (*self.start, str(self.folder / name)), "a folder of the test")
        raise CannotMeasure(f"no {names[0]} on the node", next_step="install it")

    def cublas(self):
        return CublasPlaces()
