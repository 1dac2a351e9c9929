"""What starts ranks on other nodes, and its words: mpirun of Open MPI 4 and 5 and of HPC-X, or srun."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.transport.call import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.measure.groups.settings import LaunchSettings

# $1: the launcher or nothing, $2: a program, $3: the node's address in the inventory.
LOOK = r"""if [ -n "$1" ]; then
  "$1" --version 2>&1 </dev/null | sed -n '1s/^/launcher /p'
  printf 'path %s\n' "$(readlink -f "$1")"
  printf 'prefix %s\n' "$OPAL_PREFIX"
  printf 'libraries %s\n' "$LD_LIBRARY_PATH"
  case $1 in *srun)
    types=$(timeout 15 "$1" --mpi=list 2>&1 </dev/null | grep -oE 'pmix(_v[0-9]+)?|pmi2|cray_shasta' | sort -u)
    for kind in $types; do  # one is listed, too, whose library is missing
      timeout 15 "$1" --mpi="$kind" --test-only -N 1 true 2>&1 </dev/null | grep -q 'Invalid MPI type' ||
        printf 'mpi %s\n' "$kind"
    done
    echo 'mpi listed'
    timeout 15 "${1%srun}scontrol" show config 2>/dev/null </dev/null | sed -n 's/^GresTypes *= */gres /p' ;;
  esac
fi
printf 'host %s\n' "$(uname -n)"
printf 'program %s\n' "$(sha256sum <"$2" | cut -c1-12)"
library=$(ldd "$2" 2>/dev/null | sed -n 's/.*libnccl\.so[^ ]* => \([^ ]*\).*/\1/p' | head -n 1)
[ -n "$library" ] && printf 'nccl %s\n' "$(sha256sum <"$library" | cut -c1-12)"
ip -o addr show up 2>/dev/null | awk '$3 ~ /^inet/ {print "address", $2, $4}' | head -n 64
getent ahosts "$3" 2>/dev/null | awk '{print "means", $1}' | sort -u | head -n 8
printf '%s\n' "$SSH_CONNECTION" | awk 'NF == 4 {print "reached", $3}'
exit 0
"""
_LINE = re.compile(r"(launcher|path|prefix|libraries|mpi|gres|host|program|nccl|address|means|reached)[ \t]+(.{0,300})")
_OPEN_MPI = re.compile(r"\((?:Open MPI|OpenRTE)\) (\d{1,3})\.|Open MPI v?(\d{1,3})\.|Open MPI|OpenRTE")
_MPI_TYPES = re.compile(r"pmix|pmix_v\d{1,2}|pmi2|cray_shasta")
# Open MPI refuses root otherwise. Its ssh cannot prompt: a guarded program has no terminal.
_FOR_MPIRUN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Messages of MPI go by TCP and none by what is measured: UCX and HCOLL would open the NICs under test.
PLAIN = {"pml": "ob1", "btl": "self,tcp", "coll": "^hcoll,ucc"}
_MCA = frozenset({"--mca", "-mca", "--gmca", "-gmca", "--omca", "--prtemca"})


@dataclass(frozen=True)
class Launcher:
    """`name` is "mpirun" or "srun". `major`: the release of Open MPI, 4 where it does not say.

    `environment` is what it needs itself: HPC-X is found in any folder, and does not know where it is. `mpi` is the
    type of srun's MPI; `gpus`, whether Slurm hands out GPUs.
    """

    name: str
    path: str
    major: int = 4
    environment: tuple[tuple[str, str], ...] = ()
    mpi: str = "pmix"
    gpus: bool = True


def heard(text: bytes) -> Mapping[str, Sequence[str]]:
    """What a node said of its launcher, its programs and its addresses: some lines under each name."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    for line in filter(None, (_LINE.fullmatch(printable(each, 320)) for each in text[:32768].splitlines())):
        said[line[1]].append(line[2].strip())
    return said


def known(name: str, path: str, said: Mapping[str, Sequence[str]], settings: LaunchSettings) -> Launcher:
    """The launcher of a node, by what it says of itself.

    Raises:
        CannotMeasure: it is not Open MPI's, or Slurm has nothing by which ranks of MPI find each other.
    """
    return _srun(path, said, settings) if name == "srun" else _mpirun(path, said, settings)


def _mpirun(path: str, said: Mapping[str, Sequence[str]], settings: LaunchSettings) -> Launcher:
    version = first(said, "launcher")
    found = _OPEN_MPI.search(version)
    if not found:
        reason = f"{path} is not Open MPI's: {version or 'no answer'}"
        raise CannotMeasure(reason, next_step="install openmpi-bin, or set nodegate_launcher: srun")
    environment = settings.of_launcher
    if "hpcx" in f"{path} {first(said, 'path')}".lower() and not first(said, "prefix"):
        home = PurePosixPath(path).parent.parent
        more = environment.get("LD_LIBRARY_PATH") or first(said, "libraries")
        libraries = ":".join(filter(None, [f"{home}/lib", more]))
        environment = {"OPAL_PREFIX": str(home), **environment, "LD_LIBRARY_PATH": libraries}
    return Launcher("mpirun", path, int(found[1] or found[2] or 4), tuple(environment.items()))


def _srun(path: str, said: Mapping[str, Sequence[str]], settings: LaunchSettings) -> Launcher:
    listed = said.get("mpi", ())
    types = [kind for kind in listed if _MPI_TYPES.fullmatch(kind)]
    best = sorted(types, key=lambda kind: (kind != "pmix", "pmix" not in kind, kind != "pmi2"))
    mpi = settings.srun.get("mpi") or next(iter(best), "" if listed else "pmix")
    if not mpi:
        reason = f"{path} can start neither pmix nor pmi2 (srun --mpi=list), by which ranks of MPI find each other"
        raise CannotMeasure(reason, next_step="install Slurm's plugin for PMIx, or set nodegate_launcher: mpirun")
    gpus = "gpu" in first(said, "gres") if "gres" in said else True
    return Launcher("srun", path, mpi=mpi, gpus=gpus)


def start(  # noqa: PLR0917 - the words of one command line
    launcher: Launcher, settings: LaunchSettings, hosts: Sequence[str], gpus: int, network: str, limit_s: float
) -> tuple[str, ...]:
    """The words before the rank's own: which launcher, on which hosts, over which network."""
    words = _srun_words if launcher.name == "srun" else _mpirun_words
    return words(launcher, settings, hosts, gpus, network, limit_s)


def _mpirun_words(
    launcher: Launcher, settings: LaunchSettings, hosts: Sequence[str], gpus: int, network: str, _: float
) -> tuple[str, ...]:
    environment = {**_FOR_MPIRUN, **dict(launcher.environment)}
    slots = ",".join(f"{host}:{gpus}" for host in hosts)
    total = str(gpus * len(hosts))
    return (
        *("env", *(f"{name}={value}" for name, value in environment.items())),
        *(launcher.path, "-H", slots, "-np", total, "--map-by", f"ppr:{gpus}:node", "--bind-to", "none"),
        *_parameters(launcher, settings, network),
        *settings.mpi_words,
    )


def _parameters(launcher: Launcher, settings: LaunchSettings, network: str) -> tuple[str, ...]:
    """The parameters of Open MPI, without those that the site sets itself: two values of one are refused."""
    own = {name for flag, name in pairwise(settings.mpi_words) if flag in _MCA}
    own |= {name.split("_MCA_", 1)[1] for name in settings.environment if "_MCA_" in name}
    found = [("--mca", name, value) for name, value in PLAIN.items()]
    if network:
        daemons = ("--prtemca", "prte_if_include") if launcher.major >= 5 else ("--mca", "oob_tcp_if_include")
        found += [("--mca", "btl_tcp_if_include", network), (*daemons, network)]
    return tuple(
        word
        for flag, name, value in found
        if name not in own and name.replace("_include", "_exclude") not in own
        for word in (flag, name, value)
    )


def _srun_words(
    launcher: Launcher, settings: LaunchSettings, hosts: Sequence[str], gpus: int, _: str, limit_s: float
) -> tuple[str, ...]:
    total, minutes = str(gpus * len(hosts)), str(int(limit_s // 60) + 2)
    return (
        *(launcher.path, "-N", str(len(hosts)), "-n", total, f"--ntasks-per-node={gpus}"),
        *("-w", ",".join(hosts), "--distribution=block", f"--mpi={launcher.mpi}"),
        *("--kill-on-bad-exit=1", "--cpu-bind=none", *((f"--gpus-per-node={gpus}",) if launcher.gpus else ())),
        *("--exclusive", "--immediate=60", "--time", minutes, "-J", "nodegate"),
        *(f"--{name}={value}" for name, value in settings.srun.items() if name != "mpi"),
        *settings.srun_words,
    )


def for_ranks(launcher: Launcher, settings: LaunchSettings, network: str) -> dict[str, str]:
    """The settings in a rank's environment. Without mpirun they include the parameters of Open MPI."""
    plain = {}
    if launcher.name == "srun":
        plain = {f"OMPI_MCA_{name}": value for name, value in PLAIN.items()}
        plain |= {"OMPI_MCA_btl_tcp_if_include": network} if network else {}
        if "OMPI_MCA_btl_tcp_if_exclude" in settings.environment:
            plain.pop("OMPI_MCA_btl_tcp_if_include", None)
    libraries = {name: value for name, value in launcher.environment if name in settings.environment}
    return {**plain, **settings.environment, **libraries}


def first(said: Mapping[str, Sequence[str]], name: str) -> str:
    """The first line that a node said under a name; empty if it said none."""
    return next(iter(said.get(name, ())), "")
