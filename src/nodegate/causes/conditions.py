"""The table of conditions, checks/causes.yaml: what findings amount to, and which condition explains which."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from string import Formatter
from typing import TypeVar

from nodegate.files import strict_yaml
from nodegate.files.paths import CHECKS, suite_folder
from nodegate.files.strict_yaml import Loaded
from nodegate.files.typed_yaml import mapping, names
from nodegate.records.cause import CLASS_OF_KIND, ORDER, CheckFinding, Class, Severity
from nodegate.records.verdict import Verdict
from nodegate.text import number
from nodegate.words.catalogue import phrase

FILE = "causes.yaml"
_WORDS = ("findings", "says", "do", "severity", "class", "one", "reach", "explains", "errors")
REACH = 0.8  # share of what a condition leaves that may be lost in addition: rates scatter, and limits add up
_WHERE = ("part", "node")
_FIELDS = frozenset(("observed", "limit", "unit", "code", "quantity"))
W = TypeVar("W", Severity, Class)
_SEVERITY = {
    Verdict.FAIL: Severity.UNUSABLE,
    Verdict.WARN: Severity.DEGRADED,
    Verdict.ERROR: Severity.NOT_MEASURED,
    Verdict.NOT_JUDGED: Severity.NOT_JUDGED,
}


@dataclass(frozen=True)
class Condition:
    """What can be the matter with a part.

    Args:
        name: of the condition; of one that no table lists the check's id.
        place: its place in the table: a condition is only explained by one of an earlier place.
        findings: patterns of "check" or "check/code", the most telling first.
        says: the matter in few words, by pattern of the decisive finding, with fields of it in braces; a finding that
            none fits speaks for itself.
        do: the action in few words, by pattern likewise; a finding that none fits has its own.
        severity: None where the finding's verdict says it.
        sort: None where the part's kind says it.
        one: one of its kind on a node, whatever parts its findings name.
        reach: of the rate that it leaves, so much may be lost besides on what it explains.
        on_part: names of conditions that it explains on the same part.
        on_node: names of conditions that it explains anywhere on the node.
        errors_of_part: patterns of checks that cannot judge the same part because of it.
        errors_of_node: patterns of checks that cannot run on the node because of it.
    """

    name: str
    place: int
    findings: tuple[str, ...] = ()
    says: tuple[tuple[str, str], ...] = ()
    do: tuple[tuple[str, str], ...] = ()
    severity: Severity | None = None
    sort: Class | None = None
    one: bool = False
    reach: float = REACH
    on_part: frozenset[str] = frozenset()
    on_node: frozenset[str] = frozenset()
    errors_of_part: tuple[str, ...] = ()
    errors_of_node: tuple[str, ...] = ()

    def telling(self, finding: CheckFinding) -> int:
        """How telling a finding is of this condition: 0 is the most telling."""
        found = (place for place, pattern in enumerate(self.findings) if _fits(pattern, finding))
        return next(found, len(self.findings))

    def severity_of(self, finding: CheckFinding) -> Severity:
        """How bad it is, as this finding shows it: only a failure is as bad as the condition can be."""
        own = _SEVERITY.get(finding.finding.verdict, Severity.DEGRADED)
        if finding.finding.verdict in (Verdict.ERROR, Verdict.NOT_JUDGED):
            return own
        if self.severity is None and self.sort_of(finding) is Class.CONFIGURATION:
            return Severity.CONFIGURATION
        if finding.finding.verdict is Verdict.WARN:
            return max(self.severity or own, own, key=ORDER.__getitem__)
        return self.severity or own

    def sort_of(self, finding: CheckFinding) -> Class:
        """Who works on it."""
        return self.sort or CLASS_OF_KIND.get(finding.finding.part.kind, Class.HOST)


@dataclass(frozen=True)
class Conditions:
    """The whole table, in its order."""

    known: tuple[Condition, ...] = ()
    _by_key: dict[str, Condition] = field(default_factory=dict, compare=False)

    def of(self, finding: CheckFinding) -> Condition:
        """The condition that a finding shows; one that no line lists is a condition of its own."""
        if finding.key not in self._by_key:
            self._by_key[finding.key] = self._find(finding)
        return self._by_key[finding.key]

    def _find(self, finding: CheckFinding) -> Condition:
        for exact in (True, False):
            for condition in self.known:
                if any(_fits(pattern, finding, exact=exact) for pattern in condition.findings):
                    return condition
        return Condition(finding.key, len(self.known))


def _fits(pattern: str, finding: CheckFinding, *, exact: bool = False) -> bool:
    """Whether a pattern names this finding; `exact`: with its code, not by the check alone."""
    if "/" in pattern or not finding.finding.code:
        return finding.key == pattern if exact and "*" not in pattern else fnmatchcase(finding.key, pattern)
    return not exact and fnmatchcase(finding.check, pattern)


@cache
def conditions() -> Conditions:
    """The table of this installation's suite. Raises UsageError: it is not as it should be, with file and line."""
    return read(suite_folder(CHECKS) / FILE)


def read(path: Path) -> Conditions:
    """A table of conditions.

    Raises:
        UsageError: it cannot be read, or a line of it is not as it should be, with file and line.
    """
    loaded = strict_yaml.load_file(path)
    entries = mapping(loaded, (), loaded.value, "conditions", hint="name: {findings: [check, ...], ...}")
    return Conditions(tuple(_condition(loaded, place, name, entries) for place, name in enumerate(entries)))


def _condition(loaded: Loaded, place: int, name: str, entries: Mapping[str, object]) -> Condition:
    known = list(entries)
    entry = mapping(loaded, (name,), entries[name], "a condition", _WORDS, hint=f"with {', '.join(_WORDS)}")
    explains, errors = _relations(loaded, name, entry, "explains"), _relations(loaded, name, entry, "errors")
    for where, others in explains.items():
        for other in others:
            if other not in known[place + 1 :]:
                message = f"{name} explains {other}, which is not a condition below it"
                raise loaded.wrong(message, (name, "explains", where), strict_yaml.did_you_mean(other, known))
    return Condition(
        name,
        place,
        findings=names(loaded, (name, "findings"), entry.get("findings") or None),
        says=_says(loaded, (name, "says"), entry.get("says", {})),
        do=_says(loaded, (name, "do"), entry.get("do", {})),
        severity=_word(loaded, (name, "severity"), entry.get("severity"), Severity),
        sort=_word(loaded, (name, "class"), entry.get("class"), Class),
        one=entry.get("one") is True,
        reach=_share(loaded, (name, "reach"), entry.get("reach", REACH)),
        on_part=frozenset(explains.get("part", ())),
        on_node=frozenset(explains.get("node", ())),
        errors_of_part=errors.get("part", ()),
        errors_of_node=errors.get("node", ()),
    )


def filled(templates: tuple[tuple[str, str], ...], finding: CheckFinding) -> str:
    """The first template that fits a failure or a warning, with the finding's fields; empty where one is missing."""
    seen = finding.finding
    if seen.verdict not in (Verdict.FAIL, Verdict.WARN):
        return ""
    template = next((words for pattern, words in templates if _fits(pattern, finding)), "")
    limit = number(seen.limit.value, seen.limit.unit) if seen.limit else ""
    words = {"observed": number(seen.observed, seen.unit), "limit": limit, "unit": seen.unit, "code": seen.code}
    missing = any(f"{{{name}}}" in template and not value for name, value in words.items())
    return "" if missing else phrase(template).format(**words, quantity=phrase(seen.quantity))


def _says(loaded: Loaded, path: tuple[object, ...], value: object) -> tuple[tuple[str, str], ...]:
    given = {"*": value} if isinstance(value, str) else value
    if not isinstance(given, dict) or not all(isinstance(words, str) for words in given.values()):
        raise loaded.wrong(f"{path[-1]} must be a string, or a mapping from findings to strings", path)
    for words in given.values():
        try:
            unknown = {field for _, field, _, _ in Formatter().parse(words) if field is not None} - _FIELDS
        except ValueError:
            unknown = {words}
        if unknown:
            fields = ", ".join(f"{{{name}}}" for name in sorted(_FIELDS))
            raise loaded.wrong(f"{words!r} must have only the fields {fields}", path)
    return tuple((str(pattern), words) for pattern, words in given.items())


def _relations(loaded: Loaded, name: str, entry: Mapping[str, object], word: str) -> Mapping[str, tuple[str, ...]]:
    given = mapping(loaded, (name, word), entry.get(word, {}), word, _WHERE, hint="part or node: [condition, ...]")
    return {where: names(loaded, (name, word, where), others or None) for where, others in given.items()}


def _share(loaded: Loaded, path: tuple[object, ...], value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise loaded.wrong(f"{path[-1]} must be a share, above 0 and at most 1", path)
    return float(value)


def _word(loaded: Loaded, path: tuple[object, ...], value: object, words: type[W]) -> W | None:
    if value is None:
        return None
    known = [str(each.value) for each in words]
    if value not in known:
        raise loaded.wrong(f"{path[-1]} is one of {', '.join(known)}, not {value!r}", path)
    return words(value)
