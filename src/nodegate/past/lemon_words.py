"""What fails again, in words for people in English and Chinese (lemon_words.csv), and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING

from nodegate.knowledge.tables import rows
from nodegate.knowledge.words import Text
from nodegate.past.lemon import SOAK, WATCH
from nodegate.records.verdict import NodeVerdict
from nodegate.text import day_of, some, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nodegate.past.lemon import Lemon, Told, Unit

SCHEMA = "nodegate.lemons/1"
MOST_NODES = 8


@cache
def _table() -> Mapping[str, Text]:
    return {row["id"]: Text(row["en"], row["zh"]) for row in rows("lemon_words.csv")}


def _say(sentence: str, **values: object) -> Text:
    said = _table()[sentence]
    return Text(said.en.format(**values), said.zh.format(**values))


def lines(told: Told, language: str = "en") -> Iterator[str]:
    """The answer: who, why and what to do; then parts that a reset does not help, and the fleet as a whole."""
    yield from (said.zh if language == "zh" else said.en for said in _lines(told))


def _lines(told: Told) -> Iterator[Text]:
    since, until = day_of(told.since_s), day_of(told.until_s)
    yield _say("named" if told.named else "none", count=len(told.named), since=since, until=until)
    for each in told.named:
        unit = each.unit
        who = (unit.kin[0], unit.key, "") if unit.is_group and unit.kin[0] else (unit.key, unit.node, unit.slot)
        yield _joined(f"  {_where(*who)}: ", grounds(each))
        yield _joined("    ", to_do(each))
    named = {each.unit.key for each in told.named}
    for (key, node, slot), why in told.recurring.items():
        if key not in named:
            yield _joined(f"  {_where(key, node, slot)}: ", recurs(why))
    if told.figures.at_once:
        yield _say("at_once", count=told.figures.at_once)
    numbers = told.figures
    yield _say(
        "fleet",
        machines=numbers.machines,
        node_days=numbers.node_days,
        faults=numbers.faults,
        mtbf="-" if numbers.mtbf_days is None else f"{numbers.mtbf_days:.0f}",
        repair="-" if numbers.repair_hours is None else f"{numbers.repair_hours:.0f}",
        healthy="-" if numbers.healthy_share is None else f"{100 * numbers.healthy_share:.1f} %",
    )
    if told.not_compared:
        yield _say("few", nodes=some(sorted(told.not_compared.values()), MOST_NODES))


def grounds(lemon: Lemon) -> Text:
    """Why it is named, in both languages."""
    unit = lemon.unit
    return _say(
        "group" if unit.is_group else "grounds",
        count=unit.count,
        days=lemon.days,
        expected=f"{lemon.expected:.1f}",
        kinds=", ".join(f"{kind} {count}" for kind, count in _kinds(unit)),
        last=day_of(unit.faults[-1].at_s),
        hit=len({each.machine for each in unit.faults}),
        size=len(unit.members),
    )


def to_do(lemon: Lemon) -> Text:
    """What to do, in both languages; for a fault that recurs not a reset."""
    about = {WATCH: WATCH, SOAK: _soak(lemon.unit)}
    said = _say(about.get(lemon.advice, f"{lemon.unit.what} {lemon.advice}"))
    if not lemon.recurs:
        return said
    why = recurs(lemon.recurs)
    return Text(f"{said.en}; {why.en}", f"{said.zh}；{why.zh}")  # noqa: RUF001 - Chinese punctuation


def _soak(unit: Unit) -> str:
    """What a node's faults show: several parts; only that it did not answer; or it may be one part.

    A part by number, one by its name and one by its bus address may be the same.
    """
    if all(each.kind == NodeVerdict.UNREACHABLE.value for each in unit.faults):
        return "silent"
    parts = {(each.board, each.device) for each in unit.faults if each.board or each.device}
    sorts = Counter((bool(board), ":" in device) for board, device in parts)
    return "several" if max(sorts.values(), default=0) > 1 else "one part"


def recurs(why: str) -> Text:
    """How it comes again, and that a reset does not help."""
    how, so = _say("any") if why == "any" else _say("kind", kind=why), _say("reset")
    return Text(f"{how.en}: {so.en}", f"{how.zh}：{so.zh}")  # noqa: RUF001 - Chinese punctuation


def _joined(begin: str, said: Text) -> Text:
    return Text(begin + said.en, begin + said.zh)


def _kinds(unit: Unit) -> list[tuple[str, int]]:
    """The kinds of its faults, each with its days, the most frequent first."""
    found = Counter(kind for kind, _, _ in {(each.kind, each.machine, each.day) for each in unit.faults})
    return sorted(found.items(), key=lambda each: (-each[1], each[0]))


def _where(key: str, node: str, slot: str) -> str:
    where = " ".join(part for part in (node, slot) if part)
    return f"{where} ({key})" if where else key


def as_json(told: Told) -> str:
    """The whole answer as one object; sentences are English, times are seconds since the epoch."""
    value = {
        "schema": SCHEMA,
        "since_epoch_s": told.since_s,
        "until_epoch_s": told.until_s,
        "fleet": asdict(told.figures),
        "lemons": [_lemon(each) for each in told.named],
        "reset_does_not_help": [
            {"part": visible(key), "node": visible(node), "slot": visible(slot), "why": recurs(why).en}
            for (key, node, slot), why in told.recurring.items()
        ],
        "not_compared": [visible(node) for node in sorted(told.not_compared.values())],
    }
    return json.dumps(value, ensure_ascii=False, indent=1)


def _lemon(each: Lemon) -> dict[str, object]:
    unit = each.unit
    return {
        "what": unit.what,
        "part": visible(unit.key),
        "node": visible(unit.node),
        "slot": visible(unit.slot),
        "platform": visible(unit.kin[0]),
        "nodes": sorted({visible(fault.node) for fault in unit.faults}),
        "days": each.days,
        "days_looked_at": unit.exposure[0],
        "days_with_a_fault": unit.count,
        "expected": round(each.expected, 4),
        "chance": each.chance,
        "kinds": dict(_kinds(unit)),
        "first_epoch_s": unit.faults[0].at_s,
        "last_epoch_s": unit.faults[-1].at_s,
        "advice": each.advice,
        "reset_helps": not each.recurs,
        "do": to_do(each).en,
    }
