"""The results of nodegate 0.2, results.jsonl with its tables: read for one release more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from nodegate.errors import UsageError
from nodegate.files.bounded import open_regular
from nodegate.files.strict_json import loads
from nodegate.records.finding import Record
from nodegate.records.store import MOST_LINE_BYTES, converted

RESULTS, TABLES = "results.jsonl", "results.tables.jsonl"
OLDER = "judge its evidence again: pytest --replay FOLDER"
MOST_PARTS = 50_000_000  # that all findings of a file name; 1,250 nodes have a tenth of it
_MOST_OF_A_LIST = 2000
_KINDS = ("same", "rule", "words", "list", "part", "node", "check", "schema")
_COLUMNS = {"values": "value", "notes": "note", "limits": "limit", "limit_sources": "limit_source"}
_OF_WORDS = ("notes", "limit_sources")
_MADE = ("device", "message", "duration_s", "rule", "parts", *_COLUMNS)  # from other fields, or no longer kept
_FOLDED = re.compile(r"(?P<before>.*?)(?P<first>\d{1,6})\.\.(?P<last>\d{1,6})(?P<after>.*)", re.ASCII | re.DOTALL)
_NODE = {"kind": "node", "name": "node"}
_ODD = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
_Entry = dict[str, Any]


def results(folder: Path) -> list[Record]:
    """The records of a run folder, in the order in which they were written.

    A last line without its newline was cut by a crash and is left out.

    Raises:
        UsageError: a file is missing, or a line is no record.
    """
    tables = _Tables()
    for name, take in ((TABLES, tables.add), (RESULTS, tables.record)):
        for number, raw in _lines(folder / name):
            try:
                take(cast("_Entry", loads(raw)))
            except _ODD as error:  # noqa: PERF203 - with its line
                said = f"not in the form that nodegate 0.2 wrote: {str(error)[:120]}"
                raise UsageError(said, file=str(folder / name), line=number, hint=OLDER) from error
    return tables.records


def is_cut(folder: Path) -> bool:
    """Whether the last line was cut by a crash."""
    with open_regular(folder / RESULTS) as file:
        return any(not line.endswith(b"\n") for line in iter(lambda: file.readline(MOST_LINE_BYTES), b""))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with open_regular(path) as file:
            for number, raw in enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), start=1):
                if raw.endswith(b"\n"):
                    yield number, raw
    except OSError as error:
        hint = "name the folder of a run, with all of its files"
        raise UsageError(f"cannot be read ({error.strerror})", file=str(path), hint=hint) from error


class _Tables:
    """What the lines refer to, and the records that were read by it."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._known: dict[str, dict[str, _Entry]] = {kind: {} for kind in _KINDS}
        self._left = MOST_PARTS

    def add(self, entry: _Entry) -> None:
        """Take in one line of the tables."""
        kind = next((kind for kind in _KINDS if kind in entry), "")
        name = entry.pop(kind)
        if kind == "node":
            self._known[kind].setdefault(name, {}).update(entry["parts"])
        else:
            self._known[kind][name] = entry

    def record(self, entry: _Entry) -> None:
        """Take in one line of the results."""
        node = entry["node"]
        if "evidence" not in entry or "failure_modes" not in entry:
            known = self._known["check"][entry["check"]]
            paths = [path.replace("{node}", node) for path in known["evidence"]]
            entry = {"failure_modes": known["failure_modes"], "evidence": paths, **entry}
        findings = [_finding(self._with_parts(node, each)) for each in entry.pop("findings", [])]
        findings += [finding for group in entry.pop("passed", []) for finding in self._group(node, group)]
        kept = {key: value for key, value in entry.items() if key not in _MADE}
        self.records.append(converted(Record, {**kept, "findings": findings}))

    def _with_parts(self, node: str, finding: _Entry) -> _Entry:
        """A finding with its parts, where it names them as the tables do; without a part it is of the node."""
        part = finding.get("part", _NODE)
        also = [
            self._part(node, each) if isinstance(each, str) else each for each in _unfolded(finding.get("also", []))
        ]
        return {**finding, "part": self._part(node, part) if isinstance(part, str) else part, "also": also}

    def _group(self, node: str, group: _Entry) -> Iterator[_Entry]:
        """The findings of one group of what passed."""
        if "same" in group:
            group = self._known["same"][group["same"]]
        if "rule" in group:
            words: _Entry = {name: self._words(group[name]) for name in ("note", "limit_source") if name in group}
            listed = {name: [self._words(each) for each in group[name]] for name in _OF_WORDS if name in group}
            group = {**self._known["rule"][group["rule"]], **group, **words, **listed}
        parts = [self._part(node, name) for name in self._named(group["parts"])]
        base = {**group, "verdict": "pass"}
        if "values" not in group:
            yield _finding({**base, "part": parts[0], "also": parts[1:]})
            return
        columns = {name: of for name, of in _COLUMNS.items() if name in group}
        for part, *row in zip(parts, *(group[name] for name in columns), strict=True):
            yield _finding({**base, **dict(zip(columns.values(), row, strict=True)), "part": part})

    def _words(self, name: str) -> str:
        found: str = self._known["words"][name]["is"] if name else ""
        return found

    def _named(self, names: str | list[str]) -> list[str]:
        """The names of a list of parts, or of the list of that name."""
        found = _unfolded(self._known["list"][names]["of"] if isinstance(names, str) else names)
        self._left -= len(found)
        if self._left < 0:
            raise ValueError("more parts than any run has")
        return found

    def _part(self, node: str, name: str, *, deep: int = 0) -> _Entry:
        common, own = self._known["part"].get(name), self._known["node"].get(node, {}).get(name)
        if (common is None and own is None) or deep > 1:
            raise KeyError(f"the part {name[:60]} of {node[:60]}")
        found = {**(common or {}).get("is", {}), **(own or {})}
        return found | ({"of": self._part(node, found["of"], deep=deep + 1)} if "of" in found else {})


def _unfolded(names: list[Any]) -> list[Any]:
    """The list with "GPU 0..7" as eight names."""
    found: list[Any] = []
    for each in names:
        match = _FOLDED.fullmatch(each) if isinstance(each, str) else None
        numbers = range(int(match["first"]), int(match["last"]) + 1) if match else ()
        if len(numbers) + len(found) > _MOST_OF_A_LIST:
            raise ValueError(f"a list of more than {_MOST_OF_A_LIST} parts")
        found += [f"{match['before']}{number}{match['after']}" for number in numbers] if match else [each]
    return found


def _finding(entry: _Entry) -> _Entry:
    """A finding with the names of today."""
    kept = {key: value for key, value in entry.items() if key not in _MADE and value is not None}
    kept |= {"part": _renamed(kept["part"]), "also": [_renamed(each) for each in kept.get("also", [])]}
    limit = kept.pop("limit", None)
    source, kind, direction = (kept.pop(name, "") for name in ("limit_source", "limit_kind", "direction"))
    if limit is not None:
        unit = kept.get("unit", "")
        kept["limit"] = {"value": limit, "unit": unit, "source": source, "direction": direction, "kind": kind}
    return {**kept, "observed": kept.pop("value", None), "why": kept.get("why") or None}


def _renamed(part: _Entry) -> _Entry:
    found = {"pci" if key == "address" else key: value for key, value in part.items()}
    return found | ({"of": _renamed(found["of"])} if found.get("of") else {})
