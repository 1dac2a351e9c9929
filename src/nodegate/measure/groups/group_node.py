"""A node made ready for launches over several nodes: its GPUs, its programs, their build, its launcher."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure, Unreachable, UsageError
from nodegate.measure.groups.settings import launch_settings
from nodegate.measure.nccl.run import gpu_count
from nodegate.transport.call import printable
from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.measure.groups.settings import LaunchSettings
    from nodegate.measure.measurement import Target

COLLECTIVES = ("all_reduce", "alltoall", "sendrecv")
LOOK_S = 60.0  # reading NCCL's library means 300 MB
_OPEN_MPI = re.compile(r"\((?:Open MPI|OpenRTE)\)|Open MPI")
# $1: the launcher or nothing, $2: a program.
_LOOK = """\
[ -n "$1" ] && "$1" --version 2>&1 </dev/null | head -n 1 | sed 's/^/launcher /'
printf 'program %s\\n' "$(sha256sum <"$2" | cut -c1-12)"
library=$(ldd "$2" 2>/dev/null | sed -n 's/.*libnccl\\.so[^ ]* => \\([^ ]*\\).*/\\1/p' | head -n 1)
[ -n "$library" ] && printf 'nccl %s\\n' "$(sha256sum <"$library" | cut -c1-12)"
exit 0
"""
_LINE = re.compile(r"(launcher|program|nccl) (.{0,200})")


@dataclass(frozen=True)
class Launcher:
    """What starts ranks on other nodes: "mpirun" (of Open MPI) or "srun", and its path."""

    name: str
    path: str


@dataclass(frozen=True)
class GroupNode:
    """A node that may take part. `launcher` says why it cannot be the head of a group.

    `programs` are the paths of nccl-tests built with MPI, by collective; `missing` why one is missing. `build`
    identifies the programs and the NCCL of a node.
    """

    target: Target
    gpus: int
    model: str
    programs: Mapping[str, str]
    missing: Mapping[str, CannotMeasure]
    build: str
    launcher: Launcher | CannotMeasure
    settings: LaunchSettings

    @property
    def name(self) -> str:
        """The node's name."""
        return self.target.node.name

    @property
    def host(self) -> str:
        """Its name on other nodes."""
        return self.name if _launched_by(self) == "srun" else self.target.node.address

    @property
    def pool(self) -> tuple[object, ...]:
        """What nodes must share to be launched together: the number of ranks per node, and the path of the program."""
        return (self.gpus, self.model, self.programs.get("all_reduce"), self.settings.launcher, *self._environment)

    @property
    def _environment(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self.settings.environment.items()))


def _launched_by(member: GroupNode) -> str:
    return member.launcher.name if isinstance(member.launcher, Launcher) else member.settings.launcher


def prepare(target: Target) -> GroupNode:
    """Examine a node.

    Raises:
        CannotMeasure: it cannot take part; the reason.
        Unreachable: the connection broke.
    """
    try:
        settings = launch_settings(target.node)
    except UsageError as wrong:
        raise CannotMeasure(str(wrong), next_step="correct the inventory") from None
    gpus = gpu_count(target.facts)
    programs, missing = _programs(target)
    launcher = _launcher(target, settings)
    said = _look(target, launcher, programs["all_reduce"])
    if isinstance(launcher, Launcher) and launcher.name == "mpirun" and not _OPEN_MPI.search(said.get("launcher", "")):
        reason = f"{target.node.name}: {launcher.path} is not Open MPI's: {said.get('launcher', 'no answer')}"
        launcher = CannotMeasure(reason, next_step="install openmpi-bin, or set nodegate_launcher: srun")
    build = f"nccl-tests {said.get('program', '')}" + (f", NCCL {said['nccl']}" if "nccl" in said else "")
    return GroupNode(target, gpus, _model(target), programs, missing, build, launcher, settings)


def _programs(target: Target) -> tuple[dict[str, str], dict[str, CannotMeasure]]:
    found: dict[str, str] = {}
    missing: dict[str, CannotMeasure] = {}
    for collective in COLLECTIVES:
        try:
            found[collective] = _path(target, f"{collective}_perf_mpi")
        except Unreachable:  # noqa: PERF203 - three of them
            raise
        except CannotMeasure as why:
            missing[collective] = why
    if "all_reduce" in missing:
        raise missing["all_reduce"]
    return found, missing


def _path(target: Target, *names: str) -> str:
    """The path of a program on the node itself.

    Raises:
        CannotMeasure: it is missing, or in a container or in a folder of this node alone.
    """
    tool = target.tools.find(*names)
    if len(tool.argv) > 1:
        reason = f"{target.node.name}: {tool.name} ({tool.origin}) cannot be started from another node"
        raise CannotMeasure(reason, next_step="install it under the same path on all nodes")
    return tool.argv[0]


def _launcher(target: Target, settings: LaunchSettings) -> Launcher | CannotMeasure:
    names = (settings.launcher,) if settings.launcher else ("mpirun", "srun")
    try:
        tool = target.tools.find(*names)
    except Unreachable:
        raise
    except CannotMeasure as why:
        return why
    if len(tool.argv) > 1:
        reason = f"{target.node.name}: {tool.name} ({tool.origin}) cannot start programs on other nodes"
        return CannotMeasure(reason, next_step=f"install {tool.name} on the node itself")
    return Launcher(tool.name, tool.argv[0])


def _look(target: Target, launcher: Launcher | CannotMeasure, program: str) -> dict[str, str]:
    path = launcher.path if isinstance(launcher, Launcher) else ""
    output = target.session.run(["sh", "-c", _LOOK, "nodegate-look", path, program], timeout_s=LOOK_S)
    lines = (_LINE.match(printable(line, 220)) for line in output.stdout[:8192].splitlines())
    return {line[1]: line[2].strip() for line in lines if line}


def _model(target: Target) -> str:
    names = {
        str(gpu.name) for gpu in target.facts.gpus.devices if gpu.lost is None and not isinstance(gpu.name, Unknown)
    }
    return " and ".join(sorted(names))
