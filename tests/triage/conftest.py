"""The logs that these tests write are of 10 August 2026, some without a year: the command reads them the day after."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

NOW_S = datetime(2026, 8, 11, tzinfo=timezone.utc).timestamp()


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodegate.triage.triage.time", SimpleNamespace(time=lambda: NOW_S))
