"""Results in short: what is healthy folded, what repeats told once a run, in results.tables.jsonl (docs/running.md)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodegate.records.part import NODE
from nodegate.records.part import to_json as part_to_json
from nodegate.records.verdict import Verdict
from nodegate.report.jsonl import dumps, finding_to_json, limit_value, scalar, to_json
from nodegate.report.part_names import MOST_NAMES, fold, is_like_folded

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodegate.records.finding import Finding, LimitValue, Record
    from nodegate.records.part import Part

SCHEMA = "nodegate.results/2"
NEGLIGIBLE_S = 0.001  # judging takes less; it would be a tenth of the file
MOST_ENTRIES = 200_000  # of one table; what comes later stands in its line
_LETTERS = 6  # of an id: thirty bits, one more for each that is taken
_LONG = 60  # characters of a list of parts that is told once
_OWN = ("serial", "uuid")  # what no two nodes have in common
_TEXTS = ("quantity", "metric", "unit", "code", "action")

_Rule = tuple[tuple[str, ...], str, str, str, "LimitValue | None", str]


class Shortener:
    """Makes the lines of one run. `tell` is given each line of the tables before it is referred to."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._ids: dict[str, str] = {}  # id -> the digest of what has it
        self._known: dict[object, str] = {}  # what was told -> its id
        self._common: dict[str, dict[str, object]] = {}  # the parts of all nodes, by name
        self._nodes: dict[str, dict[Part, str]] = {}
        self._taken: dict[str, dict[str, Part]] = {}
        self._checks: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._same: dict[object, dict[str, object]] = {}  # groups of one finding that stand in the tables
        self._new: dict[str, dict[str, object]] = {}  # parts of the node at hand that are not told yet
        tell(dumps({"schema": SCHEMA}) + "\n")

    def line(self, record: Record) -> tuple[str, Record]:
        """The record as a line, newline included, and as it will be read: healthy findings after the others."""
        folded = [finding for finding in record.findings if _is_folded(finding)]
        rest = [finding for finding in record.findings if not _is_folded(finding)]
        is_said = record.verdict not in (Verdict.PASS, Verdict.SKIP) or record.waiver or record.remark
        value = to_json(record, rest) if is_said else self._quiet(record, rest)
        groups = self._groups(folded)
        if groups:
            value["passed"] = [self._group(record.node, rule, group) for rule, group in groups]
        if self._new:
            self._say({"node": record.node, "parts": self._new})
            self._new = {}
        lasted = record.duration_s if is_said else _lasted(record)
        findings = (*rest, *(finding for _, group in groups for finding in group))
        if findings != record.findings or lasted != record.duration_s:
            record = replace(record, findings=findings, duration_s=lasted)
        return dumps(value) + "\n", record

    def node_done(self, node: str) -> None:
        """No record of this node will come any more: the names of its parts are no longer needed."""
        self._nodes.pop(node, None)
        self._taken.pop(node, None)

    def _quiet(self, record: Record, rest: list[Finding]) -> dict[str, object]:
        """A record that passed or was skipped: without what its check says of every node."""
        value: dict[str, object] = {"node": record.node, "check": record.check, "verdict": record.verdict.value}
        if record.verdict is not Verdict.PASS:
            value["message"] = record.message
        if rest:
            value["findings"] = [self._rest(record.node, finding) for finding in rest]
        modes, evidence = self._of_check(record)
        if record.failure_modes != modes:
            value["failure_modes"] = list(record.failure_modes)
        if record.evidence != tuple(place.replace("{node}", record.node) for place in evidence):
            value["evidence"] = list(record.evidence)
        if lasted := _lasted(record):
            value["duration_s"] = lasted
        return value

    def _rest(self, node: str, finding: Finding) -> dict[str, object]:
        """A finding of such a record. Of a skip the line's message tells it; parts are named as in the tables."""
        value = finding_to_json(finding)
        if finding.verdict is not Verdict.SKIP:
            return value
        del value["device"], value["message"], value["part"]
        if finding.part != NODE:
            value["part"] = self._name(node, finding.part)
        if 0 < len(finding.also) < MOST_NAMES:
            value["also"] = list(fold(tuple(self._name(node, part) for part in finding.also)))
        return value

    def _of_check(self, record: Record) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Failure modes and evidence that the check's first record had; they stand in the tables."""
        if record.check not in self._checks:
            own = f"evidence/{record.node}/"
            evidence = tuple(
                f"evidence/{{node}}/{path.removeprefix(own)}" if path.startswith(own) else path
                for path in record.evidence
                if "{" not in path
            )
            self._checks[record.check] = record.failure_modes, evidence
            self._say({"check": record.check, "failure_modes": list(record.failure_modes), "evidence": list(evidence)})
        return self._checks[record.check]

    # Healthy findings ------------------------------------------------------------------------------------------------

    def _groups(self, findings: list[Finding]) -> list[tuple[_Rule, list[Finding]]]:
        """Findings that are alike but for part, value, note and what the node itself is compared with; by rule."""
        if len(findings) == 1:
            return [(_rule(findings[0]), findings)]
        groups: dict[tuple[_Rule, str, int | None], list[Finding]] = {}
        for at, finding in enumerate(findings):
            own = at if finding.also else None  # what holds for several parts together is a group by itself
            groups.setdefault((_rule(finding), finding.text, own), []).append(finding)
        return [(rule, group) for (rule, _, _), group in groups.items()]

    def _group(self, node: str, rule: _Rule, findings: list[Finding]) -> dict[str, object]:
        first = findings[0]
        together = first.parts if first.also else tuple(finding.part for finding in findings)
        names = tuple(self._name(node, part) for part in together)
        if len(findings) > 1:
            return self._group_of(rule, names, findings)
        own = first.limit if first.limit is not None and not first.limit.kind.is_absolute else None
        key = rule, names, type(first.observed), first.observed, first.text, first.note, own  # as on the other nodes
        if key not in self._same:
            group = self._group_of(rule, names, findings)
            if "same" not in group:
                return group
            self._same[key] = group
        return self._same[key]

    def _group_of(self, rule: _Rule, names: tuple[str, ...], findings: list[Finding]) -> dict[str, object]:
        first = findings[0]
        told: dict[str, object] = {"parts": self._parts(names)}
        values = [scalar(finding.observed) for finding in findings]
        told |= {"value": values[0]} if first.also else {"values": values}
        if first.text:
            told["text"] = first.text
        notes = [finding.note for finding in findings]
        limits: list[object] = []
        sources: list[str] = []
        if first.limit is not None and not first.limit.kind.is_absolute:
            limits = [limit_value(finding.limit.value) for finding in findings if finding.limit]
            sources = [finding.limit.source for finding in findings if finding.limit]
        several = len(set(notes)) > 1 or len(set(sources)) > 1
        if first.metric or several or isinstance(first.observed, float):
            told |= _column("note", [self._text(note) for note in notes])
            told |= _column("limit", limits) | _column("limit_source", [self._text(source) for source in sources])
            quantity = {"quantity": first.quantity} if first.quantity else {}
            return {"rule": self._told("rule", rule, _rule_json), **quantity, **told}
        whole = _rule_json(rule) | told
        whole |= _column("note", notes) | _column("limit", limits) | _column("limit_source", sources)
        key = dumps(whole)
        if key not in self._known and len(self._known) >= MOST_ENTRIES:
            return whole
        return {"same": self._told("same", key, lambda _: whole)}

    def _text(self, text: str) -> str:
        """The id of a note."""
        return self._told("words", text, lambda _: {"is": text}) if text else ""

    def _parts(self, names: tuple[str, ...]) -> list[str] | str:
        """The names of a list of parts, or its id where it is long."""
        folded = fold(names)
        if sum(map(len, folded)) <= _LONG or (folded not in self._known and len(self._known) >= MOST_ENTRIES):
            return list(folded)
        return self._told("list", folded, lambda names: {"of": list(names)})

    def _told(self, table: str, key: object, told: Callable[..., dict[str, object]]) -> str:
        """The id of an entry, which is made of what it says; at first the entry goes into the tables."""
        name = self._known.get(key)
        if name is None:
            value = told(key)
            text = dumps({table: value})
            digits = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
            name = next(digits[:many] for many in range(_LETTERS, 65) if self._ids.get(digits[:many], digits) == digits)
            self._ids[name] = digits
            self._known[key] = name
            self._say({table: name, **value})
        return name

    # Parts -----------------------------------------------------------------------------------------------------------

    def _name(self, node: str, part: Part) -> str:
        """What a part is called in the lines of a node; at first, what else is known of it goes into the tables."""
        known = self._nodes.get(node)
        if known is None:
            known = self._nodes[node] = {}
        name = known.get(part)
        if name is None:
            taken = self._taken.setdefault(node, {})
            name = part.short
            if name in taken or is_like_folded(name):
                name = _other_name(part)
            taken[name] = part
            known[part] = name
            self._describe(node, name, part)
        return name

    def _describe(self, node: str, name: str, part: Part) -> None:
        whole = {**part_to_json(part), **({"of": self._name(node, part.of)} if part.of is not None else {})}
        if name not in self._common:
            common = {key: value for key, value in whole.items() if key not in _OWN}
            self._common[name] = common
            self._say({"part": name, "is": common})
        common = self._common[name]
        own = {key: value for key, value in whole.items() if common.get(key) != value}
        own |= dict.fromkeys(common.keys() - whole.keys())
        if own:
            self._new[name] = own

    def _say(self, value: dict[str, object]) -> None:
        self._tell(dumps(value) + "\n")


def _lasted(record: Record) -> float:
    return round(record.duration_s, 4) if record.duration_s >= NEGLIGIBLE_S else 0.0


def _is_folded(finding: Finding) -> bool:
    """Whether it says no more than that its parts are healthy."""
    odd = finding.share is not None or finding.why is not None or finding.blocked_by or finding.lacks
    return finding.verdict is Verdict.PASS and not odd and len(finding.also) < MOST_NAMES


def _rule(finding: Finding) -> _Rule:
    """What findings of one group have in common; of a limit that is the node's own (a median) its kind alone."""
    limit = finding.limit
    texts = (finding.quantity, finding.metric, finding.unit, finding.code, finding.action)
    if limit is None:
        return texts, "", "", "", None, ""
    # True, 1 and 1.0 are equal, and not the same
    right = (limit.value, limit.source) if limit.kind.is_absolute else (None, "")
    return texts, limit.kind.value, limit.direction, type(limit.value).__name__, *right


def _rule_json(rule: _Rule) -> dict[str, object]:
    texts, kind, direction, _, value, source = rule
    told = dict(zip(_TEXTS, texts, strict=True))
    told |= {"limit_kind": kind, "direction": direction, "limit_source": source}
    found: dict[str, object] = {name: text for name, text in told.items() if text}
    return found if value is None else {**found, "limit": limit_value(value)}


def _column(name: str, cells: list[Any]) -> dict[str, object]:
    """The cells of a group, as one where they are equal; nothing where all are empty."""
    if not any(cell or cell == 0 for cell in cells):
        return {}
    return {name: cells[0]} if all(cell == cells[0] for cell in cells) else {f"{name}s": cells}


def _other_name(part: Part) -> str:
    digits = hashlib.sha256(json.dumps(part_to_json(part), sort_keys=True).encode()).hexdigest()
    return f"{part.kind.value} #{digits[:_LETTERS]}"
