"""The nodes' tests end at once, with the reason, on a machine that cannot run them."""

import pytest

from lab import needs
from lab.nodes.nodes import why_not


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    """This machine can run nodes with systemd."""
    needs.require(why_not())
