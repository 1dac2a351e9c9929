"""The folder of a run by nodegate 0.2.0: its evidence is judged again, its report and results are refused by name.

Three nodes of the demo fleet under load: hgx01 is healthy, hgx03 has lost a GPU, GPU 3 of hgx06 copies wrong words.
"""

import json
import sys
import tarfile
from pathlib import Path

import pytest
from support import warm

from nodegate.records.results import RESULTS
from nodegate.release import suite_version
from nodegate.report.json_file import load

DEMO = Path(__file__).parents[2] / "inventory" / "demo.yaml"
RECORDED = Path(__file__).parents[1] / "recorded" / "run-0.2.0.tar.xz"
CONDITIONS = {("hgx03", "gpu_lost"), ("hgx06", "wrong_results")}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "run-0.2.0"


@pytest.mark.parametrize("how", ["--replay", "--resume"])
def test_its_evidence_is_judged_again_to_the_same_verdicts(earlier: Path, how: str) -> None:
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
def test_its_report_is_refused_with_what_to_do(earlier: Path, command: str) -> None:
    asked = [sys.executable, "-m", "nodegate.cli", *command.split()]
    done = warm.run(asked, cwd=earlier.parent, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "pytest --replay" in done.stderr
