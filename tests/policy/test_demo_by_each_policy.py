"""The demo fleet by each shipped policy: a demand on the test is not a fault of the node."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from nodegate.demo.verify import Differences, compare, read_faults
from nodegate.files.paths import CHECKS, INVENTORY, suite_folder
from nodegate.records.claim import State
from nodegate.records.results import read

FOLDER = suite_folder(INVENTORY)
FAULTS = read_faults(FOLDER / "demo" / "faults.yaml")
WITHOUT = {"hgx01", "hgx09", "roce01", "roce06"}  # a fault
POLICIES = ("default", "strict-h100", "clustermax", "nvidia-acv")


class Judged(NamedTuple):
    """The demo fleet by one policy."""

    verdicts: Mapping[str, str]
    open: Mapping[str, set[str]]  # node -> its claims that are not proven
    differences: Differences


@pytest.fixture(scope="module", params=POLICIES)
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def judged(policy: str, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    run, past = tmp_path_factory.mktemp("demo") / "run", tmp_path_factory.mktemp("past") / "history.sqlite"
    command = [sys.executable, "-m", "pytest", suite_folder(CHECKS), "--inventory", FOLDER / "demo.yaml"]
    options = ["-p", "no:cacheprovider", "--run-dir", run, "--history", past, "--policy", policy]
    done = subprocess.run([*command, *options], check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    nodes = json.loads((run / "report.json").read_bytes())["nodes"]
    return Judged(
        {each["node"]: each["verdict"] for each in nodes},
        {
            each["node"]: {claim["claim"] for claim in each["claims"] if claim["state"] == State.NOT_PROVEN.value}
            for each in nodes
        },
        compare(read(run), FAULTS),
    )


def test_no_policy_rejects_a_node_without_a_fault_or_lets_one_with_a_fault_pass(judged: Judged) -> None:
    rejected = {node for node, verdict in judged.verdicts.items() if verdict == "rejected"}
    assert rejected == judged.verdicts.keys() - WITHOUT


def test_only_what_a_policy_asks_for_and_the_recording_lacks_is_open(judged: Judged, policy: str) -> None:
    """The demo was recorded in a short burn: strict-h100 asks for 24 h, and says nothing against the node."""
    asked = {"burn_time"} if policy == "strict-h100" else set()
    for node in ("hgx01", "hgx09"):
        assert judged.open[node] == asked
        assert judged.verdicts[node] == ("incomplete" if asked else "accepted")
    for node in ("roce01", "roce06"):  # L40S servers of which nobody says how many rails they have
        assert judged.verdicts[node] == "incomplete"
        assert judged.open[node] > {"counts"}


def test_every_fault_is_found_and_a_contract_says_more_of_nodes_with_faults_alone(judged: Judged, policy: str) -> None:
    assert (judged.differences.missed, judged.differences.untold) == ((), ())
    more = {tuple(alarm.partition(":")[0].split()) for alarm in judged.differences.false_alarms}
    assert {node for node, _ in more}.isdisjoint(WITHOUT)
    assert all(check.startswith("contract.") for _, check in more)
    assert bool(more) == (policy != "default")
