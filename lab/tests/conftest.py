from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.together import Lab, why_not


@pytest.fixture(scope="session")
def running() -> Iterator[Lab]:
    """Three guests for all tests: what a test breaks it mends."""
    reason = why_not()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
    with Lab(3) as lab:
        yield lab


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    yield running
    running.mend()
