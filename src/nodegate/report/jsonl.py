"""A result as JSON with everything in it: between processes, in results.full.jsonl, in an earlier results.jsonl."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from nodegate.errors import UsageError
from nodegate.records.finding import Finding, Limit, LimitKind, LimitValue, Record
from nodegate.records.part import from_json as part_from_json
from nodegate.records.part import to_json as part_to_json
from nodegate.records.verdict import Verdict
from nodegate.unknown import Why

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nodegate.records.part import Part

MOST_SECONDS = 1e12  # of a duration, or of a clock since 1970
RECORD_KEYS = frozenset(
    ("node", "check", "verdict", "message", "findings", "failure_modes", "evidence", "duration_s", "waiver", "remark")
)
_FINDING_TEXTS = ("unit", "text", "note", "action", "code", "metric", "blocked_by", "lacks")
_OTHERS = ("part", "device", "verdict", "message", "quantity", "value", "limit")
_LIMIT_KEYS = ("limit_source", "limit_kind", "direction")
_FINDING_KEYS = frozenset((*_OTHERS, *_LIMIT_KEYS, *_FINDING_TEXTS, "share", "why", "also"))
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
OLDER = "nodegate 0.1 wrote it and can read it; or judge its evidence again: pytest --replay FOLDER"


def to_json(record: Record, findings: Iterable[Finding] | None = None) -> dict[str, object]:
    """The record as JSON holds it, with all of its findings or with these; see `finding_to_json`."""
    return {
        "node": record.node,
        "check": record.check,
        "verdict": record.verdict.value,
        "message": record.message,
        "findings": [finding_to_json(each) for each in (record.findings if findings is None else findings)],
        "failure_modes": list(record.failure_modes),
        "evidence": list(record.evidence),
        "duration_s": record.duration_s if math.isfinite(record.duration_s) else 0.0,
        "waiver": record.waiver,
        "remark": record.remark,
    }


def finding_to_json(finding: Finding) -> dict[str, object]:
    """The finding as JSON holds it: what is empty is left out.

    `device` and `message` are for people and scripts: they are made from the other fields and not read back.
    """
    limit = finding.limit
    value: dict[str, object] = {
        "device": device(finding),
        "verdict": finding.verdict.value,
        "message": finding.message,
        "part": part_to_json(finding.part),
        "quantity": finding.quantity,
        "value": scalar(finding.observed),
        "limit": None if limit is None else limit_value(limit.value),
        "limit_source": limit.source if limit else "",
        "limit_kind": limit.kind.value if limit else "",
        "direction": limit.direction if limit else "",
        "share": finding.share,
        "why": finding.why.value if finding.why else "",
        "also": [part_to_json(part) for part in finding.also],
        **{name: getattr(finding, name) for name in _FINDING_TEXTS},
    }
    return {key: each for key, each in value.items() if each not in (None, "", []) or key in ("device", "message")}


def device(finding: Finding) -> str:
    """The parts of a finding as people and scripts read them."""
    return ", ".join(part.label for part in finding.parts)


def from_json(mapping: Mapping[str, object]) -> Record:
    """The record that `to_json` wrote.

    Raises:
        UsageError: a key is missing, unknown, or of the wrong type; or an older release wrote it.
    """
    if "remark" not in mapping and mapping.keys() >= RECORD_KEYS - {"remark"}:
        raise UsageError("the results of an older release", hint=OLDER)
    _keys("result", mapping, RECORD_KEYS)
    findings = mapping["findings"]
    duration_s = mapping["duration_s"]
    if not isinstance(findings, list):
        raise UsageError("`findings` is not a list")
    if isinstance(duration_s, bool) or not isinstance(duration_s, (int, float)) or not abs(duration_s) < MOST_SECONDS:
        raise UsageError("`duration_s` is not a number of seconds")
    return Record(
        node=_text(mapping, "node"),
        check=_text(mapping, "check"),
        verdict=_verdict(mapping),
        findings=tuple(finding_from_json(entry) for entry in findings),
        failure_modes=_texts(mapping, "failure_modes"),
        evidence=_texts(mapping, "evidence"),
        duration_s=float(duration_s),
        waiver=_text(mapping, "waiver"),
        remark=_text(mapping, "remark"),
    )


def line(record: Record) -> str:
    """The record as one line with everything in it, newline included."""
    return dumps(to_json(record)) + "\n"


def dumps(value: object) -> str:
    """JSON in one line, as results.jsonl has it."""
    return _ENCODER.encode(value)


def finding_from_json(entry: object) -> Finding:
    """The finding that `finding_to_json` wrote.

    Raises:
        UsageError: a key is unknown or of the wrong type.
    """
    if not isinstance(entry, dict):
        raise UsageError("a finding is not an object")
    unknown = sorted(entry.keys() - _FINDING_KEYS)
    if unknown:
        raise UsageError(f"a finding has the unknown key `{unknown[0][:40]}`")
    also = entry.get("also", [])
    if not isinstance(also, list):
        raise UsageError("`also` of a finding is not a list of parts")
    return finding_of(entry, _part(entry.get("part")), tuple(_part(each) for each in also))


def finding_of(entry: Mapping[str, object], part: Part, also: tuple[Part, ...] = ()) -> Finding:
    """The finding of these parts.

    Raises:
        UsageError: a key is of the wrong type.
    """
    value: Any = entry.get("value")
    share = entry.get("share")
    if isinstance(value, (list, dict)):
        raise UsageError("`value` of a finding is not a plain value")
    if isinstance(share, bool) or not isinstance(share, (int, float, type(None))):
        raise UsageError("`share` of a finding is not a number")
    texts = {name: _text(entry, name) if name in entry else "" for name in ("quantity", *_FINDING_TEXTS)}
    return Finding(
        part=part,
        verdict=_verdict(entry),
        observed=value,
        limit=_limit(entry),
        share=share,
        why=_why(entry.get("why", "")),
        also=also,
        **texts,
    )


def _limit(entry: Mapping[str, object]) -> Limit[LimitValue] | None:
    value = entry.get("limit")
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = frozenset(value)
    elif isinstance(value, list) and all(type(each) in (int, float) for each in value):
        value = tuple(value)
    if not isinstance(value, (bool, int, float, str, frozenset, tuple)):
        raise UsageError("`limit` of a finding is not a plain value")
    unit, source, direction = (
        _text(entry, name) if name in entry else "" for name in ("unit", "limit_source", "direction")
    )
    try:
        return Limit(value, unit, source, direction, LimitKind(entry.get("limit_kind")))
    except ValueError as error:
        raise UsageError("`limit_kind` of a finding is not the kind of a limit", hint=OLDER) from error


def limit_value(value: LimitValue) -> object:
    """A limit as JSON holds it."""
    if isinstance(value, tuple):
        return [scalar(each) for each in value]
    return sorted(value) if isinstance(value, frozenset) else scalar(value)


def _part(entry: object) -> Part:
    try:
        return part_from_json(entry if isinstance(entry, dict) else {})
    except ValueError as error:
        raise UsageError(f"the part of a finding: {error}") from error


def _why(entry: object) -> Why | None:
    try:
        return Why(entry) if entry else None
    except ValueError as error:
        raise UsageError(f"{str(entry)[:40]!r} is not a reason for an unknown value") from error


def _keys(what: str, mapping: Mapping[str, object], right: frozenset[str]) -> None:
    missing, unknown = sorted(right - set(mapping)), sorted(set(mapping) - right)
    if missing:
        raise UsageError(f"a {what} lacks `{missing[0]}`")
    if unknown:
        raise UsageError(f"a {what} has the unknown key `{unknown[0][:40]}`")


def _text(mapping: Mapping[str, object], key: str) -> str:
    value = mapping[key]
    if not isinstance(value, str):
        raise UsageError(f"`{key}` is not text")
    return value


def _texts(mapping: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = mapping[key]
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise UsageError(f"`{key}` is not a list of texts")
    return tuple(value)


def _verdict(mapping: Mapping[str, object]) -> Verdict:
    said = mapping.get("verdict", "")
    try:
        return Verdict(said)
    except ValueError as error:
        raise UsageError(f"{str(said)[:40]!r} is not a verdict") from error


def scalar(value: object) -> object:
    """A value as strict JSON can hold it: a number that is none (nan, inf) and any other object become text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)
