"""The runs under load go to one worker and all others to another one: labs of nodes look for what each other left."""

from __future__ import annotations

import pytest

from lab.fault_table import told  # noqa: F401 - for the tests on nodes of the lab

UNDER_LOAD = "test_load_over_ssh.py"


@pytest.hookimpl(tryfirst=True)  # pytest-xdist looks at the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group("under load" if item.path.name == UNDER_LOAD else "others"))
