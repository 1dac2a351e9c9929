"""mpirun of Open MPI 4 and 5, and of HPC-X."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import ClassVar

from nodegate.errors import CannotMeasure
from nodegate.launchers.launcher import LaunchSettings, Said, first

_OPEN_MPI = re.compile(r"\((?:Open MPI|OpenRTE)\) (\d{1,3})\.|Open MPI v?(\d{1,3})\.|Open MPI|OpenRTE")
# What mpirun itself needs too: it reads the settings of MPI before any rank runs.
_OF_MPI = re.compile(r"(?:OMPI_|PRTE_|PMIX_)\w{1,90}|OPAL_PREFIX|LD_LIBRARY_PATH", re.ASCII)
# Open MPI refuses root otherwise. Its ssh cannot prompt: a guarded program has no terminal.
_ITS_OWN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Messages of MPI go by TCP and none by what is measured: UCX and HCOLL would open the NICs under test.
PLAIN = {"pml": "ob1", "btl": "self,tcp", "coll": "^hcoll,ucc"}
_MCA = frozenset({"--mca", "-mca", "--gmca", "-gmca", "--omca", "--prtemca"})


@dataclass(frozen=True)
class Mpirun:
    """`major`: the release of Open MPI, 4 where it does not say. `environment` is what mpirun needs itself."""

    name: ClassVar[str] = "mpirun"
    also: ClassVar[tuple[str, ...]] = ("openmpi", "mpi", "hpcx")
    get: ClassVar[str] = "install openmpi-bin (apt), openmpi (dnf) or HPC-X in /opt/hpcx"
    look: ClassVar[str] = """printf 'prefix %s\\n' "$OPAL_PREFIX"\nprintf 'libraries %s\\n' "$LD_LIBRARY_PATH"\n"""
    local_rank: ClassVar[str] = "OMPI_COMM_WORLD_LOCAL_RANK"
    hosts_by_name: ClassVar[bool] = False
    args: ClassVar[str] = "mpi_args"
    own_options: ClassVar[tuple[str, ...]] = (
        *("-H", "-host", "--host", "-hostfile", "--hostfile", "-machinefile", "--machinefile"),
        *("-np", "--np", "-n", "--n", "-c", "-app", "--app"),
    )
    own_letters: ClassVar[str] = r"-(?:H|[nc]\d)"
    refusals: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            r"Open MPI accepted a TCP connection from what appears to be|Open MPI failed to TCP connect to a peer",
            "name the network between the nodes, the same on all: nodegate_launch_network: 10.0.0.0/16, not docker0",
        ),
        (
            r"an MCA parameter was listed more than once",
            "remove from nodegate_mpi_args what is set in Open MPI's own files, or there",
        ),
        (
            r"There are not enough slots available|not enough available resources",
            "make the nodes' GPUs slots of Open MPI: no host file or Slurm allocation may be smaller than the group",
        ),
        (
            r"[^\n]{0,120}(?:Permission denied|Host key verification failed)[^\n]{0,120}",
            "allow ssh without a prompt from the head to each node, or set nodegate_launcher: srun",
        ),
        (
            r"[^\n]{0,120}(?:Could not resolve hostname|Connection refused|No route to host|timed out)[^\n]{0,80}",
            "the head must reach the other nodes by ssh under their inventory addresses (ansible_host)",
        ),
        (
            r"A daemon failed to report back|unable to reliably start one or more daemons|lost communication with a",
            "Open MPI must be under the same path on all nodes, and TCP must be open between them",
        ),
    )

    path: str
    settings: LaunchSettings = field(default_factory=LaunchSettings)
    major: int = 4
    environment: tuple[tuple[str, str], ...] = ()

    @classmethod
    def known(cls, path: str, said: Said, settings: LaunchSettings) -> Mpirun:
        """HPC-X is found in any folder, and does not know where it is."""
        version = first(said, "launcher")
        found = _OPEN_MPI.search(version)
        if not found:
            reason = f"{path} is not Open MPI's: {version or 'no answer'}"
            raise CannotMeasure(reason, next_step="install openmpi-bin, or set nodegate_launcher: srun")
        environment = {name: value for name, value in settings.environment.items() if _OF_MPI.fullmatch(name)}
        if "hpcx" in f"{path} {first(said, 'path')}".lower() and not first(said, "prefix"):
            home = PurePosixPath(path).parent.parent
            more = environment.get("LD_LIBRARY_PATH") or first(said, "libraries")
            libraries = ":".join(filter(None, [f"{home}/lib", more]))
            environment = {"OPAL_PREFIX": str(home), **environment, "LD_LIBRARY_PATH": libraries}
        return cls(path, settings, int(found[1] or found[2] or 4), tuple(environment.items()))

    def start(self, hosts: Sequence[str], gpus: int, network: str, _limit_s: float) -> tuple[str, ...]:
        """Each host has as many slots as GPUs."""
        slots = ",".join(f"{host}:{gpus}" for host in hosts)
        total = str(gpus * len(hosts))
        return (
            *("env", *(f"{name}={value}" for name, value in {**_ITS_OWN, **dict(self.environment)}.items())),
            *(self.path, "-H", slots, "-np", total, "--map-by", f"ppr:{gpus}:node", "--bind-to", "none"),
            *self._parameters(network),
            *self.settings.words.get(self.name, ()),
        )

    def _parameters(self, network: str) -> tuple[str, ...]:
        """The parameters of Open MPI, without those that the site sets itself: two values of one are refused."""
        own = {name for flag, name in pairwise(self.settings.words.get(self.name, ())) if flag in _MCA}
        own |= {name.split("_MCA_", 1)[1] for name in self.settings.environment if "_MCA_" in name}
        found = [("--mca", name, value) for name, value in PLAIN.items()]
        if network:
            daemons = ("--prtemca", "prte_if_include") if self.major >= 5 else ("--mca", "oob_tcp_if_include")
            found += [("--mca", "btl_tcp_if_include", network), (*daemons, network)]
        return tuple(
            word
            for flag, name, value in found
            if name not in own and name.replace("_include", "_exclude") not in own
            for word in (flag, name, value)
        )

    def for_ranks(self, _network: str) -> Mapping[str, str]:
        """What mpirun passes on of its own environment is set again: a login on the node may change it."""
        libraries = {name: value for name, value in self.environment if name in self.settings.environment}
        return {**self.settings.environment, **libraries}
