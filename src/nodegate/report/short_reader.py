"""Results in short, read back: the tables of results.tables.jsonl, and the lines that refer to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodegate.errors import UsageError
from nodegate.records.part import NODE, Part
from nodegate.records.part import from_json as part_from_json
from nodegate.records.part import to_json as part_to_json
from nodegate.report.jsonl import RECORD_KEYS, finding_of, from_json
from nodegate.report.part_names import unfold
from nodegate.report.short import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nodegate.records.finding import Finding, Record

MOST_PARTS = 50_000_000  # that all findings of a file name; 1,250 nodes take a tenth of it
_KINDS = ("same", "rule", "words", "list", "part", "node", "check", "schema")
_DEFAULTS: dict[str, object] = {"message": "", "findings": [], "duration_s": 0.0, "waiver": "", "remark": ""}
_NEEDED = frozenset(("node", "check", "verdict"))
_COLUMNS = {"notes": "note", "limits": "limit", "limit_sources": "limit_source"}
_OF_RULE = ("quantity", "metric", "unit", "code", "action", "limit_kind", "direction")
_OF_GROUP = frozenset(
    ("rule", "parts", "value", "values", "text", "note", "limit", "limit_source", *_COLUMNS, *_OF_RULE)
)
_NODE = part_to_json(NODE)
_DEEPEST = 2  # a part of a part of a part


class Tables:
    """What the lines of one results.jsonl refer to."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS}
        self._parts: dict[tuple[str, str], Part] = {}
        self._left = MOST_PARTS

    def add(self, entry: Mapping[str, Any]) -> None:
        """Take in one line of the tables.

        Raises:
            UsageError: it is none.
        """
        kind = next((kind for kind in _KINDS if kind in entry), "")
        name = entry.get(kind)
        if not isinstance(name, str):
            raise UsageError("not a line of these tables")
        if kind == "schema":
            if name != SCHEMA:
                raise UsageError(f"not of schema {SCHEMA}", hint="another version of nodegate wrote it")
            return
        rest = {key: value for key, value in entry.items() if key != kind}
        if kind == "node":
            self._told[kind].setdefault(name, {}).update(_objects(rest.get("parts"), "`parts` of a node"))
        else:
            self._told[kind][name] = rest

    def record(self, entry: Mapping[str, object]) -> Record:
        """The record of a line.

        Raises:
            UsageError: it is none, or refers to what the tables do not have.
        """
        if missing := sorted(_NEEDED - entry.keys()):
            raise UsageError(f"a result lacks `{missing[0]}`")
        whole = {**_DEFAULTS, **entry}
        groups = whole.pop("passed", [])
        if not whole.keys() >= RECORD_KEYS:
            whole = {**self._of_check(whole), **whole}
        if isinstance(listed := whole["findings"], list):
            whole["findings"] = [self._with_parts(entry["node"], each) for each in listed]
        record = from_json(whole)
        if not isinstance(groups, list):
            raise UsageError("`passed` is not a list")
        found = tuple(finding for group in groups for finding in self._findings(record.node, group))
        return replace(record, findings=(*record.findings, *found))

    def _with_parts(self, node: object, finding: object) -> object:
        """A finding with its parts, where it names them as the tables do; without a part it is of the node."""
        if not isinstance(finding, dict):
            return finding
        found, also = {"part": _NODE, **finding}, finding.get("also")
        if isinstance(found["part"], str):
            found["part"] = part_to_json(self._part(str(node), found["part"]))
        if isinstance(also, list) and any(isinstance(each, str) for each in also):
            found["also"] = [part_to_json(part) for part in self._named(str(node), also)]
        return found

    def _of_check(self, entry: Mapping[str, object]) -> dict[str, object]:
        """What the tables say of the check: its failure modes and evidence."""
        known = self._told["check"].get(str(entry["check"]))
        if known is None:
            raise UsageError(f"the check {str(entry['check'])[:60]!r} is not in the tables")
        evidence = known.get("evidence")
        if not isinstance(evidence, list) or not all(isinstance(each, str) for each in evidence):
            raise UsageError("`evidence` of a check is not a list of texts")
        node = str(entry["node"])
        paths = [each.replace("{node}", node) for each in evidence]
        return {"failure_modes": known.get("failure_modes"), "evidence": paths}

    def _findings(self, node: str, group: object) -> Iterator[Finding]:
        """The findings of one group."""
        told = self._whole(group)
        parts = self._named(node, told.get("parts"))
        base: dict[str, Any] = {key: value for key, value in told.items() if key not in _COLUMNS}
        base |= {"verdict": "pass"}
        if "values" not in told:
            yield finding_of(base, parts[0], parts[1:])
            return
        columns = {"values": "value", **{name: of for name, of in _COLUMNS.items() if name in told}}
        for name in columns:
            if not isinstance(told[name], list) or len(told[name]) != len(parts):
                raise UsageError(f"`{name}` of a group are not one a part")
        for at, part in enumerate(parts):
            yield finding_of({**base, **{of: told[name][at] for name, of in columns.items()}}, part)

    def _whole(self, group: object) -> dict[str, Any]:
        """A group with all that the tables say of it."""
        told = _objects(group, "a group of what passed")
        if "same" in told:
            told = self._entry("same", told["same"])
        if unknown := sorted(told.keys() - _OF_GROUP):
            raise UsageError(f"a group has the unknown key `{unknown[0][:40]}`")
        if "rule" not in told:
            return told
        whole = {**self._entry("rule", told["rule"]), **told}
        for name in ("note", "limit_source"):
            if name in told:
                whole[name] = self._words(told[name])
            if f"{name}s" in told:
                whole[f"{name}s"] = [self._words(each) for each in _list(told[f"{name}s"])]
        return whole

    def _words(self, name: object) -> object:
        return self._entry("words", name).get("is") if name != "" else ""

    def _entry(self, table: str, name: object) -> dict[str, Any]:
        entry = self._told[table].get(name) if isinstance(name, str) else None
        if entry is None:
            raise UsageError(f"{table} {str(name)[:40]!r} is not in the tables")
        found: dict[str, Any] = entry
        return found

    def _named(self, node: str, names: object) -> tuple[Part, ...]:
        """The parts of a node by their names, or by the name of a list of them."""
        listed = self._entry("list", names).get("of") if isinstance(names, str) else names
        if not all(isinstance(name, str) for name in _list(listed)):
            raise UsageError("a list of parts has something that is not a name")
        try:
            every = unfold(tuple(_list(listed)))
        except ValueError as error:
            raise UsageError(str(error)) from error
        self._left -= len(every)
        if not every or self._left < 0:
            raise UsageError("a group of no parts, or more parts than any run has")
        return tuple(self._part(node, name) for name in every)

    def _part(self, node: str, name: str, deep: int = 0) -> Part:
        key = node, name
        if key not in self._parts:
            common, own = self._told["part"].get(name), self._told["node"].get(node, {}).get(name)
            if (common is None and own is None) or deep > _DEEPEST:
                raise UsageError(f"the part {name[:60]!r} of {node[:60]!r} is not in the tables")
            told = {**_objects((common or {}).get("is", {}), "a part"), **_objects(own or {}, "a part of a node")}
            whole = told.pop("of", None)
            try:
                part = part_from_json({key: value for key, value in told.items() if value is not None})
            except (ValueError, TypeError) as error:
                raise UsageError(f"the part {name[:60]!r}: {error}") from error
            self._parts[key] = part if whole is None else replace(part, of=self._part(node, str(whole), deep + 1))
        return self._parts[key]


def _objects(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is not an object")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError("a group has something that is not a list")
    return value
