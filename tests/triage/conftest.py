"""The logs that these tests write are of 10 August 2026, some without a year: the command reads them the day after.

Every answer is asked whether its Chinese is Chinese, whatever else its test is about.
"""

from datetime import datetime, timezone
from types import SimpleNamespace

import pytest
from support.languages import chinese_of, english_in, quoted_by

from nodegate.triage.answer import answer

NOW_S = datetime(2026, 8, 11, tzinfo=timezone.utc).timestamp()


@pytest.fixture(autouse=True)
def today(monkeypatch):
    monkeypatch.setattr("nodegate.triage.triage.time", SimpleNamespace(time=lambda: NOW_S))


@pytest.fixture(autouse=True)
def chinese_is_chinese(monkeypatch):
    def asked(case):
        given = answer(case)
        assert english_in(chinese_of(given), quoted_by(case)) == []
        return given

    monkeypatch.setattr("nodegate.triage.triage.answer", asked)
