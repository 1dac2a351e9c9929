"""What the release that recorded a document did not know is "not recorded then"; what it knew and lacks is an error."""

import json
import lzma
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from importlib import metadata
from pathlib import Path

import pytest
from fleet.machine import Machine

from nodegate.errors import CannotMeasure, NotApplicable
from nodegate.facts import FACTS, Fact, NodeFacts, read
from nodegate.judge.context import facts_of
from nodegate.judge.judge import judge
from nodegate.node_side.probe.main import SECTIONS
from nodegate.probe.document import FIRST, KEY, document_of, today
from nodegate.probe.pci import Pci
from nodegate.probe.readings import section_data
from nodegate.records.evidence import Evidence
from nodegate.records.verdict import Verdict
from nodegate.release import suite_version
from nodegate.suite import Check
from nodegate.unknown import Unknown, Why

BARE = Machine.hgx_h100().document()
NOT_THEN = "not recorded then: this evidence was recorded by nodegate 0.1.0"


def recorded(*, by=None, without=(), **sections):
    kept = {name: value for name, value in BARE["sections"].items() if name not in without}
    return NodeFacts(document_of({**BARE, "sections": kept | sections} | ({KEY: by} if by is not None else {})))


@pytest.fixture
def tomorrow(monkeypatch):
    """A fact that a release after the first brings: `tomorrow`, from a section of that name."""
    fact = Fact(lambda document: section_data(document.sections, "tomorrow"), "tomorrow")
    monkeypatch.setitem(FACTS, "tomorrow", fact)


@pytest.mark.usefixtures("tomorrow")
@pytest.mark.parametrize("by", [None, FIRST.to_json(), {}, [], "0.1.0", {"version": 1, "sections": []}])
def test_a_section_that_came_later_is_not_recorded_then(by):
    facts = recorded(by=by)
    for _ in range(2):
        with pytest.raises(NotApplicable, match=f"^{NOT_THEN}$"):
            facts.get("tomorrow")


@pytest.mark.usefixtures("tomorrow")
def test_the_recorder_is_named():
    with pytest.raises(NotApplicable, match=r"recorded by nodegate 0\.7\.3$"):
        recorded(by={"version": "0.7.3", "sections": [*SECTIONS]}).get("tomorrow")


@pytest.mark.usefixtures("tomorrow")
def test_a_section_that_is_there_counts_whoever_recorded_it():
    assert recorded(tomorrow={"data": [1]}).get("tomorrow") == [1]


@pytest.mark.parametrize("by", [None, FIRST.to_json(), {"version": "0.0.1", "sections": []}])
@pytest.mark.parametrize("section", sorted(FIRST.sections - {"nvidia_smi"}))
def test_no_recorder_can_say_that_a_section_of_the_first_release_is_new(section, by):
    needs = [name for name in FACTS if section in FACTS[name].sections and name != "nvml_library"]
    facts = recorded(by=by, without=[section])
    for name in needs:
        if (name, section) != ("kernel_log", "system"):  # then only the time of a line cannot be told
            with pytest.raises(CannotMeasure, match="missing"):
                facts.get(name)


def test_todays_recorder_knows_every_section_that_a_fact_needs():
    assert today().sections == {section for fact in FACTS.values() for section in fact.sections}
    assert today().sections >= FIRST.sections


def check_tomorrow(tomorrow, verdicts):
    verdicts.cannot(str(tomorrow), next_step="")


@pytest.mark.usefixtures("tomorrow")
@pytest.mark.parametrize(
    ("by", "verdict", "words"),
    [
        (None, Verdict.SKIP, NOT_THEN),
        ({"version": "0.9.0", "sections": ["tomorrow"]}, Verdict.ERROR, "tomorrow could not be read: missing"),
    ],
)
def test_a_check_of_older_evidence_is_skipped_and_of_todays_an_error(by, verdict, words):
    document = BARE | ({KEY: by} if by else {})
    facts = facts_of(Evidence("gpu01", "facts", 0.0, 0.0, document=document))
    check = Check("tomorrow.all", "All of it.", (), "delivery", ("tomorrow", "verdicts"), check_tomorrow, "")
    record = judge(check, facts.get, "gpu01")
    assert (record.verdict, words in record.message) == (verdict, True), record.message


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert suite_version.__wrapped__() == "unknown"


# Documents as nodegate 0.2.0 recorded them give the same facts: what is read only since then is unknown.

RECORDED = Path(__file__).parents[1] / "recorded"
DEMO = Path(__file__).parents[2] / "inventory" / "demo" / "recordings"
NODES = ("hgx01", "roce01")


def older(node):
    return json.loads(lzma.decompress((RECORDED / f"facts-0.2.0-{node}.json.xz").read_bytes()))


def fact(name, document):
    found = read(name, document_of(document).recorded_by(today()))
    return found.devices if isinstance(found, Pci) else found  # which is equal to itself alone


@pytest.mark.parametrize(
    "name", sorted(FACTS.keys() - {"hooks", "upkeep"})
)  # of which no document of then has anything
@pytest.mark.parametrize("node", NODES)
def test_an_older_document_gives_the_facts_of_one_of_today(node, name):
    before, now = fact(name, older(node)), fact(name, json.loads((DEMO / node / "facts.json").read_text()))
    differing = list(differences(before, now))
    assert [each for each in differing if not isinstance(each, Unknown)] == []
    assert {each.why for each in differing if isinstance(each, Unknown)} <= {Why.NOT_DONE, Why.MISSING}


def differences(one, two):
    """The values of the first that are others in the second, down to the single readings."""
    if one == two:
        return
    if is_dataclass(one) and not isinstance(one, Unknown) and type(one) is type(two):
        for each in dataclass_fields(one):
            yield from differences(getattr(one, each.name), getattr(two, each.name))
    elif isinstance(one, tuple) and isinstance(two, tuple) and len(one) == len(two):
        for pair in zip(one, two, strict=True):
            yield from differences(*pair)
    else:
        yield one
