from __future__ import annotations

from pathlib import Path

import pytest

from lab.told import told  # noqa: F401 - for all tests of the lab

HERE = Path(__file__).parent
# For `-n 3 --dist loadgroup`. Guests keep a processor busy each, so no more than two sets of them are up at once;
# nodes, which mostly wait, go beside them.
_LINKS = ("test_rdma_ends.py", "test_rdma_faults.py")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What goes one after the other."""
    for item in items:
        if item.path.is_relative_to(HERE):
            of_guests = "links" if item.path.name in _LINKS else "guests"
            item.add_marker(pytest.mark.xdist_group(of_guests if item.path.parent.name == "guests" else "nodes"))
