from __future__ import annotations

import pytest

from lab import needs
from lab.guests.guests import why_not


@pytest.fixture(scope="session", autouse=True)
def possible() -> None:
    """In CI a machine that cannot run guests fails; elsewhere the tests are skipped with the reason."""
    needs.require(why_not())
