"""The demo fleet by each shipped policy: a demand on the test is not a fault of the node."""

import json
from pathlib import Path

import pytest
from support.recorded import run_pytest

from nodegate.demo.verify import compare, read_faults
from nodegate.files.paths import INVENTORY, suite_folder
from nodegate.records.results import read

FOLDER = suite_folder(INVENTORY)
FAULTS = read_faults(FOLDER / "demo" / "faults.yaml")
WITHOUT = {"hgx01", "hgx09", "roce01", "roce06"}  # a fault


@pytest.mark.parametrize("policy", ["strict-h100", "clustermax", "nvidia-acv"])
def test_a_demand_on_the_test_is_not_a_fault_of_the_node(policy: str, tmp_path: Path) -> None:
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
