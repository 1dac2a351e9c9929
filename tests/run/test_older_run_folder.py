"""A run folder of an earlier release: its evidence is judged again; a report of that release is refused by name."""

import json
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
from support import warm

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.errors import NotApplicable
from nodegate.facts import FACTS, Fact
from nodegate.judge.context import facts_of
from nodegate.records.evidence import Evidence
from nodegate.records.manifest import MANIFEST
from nodegate.records.results import read
from nodegate.records.run_folder import RunFolder

RECORDED = Path(__file__).parents[1] / "recorded" / "run-0.1.0.tar.xz"
CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """The run folder as release 0.1.0 left it: two nodes, one with a lost GPU, one with a NIC on x8."""
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(RECORDED) as archive:
        archive.extractall(folder, filter="data")
    return folder / "older"


@pytest.fixture(scope="module")
def replayed(older):
    """The run folder of the same evidence, judged by this release."""
    run = older.parent / "again"
    history = ["--history", str(older.parent / "history.sqlite"), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "--replay", str(older), "--run-dir", str(run), *history]
    done = warm.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    return run


def test_evidence_of_an_older_release_is_judged_again(replayed):
    records = read(replayed)
    found = {
        node: [(cause.condition, cause.part.short) for cause in causes_of(own, conditions()) if cause.verdict == "fail"]
        for node in ("hgx03", "hgx07")
        if (own := [record for record in records if record.node == node])
    }
    assert found == {"hgx03": [("gpu_lost", "GPU 3")], "hgx07": [("gpu_memory", "GPU 6"), ("pcie_narrow", "mlx5_2")]}


def test_the_report_says_that_the_older_run_has_no_manifest(replayed):
    run = json.loads((replayed / "report.json").read_text())["run"]
    assert run["evidence"] == (
        "judged again from older, which has no manifest: what was changed in it before is not known"
    )
    assert run["evidence"] in (replayed / "report.html").read_text()
    assert run["manifest_sha256"] in (replayed / "report.html").read_text()


def test_the_burn_of_an_older_release_is_read_under_its_name_of_then(older, replayed):
    assert (older / "evidence/hgx07/gpu_burn.json").exists()
    (burn,) = [each for each in read(replayed) if (each.node, each.check) == ("hgx07", "burn.results")]
    assert burn.verdict == "pass"
    assert [path for path in burn.evidence if "burn" in path] == ["evidence/hgx07/burn.json"]
    assert (replayed / "evidence/hgx07/burn.json").exists()


def test_a_burn_that_is_measured_now_stands_above_the_older_one_and_both_are_deleted_together(older, tmp_path):
    folder = RunFolder.existing(Path(shutil.copytree(older, tmp_path / "copy")))
    folder.write_evidence(Evidence("hgx07", "burn", 1.0, 2.0, document={"rate": 2}))
    assert folder.read_evidence("hgx07", "burn").document == {"rate": 2}
    folder.drop_evidence("hgx07", "burn")
    assert folder.read_evidence("hgx07", "burn") is None
    assert not folder.evidence_file("hgx07", "gpu_burn").exists()


def test_with_its_first_manifest_nothing_is_odd(older, tmp_path):
    folder = RunFolder.existing(Path(shutil.copytree(older, tmp_path / "copy")))
    assert folder.manifest.odd_files() == ()
    folder.go_on()
    assert folder.manifest.odd_files() == ()
    assert len((folder.path / MANIFEST).read_text().splitlines()) == len(list(folder.path.glob("evidence/*/*.json")))


def test_what_was_blocked_then_still_follows_from_what_blocked_it(replayed):
    records = [record for record in read(replayed) if record.node == "hgx03"]
    (lost,) = [cause for cause in causes_of(records, conditions()) if cause.condition == "gpu_lost"]
    assert {"burn.results", "copies.data", "nccl.all_reduce"} <= {each.check for each in lost.follows}


def test_a_fact_that_came_later_was_not_recorded_then(older, monkeypatch):
    monkeypatch.setitem(FACTS, "disks", Fact(lambda document: document.sections["disks"], "disks"))
    evidence = RunFolder.existing(older).read_evidence("hgx07")
    facts = facts_of(evidence)
    with pytest.raises(NotApplicable, match=r"^not recorded then: this evidence was recorded by nodegate 0\.1\.0$"):
        facts.get("disks")
    assert facts.host.hostname == "hgx07"


def test_its_report_is_not_rendered_by_this_release(older):
    done = warm.run(
        [sys.executable, "-m", "nodegate.cli", "report", str(older)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "pytest --replay" in done.stderr
