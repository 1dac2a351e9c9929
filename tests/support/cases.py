"""Every case of the tables in tests/checks/*_cases.py, whatever kind of machine or measurement it is about.

A table holds what is changed and the verdict; the words of each case are in tests/golden/checks/, a file for each
check, so that all words of a check are read together. To accept new ones read the difference, then write them:
NODEGATE_WRITE_GOLDEN=1 pytest tests/suite/test_coverage_of_the_suite.py
"""

import copy
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from fleet.machine import Machine, facts_of
from support.attempts import attempts
from support.measured import entries

from nodegate import suite
from nodegate.baseline.baseline import Baseline
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.node_side.probe.reading import unknown as unread
from nodegate.numbers.peers import Peers
from nodegate.profile import Profile
from nodegate.records.finding import Record
from nodegate.records.program_run import ProgramRun
from nodegate.records.verdict import Verdict

FOLDER = Path(__file__).resolve().parents[1] / "checks"
GOLDEN = FOLDER.with_name("golden") / "checks"
PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
FAILED, UNSUPPORTED = unread("failed", "NVML 999"), unread("not supported", "")  # readings of a made-up node


@dataclass(frozen=True)
class Case:
    """One situation and what one check must say of it. Its module judges it: `judged(case)`, unless it does itself."""

    name: str
    verdict: Verdict
    check: str = field(default="", kw_only=True)

    def __str__(self):
        return f"{self.check}: {self.name}"


@dataclass(frozen=True)
class DocumentCase(Case):
    """A document of our own program on one HGX H100, and what one check must say of it."""

    change: Callable[[Any], object] = lambda found: None
    again: Sequence[Callable[[Any], object]] = ()  # the attempts of a suspect that is measured again
    others: tuple[ProgramRun, ...] = ()  # of the program of others, in the first attempt
    machine: Callable[[Machine], object] = lambda machine: None
    profile: Profile = Profile.DELIVERY
    nodes: int = 1

    def tried(self, healthy, ran):
        """The attempts; `ran` makes a run of a document."""
        runs = []
        for change in (self.change, *self.again):
            found = copy.deepcopy(healthy)
            change(found)
            runs.append([ran(found)])
        return attempts([[*runs[0], *self.others], *runs[1:]])

    def said(self, **given):
        """What the check says, with what else it may ask for."""
        machine = Machine.hgx_h100("gpu01")
        self.machine(machine)
        return judged_with(self.check, facts_of(machine), {"profile": self.profile, **given})


def of(check, **common):
    """Takes the cases of a check, with the fields that all of them have in common: `of("gpu.lost")(Case(...), ...)`."""
    return lambda *table: tuple(replace(case, check=check, **common) for case in table)


def asserting(*tables):
    """A test of each case of these tables."""

    @pytest.mark.parametrize("case", [case for table in tables for case in table], ids=str)
    def test_case(case):
        assert_case(case)

    return test_case


def judged_with(check, facts, given):
    """What a check says of the node gpu01.

    Args:
        check: its id.
        facts: of the node.
        given: what the check may ask for beside facts, by the name of its argument: it, or a function that reads it.
    """

    def resolve(name):
        found = given[name] if name in given else facts.get(name)
        return found() if isinstance(found, FunctionType) else found

    return judge(suite.check(check), resolve, "gpu01", node_parts(facts))


def h100_with(limits, changed=None):
    """The baseline of an HGX H100 with these limits alone, without those that are None in `changed`."""
    without = {key for key, value in (changed or {}).items() if value is None}
    kept = {key: entry for key, entry in entries(limits).items() if key not in without}
    return Baseline("hgx-h100-8", "8 x H100", "", "", "hgx-h100-8", kept, {})


def beside(nodes, own=(), healthy=()):
    """So many nodes of one kind as gpu01 sees them, which has its own numbers; where it is alone, nobody."""
    if nodes == 1:
        return Peers.of({}).of_node("gpu01")
    others = {f"gpu{number:02}": ("hgx-h100-8", healthy) for number in range(2, nodes + 1)}
    return Peers.of({"gpu01": ("hgx-h100-8", own), **others}).of_node("gpu01")


@cache
def cases():
    """The cases of all tables, each once."""
    found: dict[int, Case] = {}
    for file in sorted(FOLDER.glob("test_*_cases.py")):
        for table in vars(_module(file)).values():
            if isinstance(table, (tuple, list)):
                found.update({id(case): case for case in table if isinstance(case, Case)})
    return tuple(found.values())


def assert_case(case):
    """The check says the verdict and, word for word, the headline."""
    record = record_of(case)
    assert record.verdict is case.verdict, record.message
    kept = words_of(case.check).get(case.name)
    assert record.message == kept, f"\nsaid: {record.message}\nkept: {kept}"
    assert_findings(record)


def assert_findings(record):
    """Each finding that is no pass says what to do, and no check broke."""
    for finding in record.findings:
        if finding.verdict in (WARN, FAIL, ERROR):
            assert finding.action, finding.message
            assert finding.message.endswith(f" - {finding.action}")
        else:
            assert not finding.action or finding.verdict is not PASS
        assert "\n" not in finding.message
        assert finding.part.label
    assert "itself failed" not in record.message


@cache
def words_of(check):
    """Name of a case -> the headline of its record, for the cases of a check."""
    file = GOLDEN / f"{check}.txt"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return dict(zip(lines[::2], (line.removeprefix("    ") for line in lines[1::2]), strict=True))


def write_words():
    """The words of all cases as they are said now."""
    texts: dict[str, str] = {}
    for case in cases():
        texts[case.check] = texts.get(case.check, "") + f"{case.name}\n    {record_of(case).message}\n"
    for file in GOLDEN.glob("*.txt"):
        file.unlink()
    for check, text in texts.items():
        (GOLDEN / f"{check}.txt").write_text(text, "utf-8")


def record_of(case):
    """What the check says."""
    itself = getattr(case, "record", None)
    record = itself() if itself else importlib.import_module(type(case).__module__).judged(case)
    assert isinstance(record, Record)
    return record


def _module(file):
    spec = importlib.util.spec_from_file_location(f"table_of_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses are looked up
    spec.loader.exec_module(module)
    return module
