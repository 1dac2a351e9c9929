"""Hundreds of runs are kept in these tests: none of them waits for the disk."""

from __future__ import annotations

import sqlite3

import pytest


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    connect = sqlite3.connect

    def quick(*arguments, **named):
        base = connect(*arguments, **named)  # type: ignore[arg-type]
        base.execute("pragma synchronous = off")
        return base

    monkeypatch.setattr(sqlite3, "connect", quick)
