"""What doctor says of Slurm's own settings before a run: tracking of processes, limits of partitions, rights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from nodegate.engines.slurm.ready import obstacles
from nodegate.inventory import inventory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.slurm.cluster import Cluster
    from nodegate.engines.engine import Obstacle


@pytest.fixture(autouse=True)
def programs(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's own programs: we are outside the cluster."""
    monkeypatch.setenv("PATH", f"{slurm.programs(tmp_path)}:{os.environ['PATH']}")


@pytest.fixture
def partition(slurm: Cluster) -> Iterator[None]:
    """Gives the partition its own limits back."""
    yield
    slurm.controller.run(
        "scontrol", "update", "partitionname=gpu", "MaxTime=UNLIMITED", "MaxNodes=UNLIMITED", "State=UP"
    )
    slurm.controller.run("scontrol", "update", "partitionname=gpu", "AllocNodes=ALL")


def told() -> list[Obstacle]:
    return list(obstacles(inventory.read(["slurm:[gpu]"]).nodes))


def test_a_cluster_that_tracks_by_session_says_so_and_stops_nothing(slurm: Cluster) -> None:
    found = told()
    assert [each.what.partition(":")[0] for each in found] == ["ProctrackType=proctrack/linuxproc"]
    assert set(found[0].nodes) == {worker.name for worker in slurm.workers}
    assert not found[0].stops


@pytest.mark.parametrize(
    ("limit", "said", "stops"),
    [
        ("MaxTime=30", "partition gpu ends jobs after 30 min", False),
        ("MaxTime=1-00:00:00", "", False),
        ("MaxNodes=1", "partition gpu gives a job at most 1 node: 2 are held by several jobs", False),
        ("State=DOWN", "partition gpu is DOWN", True),
        ("AllocNodes=elsewhere", "Slurm refuses a job of ours", True),
    ],
)
@pytest.mark.usefixtures("partition")
def test_limits_and_rights_of_a_partition(slurm: Cluster, limit: str, said: str, stops: bool) -> None:
    slurm.controller.run("scontrol", "update", "partitionname=gpu", limit)
    found = [each for each in told() if not each.what.startswith("Proctrack")]
    assert [each.what.startswith(said) for each in found] == [True] * bool(said), found
    assert any(each.stops for each in found) is stops
