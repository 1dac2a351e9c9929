"""Compare what a run found with what was planted: every planted fault, and nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.causes.fleet import fleet_causes
from nodegate.files import strict_yaml
from nodegate.files.strict_yaml import Loaded
from nodegate.files.typed_yaml import mapping, text
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE
from nodegate.records.verdict import Verdict
from nodegate.text import counted

ALARMS = (Verdict.WARN, Verdict.ERROR, Verdict.FAIL)
_WORDS = ("node", "check", "verdict", "subject", "failure_mode", "what")


@dataclass(frozen=True)
class PlantedFault:
    """One thing that a run must find: a check that must report something on a node.

    `check` may be a pattern: "*" if one fault leaves many checks without an answer. `subject` is how the finding's
    subject begins ("GPU 3"); empty: any.
    """

    node: str
    check: str
    verdict: Verdict
    failure_mode: str
    what: str
    subject: str = ""

    def is_found_in(self, node: str, check: str, finding: Finding) -> bool:
        """Whether this finding is what was planted."""
        named = any(part.is_called(self.subject) for part in finding.parts)
        is_there = node == self.node and fnmatchcase(check, self.check)
        return is_there and finding.verdict is self.verdict and (named or not self.subject)

    def __str__(self) -> str:
        where = f" of {self.subject}" if self.subject else ""
        return f"{self.node} {self.check}: {self.verdict.value}{where} ({self.failure_mode}: {self.what})"


@dataclass(frozen=True)
class Differences:
    """What a run missed, and what it found that was not planted. Empty (false) if both agree.

    `untold` are planted faults that no cause of their node reports: none of their findings decides one.
    """

    missed: tuple[PlantedFault, ...]
    false_alarms: tuple[str, ...]
    planted: int
    nodes: int
    untold: tuple[str, ...] = ()
    faults: int = 0
    causes: int = 0

    def __bool__(self) -> bool:
        return bool(self.missed or self.false_alarms or self.untold)

    def lines(self) -> Sequence[str]:
        """For people: one line per difference, then the totals."""
        said = [f"missed: {fault}" for fault in self.missed] + [f"false alarm: {alarm}" for alarm in self.false_alarms]
        said += [f"no cause reports: {fault}" for fault in self.untold]
        found = self.planted - len(self.missed)
        alarms = f"{len(self.false_alarms)} false alarms" if self.false_alarms else "no false alarm"
        causes = counted(self.causes, "cause")
        told = f"demo: {self.faults - len(self.untold)} of {self.faults} planted faults reported, in {causes}"
        return (*said, told, f"demo: {found} of {self.planted} planted findings found on {self.nodes} nodes, {alarms}")


def compare(results: Iterable[Record], faults: Sequence[PlantedFault]) -> Differences:
    """The difference between the records of a run and the faults that were planted in its nodes."""
    found: set[PlantedFault] = set()
    alarms: list[str] = []
    nodes: set[str] = set()
    kept = list(results)
    for record in kept:
        nodes.add(record.node)
        for finding in _alarms(record):
            matching = [fault for fault in faults if fault.is_found_in(record.node, record.check, finding)]
            found.update(matching)
            if not matching:
                alarms.append(f"{record.node} {record.check}: {finding.verdict.value} {finding.message}")
    missed = tuple(fault for fault in faults if fault not in found)
    untold, causes = _told(kept, faults)
    whats = {(fault.node, fault.what) for fault in faults}
    return Differences(missed, tuple(alarms), len(faults), len(nodes), untold, len(whats), causes)


def _told(records: Sequence[Record], faults: Sequence[PlantedFault]) -> tuple[tuple[str, ...], int]:
    """The planted faults that are not a cause's decisive finding, and how many causes the whole run has."""
    by_node: dict[str, list[Record]] = {}
    for record in records:
        by_node.setdefault(record.node, []).append(record)
    of_nodes = {node: causes_of(found, conditions()) for node, found in by_node.items()}
    decisive = [(node, cause.decisive) for node, causes in of_nodes.items() for cause in causes]
    told = {
        (fault.node, fault.what)
        for fault in faults
        for node, each in decisive
        if fault.is_found_in(node, each.check, each.finding)
    }
    whats = dict.fromkeys((fault.node, fault.what) for fault in faults)
    untold = tuple(f"{node}: {what}" for node, what in whats if (node, what) not in told)
    return untold, len(fleet_causes(of_nodes, {}))


def read_faults(path: Path) -> tuple[PlantedFault, ...]:
    """The planted faults of a YAML list.

    Raises:
        UsageError: it cannot be read, or an entry is invalid, with file and line.
    """
    loaded = strict_yaml.load_file(path)
    if not isinstance(loaded.value, list):
        raise loaded.wrong("the planted faults must be a list")
    return tuple(_fault(loaded, index, entry) for index, entry in enumerate(loaded.value))


def _fault(loaded: Loaded, index: int, value: object) -> PlantedFault:
    entry = mapping(loaded, (index,), value, "a planted fault", _WORDS, hint=f"with {', '.join(_WORDS)}")
    words = [word for word in _WORDS if word != "subject" or entry.get(word)]
    texts = {word: text(loaded, (index, word), entry.get(word)) for word in words}
    verdict = texts.pop("verdict")
    if verdict not in [alarm.value for alarm in ALARMS]:
        raise loaded.wrong(f"verdict must be warn, error or fail, not {verdict!r}", (index,))
    return PlantedFault(**texts, verdict=Verdict(verdict))


def _alarms(record: Record) -> list[Finding]:
    alarms = [finding for finding in record.findings if finding.verdict in ALARMS]
    if not alarms and record.verdict in ALARMS:
        return [Finding(NODE, record.verdict, text=record.remark)]
    return alarms
