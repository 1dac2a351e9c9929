"""One run's evidence under several policies: the verdicts of checks and nodes, and the result for the fleet."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fleet.machine import Machine, facts_of
from jsonschema import Draft202012Validator
from support.recorded import PytestOutcome, run_pytest, write_fleet

from nodegate.baseline.baseline import Baselines
from nodegate.claims.table import claims
from nodegate.commands.doctor import complaints_about_claims, notes_on_policy
from nodegate.demo.verify import compare, read_faults
from nodegate.files.paths import INVENTORY, suite_folder
from nodegate.judge.waivers import Waivers
from nodegate.node import Node
from nodegate.policy import policy_file
from nodegate.profile import Profile
from nodegate.records.results import read
from nodegate.report.json_file import load
from nodegate.report.redact import redact
from nodegate.report.render import rerender
from nodegate.run.judging import Judging

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/reference/schemas/report.schema.json").read_text(encoding="utf-8")
)
HEAD = """
policy: {name}
title: "a contract"
source: "order 4711"
classes:
  A: {{may_fail_percent: 0, clause: "1"}}
  B: {{may_fail_percent: 50, days: 30, clause: "2"}}
  C: {{clause: "3"}}
claims:
"""
FAST = """
limits:
  "hgx-h100-*":
    burn.bf16_tflops: {value: 900, unit: TFLOPS, direction: at least, clause: "4.1", source: "table 2"}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Two nodes, of which gpu0002 has a narrow link; a run over them, and policies."""
    machines = [Machine.hgx_h100(f"gpu{number:04}", number) for number in (1, 2)]
    machines[1].set_link(machines[1].gpu_address(5), width=2)
    folder = write_fleet(tmp_path_factory.mktemp("site"), machines).parent
    always = [claim.name for claim in claims() if not claim.asked_by]
    whole = HEAD + "".join(f'  {name}: {{{{class: C, clause: "3"}}}}\n' for name in always)
    (folder / "mild.yaml").write_text(whole.format(name="mild"))
    (folder / "fast.yaml").write_text(
        whole.format(name="fast").replace("compute: {class: C", "compute: {class: A") + FAST
    )
    assert run_pytest(folder, ["--inventory", "hosts.yaml", "--run-dir", "run"]).exit_code == 1
    return folder


Judged = tuple["PytestOutcome", dict[str, object]]


def judged(site, *options):
    outcome = run_pytest(site, ["--replay", "run", *options])
    outcome = replace(outcome, folder=outcome.folder.resolve())  # "latest" will be another run's
    return outcome, json.loads((outcome.folder / "report.json").read_text())


@pytest.fixture(scope="module")
def plain(site):
    return judged(site)


@pytest.fixture(scope="module")
def fast(site):
    return judged(site, "--policy", "fast.yaml")


def fleet_line(outcome):
    return next(line for line in outcome.stdout.splitlines() if line.startswith("fleet: "))


@pytest.mark.long
def test_without_the_option_every_claim_blocks_as_the_policy_default_says(site, plain):
    outcome, report = plain
    assert fleet_line(outcome).startswith("fleet: refused: class A (no node may have one): ")
    assert report["policy"]["name"] == "default"
    assert report["fleet_result"]["result"] == "refused"
    assert report["fleet_result"]["nodes"]["A"] == ["gpu0002"]
    outcome, named = judged(site, "--policy", "default")
    assert (outcome.exit_code, named["fleet_result"]) == (1, report["fleet_result"])
    assert named["results_sha256"] == report["results_sha256"] or named["counts"] == report["counts"]


def test_remarks_do_not_hold_up_an_acceptance_and_hide_no_failure(site, plain):
    outcome, report = judged(site, "--policy", "mild.yaml")
    assert fleet_line(outcome).startswith("fleet: accepted by policy mild: no defect of class A or B on 2 nodes; ")
    assert report["fleet_result"]["nodes"] == {"A": [], "B": [], "C": ["gpu0002"]}
    assert (outcome.exit_code, report["counts"]) == (1, plain[1]["counts"])  # the verdicts of nodes and checks stay
    assert "rejected: gpu0002" in outcome.stdout


def test_a_limit_of_the_policy_judges_the_same_evidence(plain, fast):
    assert plain[0].verdicts("burn.throughput")["gpu0001"] == "pass"
    outcome, report = fast
    assert outcome.verdicts("burn.throughput")["gpu0001"] == "fail"
    (record,) = [each for each in outcome.records if each.check == "burn.throughput" and each.node == "gpu0001"]
    assert "policy fast, clause 4.1" in record.message
    assert report["fleet_result"]["why"] == "class A (clause 3): compute refuted on 2 of 2 nodes"


@pytest.mark.long
def test_workers_judge_by_the_same_policy(site, fast):
    _, together = judged(site, "--policy", "fast.yaml", "-n", "2")
    assert together["fleet_result"] == fast[1]["fleet_result"]


def test_the_reports_show_the_result_and_keep_it(site, fast):
    outcome, report = fast
    Draft202012Validator(SCHEMA).validate(report)
    whole = (outcome.folder / "report.html").read_text()
    for page in whole.split('id="sign-off"'):  # the first page, and the signed one
        assert "Result for the fleet: refused" in page
        assert "policy fast" in page
    assert "Class, clause" in whole
    assert load(outcome.folder).policy == redact(load(outcome.folder)).policy
    rerender(outcome.folder, to=site / "again")
    again = json.loads((site / "again" / "report.json").read_text())
    assert (again["policy"], again["fleet_result"]) == (report["policy"], report["fleet_result"])


def test_a_policy_that_is_not_decided_is_no_success(site):
    text = (site / "mild.yaml").read_text().replace("policy: mild", "policy: more")
    (site / "more.yaml").write_text(text + 'not_measured:\n  storage: {class: A, title: "checkpoints", clause: "6"}\n')
    outcome, _ = judged(site, "--policy", "more.yaml", "--nodes", "gpu0001", "-k", "gpu and count")
    assert "fleet: not decided by policy more: only a part was requested" in outcome.stdout
    assert outcome.exit_code == 0  # a part of a run fails nothing
    outcome, _ = judged(site, "--policy", "more.yaml")
    assert "fleet: not decided by policy more: class A (clause 6): storage not measured by nodegate" in outcome.stdout
    assert outcome.exit_code == 1


def test_another_profile_has_a_result_only_where_a_policy_is_named(site):
    outcome, report = judged(site, "--profile", "bootcheck")
    assert "fleet: " not in outcome.stdout
    assert report["fleet_result"] is None
    outcome, _ = judged(site, "--profile", "bootcheck", "--policy", "mild.yaml")
    assert "fleet: not decided by policy mild: profile bootcheck covers only part of the claims" in outcome.stdout


def test_a_policy_without_nodes_is_a_mistake(site):
    outcome = run_pytest(site, ["--policy", "default"])
    assert outcome.exit_code == 4
    assert "--policy is for a run over nodes" in outcome.stderr


def test_a_run_that_goes_on_is_asked_for_its_policy_again(site):
    part = ["--policy", "mild.yaml", "-k", "gpu and count"]
    run_pytest(site, ["--inventory", "hosts.yaml", *part, "--run-dir", "other"])
    outcome = run_pytest(site, ["--resume", "other"])
    assert outcome.exit_code == 4
    assert f"add --policy {site / 'mild.yaml'}" in outcome.stdout + outcome.stderr
    assert run_pytest(site, ["--resume", "other", *part]).exit_code == 0


@pytest.mark.long
def test_what_only_contracts_ask_for_is_claimed_where_a_policy_names_it(site):
    (site / "even.yaml").write_text(HEAD.format(name="even") + '  even_heat: {class: A, clause: "7"}\n')
    found = {}
    for options in ((), ("--policy", "even.yaml"), ("--policy", "even.yaml", "-k", "gpu and count")):
        _, report = judged(site, "--nodes", "gpu0001", *options)
        (node,) = report["nodes"]
        found[options] = {each["claim"]: each["why"] for each in node["claims"] if each["claim"] == "even_heat"}
    plain, named, part = found.values()
    assert plain == {}
    assert named == {"even_heat": "no limit contract.temperature_spread_c for platform hgx-h100-8"}
    assert part == {"even_heat": "not asked for: this run covered only part of its profile"}


# Before a run, `nodegate doctor --policy NAME` says which clauses cannot be judged here


def judging(name):
    found, nodes = policy_file.read(name), {f"gpu{number:02}": Node(f"gpu{number:02}") for number in range(1, 5)}
    limits = Baselines.read(policy=found.limits)
    return Judging(nodes, Profile.DELIVERY, limits, Waivers(), policy=found.policy, names_policy=name != "default")


def complaints(name, machine, lacking=frozenset()):
    found = complaints_about_claims(Node("gpu01"), facts_of(machine), lacking, judging(name))
    return [complaint.what for complaint in found]


def test_a_clause_without_its_tool_is_named():
    (said,) = complaints("strict-h100", Machine.hgx_h100(), frozenset({"all_reduce_perf"}))
    assert said == (
        "cannot be proven: collectives (clause NCCL in a node), collectives_between_nodes (clause NCCL, 2 nodes), "
        "collectives_rack_fleet (clause every item): no all_reduce_perf"
    )


def test_a_node_that_the_policy_is_not_for_is_told_with_the_limits_that_it_lacks():
    said = complaints("strict-h100", Machine.pcie_l40s())
    assert "policy strict-h100 is not for platform l40s" in said
    lacks = "cannot be proven: even_heat (clause Temperature, spread): no limit contract.temperature_spread_c"
    assert lacks in said


def test_what_only_contracts_ask_for_is_no_obstacle_without_one():
    assert complaints("default", Machine.hgx_h100()) == []


def test_what_nodegate_does_not_measure_is_named_with_its_clause():
    assert not list(notes_on_policy(judging("default")))
    notes = list(notes_on_policy(judging("clustermax")))
    assert "policy clustermax, clause SHARP: not measured by nodegate: reductions in the switches" in notes


# The demo fleet by each shipped policy


FOLDER = suite_folder(INVENTORY)
FAULTS = read_faults(FOLDER / "demo" / "faults.yaml")
WITHOUT = {"hgx01", "hgx09", "roce01", "roce06"}  # a fault


@pytest.mark.long
@pytest.mark.parametrize("policy", ["strict-h100", "clustermax", "nvidia-acv"])
def test_a_demand_on_the_test_is_not_a_fault_of_the_node(policy, tmp_path):
    """The demo was recorded in a short burn: strict-h100 asks for 24 h, and says nothing against the node."""
    options = ["--record", "fleet.sqlite", "--run-dir", "run", "--policy", policy]
    outcome = run_pytest(tmp_path, ["--inventory", str(FOLDER / "demo.yaml"), *options], timeout_s=300)
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    nodes = json.loads((tmp_path / "run" / "report.json").read_bytes())["nodes"]
    verdicts = {each["node"]: each["verdict"] for each in nodes}
    left = {
        each["node"]: {claim["claim"] for claim in each["claims"] if claim["state"] == "not-proven"} for each in nodes
    }
    assert {node for node, verdict in verdicts.items() if verdict == "rejected"} == verdicts.keys() - WITHOUT
    asked = {"burn_time"} if policy == "strict-h100" else set()
    for node in ("hgx01", "hgx09"):
        assert (left[node], verdicts[node]) == (asked, "incomplete" if asked else "accepted")
    for node in ("roce01", "roce06"):  # L40S servers of which nobody says how many rails they have
        assert (left[node] > {"counts"}, verdicts[node]) == (True, "incomplete")
    differences = compare(read(tmp_path / "run"), FAULTS)
    assert (differences.missed, differences.untold) == ((), ())
    more = {tuple(alarm.partition(":")[0].split()) for alarm in differences.false_alarms}
    assert {node for node, _ in more}.isdisjoint(WITHOUT)
    assert {check.partition(".")[0] for _, check in more} == {"contract"}
