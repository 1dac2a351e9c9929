"""What a cluster starts ends with it: its daemons, mounts and control groups."""

from __future__ import annotations

import os
from pathlib import Path

from lab import needs
from lab.nodes import cgroups
from lab.nodes.nodes import why_not
from lab.processes import children_of, name_of, wait_until
from lab.slurm.cluster import cluster

DAEMONS = {"slurmctld", "slurmd", "munged"}


def test_no_process_mount_or_control_group_is_left(tmp_path: Path) -> None:
    needs.require(why_not())
    before = set(children_of(os.getpid()))
    with cluster(1, tmp_path) as slurm:
        holder = slurm.lab.space.holder
        started = set(children_of(os.getpid())) - before
        assert {name_of(pid) for pid in started} >= DAEMONS
    assert wait_until(lambda: not any(name_of(pid) for pid in started), limit_s=10)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert not [group for group in cgroups.groups(holder) if group.exists()]
