"""Targets that do not answer are waited for in these tests, but not for as long as in a night."""

import pytest

from nodegate.notices import tell


@pytest.fixture(autouse=True)
def short_limits(monkeypatch):
    monkeypatch.setattr(tell, "PAUSES_S", (0.05, 0.1))
    monkeypatch.setattr(tell, "ATTEMPT_S", 2.0)
    monkeypatch.setattr(tell, "TOTAL_S", 8.0)
