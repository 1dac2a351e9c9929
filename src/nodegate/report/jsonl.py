"""results.jsonl, the authoritative record: one line per (node, check), written while the run goes on."""

from __future__ import annotations

import errno
import json
import math
from array import array
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.files.strict_json import loads
from nodegate.finding import Finding, Limit, LimitKind, LimitValue, Record
from nodegate.part import from_json as part_from_json
from nodegate.part import to_json as part_to_json
from nodegate.unknown import Why
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from nodegate.part import Part

MOST_LINE_BYTES = 4 << 20
MOST_SECONDS = 1e12  # of a duration, or of a clock since 1970
_RECORD_KEYS = frozenset(
    ("node", "check", "verdict", "message", "findings", "failure_modes", "evidence", "duration_s", "waiver", "remark")
)
_FINDING_TEXTS = ("unit", "text", "note", "action", "code", "metric", "blocked_by")
_OTHERS = ("part", "device", "verdict", "message", "quantity", "value", "limit")
_LIMIT_KEYS = ("limit_source", "limit_kind", "direction")
_FINDING_KEYS = frozenset((*_OTHERS, *_LIMIT_KEYS, *_FINDING_TEXTS, "share", "why", "also"))
OLDER = "nodegate 0.1 wrote it and can read it; or judge its evidence again: pytest --replay FOLDER"


def to_json(record: Record) -> dict[str, object]:
    """The record as JSON holds it; see `finding_to_json`."""
    return {
        "node": record.node,
        "check": record.check,
        "verdict": record.verdict.value,
        "message": record.message,
        "findings": [finding_to_json(finding) for finding in record.findings],
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
        "value": _scalar(finding.observed),
        "limit": None if limit is None else _limit_value(limit.value),
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
    if "remark" not in mapping and mapping.keys() >= _RECORD_KEYS - {"remark"}:
        raise UsageError("the results of an older release", hint=OLDER)
    _keys("result", mapping, _RECORD_KEYS)
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


def beginning(node: str) -> str:
    """How every line of a node begins."""
    return _dumps({"node": node})[:-1] + ","


def line(record: Record) -> str:
    """The record as one line of results.jsonl, newline included."""
    return _dumps(to_json(record)) + "\n"


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read(path: Path) -> list[Record]:
    """All records of a results.jsonl, in the order in which they were written.

    A last line without its newline was cut by a crash and is left out: its check has no record.

    Raises:
        UsageError: the file is missing, or a line is no record.
    """
    records = []
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), start=1):
                if not raw.endswith(b"\n"):
                    if len(raw) == MOST_LINE_BYTES:
                        raise UsageError("line too long", file=str(path), line=number, hint="not written by nodegate")
                    break
                records.append(_parse(raw, path, number))
    except OSError as error:
        hint = "name the folder of a run, which holds results.jsonl"
        raise UsageError(f"cannot be read ({error.strerror})", file=str(path), hint=hint) from error
    return records


class ResultsFile:
    """results.jsonl open for appending; each record is on disk when `write` returns. For one thread at a time.

    A line that an earlier run left without its end is cut off first, so that going on never joins two records.
    """

    def __init__(self, path: Path) -> None:
        with path.open("ab") as file:
            self._end = _whole_lines_bytes(path)
            file.truncate(self._end)
        self._path, self._file = path, path.open("ab")
        self._places: dict[str, array[int]] = {}

    def write(self, record: Record) -> None:
        """Append one record and flush."""
        raw = line(record).encode("utf-8", errors="backslashreplace")
        self._file.write(raw)
        self._file.flush()
        self._places.setdefault(record.node, array("Q")).append(self._end)
        self._end += len(raw)

    def lines_of(self, node: str) -> list[str]:
        """The lines of a node that were written here, in their order.

        Raises:
            OSError: they are not there any more.
        """
        with self._path.open("rb") as file:
            lines = []
            for place in self._places.get(node, ()):
                file.seek(place)
                lines.append(file.readline().decode("utf-8"))
        if not all(each.endswith("\n") for each in lines):
            raise OSError(errno.EIO, "it was cut while the run went on", str(self._path))
        return lines

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()

    def __enter__(self) -> ResultsFile:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _whole_lines_bytes(path: Path) -> int:
    """The size of the file up to its last newline."""
    end = path.stat().st_size
    with path.open("rb") as file:
        while end > 0:
            start = max(0, end - (1 << 16))
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def _parse(raw: bytes, path: Path, number: int) -> Record:
    try:
        entry = loads(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError("not JSON", file=str(path), line=number, hint="fix or delete the line") from error
    if not isinstance(entry, dict):
        raise UsageError("not a JSON object", file=str(path), line=number, hint="fix or delete the line")
    try:
        return from_json(entry)
    except UsageError as error:
        hint = error.hint or "fix or delete the line; a newer nodegate may have written it"
        raise UsageError(error.message, file=str(path), line=number, hint=hint) from error


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
    value, share, also = entry.get("value"), entry.get("share"), entry.get("also", [])
    if isinstance(value, (list, dict)):
        raise UsageError("`value` of a finding is not a plain value")
    if isinstance(share, bool) or not isinstance(share, (int, float, type(None))):
        raise UsageError("`share` of a finding is not a number")
    if not isinstance(also, list):
        raise UsageError("`also` of a finding is not a list of parts")
    texts = {name: _text(entry, name) if name in entry else "" for name in ("quantity", *_FINDING_TEXTS)}
    return Finding(
        part=_part(entry.get("part")),
        verdict=_verdict(entry),
        observed=value,
        limit=_limit(entry),
        share=share,
        why=_why(entry.get("why", "")),
        also=tuple(_part(each) for each in also),
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


def _limit_value(value: LimitValue) -> object:
    if isinstance(value, tuple):
        return [_scalar(each) for each in value]
    return sorted(value) if isinstance(value, frozenset) else _scalar(value)


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


def _scalar(value: object) -> object:
    """As strict JSON can hold it: a number that is none (nan, inf) and any other object become text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)
