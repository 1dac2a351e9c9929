"""Targets that do not answer are waited for in these tests, but not for as long as in a night."""

import pytest

from nodegate.notices import deliver


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "PAUSES_S", (0.05, 0.1))
    monkeypatch.setattr(deliver, "ATTEMPT_S", 2.0)
    monkeypatch.setattr(deliver, "TOTAL_S", 8.0)
