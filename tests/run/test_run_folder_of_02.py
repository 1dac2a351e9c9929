"""The folder of a run by nodegate 0.2.0, results with tables and report.json of schema 3: each command goes on with it.

Three nodes of the demo fleet under load: hgx01 is healthy, hgx03 has lost a GPU, GPU 3 of hgx06 copies wrong words.
"""

import json
import sys
import tarfile
from pathlib import Path

import pytest
from support import warm

from nodegate.errors import UsageError
from nodegate.records.results import RESULTS, read
from nodegate.release import suite_version
from nodegate.report.reader import load

DEMO = Path(__file__).parents[2] / "inventory" / "demo.yaml"
RECORDED = Path(__file__).parents[1] / "recorded" / "run-0.2.0.tar.xz"
CONDITIONS = {("hgx03", "gpu_lost"), ("hgx06", "wrong_results")}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "run-0.2.0"
    assert json.loads((folder / "report.json").read_text())["schema"] == "nodegate.report/3"
    return folder


def nodegate(where: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "nodegate.cli", *arguments]
    done = warm.run(command, cwd=where, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_reports_are_written_in_the_form_of_today(earlier: Path) -> None:
    before, results = load(earlier), read(earlier)
    assert {(cause.nodes[0], cause.condition) for cause in before.causes if cause.verdict == "fail"} >= CONDITIONS
    assert len(results) == 3 * 189
    nodegate(earlier.parent, "report", "run-0.2.0")
    assert json.loads((earlier / "report.json").read_text())["schema"] == "nodegate.report/4"
    after = load(earlier)
    assert sorted(read(earlier), key=repr) == sorted(results, key=repr)
    assert (after.run, after.drift, after.checks, after.policy) == (
        before.run,
        before.drift,
        before.checks,
        before.policy,
    )
    assert [(each.node, each.verdict, each.claims) for each in after.nodes] == [
        (each.node, each.verdict, each.claims) for each in before.nodes
    ]
    assert [cause.id for cause in after.causes] == [cause.id for cause in before.causes]
    again = {path.name: path.read_bytes() for path in earlier.iterdir() if path.is_file()}
    nodegate(earlier.parent, "report", "run-0.2.0")
    assert {path.name: path.read_bytes() for path in earlier.iterdir() if path.is_file()} == again


def test_what_stands_behind_a_cause_is_shown_from_both(earlier: Path) -> None:
    before = nodegate(earlier.parent, "show", "hgx06", "--run", "run-0.2.0")
    assert "wrong words" in before
    nodegate(earlier.parent, "report", "run-0.2.0")
    assert nodegate(earlier.parent, "show", "hgx06", "--run", "run-0.2.0") == before


def test_a_baseline_is_learned_from_its_good_nodes_alone(earlier: Path) -> None:
    said = nodegate(earlier.parent, "baseline", "learn", "run-0.2.0", "--out", "learned.yaml")
    assert "learned from 1 accepted node" in said
    assert "hgx01" in said


@pytest.mark.parametrize("how", ["--replay", "--resume"])
def test_its_evidence_is_judged_again_to_the_same_verdicts(earlier: Path, how: str) -> None:
    before = {(each.node, each.check): each.verdict for each in read(earlier)}
    where = ["--run-dir", "again"] if how == "--replay" else []
    where += [] if how == "--replay" else ["--inventory", str(DEMO)]  # the one that it names is not here
    command = [sys.executable, "-m", "pytest", "-q", how, "run-0.2.0", *where, "--history", "h.sqlite"]
    done = warm.run(command, cwd=earlier.parent, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    folder = earlier.parent / "again" if how == "--replay" else earlier
    found = {(each.node, each.check): each.verdict for each in read(folder)}
    assert {each: found[each] for each in found.keys() & before.keys()} == before
    assert "Traceback" not in done.stdout + done.stderr
    assert (folder / RESULTS).exists()
    after = json.loads((folder / "report.json").read_text())
    assert (after["schema"], after["run"]["suite_version"]) == ("nodegate.report/4", suite_version())
    assert {(each.node, each.check) for node in load(folder).nodes for each in node.records} == found.keys()


def test_results_that_were_changed_are_refused(earlier: Path) -> None:
    for name in ("results.jsonl", "results.tables.jsonl"):
        file = earlier / name
        kept = file.read_text()
        file.write_text(kept.replace("hgx01", "hgx99"))
        with pytest.raises(UsageError, match=r"does not belong to this report.json - judge its evidence"):
            load(earlier)
        file.write_text(kept)
    assert load(earlier)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("results.jsonl", '"verdict":"fail"', '"verdict":"bad"'),
        ("results.jsonl", '"verdict":"fail"', '"verdict":"fail","verdict":"pass"'),
        ("results.jsonl", '"same":"', '"same":"x'),
        ("results.tables.jsonl", '"kind":"gpu"', '"kind":"car"'),
        ("results.tables.jsonl", "0..7", "0..70000"),
        ("results.tables.jsonl", '"parts":{', '"parts":[{'),
    ],
)
def test_what_is_no_result_is_named_by_file_and_line(earlier: Path, name: str, old: str, new: str) -> None:
    file = earlier / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(UsageError, match=r"results(\.tables)?\.jsonl:\d+: not in the form that nodegate 0\.2 wrote"):
        read(earlier)


def test_a_last_line_that_was_cut_is_left_out(earlier: Path) -> None:
    file = earlier / "results.jsonl"
    file.write_bytes(file.read_bytes()[:-4])
    assert len(read(earlier)) == 3 * 189 - 1
