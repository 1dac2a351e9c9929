"""Whether a Chinese answer is Chinese.

A word is a run of small Latin letters between spaces, punctuation or Chinese: names of files, nodes, options and
variables have other characters too. What an answer quotes is left out first: lines of logs, names of logs, what the
operating system says, and what is between double quotes. Terms of the field ("rank", "worker") are the words that the
Chinese side of the sentence tables uses; each other word of their English side is English.
"""

import csv
import importlib
import json
import pkgutil
import re
from functools import cache
from importlib import resources

import nodegate.triage
from nodegate.knowledge.words import Text
from nodegate.text import visible
from nodegate.triage import render

_WORD = re.compile(r"(?<![!-~])[(\"'`]*([a-z]{2,})(?=[,;:.!?)\"'`]*(?![!-~]))")
_BETWEEN_QUOTES = re.compile(r'"[^"]*"')
_BEGINNING = 12  # characters by which a quoted line is found


@cache
def sentences():
    """The sentence tables: those of the data files of nodegate/knowledge, and the constants of nodegate/triage."""
    found = []
    for file in (resources.files("nodegate") / "knowledge").iterdir():
        if file.name.endswith(".csv"):
            rows = csv.DictReader(file.read_text("utf-8").splitlines())
            found += [text for row in rows for text in _of_row(row)]
    for module in pkgutil.iter_modules(nodegate.triage.__path__, "nodegate.triage."):
        held = vars(importlib.import_module(module.name)).values()
        found += [each for value in held for each in (value.values() if isinstance(value, dict) else [value])]
    return tuple(dict.fromkeys(text for text in found if isinstance(text, Text) and text.zh))


def _of_row(row):
    for chinese, english in (("zh", "en"), ("meaning_zh", "meaning"), ("action_zh", "action")):
        if row.get(chinese):
            yield Text(row[english], row[chinese])


@cache
def english_words():
    """The words that are English wherever they are."""
    english = {word for text in sentences() for word in words(text.en)}
    return frozenset(english - {word for text in sentences() for word in words(text.zh)})


def words(said):
    """The words of small Latin letters in a text."""
    return _WORD.findall(_BETWEEN_QUOTES.sub('""', said))


def english_in(said, quoted):
    """The texts that have an English word outside of what they quote."""
    quotes = sorted(
        {visible(quote) for quote in quoted if len(quote) > 2}, key=len, reverse=True
    )  # a letter is in any word
    return [text for text in said if english_words().intersection(words(_without(text, quotes)))]


def _without(said, quotes):
    for beginning in dict.fromkeys(quote[:_BEGINNING] for quote in quotes):
        while (at := said.find(beginning)) >= 0:
            end = max(_same(said[at:], quote) for quote in quotes)
            said = f"{said[:at]}。{said[at + end :]}"
    return said


def _same(one, other):
    """How many characters two texts have in common at their beginning; the first may lack the other's middle."""
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    rest = one[same + 1 :]
    if one[same : same + 1] != "…":
        return same
    return same + 1 + next((size for size in range(len(rest), 0, -1) if other.endswith(rest[:size])), 0)


def chinese_of(answer):
    """All that an answer says in Chinese: the lines of its text, and each Chinese text of its JSON."""
    value = json.loads(render.as_json(answer))
    return [*render.text(answer, "zh").splitlines(), *value["notes_zh"], *_chinese(value)]


def _chinese(value):
    if isinstance(value, dict):
        yield from [value["zh"]] if "zh" in value else []
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _chinese(each)


def quoted_by(case):
    """What an answer of this case may quote."""
    names = {log.name for log in case.logs} | {path for path, _ in case.passed_over}
    lines = {worth.text for log in case.logs for worth in log.end.worth}
    lines |= {line.text for log in case.logs for line in log.strange}
    lines |= {text for event in case.events for _, text in event.around}
    return {event.text for event in case.events} | set(case.unread) | names | lines
