"""The demo fleet: its files are fresh, its faults are found and nothing else, and its healthy nodes are healthy."""

import base64
import csv
import gzip
import json
import os
import zlib
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fleet import write as written
from fleet.demo import build
from fleet.traps import TRAPS
from fleet.write import FAULTS_FILE, INVENTORY_FILE, RECORDINGS, write
from jsonschema import Draft202012Validator

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.claims.verdict import node_verdict
from nodegate.demo.verify import PlantedFault, compare, read_faults
from nodegate.errors import UsageError
from nodegate.files.paths import suite_folder
from nodegate.inventory import inventory
from nodegate.inventory.hostlist import fold
from nodegate.judge.context import argument_names
from nodegate.judge.waivers import Waivers
from nodegate.measure.burn import document as burn_document
from nodegate.measure.copies import document as copies_document
from nodegate.measure.registry import FACTS_AFTER, MEASURED, wanted
from nodegate.metric_names import METRICS
from nodegate.profile import Profile
from nodegate.records import part
from nodegate.records.cause import NOT_JUDGED
from nodegate.records.evidence import FACTS
from nodegate.records.finding import Finding, Record
from nodegate.records.results import read
from nodegate.records.run import NodeReport, Run
from nodegate.records.run_folder import RunFolder
from nodegate.records.verdict import Verdict
from nodegate.report.cause_rows import cause_rows
from nodegate.report.model import Report
from nodegate.report.render import render
from nodegate.run import node_facts
from nodegate.run.gate import Gate
from nodegate.run.judging import Judging
from nodegate.run.results import build as build_report
from nodegate.run.run_evidence import RunEvidence

FOLDER = suite_folder("inventory")
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "schemas"
CHECKS = tuple(check for check in suite.checks() if argument_names().issuperset(check.asks_for))  # as a run takes them
HEALTHY = {"hgx01", "hgx09", "roce01", "roce06"}
WIRES = (burn_document.WIRE, copies_document.WIRE)
GOLDEN = Path(__file__).parents[1] / "golden" / "demo" / "findings.txt"
LARGEST_BYTES = 9_000_000


@cache
def fleet():
    return build()


@cache
def files():
    return written.files()


@cache
def acceptance():
    """The judging of the whole fleet, as a run does it, from the committed recordings."""
    nodes = {node.name: node for node in inventory.read((str(FOLDER / INVENTORY_FILE),)).nodes}
    folder = RunFolder.create(Path(_kept().name) / "run", profile="delivery", started_epoch_s=0.0)
    for node in nodes.values():
        for name in (FACTS, FACTS_AFTER, *(each.name for each in wanted(MEASURED))):
            folder.write_evidence(node_facts.recorded(node, name))
    found = Judging(nodes, Profile.DELIVERY, Baselines.read(), Waivers(()), RunEvidence(folder))
    for node in nodes:
        for check in CHECKS:
            found.register.ask(check, node)
    return found


@cache
def _kept():
    return TemporaryDirectory()


@cache
def records():
    """What every check of the suite says of every node."""
    judging, asked = acceptance(), acceptance().register.asked
    checks = judging.register.checks
    return tuple(judging.record(checks[check], node) for node in asked for check in asked[node])


def test_exactly_the_planted_faults_are_found():
    planted = len(fleet().faults)
    assert compare(records(), fleet().faults).lines() == (
        "demo: 31 of 31 planted faults reported, in 31 causes",
        f"demo: {planted} of {planted} planted findings found on 16 nodes, no false alarm",
    )


def test_the_findings_of_the_demos_report_are_its_planted_causes():
    """A row a cause, worst first, as tests/golden/demo/findings.txt has them.

    To accept others read the difference, then write them with NODEGATE_WRITE_GOLDEN=1.
    """
    of_node = {name: tuple(each for each in records() if each.node == name) for name in acceptance().nodes}
    racks = {name: node.rack for name, node in acceptance().nodes.items()}
    nodes = [NodeReport(name, node_verdict(of), "", racks[name], records=of) for name, of in of_node.items()]
    report = Report(Run("demo", "delivery", 0.0, 0.0, "0"), tuple(nodes))
    rows = zip(cause_rows(report), report.causes, strict=True)
    told = "".join(f"{row.severity} | {fold(row.nodes)} | {row.part} | {cause.condition}\n" for row, cause in rows)
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        GOLDEN.write_text(told, encoding="utf-8")
    assert told == GOLDEN.read_text(encoding="utf-8")
    at_fault = {name for cause in report.causes if cause.condition != NOT_JUDGED for name in cause.nodes}
    assert at_fault == {fault.node for fault in fleet().faults}


@pytest.mark.long
def test_the_files_of_the_demo_follow_their_schemas(tmp_path):
    report = build_report(Run("demo", "delivery", 0.0, 0.0, "0"), acceptance(), records(), {})
    render(report, tmp_path, everything=True)
    for name, text in (
        ("report", (tmp_path / "report.json").read_text(encoding="utf-8")),
        ("results", gzip.decompress((tmp_path / "results.jsonl.gz").read_bytes()).decode()),
    ):
        validator = Draft202012Validator(json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8")))
        for each in [text] if name == "report" else text.splitlines():
            validator.validate(json.loads(each))
    assert sorted(read(tmp_path), key=repr) == sorted(records(), key=repr)
    rows = csv.DictReader((tmp_path / "nodes.csv").read_text(encoding="utf-8-sig").splitlines())
    assert {row["node"] for row in rows} == set(acceptance().nodes)


def test_twelve_failure_modes_on_twelve_nodes_four_healthy_ones_and_traps_on_nine():
    assert len({fault.failure_mode for fault in fleet().faults}) >= 12
    assert {machine.name for machine in fleet().machines} - {fault.node for fault in fleet().faults} == HEALTHY
    assert TRAPS.keys() > HEALTHY
    laid = [lay for traps in TRAPS.values() for lay in traps]
    assert len(set(laid)) == len(laid) == 10


def test_healthy_nodes_pass_and_are_not_merely_skipped():
    counted = Counter(record.verdict for record in records() if record.node in HEALTHY)
    assert set(counted) == {Verdict.PASS, Verdict.SKIP}
    assert counted[Verdict.PASS] > 3 * counted[Verdict.SKIP]


def test_what_was_not_measured_is_what_a_run_would_not_have_measured():
    """A node that the gate of a measurement lets through has one; a node that it stops says so."""
    gate = Gate(acceptance())
    for machine in fleet().machines:
        for measurement in wanted(MEASURED):
            refused = machine.load.refused.get(measurement.name)
            said = gate.refusal(machine.name, measurement)
            assert (refused is None) == (said is None), (machine.name, measurement.name, said)
            assert refused is None or (said is not None and said.reason.startswith(refused.reason))


def test_every_check_passes_somewhere_or_says_why_not():
    """A check that never passes on healthy nodes of two platforms judges nothing."""
    passing = {record.check for record in records() if record.verdict is Verdict.PASS}
    assert {check.id for check in CHECKS} - passing <= {
        "ecc.retired_pages",  # boards before Ampere
        "fabric.summary",  # drivers of 570 and later
        "gpu.recovery_action",  # drivers of 565 and later
        "host.clock_skew",  # a recording does not say when it came
        "rdma_bandwidth.gpu_memory",  # perftest that is built with CUDA
        "copies.nvbandwidth",  # nvbandwidth
        "nvlink.bit_errors",  # NVLink 5
        "fabric.imex",  # a rack with one NVLink domain
        "fabric.imex_domain",  # the same
        "fabric.one_domain",  # the same
        "nccl_groups.nvlink_between",  # the same
        "lemons.fails_again",  # a record of weeks
        "host.ports",  # a site that names ports
        "upkeep.written",  # a site that names a folder
        "ordered.parts",  # a site that demands something, as for the next three
        "ordered.serials",
        "ordered.settings",
        "ordered.versions",
        "nccl_groups.wide",  # a limit of the site's own, or more nodes of a platform
        "nccl_groups.share_of_rate",  # a limit of the site's own
        *(check.id for check in CHECKS if check.id.startswith("contract.")),  # a policy that asks for it
    }


@pytest.mark.parametrize("name", sorted(files()))
def test_the_committed_file_is_what_the_code_writes(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert unpacked(text) == unpacked(files()[name]), "run: python -m fleet.write inventory"


def unpacked(text):
    """A file, with what our programs sent as it was before: Python versions compress differently."""
    if not any(wire in text for wire in WIRES):
        return text
    found = json.loads(text)
    for attempt in found["attempts"]:
        for ran in attempt["runs"]:
            wire = next((each for each in WIRES if each in ran.get("stdout", "")), None)
            if wire is not None:
                ran["stdout"] = zlib.decompress(base64.b64decode(ran["stdout"].strip().removeprefix(wire)))
    return found


def test_nothing_else_lies_among_the_recordings():
    there = {str(path.relative_to(FOLDER)) for path in (FOLDER / RECORDINGS).rglob("*") if path.is_file()}
    assert there == {name for name in files() if name.startswith(RECORDINGS)}


def test_the_fleet_stays_small():
    assert sum(len(text) for text in files().values()) < LARGEST_BYTES


def test_the_faults_file_reads_as_the_faults_that_were_planted(tmp_path):
    write(tmp_path)
    assert read_faults(tmp_path / FAULTS_FILE) == fleet().faults


def test_every_number_of_the_fleet_has_a_name_that_a_baseline_may_hold():
    named = {metric.name for machine in fleet().machines for metric in acceptance().view.metrics(machine.name)}
    assert named
    assert named <= METRICS


def test_the_readme_shows_lines_of_the_real_answer():
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    sample = readme.split("```\n")[1].splitlines()
    assert len(sample) >= 5
    assert set(sample) <= set(GOLDEN.with_name("terminal.txt").read_text("utf-8").splitlines())


# The comparison of a run with what was planted: a missed fault and a false alarm are both told


FAULT = PlantedFault("n1", "gpu.lost", Verdict.FAIL, "F02", "GPU 3 is gone", "GPU 3")


def said(gpu, verdict=Verdict.FAIL, *, node="n1", check="gpu.lost"):
    where = part.gpu(gpu, address=f"0000:{gpu:02x}:00.0")
    return Record(node, check, verdict, (Finding(where, verdict, text="m"),))


def test_the_planted_fault_found_is_no_difference():
    same = compare([said(3)], [FAULT])
    assert not same
    assert same.lines() == (
        "demo: 1 of 1 planted faults reported, in 1 cause",
        "demo: 1 of 1 planted findings found on 1 nodes, no false alarm",
    )


@pytest.mark.parametrize("record", [said(31), said(3, Verdict.WARN), said(3, node="n2"), said(3, check="gpu.count")])
def test_another_device_verdict_node_or_check_is_both_a_miss_and_a_false_alarm(record):
    different = compare([record], [FAULT])
    assert different
    assert different.missed == (FAULT,)
    assert len(different.false_alarms) == 1


def test_a_fault_that_only_follows_from_another_cause_is_not_told():
    lost, unread = said(3), said(3, Verdict.ERROR, check="ecc.volatile")
    hidden = PlantedFault("n1", "ecc.volatile", Verdict.ERROR, "F03", "GPU 3 loses memory", "GPU 3")
    different = compare([lost, unread], [FAULT, hidden])
    assert different.untold == ("n1: GPU 3 loses memory",)
    assert "no cause reports: n1: GPU 3 loses memory" in different.lines()


def test_silence_is_a_miss():
    different = compare([said(3, Verdict.PASS)], [FAULT])
    assert different.lines()[0] == "missed: n1 gpu.lost: fail of GPU 3 (F02: GPU 3 is gone)"
    assert compare([], [FAULT]).missed == (FAULT,)


@pytest.mark.parametrize("verdict", [Verdict.WARN, Verdict.ERROR, Verdict.FAIL])
def test_any_alarm_that_was_not_planted_is_told(verdict):
    assert compare([said(3), said(5, verdict)], [FAULT]).false_alarms == (
        f"n1 gpu.lost: {verdict.value} GPU 5 (0000:05:00.0): m",
    )


def test_an_alarm_without_findings_is_told_too():
    assert compare([Record("n1", "gpu.lost", Verdict.ERROR, remark="no answer")], []).false_alarms == (
        "n1 gpu.lost: error node: no answer",
    )


def test_a_pattern_stands_for_the_checks_that_one_fault_leaves_without_an_answer():
    every = PlantedFault("n1", "*", Verdict.ERROR, "F02", "gone", "GPU 3")
    records = [said(3, Verdict.ERROR, check="ecc.volatile"), said(3, Verdict.ERROR, check="idle.memory")]
    assert not compare(records, [every])
    assert compare([said(4, Verdict.ERROR)], [every]).false_alarms


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\n", "the planted faults must be a list"),
        ("- 1\n", "f.yaml:1: a planted fault must be a mapping"),
        ("- {nod: n1}\n", "f.yaml:1: 0: unknown key 'nod' - did you mean node?"),
        ("- {node: n1}\n", "f.yaml:1: check must be some text"),
        ("- {node: n, check: c, verdict: bad, failure_mode: F02, what: w}\n", "verdict must be warn, error or fail"),
    ],
)
def test_a_bad_list_is_an_error_with_its_line(tmp_path, text, complaint):
    file = tmp_path / "f.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as problem:
        read_faults(file)
    assert complaint in str(problem.value)
