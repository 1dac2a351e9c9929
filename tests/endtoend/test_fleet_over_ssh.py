"""`pytest --inventory hosts.yaml` over real sshds: one connection a node, all facts in one round trip."""

import json
import os

import pytest
from support.recorded import run_pytest
from support.sshd import Fleet

from lab.run import ROOT

NODES = 24  # on one machine: what each may take is far more than a node takes that has one for itself


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), NODES, name="node") as running:
        yield running


def inventory(fleet, folder, *lines):
    file = folder / "hosts.yaml"
    file.write_text(fleet.inventory() + "\n".join(lines))
    return file


def run(fleet, folder, *arguments):
    command = ["--inventory", str(inventory(fleet, folder)), "-p", "lab.slow_probe", "-q", "--tb=no", *arguments]
    return run_pytest(folder, command, timeout_s=600, PYTHONPATH=str(ROOT))


def test_nodes_cost_one_connection_each(fleet, tmp_path):
    before = fleet.connections()
    outcome = run(fleet, tmp_path)
    assert fleet.connections() - before == NODES, outcome.stdout[-2000:]
    assert set(outcome.verdicts("node.reachable").values()) == {"pass"}
    assert len(outcome.verdicts("node.reachable")) == NODES


def test_this_machine_is_read_whole_and_without_gpus_never_accepted(fleet, tmp_path):
    outcome = run_pytest(
        tmp_path, ["--inventory", str(inventory(fleet, tmp_path)), "--nodes", "node1", "-q", "--tb=no"]
    )
    assert outcome.exit_code == 1
    assert "accepted" not in outcome.stdout
    evidence = json.loads((outcome.folder / "evidence" / "node1" / "facts.json").read_text())
    sections = evidence["document"]["sections"]
    assert sections["system"]["data"]["kernel_release"] == os.uname().release
    known = {"pci", "driver", "nvml", "infiniband", "services", "kernel_log", "limits", "mounts", "clock"}
    assert sections.keys() >= known
    assert len(json.dumps(evidence)) < 100_000


def test_n_opens_no_second_connection(fleet, tmp_path):
    before = fleet.connections()
    outcome = run(fleet, tmp_path, "--nodes", "node[1-4]", "-n", "2")
    assert fleet.connections() - before == 4, outcome.stdout[-2000:]
