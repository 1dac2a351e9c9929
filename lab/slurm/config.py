"""slurm.conf and what else a node needs to be of the cluster."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.nodes.node import LabNode

PACKAGES = ("munge", "slurm-client", "slurmctld", "slurmd")
RELEASES = {"22.05": "bookworm", "24.11": "trixie"}  # of Slurm, and the release of Debian that has it
HOOKS = ("prolog", "epilog", "healthcheck")
HEALTH_INTERVAL_S = 10
_CONF = f"""\
ClusterName=lab
SlurmctldHost=gpu-1
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldDebug=info
SlurmdDebug=info
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
# a job whose prolog failed runs elsewhere, and soon
SchedulerParameters=nohold_on_prolog_fail,batch_sched_delay=0
AuthInfo=cred_expire=5
ReturnToService=1
SlurmdTimeout=300
KillWait=2
CompleteWait=0
SlurmdParameters=config_overrides
GresTypes=gpu
Prolog=/etc/slurm/prolog
PrologFlags=Alloc
Epilog=/etc/slurm/epilog
PrologEpilogTimeout=120
MessageTimeout=60
HealthCheckProgram=/etc/slurm/healthcheck
HealthCheckInterval={HEALTH_INTERVAL_S}
HealthCheckNodeState=ANY
"""
_NODE = "NodeName={name} NodeAddr={address} CPUs=8 RealMemory=1000 Gres=gpu:h100:8 State=UNKNOWN\n"
# The sensors and limits that a made node has; a real one has more open files and locked memory.
_SITE = """\
platform: hgx-h100-8
limits:
  host.open_files_min: {value: 1024, unit: files, source: the lab}
  host.locked_memory_min_gib: {value: 0.007, unit: GiB, source: the lab}
"""
# GPU device files are made at boot (lab/nodes/recipe): Slurm counts them when it starts.
_AFTER_HARDWARE = "[Unit]\nAfter=node-hardware.service\nRequires=node-hardware.service\n"


def configure(node: LabNode, addresses: Sequence[tuple[str, str]], key: bytes, more: str = "") -> None:
    """Make a node part of the cluster, before it boots. The first one is the controller and runs no jobs.

    `more` are lines of slurm.conf in place of ours.
    """
    etc = node.root / "etc"
    (controller, _), *workers = addresses
    (etc / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in addresses))
    listed = "".join(_NODE.format(name=name, address=address) for name, address in workers)
    partition = "PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
    (etc / "slurm").mkdir(exist_ok=True)
    keys = {line.partition("=")[0] for line in more.splitlines()}
    ours = [line for line in _CONF.splitlines() if line.partition("=")[0] not in keys]
    (etc / "slurm/slurm.conf").write_text("\n".join([*ours, f"{more}{listed}{partition}"]))
    (etc / "slurm/gres.conf").write_text("Name=gpu Type=h100 File=/dev/nvidia[0-7]\n")
    (etc / "nodegate").mkdir()
    (etc / "nodegate/site.yaml").write_text(_SITE)
    for hook in HOOKS:
        (etc / "slurm" / hook).symlink_to("/bin/true")
    (etc / "munge/munge.key").write_bytes(key)
    own(node, etc / "munge/munge.key", "munge", 0o400)
    _units(etc / "systemd/system", is_controller=node.name == controller)
    for spool, owner in (("slurmctld", "slurm"), ("slurmd", "root")):
        folder = node.root / "var/spool" / spool
        folder.mkdir(exist_ok=True)
        own(node, folder, owner, 0o755)


def _units(systemd: Path, *, is_controller: bool) -> None:
    for unit in ("slurmctld", "slurmd"):
        wanted = systemd / f"multi-user.target.wants/{unit}.service"
        wanted.unlink(missing_ok=True)
        if is_controller == (unit == "slurmctld"):
            wanted.symlink_to(f"/lib/systemd/system/{unit}.service")
    extra = systemd / "slurmd.service.d"
    extra.mkdir()
    (extra / "hardware.conf").write_text(_AFTER_HARDWARE)


def own(node: LabNode, path: Path, user: str, mode: int) -> None:
    """Give a file to a user of the node."""
    listed = (line.split(":") for line in (node.root / "etc/passwd").read_text().splitlines())
    uid, gid = next((int(fields[2]), int(fields[3])) for fields in listed if fields[0] == user)
    os.chown(path, uid, gid)
    path.chmod(mode)
