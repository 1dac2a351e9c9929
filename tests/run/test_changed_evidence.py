"""Evidence that was copied, changed or lost, and run folders that others made.

Each test changes a run folder, as somebody with an editor, another inventory or a pulled plug would.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest
from fleet.machine import Machine
from support import warm
from support.recorded import PytestOutcome, copied_run, run_pytest, write_fleet

from nodegate.errors import CannotMeasure, UsageError
from nodegate.measure.measurement import Measurement, document
from nodegate.measure.program_run import not_run
from nodegate.records.evidence import MAX_MEASURED_BYTES, Evidence, parse_evidence
from nodegate.records.manifest import MANIFEST
from nodegate.records.program_run import Attempt, LinkPlan, MissingRail, Plan, ProgramRun
from nodegate.records.results import RESULTS
from nodegate.records.run_folder import RunFolder
from nodegate.release import suite_version
from nodegate.report.json_file import load
from nodegate.run.prepare import prepare
from nodegate.run.run_evidence import drop_what_failed
from nodegate.run.settings import Settings
from nodegate.wire import Wire

ONE_CHECK = ["-q", "--tb=no", "-k", "link_width"]
CHECK = "pcie.link_width"


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    where = tmp_path_factory.mktemp("ended")
    write_fleet(where, [Machine.hgx_h100(f"gpu{number}", number) for number in (1, 2, 3)])
    outcome = run_pytest(where, ["--inventory", "hosts.yaml", "--run-dir", "run", *ONE_CHECK])
    assert outcome.exit_code == 0, outcome.stdout
    return where


@pytest.fixture
def run(ended, tmp_path):
    return copied_run(ended, tmp_path)


def facts(run, node):
    return run / "evidence" / node / "facts.json"


def rewrite(run, **changes):
    """Another value of some keys of run.json; None: without them, as a release before manifests left it."""
    kept = {**json.loads((run / "run.json").read_text()), **changes}
    (run / "run.json").write_text(json.dumps({key: value for key, value in kept.items() if value is not None}))


def change(file):
    text = file.read_text()
    assert '"index":3' in text
    file.write_text(text.replace('"index":3', '"index":4', 1))


def replay(run):
    return run_pytest(run.parent, ["--replay", run.name, *ONE_CHECK])


def resume(run, *arguments):
    done = run_pytest(run.parent, ["--resume", run.name, *arguments, *ONE_CHECK])
    return PytestOutcome(done.exit_code, done.stdout, done.stderr, run)


def report(run):
    command = [sys.executable, "-m", "nodegate.cli", "report", str(run)]
    return warm.run(command, capture_output=True, text=True, check=False, timeout=120)


def verdicts_of(run):
    return {each["node"]: each["verdict"] for each in json.loads((run / "report.json").read_text())["nodes"]}


def test_evidence_of_another_node_is_an_error_of_the_node_that_has_it(run):
    shutil.copy(facts(run, "gpu1"), facts(run, "gpu2"))
    (run / MANIFEST).unlink()
    rewrite(run, manifest=None, schema="nodegate.run/1")  # the file itself says whose it is
    outcome = replay(run)
    assert outcome.exit_code == 1
    assert outcome.verdicts(CHECK) == {"gpu1": "pass", "gpu2": "error", "gpu3": "pass"}
    assert "is the evidence of gpu1" in outcome.stdout


def test_evidence_of_another_measurement_is_refused():
    whole = {"schema": "nodegate.evidence/1", "node": "gpu1", "measurement": "facts", "document": {}}
    read = parse_evidence(json.dumps(whole).encode(), node="gpu1", measurement="facts_after", file="x.json")
    assert "is the evidence of facts, not of facts_after" in str(read.error)
    del whole["node"]
    read = parse_evidence(json.dumps(whole).encode(), node="gpu1", measurement="facts", file="x.json")
    assert "does not name its node" in str(read.error)
    bare = {"schema": "nodegate.measured/1", "measurement": "nccl", "attempts": []}
    read = parse_evidence(json.dumps(bare).encode(), node="gpu1", measurement="burn", file="x.json")
    assert "is the evidence of nccl, not of burn" in str(read.error)
    read = parse_evidence(b'{"errors": 3, "errors": 0}', node="gpu1", measurement="facts", file="x.json")
    assert "the key 'errors' stands twice" in str(read.error)
    with pytest.raises(CannotMeasure, match="the key 'errors' stands twice"):
        Wire("nodegate.probe/1", "the probe", 1 << 20, "look at it").json('{"errors": 3, "errors": 0}')


def test_changed_evidence_is_an_error_when_it_is_judged_again(run):
    change(facts(run, "gpu2"))
    facts(run, "gpu3").unlink()
    outcome = replay(run)
    assert outcome.exit_code == 1
    assert outcome.verdicts(CHECK) == {"gpu1": "pass", "gpu2": "error", "gpu3": "error"}
    for said in (
        "has changed since it was written: evidence/gpu2/facts.json; not judged by it",
        "is missing, though the manifest lists it: evidence/gpu3/facts.json",
    ):
        assert f"note: evidence that {said}" in outcome.stdout


def test_changed_evidence_is_measured_again_by_a_resumed_run(run):
    good = facts(run, "gpu2").read_bytes()
    change(facts(run, "gpu2"))
    outcome = resume(run)
    assert outcome.exit_code == 0, outcome.stdout
    assert "has changed since it was written: evidence/gpu2/facts.json; measured again" in outcome.stdout
    assert json.loads(facts(run, "gpu2").read_text())["document"] == json.loads(good)["document"]
    assert RunFolder(run).manifest.odd_files() == ()


def test_a_report_is_held_against_the_evidence(ended, tmp_path):
    run = tmp_path / "run"
    whole = run_pytest(ended, ["--inventory", "hosts.yaml", "--run-dir", str(run), "--profile", "bootcheck"])
    assert whole.exit_code == 0, whole.stdout
    first = report(run)
    assert (first.returncode, first.stderr) == (0, "")
    assert set(verdicts_of(run).values()) == {"accepted"}
    change(facts(run, "gpu2"))
    (run / "evidence/gpu3/nccl.json").write_text("{}")
    again = report(run)
    assert again.returncode == 0, again.stderr
    assert "evidence/gpu2/facts.json has changed since it was written" in again.stderr
    assert "evidence/gpu3/nccl.json is not in the manifest" in again.stderr
    assert verdicts_of(run) == {"gpu1": "accepted", "gpu2": "incomplete", "gpu3": "incomplete"}


@pytest.mark.parametrize("kept", ["accepted", "accepted-with-gaps", "accepted-with-waivers", "not-judged"])
def test_no_verdict_that_lets_a_node_work_outlives_its_evidence(run, kept):
    file = run / "report.json"
    file.write_text(re.sub(r'("verdict": ?)"(accepted|incomplete)"', rf'\1"{kept}"', file.read_text()))
    change(facts(run, "gpu2"))
    assert report(run).returncode == 0
    assert verdicts_of(run) == {"gpu1": kept, "gpu2": "incomplete", "gpu3": kept}


def test_another_manifest_is_not_that_of_the_report(run):
    sha256 = RunFolder(run).manifest.sha256
    assert json.loads((run / "report.json").read_text())["run"]["manifest_sha256"] == sha256
    assert sha256 in (run / "report.html").read_text()
    change(facts(run, "gpu2"))
    (run / MANIFEST).unlink()
    assert "manifest.sha256: is gone" in report(run).stderr
    refused = replay(run)
    assert refused.exit_code == 4
    assert "the manifest of this run is gone" in refused.stdout + refused.stderr
    RunFolder(run).manifest.begin()
    again = report(run)
    assert again.returncode == 2
    assert "does not belong to this report.json" in again.stderr


def test_a_node_with_another_address_is_measured_again(run):
    nodes = json.loads((run / "run.json").read_text())["nodes"]
    rewrite(run, nodes=[each | {"address": "10.0.0.1"} if each["name"] == "gpu2" else each for each in nodes])
    bad = Machine.hgx_h100("gpu2", 2)
    bad.set("system", "hostname", "another")
    (run.parent / "recordings/gpu2/facts.json").write_text(json.dumps(bad.document()))
    outcome = resume(run)
    assert "another address than before, so everything is measured again: gpu2" in outcome.stdout
    assert '"hostname":"another"' in facts(run, "gpu2").read_text()
    again = resume(run)
    assert "another address" not in again.stdout


def test_a_run_folder_brings_no_inventory_and_no_tools(run):
    (run / "hosts.yaml").write_text("all: {hosts: {gpu1: {ansible_connection: local}}}\n")
    asked = json.loads((run / "run.json").read_text())["asked"]
    for key, value in (("tools", str(run / "tools")), ("inventory", [str(run / "hosts.yaml")])):
        rewrite(run, asked={**asked, key: value})
        with pytest.raises(UsageError, match="inside the run folder"):
            prepare(Settings(resume=run))
    assert resume(run).exit_code == 4
    assert len(prepare(Settings(resume=run, inventory=(str(run.parent / "hosts.yaml"),))).judging.nodes) == 3


def test_evidence_is_not_written_through_a_link(run):
    elsewhere = run.parent / "elsewhere"
    shutil.move(run / "evidence/gpu1", elsewhere)
    (run / "evidence/gpu1").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="leads out of the run folder"):
        prepare(Settings(resume=run))
    (run.parent / "link").symlink_to(run)  # as reports/latest is
    (run / "evidence/gpu1").unlink()
    shutil.move(elsewhere, run / "evidence/gpu1")
    assert prepare(Settings(resume=run.parent / "link")).notes == ()


NOTHING = CannotMeasure("the connection broke while it ran", next_step="run again with --resume")
RAN = ProgramRun("speed", stdout="400")


def with_evidence(run, of, name="speed", missing=()):
    folder = RunFolder.create(run, profile="delivery", started_epoch_s=0.0)
    for node, runs in of.items():
        attempt = Attempt(tuple(runs), missing=missing)
        folder.write_evidence(Evidence(node, "facts", 1.0, 1.0, document={}))
        folder.write_evidence(Evidence(node, name, 1.0, 1.0, document=document(name, [attempt])))
        folder.write_evidence(Evidence(node, "facts_after", 1.0, 1.0, document={}))
    return folder


def kept_after_resume(folder):
    def never(*_):
        raise AssertionError

    speed = Measurement("speed", "links", lambda _facts: "", (), never, never, never)  # type: ignore[arg-type]
    nodes = sorted(each.name for each in (folder.path / "evidence").iterdir())
    drop_what_failed(folder, nodes, [speed], facts_after=True)
    return {name: sorted(file.stem for file in (folder.path / "evidence" / name).iterdir()) for name in nodes}


def test_what_broke_off_is_measured_again(tmp_path):
    lost = not_run("speed", NOTHING)
    folder = with_evidence(tmp_path / "run", {"a": [lost], "b": [RAN, lost], "c": [RAN]})
    kept = kept_after_resume(folder)
    assert kept == {"a": ["facts"], "b": ["facts"], "c": ["facts", "facts_after", "speed"]}


def test_a_rail_that_is_missing_alone_does_not_cost_what_was_measured_with_others(tmp_path):
    missing = (MissingRail("mlx5_1", NOTHING.reason, NOTHING.next_step),)
    folder = with_evidence(tmp_path / "run", {"b": [RAN]}, missing=missing)
    assert kept_after_resume(folder) == {"b": ["facts", "facts_after", "speed"]}


def test_a_node_whose_facts_are_lost_is_measured_again_as_a_whole(tmp_path):
    folder = with_evidence(tmp_path / "run", {"a": [RAN]}, "burn")
    change_me = folder.evidence_file("a")
    change_me.write_text(change_me.read_text().replace("1.0", "2.0"))
    drop_what_failed(RunFolder(folder.path), ["a"], [], facts_after=True)
    assert list((folder.path / "evidence/a").iterdir()) == []


def test_what_a_run_writes_it_can_read(tmp_path):
    line = ProgramRun("ib_write_bw", stdout="x" * 1400, plan=Plan(link=LinkPlan("gpu2")))
    folder = with_evidence(tmp_path / "run", {"a": [line] * 3600})
    assert folder.evidence_file("a", "speed").stat().st_size > 5 << 20
    read = folder.read_evidence("a", "speed")
    assert read is not None
    assert read.error is None
    with pytest.raises(ValueError, match="larger than 32 MiB"):
        folder.write_evidence(Evidence("a", "nccl", 1.0, 1.0, document={"x": "x" * MAX_MEASURED_BYTES}))
    with pytest.raises(ValueError, match="larger than 4 MiB"):
        folder.write_evidence(Evidence("a", "facts", 1.0, 1.0, document={"x": "x" * (5 << 20)}))
    assert folder.manifest.odd_files() == ()


# What must raise no alarm


@pytest.mark.parametrize(("wrote_ports", "moved"), [(True, ("gpu2",)), (False, ())])
def test_a_port_that_was_not_written_is_no_other_port(run, wrote_ports, moved):
    if not wrote_ports:
        nodes = json.loads((run / "run.json").read_text())["nodes"]
        without = [{key: value for key, value in each.items() if key != "port"} for each in nodes]
        rewrite(run, nodes=without, manifest=None, schema="nodegate.run/1")
    hosts = (run.parent / "hosts.yaml").read_text()
    (run.parent / "hosts.yaml").write_text(hosts.replace("gpu2:", "gpu2: {ansible_port: 2222}"))
    assert prepare(Settings(resume=run)).moved == moved


def test_a_run_that_was_killed_while_it_wrote_is_as_it_was_written(run):
    file = run / MANIFEST
    before = file.read_text()
    file.write_text(before + f"{'0' * 64}  evidence/gpu2/facts.json\n" + before[:30])
    assert RunFolder(run).manifest.odd_files() == ()
    outcome = resume(run)
    assert outcome.exit_code == 0
    assert "note:" not in outcome.stdout
    assert file.read_text() == before
    done = subprocess.run(["sha256sum", "--check", "--quiet", "--strict", MANIFEST], cwd=run, check=False)
    assert done.returncode == 0


def test_whoever_reads_while_the_run_writes_sees_no_change(tmp_path):
    folder = RunFolder.create(tmp_path / "run", profile="delivery", started_epoch_s=0.0)
    odd: list[str] = []
    ended = threading.Event()

    def watch():
        reader = RunFolder(folder.path)
        while not ended.is_set():
            for node in ("a", "b", "c"):
                found = reader.read_evidence(node, "burn")
                odd.extend([str(found.error)] if found and found.error else [])

    def write(node):
        for number in range(20):
            folder.write_evidence(Evidence(node, "burn", 1.0, 1.0, document={"number": number}))

    watching = threading.Thread(target=watch)
    writing = [threading.Thread(target=write, args=(node,)) for node in ("a", "b", "c")]
    for thread in (watching, *writing):
        thread.start()
    for thread in writing:
        thread.join()
    ended.set()
    watching.join()
    folder.measured()
    assert odd == []
    assert folder.manifest.odd_files() == ()
    assert len((folder.path / MANIFEST).read_text().splitlines()) == 3


# The folder of a run by nodegate 0.2.0: its evidence is judged again, its report and results are refused by name


DEMO = Path(__file__).parents[2] / "inventory" / "demo.yaml"
RECORDED = Path(__file__).parents[1] / "recorded" / "run-0.2.0.tar.xz"
CONDITIONS = {("hgx03", "gpu_lost"), ("hgx06", "wrong_results")}


@pytest.fixture
def earlier(tmp_path):
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "run-0.2.0"


@pytest.mark.parametrize("how", ["--replay", "--resume"])
def test_its_evidence_is_judged_again_to_the_same_verdicts(earlier, how):
    nodes = {each["node"]: each for each in json.loads((earlier / "report.json").read_text())["nodes"]}
    where = ["--run-dir", "again"] if how == "--replay" else []
    where += [] if how == "--replay" else ["--inventory", str(DEMO)]  # the one that it names is not here
    command = [sys.executable, "-m", "pytest", "-q", how, "run-0.2.0", *where, "--history", "h.sqlite"]
    done = warm.run(command, cwd=earlier.parent, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    folder = earlier.parent / "again" if how == "--replay" else earlier
    assert (folder / RESULTS).exists()
    found = load(folder)
    assert found.run.suite_version == suite_version()
    assert {(cause.nodes[0], cause.condition) for cause in found.causes if cause.verdict == "fail"} >= CONDITIONS
    for node in found.nodes:
        before, verdicts = nodes[node.node], {each.check: each.verdict.value for each in node.records}
        assert node.verdict == before["verdict"]
        assert {check for check, verdict in verdicts.items() if verdict == "fail"} >= set(before["failed"])


@pytest.mark.parametrize("command", ["report run-0.2.0", "show hgx06 --run run-0.2.0"])
def test_its_report_is_refused_with_what_to_do(earlier, command):
    asked = [sys.executable, "-m", "nodegate.cli", *command.split()]
    done = warm.run(asked, cwd=earlier.parent, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "pytest --replay" in done.stderr
