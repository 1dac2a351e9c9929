"""An engine is one module behind the Protocols; the framed output of many tasks is taken line by line."""

from __future__ import annotations

import ast
import base64
import subprocess
import sys
from pathlib import Path

import pytest
from engines import folder as folder_engine

import nodegate
from nodegate import cli
from nodegate.baseline.baseline import Baselines
from nodegate.engines.registry import ENGINES
from nodegate.engines.slurm import nodes as slurm_nodes
from nodegate.engines.slurm.fan_out import _input, _Step
from nodegate.errors import UsageError
from nodegate.inventory import inventory
from nodegate.judge.waivers import Waivers
from nodegate.measure.durations import durations_of
from nodegate.node import Connection
from nodegate.profile import Profile
from nodegate.records.run_folder import RunFolder
from nodegate.run.campaign import Campaign
from nodegate.run.gate import Gate
from nodegate.run.judging import Judging
from nodegate.run.load import Connections, Plan
from nodegate.run.progress import Progress
from nodegate.run.run_evidence import RunEvidence
from nodegate.toolbox.toolbox import Toolbox
from nodegate.transport import Options, connect
from nodegate.transport.call import Request, guard_argv

SRC = Path(nodegate.__file__).parent
# Where the name of an engine is not that of a way to a node.
OTHERWISE = {
    "launchers/srun.py": "the launcher's other name",
    "node_settings/table.py": "who holds nodes that are reached by SSH",
    "cli.py": "the name of a command",
    "commands/kubernetes.py": "that command",
    "node_side/probe/host.py": "a key of the probe's document",
    "probe/jobs.py": "the same",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Three folders for the third engine, registered by one line."""
    for name in ("n1", "n2", "n3"):
        (tmp_path / "place" / name).mkdir(parents=True)
    monkeypatch.setenv("FOLDER_ENGINE", str(tmp_path / "place"))
    monkeypatch.setitem(ENGINES, "folder", folder_engine.__name__)
    return tmp_path / "place"


def test_a_third_engine_is_one_module(place, tmp_path):
    (place / "n3/busy").touch()
    nodes = inventory.read(["folder:[n1,n3]"]).nodes
    assert [(node.name, node.groups, node.connection.transport) for node in nodes] == [
        ("n1", ("f",), "folder"),
        ("n3", ("f",), "folder"),
    ]
    folder = RunFolder.create(tmp_path / "run", profile="delivery", started_epoch_s=0.0)
    judging = Judging(
        {node.name: node for node in nodes}, Profile.DELIVERY, Baselines.read(), Waivers(()), RunEvidence(folder)
    )
    connections = Connections(lambda node: connect(node, Options()), lambda session: Toolbox(session, session.node))
    plan = Plan(nodes, durations_of(Profile.DELIVERY))
    campaign = Campaign(plan, folder, connections, Gate(judging), Progress(None))
    campaign.start()
    assert sorted(campaign.arrivals()) == ["n1", "n3"]
    campaign.cancel()
    good, refused = (folder.read_evidence(name) for name in ("n1", "n3"))
    assert good is not None
    assert good.error is None
    assert refused is not None
    assert "folder does not lend the node: it is busy" in str(refused.error)
    assert folder_engine.LENT == []
    assert campaign.notes == ("given back what a run that was killed had held: an old one",)


def test_doctor_says_what_stands_in_the_way_of_an_engine(place, capsys):
    (place / "n2/full").touch()
    assert cli.main(["doctor", "--inventory", "folder:[n1,n2]"]) == 1
    printed = capsys.readouterr().out
    assert "1 of 2 nodes can be queried" in printed
    assert "stop: n2: the folder is full - empty it" in printed


def test_outside_a_run_a_node_is_lent_for_its_session(place):
    (node,) = inventory.read(["folder:[n2]"]).nodes
    session = connect(node, Options())
    assert folder_engine.LENT == ["n2"]
    assert session.run(["pwd"], timeout_s=10).stdout.decode().strip() == str(place / "n2")
    session.close()
    assert folder_engine.LENT == []


def test_nothing_else_knows_an_engine_by_its_name():
    for file in SRC.rglob("*.py"):
        name = file.relative_to(SRC).as_posix()
        others = {engine for engine in ENGINES if not name.startswith(f"engines/{engine}/")}
        if name == "engines/registry.py" or name in OTHERWISE:
            continue
        for item in ast.walk(ast.parse(file.read_text())):
            if isinstance(item, ast.Constant):
                assert item.value not in others, f"{name}:{item.lineno}"
            elif isinstance(item, ast.ImportFrom):
                found = {f"{item.module}.{each.name}" for each in item.names}
                assert not any(each.startswith(f"nodegate.engines.{engine}") for each in found for engine in others), (
                    name
                )


NODES = """\
NodeName=n1 Arch=x86_64 AvailableFeatures=h100,ib ActiveFeatures=h100 Gres=gpu:8 State=IDLE OS=Linux 6.1 #1 SMP \
Partitions=gpu,debug Reason=State=FUTURE NodeName=x [root@2026-01-01T00:00:00] Comment=Partitions=all
NodeName=n2 AvailableFeatures=(null) State=DOWN*+DRAIN Partitions=gpu Reason=power
NodeName=n3 AvailableFeatures=gpu State=IDLE+CLOUD Partitions=all
NodeName=n4 State=FUTURE Partitions=gpu
"""
TOPOLOGY = "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=top Level=1 Nodes=n[1-3] Switches=leaf[1-2]\n"


@pytest.mark.parametrize(
    ("asked", "topology", "expected"),
    [
        ([], TOPOLOGY, {"n1": ("", ["leaf1"]), "n2": ("", ["leaf1"]), "n3": ("", None)}),
        (["gpu"], "BlockName=r1 BlockIndex=0 Nodes=n[1-4] BlockSize=4\n", {"n1": ("r1", None), "n2": ("r1", None)}),
        (["debug"], "No topology information available\n", {"n1": ("", None)}),
    ],
)
def test_an_inventory_of_slurm(asked, topology, expected, monkeypatch):
    printed = {"node": NODES, "topology": topology}
    monkeypatch.setattr(slurm_nodes, "_scontrol", printed.__getitem__)
    found = inventory.read([f"slurm:[{','.join(asked)}]"])
    rows = {node.name: (node.settings.rack, node.expected.get("leaf")) for node in found.nodes}
    assert rows == expected
    assert "all" not in {group for node in found.nodes for group in node.groups}
    assert found.groups.get("gpu", ("n1",))[0] == "n1", "a partition before a feature of the same name"


def test_without_slurm_it_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UsageError, match=r"slurm:\[gpu\]: scontrol is not installed here - run nodegate where"):
        inventory.read(["slurm:[gpu]"])


def sent_by(request, lease_s=30.0):
    """What a task on a node sends, by the real programs of the node."""
    argv = guard_argv(sys.executable, as_root=False, lease_s=lease_s)
    given = _input("M", request, Connection(python=sys.executable, lease_s=lease_s))
    environ = {"SLURMD_NODENAME": "n1", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as task:
        assert task.stdin is not None
        assert task.stdout is not None
        task.stdin.write(given)
        task.stdin.flush()  # its end would be ours
        sent = []
        while not sent or not sent[-1].startswith(b"M end "):
            sent.append(task.stdout.readline())
        task.stdin.close()
        assert task.stdout.read() == b""
        return b"".join(sent)


def labelled(sent, label):
    return b"".join(b"%d: %s\n" % (label, line) for line in sent.splitlines())


def test_lines_of_many_tasks_are_short_and_whole():
    request = Request(["sh", "-c", "head -c 300000 /dev/urandom | tee /dev/stderr; exit 3"], 20.0)
    sent = sent_by(request)
    assert max(map(len, sent.splitlines())) < 1000
    step = _Step("M", request)
    data = b"0: noise of a prolog\n" + labelled(sent, 0) + labelled(sent.replace(b"M node n1", b"M node n2"), 1)
    for at in range(0, len(data), 1021):
        step.feed(data[at : at + 1021])
    answers = step.answers(["n1", "n2", "n3"])
    assert set(answers) == {"n1", "n2"}
    output = answers["n1"].output
    assert (output.exit_code, len(output.stdout)) == (3, 300_000)
    assert output.stdout == output.stderr


@pytest.mark.parametrize(
    "harm",
    [
        lambda sent: sent[: len(sent) // 2],
        lambda sent: b"\n".join(line for line in sent.split(b"\n") if not line.startswith(b"M 1 ")),
        lambda sent: sent.replace(b"M 0 ", b"M 0 " + base64.b64encode(b"x" * 600) + b"\nM 1 ", 1),
        lambda sent: sent.replace(b"M end ", b"M end 1"),
        lambda sent: sent.replace(b"M node n1", b"M node other"),
        lambda sent: sent.replace(b"M 1 ", b"M 1 ***"),
        lambda sent: sent + sent,
    ],
    ids=["cut", "a line less", "a line more", "size", "unknown", "not base64", "twice"],
)
def test_what_is_not_whole_is_no_answer(harm):
    request = Request(["head", "-c", "3000", "/dev/zero"], 20.0)
    step = _Step("M", request)
    step.feed(labelled(harm(sent_by(request)), 0))  # type: ignore[operator]
    assert step.answers(["n1"]) == {}


def test_a_program_that_the_end_of_its_step_has_ended_is_no_answer():
    request = Request(["sleep", "60"], 90.0)
    argv = guard_argv(sys.executable, as_root=False, lease_s=30)
    given = _input("M", request, Connection(python=sys.executable, lease_s=30.0))
    environ = {"SLURMD_NODENAME": "n1", "PATH": "/usr/bin:/bin"}
    sent = subprocess.run(argv, input=given, stdout=subprocess.PIPE, env=environ, check=False).stdout
    step = _Step("M", request)
    step.feed(labelled(sent, 0))
    assert b"M end " in sent
    assert step.answers(["n1"]) == {}


def test_two_tasks_that_say_the_same_name_are_both_asked_again():
    request = Request(["true"], 20.0)
    step = _Step("M", request)
    step.feed(labelled(sent_by(request), 0) + labelled(sent_by(request), 1))
    assert step.answers(["n1"]) == {}


@pytest.mark.parametrize(
    ("printed", "bad"),
    [
        (
            "srun: error: Task launch for StepId=1.0 failed on node n3: timed out srun: error: n1: task 0: Killed",
            {"n3"},
        ),
        ("step_launch_notify_io_failure: aborting, io error with slurmstepd on node 0", {"n1"}),
        ("srun: error: n1: task 0: Exited with exit code 3", set()),
    ],
)
def test_only_what_ended_the_step_is_bad(printed, bad):
    step = _Step("M", Request(["true"], 1.0))
    step.feed(b"0: M node n1\n")
    assert step.bad(printed) == bad
