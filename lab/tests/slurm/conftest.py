from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import needs
from lab.nodes.nodes import why_not
from lab.slurm.bench import Bench, bench
from lab.slurm.cluster import Cluster, cluster


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A controller and two workers: gpu-2 for the faults, gpu-3 beside it."""
    needs.require(why_not())
    with cluster(2, tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture
def worker(slurm: Cluster) -> Iterator[Bench]:
    """gpu-2, healthy and idle, with no hook yet. Slurm gives it the jobs first."""
    with bench(slurm, slurm.workers[0]) as ready:
        yield ready


@pytest.fixture
def neighbour(slurm: Cluster) -> Iterator[Bench]:
    """gpu-3, healthy and idle, with no hook."""
    with bench(slurm, slurm.workers[1]) as ready:
        yield ready
