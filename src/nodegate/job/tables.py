"""The data files of this room: metrics, limits, classes, sentences; and a sentence of them, filled."""

from __future__ import annotations

import csv
import datetime as dt
from functools import cache
from importlib import resources

from nodegate.knowledge.words import Text
from nodegate.words.catalogue import words


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of one table."""
    return tuple(csv.DictReader(resources.files(__package__).joinpath(name).read_text("utf-8").splitlines()))


@cache
def row(name: str, key: str) -> dict[str, str]:
    """The row whose first column is `key`."""
    return next(each for each in rows(name) if next(iter(each.values())) == key)


def say(sentence: str, **values: object) -> Text:
    """A sentence of the table, filled in both languages."""
    said = row("sentences.csv", sentence)["en"]
    return Text(words("en").say(said, **values), words("zh").say(said, **values))


def moment(seconds: float) -> str:
    """UTC, as ISO 8601 with Z."""
    return dt.datetime.fromtimestamp(round(seconds), dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
