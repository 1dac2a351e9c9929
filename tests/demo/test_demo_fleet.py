"""The demo fleet: its files are fresh, its faults are found and nothing else, and its healthy nodes are healthy."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import pytest

from nodegate import inventory, suite
from nodegate.demo.fleet import DemoFleet, build
from nodegate.demo.machine import probe_document_of
from nodegate.demo.traps import TRAPS
from nodegate.demo.verify import compare, read_faults
from nodegate.demo.write import FAULTS_FILE, INVENTORY_FILE, RECORDINGS, files, write
from nodegate.facts import NodeFacts
from nodegate.judge.baseline import Baselines
from nodegate.judge.fleet import Fleet, characteristics
from nodegate.judge.run import judge
from nodegate.judge.verdict import Record, Verdict
from nodegate.paths import suite_folder
from nodegate.profile import Profile

FOLDER = suite_folder("inventory")


@cache
def fleet() -> DemoFleet:
    return build()


@cache
def records() -> tuple[Record, ...]:
    """What every check of the suite says of every node, judged here without any run."""
    baselines = Baselines.read()
    nodes = {node.name: node for node in inventory.read((str(FOLDER / INVENTORY_FILE),)).nodes}
    facts = {machine.name: NodeFacts(probe_document_of(machine)) for machine in fleet().machines}
    limits = {name: baselines.for_node(nodes[name], each.gpus, each.pci) for name, each in facts.items()}
    together = Fleet({name: (limits[name].platform, characteristics(each)) for name, each in facts.items()})
    said: list[Record] = []
    for name, each in facts.items():
        context = {"node": nodes[name], "baseline": limits[name], "profile": Profile.DELIVERY, "fleet": together}

        def resolve(asked: str, context: dict[str, object] = context, facts: NodeFacts = each) -> object:
            return context[asked] if asked in context else facts.get(asked)

        said.extend(judge(check, resolve, name) for check in suite.checks())
    return tuple(said)


def test_exactly_the_planted_faults_are_found():
    differences = compare(records(), fleet().faults)
    assert "\n".join(differences.lines()) == (
        f"demo: {len(fleet().faults)} of {len(fleet().faults)} planted findings found on 16 nodes, no false alarm"
    )


def test_at_least_twelve_failure_modes_on_seven_nodes():
    assert len({fault.failure_mode for fault in fleet().faults}) >= 12
    assert len({fault.node for fault in fleet().faults}) == 7


def test_nine_healthy_nodes_each_with_a_trap_of_its_own():
    healthy = {machine.name for machine in fleet().machines} - {fault.node for fault in fleet().faults}
    assert len(healthy) == 9
    assert TRAPS.keys() == healthy
    assert len(set(TRAPS.values())) == 9


def test_healthy_nodes_pass_and_are_not_merely_skipped():
    counted = Counter(record.verdict for record in records() if record.node in TRAPS)
    assert set(counted) == {Verdict.PASS, Verdict.SKIP}
    assert counted[Verdict.PASS] > 3 * counted[Verdict.SKIP]


def test_every_check_passes_somewhere_or_says_why_not():
    """A check that never passes on nine healthy nodes of two platforms judges nothing."""
    passing = {record.check for record in records() if record.verdict is Verdict.PASS}
    assert {check.id for check in suite.checks()} - passing <= {
        "ecc.retired_pages",  # boards before Ampere
        "fabric.summary",  # drivers of 570 and later
        "gpu.recovery_action",  # drivers of 565 and later
    }


@pytest.mark.parametrize("name", sorted(files()))
def test_the_committed_file_is_what_the_code_writes(name: str):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert text == files()[name], "run: python -m nodegate.demo.write inventory"


def test_nothing_else_lies_among_the_recordings():
    there = {str(path.relative_to(FOLDER)) for path in (FOLDER / RECORDINGS).rglob("*") if path.is_file()}
    assert there == {name for name in files() if name.startswith(RECORDINGS)}


def test_two_buildings_are_the_same():
    assert [machine.document() for machine in build().machines] == [machine.document() for machine in fleet().machines]


def test_a_recording_is_compact_and_small():
    text = files()[f"{RECORDINGS}/hgx01/facts.json"]
    assert len(text) < 150_000
    assert json.loads(text)["schema"] == "nodegate.probe/1"


def test_the_faults_file_reads_as_the_faults_that_were_planted(tmp_path):
    write(tmp_path)
    assert read_faults(tmp_path / FAULTS_FILE) == fleet().faults


def test_serials_and_identities_differ_between_nodes():
    serials = [gpu.serial for machine in fleet().machines for gpu in NodeFacts(probe_document_of(machine)).gpus.devices]
    known = [serial for serial in serials if isinstance(serial, str)]
    assert len(known) == len(set(known)) == 127  # one GPU is lost
