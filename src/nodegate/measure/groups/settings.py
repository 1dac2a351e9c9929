"""The inventory's settings for launches over several nodes: who launches, with which words, settings and network.

Open MPI takes each interface that is up. Nodes with Docker, libvirt or a CNI all have one of the same address, over
which no other node answers, and a launch waits there for ever: so the networks of the inventory's addresses are named,
and no other. Source: open-mpi/ompi issues 4963 and 6377.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, collapse_addresses, ip_address, ip_interface, ip_network

from nodegate.files.strict_yaml import did_you_mean, shown
from nodegate.knowledge.tables import clouds
from nodegate.launchers import LAUNCHERS, name_of
from nodegate.launchers.launcher import Launcher, LaunchSettings
from nodegate.node import Node
from nodegate.scheduler.slurm import reservation_name

MOST_NETWORKS = 16  # more are said as the one that holds them all
_WORDS = re.compile(r"(\S{1,40}) (\S{1,80})")


@dataclass(frozen=True)
class Door:
    """Where a node is reached: the interface that has its address, and the network there."""

    interface: str
    network: str


def door(address: str, said: Mapping[str, Sequence[str]]) -> Door | None:
    """The interface with a node's address in the inventory, or its name there; None if it cannot be known.

    The node says `address` lines "eth0 10.0.0.1/24", what its name `means`, and where it was `reached`.
    """
    doors = {}
    for line in said.get("address", ()):
        words = _WORDS.fullmatch(line)
        try:
            interface = ip_interface(words[2]) if words else None
        except ValueError:
            continue
        if words and interface and not interface.ip.is_loopback:
            doors[interface.ip] = Door(words[1].partition("@")[0], str(interface.network))
    for candidate in (address, *said.get("means", ()), *said.get("reached", ())):
        try:
            found = doors.get(ip_address(candidate.partition("%")[0]))
        except ValueError:
            continue
        if found:
            return found
    return None


def networks(doors: Sequence[Door | None]) -> str:
    """The networks of a launch as Open MPI takes them, "10.0.0.0/24,10.0.1.0/24"; empty if one is not known.

    It knows networks of IPv4 only: with another one, interfaces by their names.
    """
    known = [each for each in doors if each]
    if len(known) < len(doors):
        return ""
    if any(":" in each.network for each in known):
        return ",".join(sorted({each.interface for each in known}))
    found = list(collapse_addresses(IPv4Network(each.network) for each in known))
    around = found[0]
    while len(found) > MOST_NETWORKS and not all(each.subnet_of(around) for each in found):
        around = around.supernet()
    return ",".join(map(str, found if len(found) <= MOST_NETWORKS else [around]))


_VALUE = re.compile(r"[^\0-\x1f\x7f]{0,500}")
# What may be set for the ranks: settings of NCCL, of what carries its messages, and of the MPI that starts it.
PREFIXES = (
    *("NCCL_", "UCX_", "UCC_", "HCOLL_", "SHARP_", "FI_", "OFI_NCCL_", "IBV_", "MLX5_", "RDMAV_", "PSM3_"),
    *("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_"),
)
NAMES = frozenset(
    {
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "OPAL_PREFIX", "OMP_NUM_THREADS"),
        *("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING"),
    }
)
_NAME = re.compile(rf"(?:{'|'.join(PREFIXES)})[A-Za-z0-9_]{{1,80}}", re.ASCII)
# Variables that nodegate sets itself, and those that would change what is measured or hide what NCCL says.
OURS = frozenset(
    {
        *("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_COMM_ID"),
        *("NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK", "NCCL_TESTS_MIN_BW", "NCCL_TESTS_DEVICE"),
    }
)
SRUN_KEYS = ("partition", "account", "qos", "reservation", "mpi")
_SRUN_VALUE = re.compile(r"[A-Za-z0-9_.,:+@/=-]{1,120}", re.ASCII)
_INTERFACE = re.compile(r"[A-Za-z_.][A-Za-z0-9_.-]{0,14}", re.ASCII)


def launch_settings(node: Node) -> LaunchSettings:
    """The settings of a node. Raises UsageError: a value is invalid, with the node's file and line."""
    given = node.settings.launcher.lower()
    launcher = name_of(given)
    if launcher not in {"", *LAUNCHERS}:
        raise node.wrong(f"nodegate_launcher: {shown(given)} is not supported", did_you_mean(given, LAUNCHERS))
    if node.settings.hold and not node.settings.slurm_reservation:
        if launcher == "srun":
            step = "set nodegate_slurm_reservation, in which srun starts them, or nodegate_launcher: mpirun"
            raise node.wrong("nodegate_hold: what holds the node keeps the jobs of srun out too", step)
        launcher = launcher or "mpirun"
    own = {each.name: _words(node, each) for each in LAUNCHERS.values() if each.args}
    return LaunchSettings(launcher, _environment(node), _srun(node), own, _network(node))


def _environment(node: Node) -> Mapping[str, str]:
    given = node.settings.nccl_env
    for name, value in given.items():
        if not (name in NAMES or _NAME.fullmatch(name)):
            allowed = ", ".join([*(f"{prefix}*" for prefix in PREFIXES), *sorted(NAMES)])
            raise node.wrong(f"nodegate_nccl_env: {shown(name)} may not be set", f"allowed are {allowed}")
        if name in OURS:
            raise node.wrong(f"nodegate_nccl_env: {name} is set by nodegate itself", "remove it")
        if isinstance(value, (dict, list, bool)) or not _VALUE.fullmatch(str(value)):
            raise node.wrong(f"nodegate_nccl_env: {name} must be a number or one line of text", 'write "1", not true')
    cloud, known = node.settings.nccl_cloud, clouds()  # which the inventory's own replace; an empty one takes one away
    if cloud and cloud not in known:
        raise node.wrong(f"nodegate_nccl_cloud: unknown {shown(cloud)}", did_you_mean(cloud, known))
    theirs = known.get(cloud, {})
    own = {name: str(value) for name, value in given.items()}
    return {name: value for name, value in {**theirs, **own}.items() if value or name not in theirs}


def _srun(node: Node) -> Mapping[str, str]:
    given = node.settings.srun
    for name, value in given.items():
        if name not in SRUN_KEYS:
            raise node.wrong(f"nodegate_srun: unknown {shown(name)}", did_you_mean(name, SRUN_KEYS))
        if isinstance(value, bool) or not _SRUN_VALUE.fullmatch(str(value)) or str(value).startswith("-"):
            raise node.wrong(
                f"nodegate_srun: {name}: {shown(str(value))} is not a name in Slurm", "see sinfo, sacctmgr"
            )
    held_in = node.settings.slurm_reservation if node.settings.hold else ""
    reserved = {"reservation": reservation_name(held_in)} if held_in else {}
    return reserved | {name: str(value) for name, value in given.items()}


def _words(node: Node, launcher: type[Launcher]) -> tuple[str, ...]:
    """A site's own arguments of a launcher, refused where nodegate sets them. None of them sees a shell."""
    variable = f"nodegate_{launcher.args}"
    words: tuple[str, ...] = getattr(node.settings, launcher.args)
    for word in words:
        if not word or not _VALUE.fullmatch(word):
            raise node.wrong(f"{variable}: {shown(word)} is not one line of text", "write one word per entry")
        if word == "--" or _is_own(word, launcher):
            raise node.wrong(f"{variable}: {word} is set by nodegate itself", "remove it")
    if words and not words[0].startswith("-"):
        raise node.wrong(
            f"{variable}: {shown(words[0])} does not begin with '-'", f"{launcher.name} takes it for the program"
        )
    return words


def _is_own(word: str, launcher: type[Launcher]) -> bool:
    """Whether a word is an option that nodegate sets: alone, with its value, as `-n8`, or the beginning of its name."""
    name = word.partition("=")[0]
    if name.startswith("--"):  # getopt completes it
        return any(each.startswith(name) for each in launcher.own_options)
    return name in launcher.own_options or bool(launcher.own_letters and re.match(launcher.own_letters, word))


def _network(node: Node) -> str:
    for part in node.settings.launch_network:
        try:
            is_network = "/" in part and bool(ip_network(part))
        except ValueError:
            is_network = False
        if not is_network and not _INTERFACE.fullmatch(part):
            wrong = f"nodegate_launch_network: {shown(part)} is neither a network nor an interface"
            raise node.wrong(wrong, "10.0.0.0/16 or eth0")
    return ",".join(node.settings.launch_network)
