from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import needs
from lab.mpi.site import Site, site
from lab.nodes.nodes import why_not


@pytest.fixture(scope="session")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Four nodes with Open MPI and Slurm, and a docker0 of one address on each."""
    needs.require(why_not())
    with site(4, tmp_path_factory.mktemp("mpi")) as running:
        yield running
