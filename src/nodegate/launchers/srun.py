"""srun of Slurm, whose plug-ins for PMIx or PMI2 the ranks of MPI need to find each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from nodegate.errors import CannotMeasure
from nodegate.launchers.launcher import LaunchSettings, Said, first
from nodegate.launchers.mpirun import PLAIN

_MPI_TYPES = re.compile(r"pmix|pmix_v\d{1,2}|pmi2|cray_shasta")


@dataclass(frozen=True)
class Srun:
    """`mpi` is the type of its MPI; `gpus`, whether Slurm hands out GPUs."""

    name: ClassVar[str] = "srun"
    also: ClassVar[tuple[str, ...]] = ("slurm",)
    get: ClassVar[str] = "install slurm-client (apt) or slurm (dnf) and the cluster's slurm.conf"
    look: ClassVar[str] = r"""
types=$(timeout 15 "$1" --mpi=list 2>&1 </dev/null | grep -oE 'pmix(_v[0-9]+)?|pmi2|cray_shasta' | sort -u)
for kind in $types; do  # one is listed, too, whose library is missing
  timeout 15 "$1" --mpi="$kind" --test-only -N 1 true 2>&1 </dev/null | grep -q 'Invalid MPI type' ||
    printf 'mpi %s\n' "$kind"
done
echo 'mpi listed'
timeout 15 "${1%srun}scontrol" show config 2>/dev/null </dev/null | sed -n 's/^GresTypes *= */gres /p'
"""
    local_rank: ClassVar[str] = "SLURM_LOCALID"
    hosts_by_name: ClassVar[bool] = True
    args: ClassVar[str] = "srun_args"
    own_options: ClassVar[tuple[str, ...]] = (
        *("-N", "--nodes", "-n", "--ntasks", "--ntasks-per-node", "-w", "--nodelist", "-F", "--nodefile"),
        *("--multi-prog", "--mpi", "-o", "--output", "-e", "--error", "-t", "--time"),
        *("-x", "--exclude", "-r", "--relative", "--jobid", "--ntasks-per-core", "--ntasks-per-socket"),
        *("--ntasks-per-gpu", "-Z", "--no-allocate"),
    )
    own_letters: ClassVar[str] = r"-[EHhlOQsuvVX]*[NnwFoetxrZ]"  # after letters that take no value
    refusals: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            r"SLURM's PMI support|configure and build SLURM --with-pmix",
            "nccl-tests' MPI does not speak srun's: set nodegate_srun: {mpi: pmix}, or nodegate_launcher: mpirun",
        ),
        (
            r"srun: (?:error|fatal): [^\n]{0,200}",
            "check sinfo and the limits of the login: it must be able to start a job on the nodes",
        ),
    )

    path: str
    settings: LaunchSettings = field(default_factory=LaunchSettings)
    mpi: str = "pmix"
    gpus: bool = True

    @classmethod
    def known(cls, path: str, said: Said, settings: LaunchSettings) -> Srun:
        """The site's type of MPI, else the best one that Slurm can start."""
        listed = said.get("mpi", ())
        types = [kind for kind in listed if _MPI_TYPES.fullmatch(kind)]
        best = sorted(types, key=lambda kind: (kind != "pmix", "pmix" not in kind, kind != "pmi2"))
        mpi = settings.srun.get("mpi") or next(iter(best), "" if listed else "pmix")
        if not mpi:
            reason = f"{path} can start neither pmix nor pmi2 (srun --mpi=list), by which ranks of MPI find each other"
            raise CannotMeasure(reason, next_step="install Slurm's plugin for PMIx, or set nodegate_launcher: mpirun")
        return cls(path, settings, mpi, "gpu" in first(said, "gres") if "gres" in said else True)

    def start(self, hosts: Sequence[str], gpus: int, _network: str, limit_s: float) -> tuple[str, ...]:
        """A job of its own, which ends two minutes after the launch's time limit at the latest."""
        total, minutes = str(gpus * len(hosts)), str(int(limit_s // 60) + 2)
        return (
            *(self.path, "-N", str(len(hosts)), "-n", total, f"--ntasks-per-node={gpus}"),
            *("-w", ",".join(hosts), "--distribution=block", f"--mpi={self.mpi}"),
            *("--kill-on-bad-exit=1", "--cpu-bind=none", *((f"--gpus-per-node={gpus}",) if self.gpus else ())),
            *("--exclusive", "--immediate=60", "--time", minutes, "-J", "nodegate"),
            *(f"--{name}={value}" for name, value in self.settings.srun.items() if name != "mpi"),
            *self.settings.words.get(self.name, ()),
        )

    def for_ranks(self, network: str) -> Mapping[str, str]:
        """Without mpirun they include the parameters of Open MPI."""
        plain = {f"OMPI_MCA_{name}": value for name, value in PLAIN.items()}
        if network and "OMPI_MCA_btl_tcp_if_exclude" not in self.settings.environment:
            plain["OMPI_MCA_btl_tcp_if_include"] = network
        return {**plain, **self.settings.environment}
