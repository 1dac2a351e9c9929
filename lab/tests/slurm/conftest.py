from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import needs
from lab.nodes.nodes import why_not
from lab.slurm.bench import Bench, bench
from lab.slurm.cluster import Cluster, cluster
from lab.slurm.config import RELEASES

BOTH = (
    "test_engine",
    "test_guard",
    "test_healthcheck",
    "test_hold",
    "test_ready",
)  # what a release of Slurm may do otherwise; the rest is by 22.05


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Which releases of Slurm a file of tests is run with."""
    if "slurm" in metafunc.fixturenames:
        releases = list(RELEASES) if metafunc.module.__name__.endswith(BOTH) else list(RELEASES)[:1]
        metafunc.parametrize("slurm", releases, indirect=True, scope="session")


@pytest.fixture(scope="session")
def slurm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A controller and two workers: gpu-2 for the faults, gpu-3 beside it."""
    needs.require(why_not())
    with cluster(2, tmp_path_factory.mktemp("slurm"), suite=RELEASES[request.param]) as running:
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
