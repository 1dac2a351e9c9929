"""The policy of a run and the result for its fleet, in report.json. The result is written, and not read back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.metric import Statistic
from nodegate.policy.policy import ClassRule, DefectClass, Item, Policy
from nodegate.report.fleet_result import fleet_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.report.fleet_result import Defect
    from nodegate.report.model import Report

_ODD = "`policy` is not as nodegate writes it"


def to_json(report: Report) -> dict[str, object]:
    """`policy` and `fleet_result`; neither for a report without a policy."""
    policy, result = report.policy, fleet_result(report)
    if policy is None or result is None:
        return {}
    return {
        "policy": {
            "name": policy.name,
            "title": policy.title,
            "source": policy.source,
            "sha256": policy.sha256,
            "platforms": list(policy.platforms),
            "classes": {sort.value: _rule(rule) for sort, rule in policy.classes.items()},
            "items": [_item(item) for item in policy.items.values()],
        },
        "fleet_result": {
            "result": result.verdict.value,
            "why": result.why,
            "policy": policy.name,
            "is_part": result.is_part,
            "nodes": {sort.value: list(result.of_class(sort)) for sort in DefectClass},
            "defects": [_defect(each) for each in result.defects],
        },
    }


def _rule(rule: ClassRule) -> dict[str, object]:
    return {"clause": rule.clause, "may_fail_percent": rule.may_fail_percent, "days": rule.days}


def _item(item: Item) -> dict[str, object]:
    entry: dict[str, object] = {
        "claim": item.claim,
        "class": item.sort.value,
        "clause": item.clause,
        "statistic": item.statistic.value,
    }
    entry |= {} if item.may_fail_percent is None else {"may_fail_percent": item.may_fail_percent}
    return entry | ({"title": item.title} if item.title else {})


def _defect(defect: Defect) -> dict[str, object]:
    return {
        "claim": defect.item.claim,
        "title": defect.title,
        "class": defect.item.sort.value,
        "clause": defect.item.clause,
        "measured": defect.item.is_measured,
        "refuted": list(defect.refuted),
        "open": list(defect.open),
        "signed": list(defect.signed),
        "until": defect.until,
    }


def from_json(entry: Mapping[str, object]) -> Policy:
    """The policy that `to_json` wrote.

    Raises:
        UsageError: it was changed by hand and no longer is one.
    """
    try:
        name, title, source, sha256 = (_text(entry, key) for key in ("name", "title", "source", "sha256"))
        rules = {DefectClass(sort): _read_rule(rule) for sort, rule in _mapping(entry["classes"]).items()}
        platforms = tuple(str(each) for each in _list(entry["platforms"]))
        items = [_read_item(_mapping(item)) for item in _list(entry["items"])]
    except (KeyError, ValueError) as error:
        raise UsageError(_ODD) from error
    if DefectClass.A not in rules or any(item.sort not in rules for item in items):
        raise UsageError(_ODD)
    return Policy(name, title, source, sha256, rules, {item.claim: item for item in items}, platforms)


def _read_rule(entry: object) -> ClassRule:
    rule = _mapping(entry)
    days = _number(rule["days"])
    return ClassRule(_text(rule, "clause"), _number(rule["may_fail_percent"]), int(days))


def _read_item(entry: Mapping[str, object]) -> Item:
    return Item(
        _text(entry, "claim"),
        DefectClass(entry["class"]),
        _text(entry, "clause"),
        Statistic(entry["statistic"]),
        _number(entry["may_fail_percent"]) if "may_fail_percent" in entry else None,
        _text(entry, "title") if "title" in entry else "",
    )


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry[key]
    if not isinstance(value, str):
        raise ValueError(key)  # noqa: TRY004 - one error for all that is not as it was written
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(value)
    return min(float(value), 1e6)


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError  # noqa: TRY004
    return value
