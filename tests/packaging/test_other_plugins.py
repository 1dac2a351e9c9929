"""Other pytest plugins that an engineer has installed do not break `--inventory`, nor do we break them."""

import subprocess
import sys

import pytest
from fleet.machine import Machine
from support.recorded import run_pytest, write_fleet

RIVALS = {
    "pytest-ansible": ["pytest-ansible", "ansible-compat", "subprocess-tee"],  # defines --inventory as well
    "pytest-testinfra": ["pytest-testinfra"],  # defines --hosts, --ssh-config, --ansible-inventory
}


@pytest.fixture(scope="module", params=RIVALS)
def rival(request, tmp_path_factory):
    """A folder that holds only this plugin. (Both together stop pytest without us: they share an option.)"""
    folder = tmp_path_factory.mktemp(request.param)
    packages = RIVALS[request.param]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *packages]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("first", ["rival", "nodegate"])
def test_our_runs_work_beside_it(rival, tmp_path, first):
    fleet = write_fleet(tmp_path, [Machine.hgx_h100("gpu0001", 1)])
    order = ["-p", "nodegate.plugin"] if first == "nodegate" else []
    arguments = [*order, "--inventory", str(fleet), "-q", "-k", "link_width"]
    outcome = run_pytest(tmp_path, arguments, cold=True, PYTHONPATH=str(rival))
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    assert outcome.verdicts("pcie.link_width") == {"gpu0001": "pass"}


def test_its_own_runs_work_beside_us(rival, tmp_path):
    (tmp_path / "test_theirs.py").write_text("def test_it():\n    pass\n")
    outcome = run_pytest(tmp_path, ["-q"], cold=True, PYTHONPATH=str(rival))
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
