"""Sentences for people in their language: zh/LC_MESSAGES/nodegate.po, and compiled beside it as nodegate.mo.

English is in the code and in its tables. What forms a sentence asks `say`, `count`, `term` or `phrase` for it. The
language is set around the writing of a page or an answer (`speaking`), and is English everywhere else: files for
programs, records and a scheduler's reason are written outside of it. A test finds all that is asked for and compares
it with the catalogue.
"""

import gettext
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "zh")
TAGS = {"en": "en", "zh": "zh-CN"}  # as a page names its language
_SPOKEN: ContextVar[str] = ContextVar("language", default="en")


def known(text: str) -> str:
    """A sentence that is said elsewhere, from a table."""
    return text


class Words:
    """The sentences of one language."""

    def __init__(self, found: gettext.NullTranslations) -> None:
        self._found = found

    def say(self, text: str, /, **fields: object) -> str:
        """A sentence, with its fields."""
        return self._found.gettext(text).format(**fields)

    def count(self, one: str, many: str, n: int, **fields: object) -> str:
        """A sentence about a number of things, which is its field `n`."""
        return self._found.ngettext(one, many, n).format(n=n, **fields)

    def term(self, text: str) -> str:
        """A word or sentence without fields; one that the catalogue does not have, as it is."""
        return self._found.gettext(text) if text else ""


@cache
def words(lang: str) -> Words:
    """The sentences in one of `LANGUAGES`."""
    if lang == "en":
        return Words(gettext.NullTranslations())
    return Words(gettext.translation("nodegate", Path(__file__).parent, [lang]))


@contextmanager
def speaking(lang: str) -> Iterator[None]:
    """What is said inside is said in this language."""
    before = _SPOKEN.set(lang)
    try:
        yield
    finally:
        _SPOKEN.reset(before)


def spoken() -> str:
    """The language that is spoken here."""
    return _SPOKEN.get()


def say(text: str, /, **fields: object) -> str:
    """A sentence in the language that is spoken, with its fields."""
    return words(_SPOKEN.get()).say(text, **fields)


def number_of(one: str, many: str, n: int, **fields: object) -> str:
    """A sentence about a number of things in the language that is spoken; the number is its field `n`."""
    return words(_SPOKEN.get()).count(one, many, n, **fields)


def term(text: str) -> str:
    """A word of ours, a name or a unit: in the language that is spoken where the catalogue has it, else as it is."""
    return text if _SPOKEN.get() == "en" else words(_SPOKEN.get()).term(text)


def phrase(text: str) -> str:
    """A sentence of a finding, a table or a site; what the catalogue does not have is marked as in its own language."""
    if _SPOKEN.get() == "en":
        return text
    return say("“{text}”", text=text) if is_foreign(text) else term(text)


def is_foreign(text: str) -> bool:
    """Whether it is a sentence, not a single word, and the catalogue of the language that is spoken has no other."""
    return _SPOKEN.get() != "en" and " " in text and term(text) == text
