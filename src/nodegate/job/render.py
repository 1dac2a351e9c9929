"""An answer as some lines of text for a person, and as JSON for a program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nodegate.inventory.hostlist import fold
from nodegate.job.finding import Class
from nodegate.job.tables import moment, row
from nodegate.knowledge.words import Text
from nodegate.text import visible
from nodegate.words.catalogue import known, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nodegate.job.answer import Answer
    from nodegate.job.finding import Finding, Place

SCHEMA = "nodegate.job/1"
_MOST_PLACES = 8


def text(answer: Answer, language: str = "en") -> str:
    """The answer first, then where, since when, why, what to do, and the next command."""
    lines = [f"{answer.kind.value}: {_of_class(answer, language)}"]
    lines += [f"  {words(language).say(label):<6} {line}" for label, line in _rows(answer, language)]
    return "\n".join(visible(line, most=600) for line in lines)


def line(answer: Answer, language: str = "en") -> str:
    """One line for a notice: class, sentence, place and time."""
    finding, sentence = answer.finding, _of_class(answer, language)
    place = f" ({_where(finding.where, language)}, {_when(finding, language)})" if answer.exit == 1 else ""
    return visible(f"{answer.kind.value}: {sentence}{place}", most=600)


def line_of(finding: Finding) -> str:
    """One English line for a finding: class, time, and why with numbers."""
    why = "; ".join(each.en for each in finding.why)
    return f"{finding.kind.value}, {_when(finding, 'en')}: {why or row('texts.csv', finding.kind.value)['en']}"


def _of_class(answer: Answer, language: str, column: str = "en") -> str:
    return words(language).term(row("texts.csv", answer.kind.value)[column])


def _rows(answer: Answer, language: str) -> Iterator[tuple[str, str]]:
    finding, wrong = answer.finding, answer.exit == 1
    if wrong:
        yield known("where"), _where(finding.where, language)
        yield known("since"), _when(finding, language)
    for reason in finding.why:
        yield known("why"), reason.of(language)
    if _to_do(answer, language):
        yield known("do"), _to_do(answer, language)
    for other in answer.findings[1:]:
        yield known("also"), f"{other.kind.value}: {_where(other.where, language)}, {_when(other, language)}"
    for each in answer.notes:
        yield known("note"), each.of(language)
    for each in answer.not_judged:
        yield known("not judged"), each.of(language)
    if wrong:
        nodes = fold(place.node for place in finding.where)
        by_nodes = f" --nodes '{nodes}'" if nodes else ""
        yield known("next"), f"pytest --inventory hosts.yaml{by_nodes} --profile troubleshoot"


def _to_do(answer: Answer, language: str) -> str:
    node = fold(each.node for each in answer.finding.where) or words(language).say("each node")
    return _of_class(answer, language, "do").replace("{node}", node)


def _where(where: Sequence[Place], language: str) -> str:
    if not where:
        return words(language).say("the whole job")
    said = [
        each.node + ("" if each.gpu is None else f" GPU {each.gpu}") + (f" (pod {each.pod})" if each.pod else "")
        for each in where[:_MOST_PLACES]
    ]
    more = len(where) - len(said)
    said += [words(language).say("... {n} more", n=more)] if more > 0 else []
    return "; ".join(said)


def _when(finding: Finding, language: str) -> str:
    return words(language).say("before the window") if finding.since is None else moment(finding.since)


def as_json(answer: Answer) -> str:
    """The whole answer, one object; sentences are English."""
    own = _finding(answer.finding)
    value = {
        "schema": SCHEMA,
        **{key: own[key] for key in ("class", "since", "where", "why")},
        "do": list(filter(None, [_to_do(answer, "en")])),
        "findings": [_finding(each) for each in answer.findings],
        "notes": _english(answer.notes),
        "not_judged": _english(answer.not_judged),
    }
    return json.dumps(value, ensure_ascii=False, indent=1)


def _finding(found: Finding) -> dict[str, object]:
    where = [
        {"node": visible(each.node, most=255), "gpu": each.gpu, "pod": visible(each.pod, most=255) or None}
        for each in found.where
    ]
    since = None if found.since is None or found.kind is Class.HEALTHY else moment(found.since)
    return {"class": found.kind.value, "where": where, "since": since, "why": _english(found.why)}


def _english(said: Iterable[Text]) -> list[str]:
    return [visible(each.en) for each in said]
