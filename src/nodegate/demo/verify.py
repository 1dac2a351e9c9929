"""Compare what a run found with what was planted: every planted fault, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from nodegate.files import strict_yaml
from nodegate.finding import Finding, Record
from nodegate.part import NODE
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from nodegate.files.strict_yaml import Loaded

ALARMS = (Verdict.WARN, Verdict.ERROR, Verdict.FAIL)
_WORDS = ("node", "check", "verdict", "subject", "failure_mode", "what")


@dataclass(frozen=True)
class PlantedFault:
    """One thing that a run must find: a check that must raise its voice on a node.

    `check` may be a pattern: "*" where one fault leaves many checks without an answer. `subject` is how the finding's
    subject begins ("GPU 3"); empty: any.
    """

    node: str
    check: str
    verdict: Verdict
    failure_mode: str
    what: str
    subject: str = ""

    def is_found_in(self, record: Record, finding: Finding) -> bool:
        """Whether this finding is what was planted."""
        named = any(part.is_called(self.subject) for part in finding.parts)
        return (
            (record.node, finding.verdict) == (self.node, self.verdict)
            and fnmatchcase(record.check, self.check)
            and (named or not self.subject)
        )

    def __str__(self) -> str:
        where = f" of {self.subject}" if self.subject else ""
        return f"{self.node} {self.check}: {self.verdict.value}{where} ({self.failure_mode}: {self.what})"


@dataclass(frozen=True)
class Differences:
    """What a run missed, and what it found that nobody had planted. Empty (false) when both agree."""

    missed: tuple[PlantedFault, ...]
    false_alarms: tuple[str, ...]
    planted: int
    nodes: int

    def __bool__(self) -> bool:
        return bool(self.missed or self.false_alarms)

    def lines(self) -> Sequence[str]:
        """For people: one line for each difference, then the sum."""
        said = [f"missed: {fault}" for fault in self.missed] + [f"false alarm: {alarm}" for alarm in self.false_alarms]
        found = self.planted - len(self.missed)
        alarms = f"{len(self.false_alarms)} false alarms" if self.false_alarms else "no false alarm"
        return (*said, f"demo: {found} of {self.planted} planted findings found on {self.nodes} nodes, {alarms}")


def compare(results: Iterable[Record], faults: Sequence[PlantedFault]) -> Differences:
    """The difference between the records of a run and the faults that were planted in its nodes."""
    found: set[PlantedFault] = set()
    alarms: list[str] = []
    nodes: set[str] = set()
    for record in results:
        nodes.add(record.node)
        for finding in _alarms(record):
            matching = [fault for fault in faults if fault.is_found_in(record, finding)]
            found.update(matching)
            if not matching:
                alarms.append(f"{record.node} {record.check}: {finding.verdict.value} {finding.message}")
    missed = tuple(fault for fault in faults if fault not in found)
    return Differences(missed, tuple(alarms), len(faults), len(nodes))


def read_faults(path: Path) -> tuple[PlantedFault, ...]:
    """The planted faults that a YAML list tells of.

    Raises:
        UsageError: it cannot be read, or an entry is not as it should be, with file and line.
    """
    loaded = strict_yaml.load_file(path)
    if not isinstance(loaded.value, list):
        raise loaded.wrong("the planted faults are a list")
    return tuple(_fault(loaded, index, entry) for index, entry in enumerate(loaded.value))


def _fault(loaded: Loaded, index: int, entry: object) -> PlantedFault:
    if not isinstance(entry, dict):
        raise loaded.wrong("a planted fault is a mapping", (index,), f"with {', '.join(_WORDS)}")
    for word in entry:
        if word not in _WORDS:
            raise loaded.unknown_key((index, word), _WORDS)
    texts = {word: entry.get(word, "") for word in _WORDS}
    for word, value in texts.items():
        if not isinstance(value, str) or not (value or word == "subject"):
            raise loaded.wrong(f"{word} must be some text", (index,))
    verdict = texts.pop("verdict")
    if verdict not in [alarm.value for alarm in ALARMS]:
        raise loaded.wrong(f"verdict must be warn, error or fail, not {verdict!r}", (index,))
    return PlantedFault(**texts, verdict=Verdict(verdict))


def _alarms(record: Record) -> list[Finding]:
    alarms = [finding for finding in record.findings if finding.verdict in ALARMS]
    if not alarms and record.verdict in ALARMS:
        return [Finding(NODE, record.verdict, text=record.message)]
    return alarms
