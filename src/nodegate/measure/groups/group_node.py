"""A node made ready for launches over several nodes: its GPUs, its programs, their build, its launcher."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.errors import CannotMeasure, UsageError, tried
from nodegate.launchers import LAUNCHERS
from nodegate.launchers.launcher import Launcher, LaunchSettings, first, heard, look
from nodegate.measure.groups.settings import Door, door, launch_settings
from nodegate.measure.measurement import Target
from nodegate.measure.nccl.run import gpu_count
from nodegate.subjects.fabric import domain_of
from nodegate.toolbox.toolbox import Tool
from nodegate.unknown import Unknown

COLLECTIVES = ("all_reduce", "alltoall", "sendrecv")
LOOK_S = 60.0  # reading NCCL's library means 300 MB


@dataclass(frozen=True)
class GroupNode:
    """A node that may take part. `launcher` says why it cannot be the head of a group.

    `programs` are the paths of nccl-tests built with MPI, by collective; `missing` why one is missing. `build`
    identifies the programs and the NCCL of a node. `door` is where it is reached, None if that is not known;
    `hostname` its own name for itself, `domain` the NVLink domain of several nodes that it is in, empty for none.
    """

    target: Target
    gpus: int
    model: str
    programs: Mapping[str, str]
    missing: Mapping[str, CannotMeasure]
    build: str
    launcher: Launcher | CannotMeasure
    settings: LaunchSettings
    door: Door | None = None
    hostname: str = ""
    domain: str = ""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.target.node.name

    @property
    def host(self) -> str:
        """Its name on other nodes."""
        known = self.launcher if not isinstance(self.launcher, CannotMeasure) else LAUNCHERS.get(self.settings.launcher)
        return self.name if known and known.hosts_by_name else self.target.node.address

    @property
    def pool(self) -> tuple[object, ...]:
        """What nodes must share to be launched together: the number of ranks per node, and the path of the program."""
        return (self.gpus, self.model, self.programs.get("all_reduce"), *self.settings.key)


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
    found = _on_node(target, *((settings.launcher,) if settings.launcher else LAUNCHERS), is_launcher=True)
    path, kind = ("", None) if isinstance(found, CannotMeasure) else (found.argv[0], LAUNCHERS[found.name])
    asked = ["sh", "-c", look(kind), "nodegate-look", path, programs["all_reduce"], target.node.address]
    said = heard(target.session.run(asked, timeout_s=LOOK_S).stdout)
    try:
        launcher = found if isinstance(found, CannotMeasure) else LAUNCHERS[found.name].known(path, said, settings)
    except CannotMeasure as why:
        launcher = CannotMeasure(why.reason, next_step=why.next_step, lacks=why.lacks, whose=target.node.name)
    devices = target.facts.gpus.devices
    names = {str(gpu.name) for gpu in devices if gpu.lost is None and not isinstance(gpu.name, Unknown)}
    return GroupNode(
        target=target,
        gpus=gpus,
        model=" and ".join(sorted(names)),
        programs=programs,
        missing=missing,
        build=f"nccl-tests {first(said, 'program')}" + (f", NCCL {said['nccl'][0]}" if "nccl" in said else ""),
        launcher=launcher,
        settings=settings,
        door=door(target.node.address, said),
        hostname=first(said, "host"),
        domain=domain_of(devices) or "",
    )


def _programs(target: Target) -> tuple[dict[str, str], dict[str, CannotMeasure]]:
    found: dict[str, str] = {}
    missing: dict[str, CannotMeasure] = {}
    for collective in COLLECTIVES:
        tool = _on_node(target, f"{collective}_perf_mpi")
        if isinstance(tool, CannotMeasure):
            missing[collective] = tool
        else:
            found[collective] = tool.argv[0]
    if "all_reduce" in missing:
        raise missing["all_reduce"]
    return found, missing


def _on_node(target: Target, *names: str, is_launcher: bool = False) -> Tool | CannotMeasure:
    """The first of these programs, if it is on the node itself: none in a container or a folder of this node alone."""
    tool = tried(lambda: target.tools.find(*names))
    if isinstance(tool, CannotMeasure) or len(tool.argv) == 1:
        return tool
    what, step = "be started from another node", "install it under the same path on all nodes"
    if is_launcher:
        what, step = "start programs on other nodes", f"install {tool.name} on the node itself"
    return CannotMeasure(f"{tool.name} ({tool.origin}) cannot {what}", next_step=step, whose=target.node.name)
