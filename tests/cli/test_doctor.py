"""`nodegate doctor`: what stands in the way of a run, node by node, equal complaints folded."""

import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fleet.machine import Machine, facts_of
from support import bare, warm
from support.holding import hold_in
from support.schemas import read_output
from support.sshd import Fleet

from lab.processes import wait_until
from lab.run import ROOT
from nodegate.commands import doctor
from nodegate.commands.doctor import Complaint, Weight
from nodegate.errors import CannotMeasure
from nodegate.node import Node
from nodegate.toolbox import carried, toolbox
from nodegate.toolbox.carried import Carried
from nodegate.transport import Options

DOCTOR = "import lab.path_alone, sys, nodegate.cli; sys.exit(nodegate.cli.main(['doctor', *sys.argv[1:]]))"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    with Fleet(folder, 3, name="node", SetEnv=f"HOME={folder} PATH={bare.programs(folder / 'programs')}") as running:
        yield running


@pytest.fixture(autouse=True)
def path_alone(monkeypatch):
    """What this machine has installed is no part of a test: here as in lab.path_alone."""
    monkeypatch.setattr(toolbox, "USUAL_FOLDERS", ())


def run(*arguments):
    command = [sys.executable, "-c", DOCTOR, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return warm.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_reachable_nodes_are_counted_and_missing_tools_folded(fleet, tmp_path):
    (tmp_path / "hosts.yaml").write_text(fleet.inventory())
    done = run("--inventory", str(tmp_path / "hosts.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == "3 of 3 nodes can be queried"
    assert "note: node[1-3]: lacks gpu_burn - build github.com/wilicc/gpu-burn into /opt/gpu-burn, or " in done.stdout
    assert "note: node[1-3]: lacks all_reduce_perf, all_gather_perf, reduce_scatter_perf, " in done.stdout


def test_an_unreachable_node_is_a_stop_with_its_kind(fleet, tmp_path):
    lines = "    dead1: {ansible_host: 127.0.0.1, ansible_port: 1}\n"
    (tmp_path / "hosts.yaml").write_text(fleet.inventory() + lines)
    done = run("--inventory", str(tmp_path / "hosts.yaml"))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "3 of 4 nodes can be queried"
    assert "stop: dead1: refused: " in done.stdout
    said = read_output(run("--inventory", str(tmp_path / "hosts.yaml"), "--json").stdout)
    assert (said["schema"], len(said["nodes"])) == ("nodegate.doctor/1", 4)
    assert [each["node"] for each in said["obstacles"] if each["weight"] == "stop"] == ["dead1"]
    assert "dead1" not in said["ready"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nodegate_gpu: 8", "hosts.yaml:4: gpu1.nodegate_gpu: unknown variable - did you mean nodegate_gpus"),
        ("nodegate_platform: hgx-h100", "hosts.yaml:4: gpu1: nodegate_platform: no baseline for 'hgx-h100'"),
        ("nodegate_gpus: eight", "hosts.yaml:3: gpu1: gpu.count must be a number, not 'eight'"),
        ("nodegate_image: nvcr.io/pytorch", "hosts.yaml:4: gpu1: nodegate_image: 'nvcr.io/pytorch' does not name a"),
        ("nodegate_tool_path: /opt", "hosts.yaml:4: gpu1.nodegate_tool_path: unknown variable - did you mean nodegate"),
    ],
)
def test_what_the_run_would_refuse_is_refused_here_too(tmp_path, line, words):
    (tmp_path / "hosts.yaml").write_text(f"all:\n  hosts:\n    gpu1:\n      {line}\n")
    done = run("--inventory", str(tmp_path / "hosts.yaml"))
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert f"{tmp_path}/{words}" in done.stderr


def test_a_platform_of_the_sites_own_is_known_by_its_baseline(fleet, tmp_path):
    (tmp_path / "ours.yaml").write_text("platform: our-8\ntitle: Ours\nlimits: {}\n")
    inventory = fleet.inventory().replace("  vars:\n", "  vars:\n    nodegate_platform: our-8\n")
    (tmp_path / "hosts.yaml").write_text(inventory)
    arguments = ("--inventory", str(tmp_path / "hosts.yaml"), "--nodes", "node1")
    assert "no baseline for 'our-8'" in run(*arguments).stderr
    done = run(*arguments, "--baseline", str(tmp_path / "ours.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("option", ["--known-hosts", "--openssh-config"])
def test_a_file_that_is_not_there_is_told_before_any_node_is_asked(tmp_path, option):
    done = run("--inventory", "localhost,", option, str(tmp_path / "nope"))
    assert done.returncode == 2
    assert f"nodegate: {tmp_path}/nope: {option}: No such file or directory - " in done.stderr


def test_gpus_hidden_from_the_login_are_told():
    machine = Machine.hgx_h100("gpu0001")
    for number in range(8):
        machine.set("driver", f"devices.nvidia{number}", "EPERM")
    complaints = list(doctor.complaints_about("gpu0001", facts_of(machine)))
    assert "hides 8 GPUs from this login" in [complaint.what for complaint in complaints]


@pytest.mark.parametrize(("compiler", "complains"), [([], True), (["/usr/lib64/libnvidia-ptxjitcompiler.so.1"], False)])
def test_a_driver_without_its_compiler_is_told(compiler, complains):
    machine = Machine.hgx_h100("gpu0001")
    libraries = {"libcuda.so.1": ["/usr/lib64/libcuda.so.1"], "libnvidia-ptxjitcompiler.so.1": compiler}
    machine.sections["software"]["driver_libraries"] = libraries
    said = [complaint.what for complaint in doctor.complaints_about("gpu0001", facts_of(machine))]
    assert any("lacks libnvidia-ptxjitcompiler.so.1" in each for each in said) is complains
    machine.sections["software"]["driver_libraries"] = {name: [] for name in libraries}
    assert not any("ptxjit" in each.what for each in doctor.complaints_about("gpu0001", facts_of(machine)))


def test_equal_complaints_are_folded_and_stops_come_first():
    complaints = [
        Complaint("a2", "lacks x", "install x", Weight.NOTE),
        Complaint("a1", "lacks x", "install x", Weight.NOTE),
    ]
    complaints.append(Complaint("a3", "refused: no sshd", "start it", Weight.STOP))
    complaints += [Complaint("a1", f"cannot be proven: {name}", "supply it", Weight.OPEN) for name in "cb"]
    complaints.append(Complaint("a", "has \x1b[2Ja bad cable", "change it", Weight.NOTE))
    nodes = [SimpleNamespace(name=name) for name in ("a", "a1", "a2", "a3")]
    assert list(doctor.lines(nodes, complaints)) == [
        "3 of 4 nodes can be queried",
        "ready for delivery: 2 of 4; because a3: refused: no sshd, and 2 more reasons",
        "stop: a3: refused: no sshd - start it",
        "open: a1: cannot be proven: b",
        "open: a1: cannot be proven: c - supply it",
        "note: a: has \\x1b[2Ja bad cable - change it",
        "note: a[1-2]: lacks x - install x",
    ]


def test_a_fault_of_ours_on_one_node_hides_no_other(monkeypatch):
    def ask(node, *_):
        raise RuntimeError(f"a bug on {node.name}")

    monkeypatch.setattr(doctor, "_ask", ask)
    complaints = doctor.examine([Node("a1"), Node("a2")], Options())
    assert [complaint.what for complaint in complaints] == [
        "nodegate itself failed (RuntimeError: a bug on a1)",
        "nodegate itself failed (RuntimeError: a bug on a2)",
    ]
    assert all(complaint.weight is Weight.STOP for complaint in complaints)


def test_what_is_odd_about_the_inventory_is_noted(tmp_path):
    (tmp_path / "hosts.ini").write_text("a1 ansible_host=127.0.0.1 ansible_port=1\n[a1]\na2 ansible_host=127.0.0.2\n")
    done = run("--inventory", str(tmp_path / "hosts.ini"))
    assert done.stdout.startswith("note: ")
    assert "a1 is both a host and a group" in done.stdout


def program(path, *, mode=0o755):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_a_tool_where_the_inventory_says_it_is_is_not_missing(fleet, tmp_path):
    burn = program(tmp_path / "own" / "gpu_burn")
    program(tmp_path / "more" / "nvbandwidth")
    variables = f"    nodegate_tools: {{gpu_burn: {burn}}}\n    nodegate_tool_paths: [{tmp_path}/more]\n"
    (tmp_path / "hosts.yaml").write_text(fleet.inventory().replace("  vars:\n", f"  vars:\n{variables}"))
    done = run("--inventory", str(tmp_path / "hosts.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gpu_burn" not in done.stdout
    assert "nvbandwidth" not in done.stdout


def test_a_tool_that_is_there_and_cannot_start_is_told_so(fleet, tmp_path):
    burn = program(tmp_path / "gpu_burn", mode=0o644)
    node = replace(fleet.nodes[0], expected={"tool_paths": [str(burn.parent)]})
    found = {complaint.what: complaint for complaint in doctor.examine([node], Options())}
    what = next(what for what in found if what.startswith(f"gpu_burn at {burn} "))
    assert "(nodegate_tool_paths) is not executable by uid" in what
    assert found[what].weight is not Weight.STOP


def test_brought_tools_are_not_missing_and_are_taken_away_again(fleet, tmp_path, monkeypatch):
    program(tmp_path / "tools" / "gpu_burn")
    program(tmp_path / "tools" / "nvbandwidth")
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    source, hold = carried.node_source, hold_in(place)
    monkeypatch.setattr(carried, "node_source", lambda name: hold if name == "tools.tool_folder" else source(name))
    complaints = doctor.examine(fleet.nodes[:1], Options(), carried=Carried(tmp_path / "tools"))
    assert not [complaint.what for complaint in complaints if "gpu_burn" in complaint.what]
    assert not [complaint.what for complaint in complaints if "nvbandwidth" in complaint.what]
    assert not [complaint.what for complaint in complaints if "--tools" in complaint.what]
    assert wait_until(lambda: not list(place.iterdir()))


def test_one_reason_for_many_tools_is_told_once():
    class Hanging:
        def find(self, *names):
            said = "its tools were not found within 40 s"
            raise CannotMeasure(said, next_step="look for a file system", whose="a1")

    complaints, _ = doctor.complaints_about_tools("a1", Hanging())
    assert [complaint.what for complaint in complaints] == ["its tools were not found within 40 s"]
