"""`nodegate drain-plan`: commands for Slurm, safe in a shell, for what a run rejected and for nothing else."""

import subprocess
from dataclasses import replace

import pytest
from support import sample_report

from nodegate.commands.drain_plan import lines, plan
from nodegate.hook.slurm import reason
from nodegate.node import Node
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE, gpu
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.model import Report
from nodegate.run.bootcheck import outcome_of
from nodegate.scheduler.jobs import slurm_name

LOST = "does not respond on PCIe"
SCONTROL = "#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done\necho end\n"


def node(name, verdict=NodeVerdict.REJECTED, text=LOST, waiver=""):
    how = Verdict.FAIL if verdict in (NodeVerdict.REJECTED, NodeVerdict.WAIVED) else Verdict.ERROR
    found = Finding(gpu(3), how, text=text)
    records = () if verdict is NodeVerdict.ACCEPTED else (Record(name, "gpu.on_bus", how, (found,), waiver=waiver),)
    return NodeReport(name, verdict, records=records)


def planned(*nodes, names=None):
    report = Report(sample_report.run(), nodes)
    return list(lines(report, *plan(report, {each.node: each.node for each in nodes} | dict(names or {}))))


def run_by_shell(folder, script):
    program = folder / "scontrol"
    program.write_text(SCONTROL)
    program.chmod(0o755)
    (folder / "NodeName=gpu1").touch()  # what an unquoted [1-2] would become
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    given = "".join(f"{line}\n" for line in script)
    about = {"cwd": folder, "env": environment}
    done = subprocess.run(["sh", "-eu"], input=given, capture_output=True, text=True, check=True, **about)
    return [call.splitlines() for call in done.stdout.split("end\n") if call]


def test_nodes_with_one_reason_are_one_command_in_the_words_of_the_hook(tmp_path):
    fine, waived = node("gpu4", NodeVerdict.ACCEPTED), node("gpu5", NodeVerdict.WAIVED, waiver="riser on order")
    said = planned(node("gpu1"), node("gpu2"), node("gpu3", text="other words"), fine, waived)
    calls = run_by_shell(tmp_path, said)
    drained = [["update", f"NodeName={each}", "State=DRAIN"] for each in ("gpu[1-2]", "gpu3")]
    assert [call[:3] for call in calls] == drained
    by_hook = reason(outcome_of(node("gpu1").records).line)
    assert calls[0][3] == f"Reason={by_hook}" == f"Reason=nodegate: GPU 3: {LOST} - power-cycle, else reseat or RMA"
    assert "not drained" not in "".join(said)


@pytest.mark.parametrize(
    "text",
    ["$(touch owned)", "`touch owned`", "'; touch owned; '", '"; touch owned; "', "a\ntouch owned\n", "\\", "!!"],
)
def test_whatever_a_node_prints_is_one_word_for_the_shell(tmp_path, text):
    printed = Record("gpu1", "x.y", Verdict.FAIL, (Finding(NODE, Verdict.FAIL, text=text),))
    hostile = replace(node("gpu1"), records=(printed,))
    unread = replace(node("gpu2\ntouch owned", NodeVerdict.UNREACHABLE), unreachable=text)
    (call,) = run_by_shell(tmp_path, planned(hostile, unread))
    assert (len(call), call[1]) == (4, "NodeName=gpu1")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("nodes", "names", "said"),
    [
        ([node("a", NodeVerdict.INCOMPLETE, text="no answer")], {}, "not drained: a: incomplete: GPU 3: "),
        ([replace(node("a", NodeVerdict.UNREACHABLE), unreachable="refused")], {}, "a: unreachable: refused"),
        ([replace(node("a", NodeVerdict.NOT_JUDGED), records=())], {}, "a: not-judged: nothing failed on it"),
        ([node("10.0.0.1")], {"10.0.0.1": ""}, "Slurm's name is not known: set nodegate_slurm_name"),
        ([node("g1.a"), node("g1.b", NodeVerdict.ACCEPTED)], {"g1.a": "g1", "g1.b": "g1"}, "g1 would be 2 nodes"),
    ],
)
def test_what_is_not_drained_is_a_comment(nodes, names, said):
    shown = planned(*nodes, names=names)
    assert all(line.startswith("# ") for line in shown)
    assert said in shown[-1]


@pytest.mark.parametrize(
    ("name", "expected", "named"),
    [
        ("gpu1", {}, "gpu1"),
        ("gpu1.site.example", {}, "gpu1"),
        ("gpu1", {"slurm_name": "node7"}, "node7"),
        ("10.0.0.1", {}, ""),
        ("fe80::1", {}, ""),
        ("$(reboot)", {}, ""),
    ],
)
def test_what_slurm_calls_a_node(name, expected, named):
    assert slurm_name(Node(name, expected=expected)) == named


def test_another_name_in_slurm_is_said_and_used():
    said = planned(node("gpu1.site"), names={"gpu1.site": "gpu1"})
    assert said[-2] == "# gpu1.site is gpu1 in Slurm"
    assert said[-1].startswith("scontrol update NodeName=gpu1 State=DRAIN Reason='nodegate: ")


def test_nodes_of_a_cluster_are_tainted_in_the_words_of_kubectl(tmp_path):
    nodes = [node(name) for name in ("gpu1", "ip-10-0-0-2.ec2.internal", "gpu3")]
    report = Report(sample_report.run(), nodes)
    ways = dict.fromkeys(("gpu1", "ip-10-0-0-2.ec2.internal"), "kubernetes")
    said = list(lines(report, *plan(report, {each.node: each.node for each in nodes}, ways)))
    assert [line for line in said if not line.startswith("#")] == [
        "kubectl taint nodes gpu1 ip-10-0-0-2.ec2.internal nodegate.io/unfit=gpu_lost:NoSchedule --overwrite",
        next(line for line in said if line.startswith("scontrol update NodeName=gpu3 State=DRAIN")),
    ]
    assert sum("sinfo -R" in line for line in said) == sum("pods that run go on" in line for line in said) == 1
