from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import needs
from lab.guests.guests import why_not
from lab.guests.leases import Lease


@pytest.fixture(scope="session", autouse=True)
def possible() -> None:
    """In CI a machine that cannot run guests fails; elsewhere the tests are skipped with the reason."""
    needs.require(why_not())


@pytest.fixture(scope="session")
def pair() -> Iterator[Lease]:
    """A guest with perftest 25.01 on Linux 6.12 and one with perftest 4.5 on Linux 6.1, for all tests of pair/."""
    with Lease(("trixie", "bookworm")) as lent:
        yield lent


@pytest.fixture(scope="session")
def trio() -> Iterator[Lease]:
    """Three guests of one kind, for all tests of trio/."""
    with Lease(("trixie", "trixie", "trixie")) as lent:
        yield lent
