"""`pytest --inventory hosts.yaml` as users run it: real pytest processes over recorded nodes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.recorded import PytestOutcome, run_pytest, write_fleet


def fleet_in(folder: Path) -> Path:
    """Four healthy nodes, but for gpu0003: one GPU link at x2."""
    machines = [Machine.hgx_h100(f"gpu{number:04}", number) for number in range(1, 5)]
    machines[2].set_link(machines[2].gpu_address(5), width=2)
    return write_fleet(folder, machines)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    return fleet_in(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> PytestOutcome:
    """One run of everything over the four nodes, which says each verdict in a line."""
    return run(fleet_in(tmp_path_factory.mktemp("whole")), "-rA")


@pytest.fixture
def first(whole: PytestOutcome, fleet: Path) -> Path:
    """A folder of that run beside the inventory, for a test to do with as it likes."""
    return Path(shutil.copytree(whole.folder.resolve(), fleet.parent / "first"))


def run(fleet: Path, *arguments: str, **settings: str) -> PytestOutcome:
    return run_pytest(fleet.parent, ["--inventory", str(fleet), *arguments], **settings)


def test_a_bad_node_fails_and_its_healthy_neighbours_are_accepted(whole: PytestOutcome) -> None:
    outcome = whole
    assert outcome.exit_code == 1, outcome.stdout
    assert outcome.verdicts("pcie.link_width") == {
        "gpu0001": "pass",
        "gpu0002": "pass",
        "gpu0003": "fail",
        "gpu0004": "pass",
    }
    assert "\n1 rejected, 3 accepted of 4 nodes (24 of 32 GPUs accepted)" in outcome.stdout
    assert "\nrejected: gpu0003\n" in outcome.stdout


def test_the_run_folder_holds_what_the_contract_says(whole: PytestOutcome) -> None:
    folder = whole.folder
    for name in (
        "run.json",
        "results.jsonl.gz",
        "report.json",
        "report.html",
        "junit.xml",
        "nodes.csv",
        "findings.csv",
        "metrics.prom",
    ):
        assert (folder / name).stat().st_size > 0, name
    assert (folder / "evidence" / "gpu0001" / "facts.json").exists()
    conditions = json.loads((folder / "run.json").read_text())
    assert conditions["profile"] == "delivery"
    assert [node["name"] for node in conditions["nodes"]] == ["gpu0001", "gpu0002", "gpu0003", "gpu0004"]
    assert conditions["inventory"][0]["sha256"]


def test_results_hold_one_line_for_each_check_and_node(whole: PytestOutcome) -> None:
    pairs = [(record.node, record.check) for record in whole.records]
    assert len(pairs) == len(set(pairs))
    checks = {check for _, check in pairs}
    assert len(pairs) == 4 * len(checks)


def test_pytest_words_match_the_verdicts(whole: PytestOutcome) -> None:
    outcome = whole
    counts = {word: outcome.stdout.count(f"\n{word} ") for word in ("FAILED", "ERROR")}
    verdicts = [record.verdict.value for record in outcome.records]
    assert counts == {"FAILED": verdicts.count("fail"), "ERROR": verdicts.count("error")}
    assert re.search(
        r"FAILED .*::test_link_width\[gpu0003\] - Failed: GPU .*link width 2 lanes, expected", outcome.stdout
    )


def test_k_selects_a_node_and_measures_only_it(fleet: Path) -> None:
    outcome = run(fleet, "-q", "-k", "gpu0001 and link_width")
    assert outcome.exit_code == 0, outcome.stdout
    assert [(record.node, record.check) for record in outcome.records] == [("gpu0001", "pcie.link_width")]
    assert sorted(path.name for path in (outcome.folder / "evidence").iterdir() if path.is_dir()) == ["gpu0001"]


def test_nodes_selects_by_hostlist(fleet: Path) -> None:
    outcome = run(fleet, "-q", "--nodes", "gpu[0001-0002]")
    assert outcome.exit_code == 0, outcome.stdout
    assert {record.node for record in outcome.records} == {"gpu0001", "gpu0002"}


def test_collect_only_touches_no_node_and_makes_no_run_folder(fleet: Path) -> None:
    outcome = run(fleet, "--collect-only", "-q")
    assert outcome.exit_code == 0
    assert "test_link_width[gpu0004]" in outcome.stdout
    assert not (fleet.parent / "reports").exists()


def test_x_stops_at_the_first_fail(fleet: Path) -> None:
    outcome = run(fleet, "-q", "-x", "-k", "link_width")
    assert outcome.exit_code == 1
    assert "stopping after 1 failures" in outcome.stdout
    assert (outcome.folder / "report.html").exists()


def test_lf_runs_only_the_failed_pairs_again(fleet: Path) -> None:
    first = run(fleet, "-q", "-k", "link_width")
    assert first.exit_code == 1
    again = run(fleet, "-q", "--lf", "-k", "link_width")
    assert {(record.node, record.check) for record in again.records} == {("gpu0003", "pcie.link_width")}


def test_n_judges_in_workers_and_finds_the_same(fleet: Path, whole: PytestOutcome) -> None:
    spread = run(fleet, "-q", "-n", "2")
    assert spread.exit_code == whole.exit_code, spread.stdout

    def found(outcome: PytestOutcome) -> set[tuple[str, str, str]]:
        return {(record.node, record.check, record.verdict.value) for record in outcome.records}

    assert found(spread) == found(whole)
    assert (spread.folder / "report.html").exists()


def test_n_with_k_measures_only_the_selected_node(fleet: Path) -> None:
    outcome = run(fleet, "-q", "-n", "2", "-k", "gpu0002")
    assert outcome.exit_code == 0, outcome.stdout
    assert {record.node for record in outcome.records} == {"gpu0002"}
    assert sorted(path.name for path in (outcome.folder / "evidence").iterdir() if path.is_dir()) == ["gpu0002"]


def test_replay_judges_an_earlier_run_without_its_inventory(fleet: Path, first: Path, whole: PytestOutcome) -> None:
    fleet.unlink()
    again = run_pytest(fleet.parent, ["--replay", first.name, "-q"])
    assert again.exit_code == whole.exit_code == 1
    assert again.verdicts("pcie.link_width")["gpu0003"] == "fail"


def test_resume_measures_what_has_no_evidence(fleet: Path, first: Path) -> None:
    kept = first / "evidence"
    before = (kept / "gpu0001" / "facts.json").stat().st_mtime_ns
    (kept / "gpu0002" / "facts.json").unlink()
    outcome = run(fleet, "-q", "--resume", first.name)
    assert outcome.exit_code == 1, outcome.stdout
    assert (kept / "gpu0002" / "facts.json").exists()
    assert (kept / "gpu0001" / "facts.json").stat().st_mtime_ns == before


def test_a_node_without_evidence_is_an_error_and_never_passes(fleet: Path) -> None:
    (fleet.parent / "recordings" / "gpu0002" / "facts.json").unlink()
    outcome = run(fleet, "-q", "--nodes", "gpu0002")
    assert outcome.exit_code == 1
    assert {record.verdict.value for record in outcome.records} == {"error"}
    assert "accepted" not in outcome.stdout.replace("accepted-with", "")


def test_garbage_from_a_node_is_an_error_and_never_passes(fleet: Path) -> None:
    (fleet.parent / "recordings" / "gpu0002" / "facts.json").write_text('{"schema": "nodegate.probe/1", "uid": "')
    outcome = run(fleet, "-q", "--nodes", "gpu0002")
    assert outcome.exit_code == 1
    assert {record.verdict.value for record in outcome.records} == {"error"}
    assert "Traceback" not in outcome.stdout


def test_a_run_of_skips_alone_is_no_success(tmp_path: Path) -> None:
    machine = Machine.hgx_h100("gpu0001", 1)
    machine.set("jobs", "slurm", ["4711"])
    fleet = write_fleet(tmp_path, [machine])
    outcome = run(fleet, "-q", "--profile", "nightly")
    assert {record.verdict.value for record in outcome.records} == {"skip"}
    assert "busy: Slurm job 4711 runs here" in outcome.records[0].message
    assert outcome.exit_code == 5
    assert "1 not-judged of 1 node" in outcome.stdout


def test_profiles_nest(fleet: Path) -> None:
    def checks(profile: str) -> set[str]:
        listed = run(fleet, "--collect-only", "-q", "--nodes", "gpu0001", "--profile", profile).stdout
        return set(re.findall(r"::(test_\w+)\[", listed))

    assert checks("bootcheck") < checks("nightly") <= checks("delivery")


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
    ],
)
def test_wrong_use_is_one_clear_message_and_exit_code_4(fleet: Path, arguments: list[str], words: str) -> None:
    outcome = run_pytest(fleet.parent, arguments)
    assert outcome.exit_code == 4
    assert words in outcome.stderr
    assert len(outcome.stderr.split("ERROR: ")) == 2
    assert "Traceback" not in outcome.stderr + outcome.stdout
    assert not outcome.folder.exists()


def test_a_file_of_accepted_host_keys_may_still_be_missing(fleet: Path) -> None:
    outcome = run(fleet, "--known-hosts", "new", "--host-keys", "accept-new", "-k", "link_width")
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    assert outcome.verdicts("pcie.link_width")


def test_a_check_that_asks_for_no_fact_stops_with_the_near_name(fleet: Path) -> None:
    checks = fleet.parent / "checks"
    checks.mkdir()
    (checks / "test_site.py").write_text("def test_it(gpuss, verdicts):\n    '''It holds.'''\n")
    outcome = run(fleet)
    assert outcome.exit_code == 2
    assert "asks for unknown fact 'gpuss' - did you mean gpus?" in outcome.stdout


def test_a_site_adds_a_check_and_replaces_one_of_ours(fleet: Path) -> None:
    checks = fleet.parent / "checks"
    checks.mkdir()
    body = "from nodegate.records import part\ndef test_{0}(host, verdicts):\n    '''It holds.'''\n"
    body += "    verdicts.passed(part=part.NODE, text='holds')\n"
    (checks / "test_site.py").write_text(body.format("own"))
    (checks / "test_pcie.py").write_text(body.format("replaced"))
    found = {record.check for record in run(fleet, "-q").records}
    assert {"site.own", "pcie.replaced", "gpu.count"} <= found
    assert "pcie.link_width" not in found


def test_a_fault_of_a_check_is_an_error_with_its_place(fleet: Path) -> None:
    checks = fleet.parent / "checks"
    checks.mkdir()
    (checks / "test_site.py").write_text("def test_bad(gpus, verdicts):\n    '''It holds.'''\n    1 / 0\n")
    outcome = run(fleet, "-q", "-k", "test_bad and gpu0001")
    assert outcome.exit_code == 1
    assert outcome.records[0].verdict.value == "error"
    assert "ZeroDivisionError" in outcome.records[0].message
    assert "test_site.py:3" in outcome.records[0].message


def test_a_check_that_finds_nothing_is_an_error(fleet: Path) -> None:
    checks = fleet.parent / "checks"
    checks.mkdir()
    (checks / "test_site.py").write_text("def test_silent(gpus, verdicts):\n    '''It holds.'''\n")
    outcome = run(fleet, "-q", "-k", "test_silent and gpu0001")
    assert outcome.records[0].verdict.value == "error"


def test_without_inventory_the_plugin_is_inert(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text("def test_it(pytestconfig):\n    assert True\n")
    outcome = run_pytest(tmp_path, ["-q"])
    assert outcome.exit_code == 0
    assert "nodegate" not in outcome.stdout
    assert not (tmp_path / "reports").exists()


def test_a_waived_fail_is_xfail_and_fails_no_run(fleet: Path) -> None:
    (fleet.parent / "waivers.yaml").write_text(
        "- node: gpu0003\n  check: pcie.link_width\n  reason: riser on order\n  owner: dc-ops\n  expires: 2099-01-01\n"
    )
    outcome = run(fleet, "-rA", "-k", "link_width", "--waivers", "waivers.yaml")
    assert outcome.exit_code == 0, outcome.stdout
    assert "1 xfailed" in outcome.stdout
    assert "(waived)" in outcome.stdout
