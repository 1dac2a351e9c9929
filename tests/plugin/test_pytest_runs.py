"""`pytest --inventory hosts.yaml` as users run it: real pytest processes over recorded nodes."""

import json
import re

import pytest
from fleet import faults
from fleet.machine import Machine
from support.recorded import run_pytest, write_fleet


def fleet_in(folder):
    """Four healthy nodes, but for gpu0003: one GPU link at x2."""
    machines = [Machine.hgx_h100(f"gpu{number:04}", number) for number in range(1, 5)]
    machines[2].set_link(machines[2].gpu_address(5), width=2)
    return write_fleet(folder, machines)


@pytest.fixture
def fleet(tmp_path):
    return fleet_in(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run of everything over the four nodes, which says each verdict in a line."""
    return run(fleet_in(tmp_path_factory.mktemp("whole")), "-rA")


def run(fleet, *arguments, **settings):
    return run_pytest(fleet.parent, ["--inventory", str(fleet), *arguments], **settings)


@pytest.mark.long
def test_a_bad_node_fails_and_its_healthy_neighbours_are_accepted(whole):
    assert whole.exit_code == 1, whole.stdout
    names = ("gpu0001", "gpu0002", "gpu0003", "gpu0004")
    assert whole.verdicts("pcie.link_width") == {**dict.fromkeys(names, "pass"), "gpu0003": "fail"}
    assert "\n1 rejected, 3 accepted of 4 nodes (24 of 32 GPUs accepted)" in whole.stdout
    assert "\nrejected: gpu0003\n" in whole.stdout


def test_the_run_folder_holds_what_the_contract_says(whole):
    folder = whole.folder
    reports = ("report.json", "report.html", "junit.xml", "nodes.csv", "findings.csv", "metrics.prom")
    for name in ("run.json", "results.jsonl.gz", "evidence/gpu0001/facts.json", *reports):
        assert (folder / name).stat().st_size > 0, name
    conditions = json.loads((folder / "run.json").read_text())
    assert conditions["profile"] == "delivery"
    assert [node["name"] for node in conditions["nodes"]] == ["gpu0001", "gpu0002", "gpu0003", "gpu0004"]
    assert conditions["inventory"][0]["sha256"]
    pairs = {(record.node, record.check) for record in whole.records}
    assert len(whole.records) == len(pairs) == 4 * len({check for _, check in pairs})


def test_pytest_words_match_the_verdicts(whole):
    counts = {word: whole.stdout.count(f"\n{word} ") for word in ("FAILED", "ERROR")}
    verdicts = [record.verdict.value for record in whole.records]
    assert counts == {"FAILED": verdicts.count("fail"), "ERROR": verdicts.count("error")}
    assert re.search(
        r"FAILED .*::test_link_width\[gpu0003\] - Failed: GPU .*link width 2 lanes, expected", whole.stdout
    )


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_k_selects_a_node_and_measures_only_it(fleet, more):
    outcome = run(fleet, "-q", "-k", "gpu0001 and link_width", *more)
    assert outcome.exit_code == 0, outcome.stdout
    assert [(record.node, record.check) for record in outcome.records] == [("gpu0001", "pcie.link_width")]
    assert sorted(path.name for path in (outcome.folder / "evidence").iterdir() if path.is_dir()) == ["gpu0001"]


def test_collect_only_touches_no_node_and_makes_no_run_folder(fleet):
    outcome = run(fleet, "--collect-only", "-q")
    assert outcome.exit_code == 0
    assert "test_link_width[gpu0004]" in outcome.stdout
    assert not (fleet.parent / "reports").exists()


def test_x_stops_at_the_first_fail(fleet):
    outcome = run(fleet, "-q", "-x", "-k", "link_width")
    assert outcome.exit_code == 1
    assert "stopping after 1 failures" in outcome.stdout
    assert [record.verdict.value for record in outcome.records] == ["pass", "pass", "fail"]
    assert (outcome.folder / "report.html").exists()


def test_lf_runs_only_the_failed_pairs_again(fleet):
    first = run(fleet, "-q", "-k", "link_width")
    assert first.exit_code == 1
    again = run(fleet, "-q", "--lf", "-k", "link_width")
    assert {(record.node, record.check) for record in again.records} == {("gpu0003", "pcie.link_width")}


@pytest.mark.parametrize("recorded", ["", '{"schema": "nodegate.probe/1", "uid": "'], ids=["nothing", "garbage"])
def test_a_node_that_answers_nothing_or_garbage_is_an_error_and_never_passes(fleet, recorded):
    file = fleet.parent / "recordings" / "gpu0002" / "facts.json"
    file.write_text(recorded) if recorded else file.unlink()
    outcome = run(fleet, "-q", "--nodes", "gpu0002")
    assert outcome.exit_code == 1
    assert {record.verdict.value for record in outcome.records} == {"error"}
    assert "accepted" not in outcome.stdout.replace("accepted-with", "")
    assert "Traceback" not in outcome.stdout


def test_a_run_of_skips_alone_is_no_success(tmp_path):
    machine = Machine.hgx_h100("gpu0001", 1)
    machine.set("jobs", "slurm", ["4711"])
    fleet = write_fleet(tmp_path, [machine])
    outcome = run(fleet, "-q", "--profile", "nightly")
    assert {record.verdict.value for record in outcome.records} == {"skip"}
    assert "busy: Slurm job 4711 runs here" in outcome.records[0].message
    assert outcome.exit_code == 5
    assert "1 not-judged of 1 node" in outcome.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--inventory", "nowhere.yaml"], "nowhere.yaml"),
        (["--replay", "nowhere"], "not a run folder"),
        (["--inventory", "hosts.yaml", "--nodes", "gpo[0001-0002]"], "gpo"),
        (["--inventory", "hosts.yaml", "--baseline", "nowhere.yaml"], "nowhere.yaml"),
        (["--inventory", "hosts.yaml", "--replay", "a", "--resume", "b"], "use one of them"),
        (["--inventory", "hosts.yaml", "--known-hosts", "nope"], "nope: --known-hosts: No such file or directory - "),
        (
            ["--inventory", "hosts.yaml", "--known-hosts", "no/keys", "--host-keys", "accept-new"],
            "no/keys: --known-hosts: its folder is missing - ",
        ),
        (["--inventory", "hosts.yaml", "--openssh-config", "nope"], "nope: --openssh-config: No such file or dir"),
        (["--inventory", "hosts.yaml", "--nodes-at-once", "0"], "--nodes-at-once 0: at least one node at a time - "),
        (["--inventory", "hosts.yaml", "--passive", "--burn", "1m"], "--burn is for load on the nodes, --passive"),
        (["--inventory", "hosts.yaml", "--passive", "--pairs", "all"], "--pairs is for load on the nodes, --passive"),
        (["--inventory", "hosts.yaml", "--profile", "bootcheck", "--burn", "1m"], "add --active"),
        (["--inventory", "hosts.yaml", "--burn", "10"], "--burn 10: a duration needs its unit - write 10s or 10m"),
        (["--inventory", "hosts.yaml", "--hang-after", "1.5"], "a duration needs its unit - write 1.5s or 1.5m"),
        (["--inventory", "hosts.yaml", "--profile", "troubleshoot", "--job-log", "nowhere.log"], "nowhere.log"),
        (["--inventory", "hosts.yaml", "--profile", "nightly", "--job-log", "x"], "--job-log is for --profile "),
    ],
)
def test_wrong_use_is_one_clear_message_and_exit_code_4(fleet, arguments, words):
    outcome = run_pytest(fleet.parent, arguments)
    assert outcome.exit_code == 4
    assert words in outcome.stderr
    assert len(outcome.stderr.split("ERROR: ")) == 2
    assert "Traceback" not in outcome.stderr + outcome.stdout
    assert not outcome.folder.exists()


def test_a_file_of_accepted_host_keys_may_still_be_missing(fleet):
    outcome = run(fleet, "--known-hosts", "new", "--host-keys", "accept-new", "-k", "link_width")
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    assert outcome.verdicts("pcie.link_width")


@pytest.mark.parametrize("folder", [".", "checks"])
def test_without_inventory_the_plugin_is_inert(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "test_theirs.py").write_text("def test_it(pytestconfig):\n    assert True\n")
    outcome = run_pytest(tmp_path, ["-q"])
    assert outcome.exit_code == 0
    assert not {"nodegate", "--inventory"} & set(outcome.stdout.split())
    assert not (tmp_path / "reports").exists()


def test_a_waived_fail_is_xfail_and_fails_no_run(fleet):
    (fleet.parent / "waivers.yaml").write_text(
        "- node: gpu0003\n  check: pcie.link_width\n  reason: riser on order\n  owner: dc-ops\n  expires: 2099-01-01\n"
    )
    outcome = run(fleet, "-rA", "-k", "link_width", "--waivers", "waivers.yaml")
    assert outcome.exit_code == 0, outcome.stdout
    assert "1 xfailed" in outcome.stdout
    assert "(waived)" in outcome.stdout


# Profile troubleshoot: one answer for the operator, from the nodes now and from the job's logs


PROGRAM = "Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\nKeyError: 'lr'\n"


def troubleshoot(where, *arguments):
    return run_pytest(where, ["--inventory", "hosts.yaml", "--profile", "troubleshoot", "-q", "--tb=no", *arguments])


def answer(outcome):
    said = json.loads((outcome.folder / "report.json").read_text("utf-8"))["run"]["answer"]
    assert f"answer: {said}" in outcome.stdout
    return str(said)


def test_healthy_nodes_and_the_programs_own_error_point_to_the_code(tmp_path):
    write_fleet(tmp_path, [Machine.hgx_h100("gpu01", 1), Machine.hgx_h100("gpu02", 2)])
    (tmp_path / "worker.log").write_text(PROGRAM)
    outcome = troubleshoot(tmp_path, "--job-log", "worker.log")
    assert outcome.exit_code == 0
    assert answer(outcome).startswith("nodes fine: look at the code: ")
    assert "Nodes fine: look at the code: " in (outcome.folder / "report.html").read_text("utf-8")


def test_a_lost_gpu_moves_the_job_off_its_node(tmp_path):
    bad = Machine.hgx_h100("gpu02", 2)
    faults.lost_gpu(bad)
    write_fleet(tmp_path, [Machine.hgx_h100("gpu01", 1), bad])
    outcome = troubleshoot(tmp_path)
    assert outcome.exit_code == 1
    assert answer(outcome).startswith("hardware: move the job off gpu02 because GPU 3 S/N ")
