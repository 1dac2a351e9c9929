"""The launchers of collectives over nodes, by the names of their programs; the first that a node has is used."""

from nodegate.launchers.launcher import Launcher
from nodegate.launchers.mpirun import Mpirun
from nodegate.launchers.srun import Srun

LAUNCHERS: dict[str, type[Launcher]] = {each.name: each for each in (Mpirun, Srun)}


def name_of(given: str) -> str:
    """The name of the launcher that is meant; what was given if it is none."""
    return next((each.name for each in LAUNCHERS.values() if given in each.also), given)
