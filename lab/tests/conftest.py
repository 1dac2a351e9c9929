from __future__ import annotations

import os

import pytest

from lab.together import why_not


@pytest.fixture(scope="session", autouse=True)
def possible() -> None:
    """In CI a machine that cannot run the lab fails; elsewhere the tests are skipped with the reason."""
    reason = why_not()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
