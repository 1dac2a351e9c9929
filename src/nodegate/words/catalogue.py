"""Sentences for people in their language: zh/LC_MESSAGES/nodegate.po, and compiled beside it as nodegate.mo.

English is in the code. `say`, `count` and `known` are how a sentence is asked for, each with the sentence itself, so
that a test can find all of them and compare them with the catalogue.
"""

from __future__ import annotations

import gettext
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "zh")


def known(text: str) -> str:
    """A sentence that is said elsewhere, from a table."""
    return text


class Words:
    """The sentences of one language."""

    def __init__(self, found: gettext.NullTranslations) -> None:
        self._found = found

    def say(self, text: str, **fields: object) -> str:
        """A sentence, with its fields."""
        return self._found.gettext(text).format(**fields)

    def count(self, one: str, many: str, n: int, **fields: object) -> str:
        """A sentence about a number of things, which is its field `n`."""
        return self._found.ngettext(one, many, n).format(n=n, **fields)


@cache
def words(lang: str) -> Words:
    """The sentences in one of `LANGUAGES`."""
    if lang == "en":
        return Words(gettext.NullTranslations())
    return Words(gettext.translation("nodegate", Path(__file__).parent, [lang]))
