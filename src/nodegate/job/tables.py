"""The data files of this room: metrics, limits, classes, sentences."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of one table."""
    return tuple(csv.DictReader(resources.files(__package__).joinpath(name).read_text("utf-8").splitlines()))


@cache
def row(name: str, key: str) -> dict[str, str]:
    """The row whose first column is `key`."""
    return next(each for each in rows(name) if next(iter(each.values())) == key)
