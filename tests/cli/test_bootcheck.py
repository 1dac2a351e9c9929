"""`nodegate bootcheck`: one line, an exit code that a scheduler can trust, and nothing heavy imported."""

import json
import sys

import pytest
from fleet.machine import Machine
from support import warm
from support.schemas import read_output

from nodegate import cli
from nodegate.errors import Busy, CannotMeasure
from nodegate.node import Connection, Node
from nodegate.records.cause import Severity
from nodegate.records.evidence import Evidence
from nodegate.run.bootcheck import LINE_LENGTH, Exit, bootcheck
from nodegate.transport.command import CommandSession


def judged(machine):
    return bootcheck(measure=lambda node: Evidence(node.name, "facts", 0.0, 0.0, document=machine.document()))


@pytest.mark.parametrize("machine", [Machine.hgx_h100, Machine.pcie_l40s])
def test_a_healthy_node_is_fit(machine):
    outcome = judged(machine())
    assert outcome.exit is Exit.FIT, [record.message for record in outcome.records if record.verdict.value != "pass"]
    assert outcome.line.startswith("fit: ")
    assert [line for line in outcome.lines[1:] if not line.startswith("not judged: ")] == []


def test_the_line_is_the_worst_cause_and_all_causes_follow_worst_first():
    machine = Machine.hgx_h100()
    machine.set_link(machine.gpu_address(5), width=8)
    machine.lose_gpu(3)
    outcome = judged(machine)
    line, *causes = outcome.lines
    assert line == outcome.line
    assert line.startswith("unfit: GPU 3 (0000:")
    assert line.endswith("(+1 more)")
    assert outcome.exit is Exit.UNFIT
    assert len(line) <= LINE_LENGTH
    severities = [cause.partition(":")[0] for cause in causes]
    assert severities[:2] == ["lost", "slow"]
    assert severities == sorted(severities, key=[severity.value for severity in Severity].index)
    assert "GPU 5 S/N " in causes[1]
    assert len(causes) == len(outcome.causes)


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_verbose_prints_every_cause(monkeypatch, capsys, option):
    machine = Machine.hgx_h100()
    machine.lose_gpu(3)
    outcome = judged(machine)
    monkeypatch.setattr("nodegate.run.bootcheck.bootcheck", lambda **_: outcome)
    assert cli.main(["bootcheck"]) == 1
    assert capsys.readouterr().out.splitlines() == [outcome.line]
    assert cli.main(["bootcheck", option]) == 1
    assert capsys.readouterr().out.splitlines() == outcome.lines
    assert len(outcome.lines) > 1


def test_checks_can_be_left_out():
    machine = Machine.hgx_h100()
    machine.lose_gpu(3)
    left = bootcheck(
        measure=lambda node: Evidence(node.name, "facts", 0.0, 0.0, document=machine.document()),
        without=("gpu.", "pcie."),
    )
    checks = {record.check for record in left.records}
    assert "ecc.enabled" in checks
    assert not [check for check in checks if check.startswith(("gpu.", "pcie."))]


@pytest.mark.parametrize(
    ("section", "why", "words"),
    [("kernel_log", "denied", "kernel_log"), ("nvml", "timeout", "nvml could not be read: timeout: 20 s")],
)
def test_what_could_not_be_read_is_not_fit_and_not_unfit(section, why, words):
    machine = Machine.hgx_h100()
    machine.section_fails(section, why, "20 s")
    outcome = judged(machine)
    assert outcome.exit is Exit.UNKNOWN
    assert outcome.line.startswith("could not tell: ")
    assert words in outcome.line


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (Busy("another run holds gpu01", next_step="wait"), 75, "busy: "),
        (CannotMeasure("no answer", next_step="look"), 2, "could not tell: "),
        (RuntimeError("bug"), 2, "could not tell: "),
        (OSError("disk"), 2, "could not tell: "),
    ],
)
def test_busy_is_75_and_what_goes_wrong_with_us_is_2(fault, code, said):
    def broken(node):
        raise fault

    outcome = bootcheck(measure=broken)
    assert int(outcome.exit) == code
    assert outcome.line.startswith(said)
    assert len(outcome.line) <= LINE_LENGTH


def test_a_bad_baseline_is_2(tmp_path):
    file = tmp_path / "site.yaml"
    file.write_text("platform: [")
    assert int(bootcheck(baselines=[file], measure=pytest.fail).exit) == 2


def test_an_unknown_platform_is_2():
    outcome = bootcheck(expected={"platform": "hgx-h100-9"}, measure=pytest.fail)
    assert int(outcome.exit) == 2
    assert "hgx-h100-9" in outcome.line


def test_json_holds_every_record():
    value = read_output(judged(Machine.hgx_h100()).to_json())
    assert value["answer"] == "fit"
    assert value["exit_code"] == 0
    assert {"gpu.lost", "pcie.link_width"} <= {result["check"] for result in value["results"]}


def run(*arguments, code=""):
    command = [sys.executable, "-c", code, *arguments] if code else [sys.executable, "-m", "nodegate.cli", *arguments]
    return warm.run(command, cold=bool(code), capture_output=True, text=True, timeout=60, check=False)


def test_this_machine_is_answered_for_in_one_line():
    done = run("bootcheck")
    assert done.returncode in (0, 1, 2), done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.startswith(("fit: ", "unfit: ", "could not tell: "))
    assert done.stderr == ""


HERE = "from nodegate.cli import main; main(['bootcheck'])"
RECORDED = """
import json; from pathlib import Path
from nodegate.records.evidence import Evidence; from nodegate.run.bootcheck import bootcheck
document = json.loads(Path('FACTS').read_text())
print(bootcheck(measure=lambda node: Evidence(node.name, 'facts', 0.0, 0.0, document=document)).line)
"""


@pytest.mark.parametrize(("code", "said"), [(HERE, ""), (RECORDED, "fit: ")], ids=["this machine", "with GPUs"])
def test_it_imports_nothing_heavy(tmp_path, code, said):
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(Machine.hgx_h100().document()))
    heavy = ("pandas", "numpy", "scipy", "paramiko", "jinja2", "pytest", "_pytest", "xdist")
    told = f"\nimport sys; print([name for name in {heavy} if name in sys.modules])"
    line, found = run(code=code.replace("FACTS", str(facts)) + told).stdout.splitlines()
    assert line.startswith(said)
    assert found == "[]"


def test_a_held_lock_is_busy():
    session = CommandSession(Node("here", Connection(transport="local")))
    try:
        lock = session.hold_lock(who="a burn")
        done = run("bootcheck")
    finally:
        session.close()
    assert not hasattr(lock, "holder")
    assert done.returncode == 75
    assert "busy" in done.stdout
    assert "a burn" in done.stdout


def test_the_first_word_brings_the_imports_of_its_command_only():
    code = (
        "import sys; from nodegate.cli import main\n"
        "try: main(['hook', '--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('pytest', 'yaml', 'nodegate.facts', 'nodegate.triage') if name in sys.modules])"
    )
    assert run(code=code).stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_without_a_command_all_are_named(arguments):
    done = run(*arguments)
    for command in ("baseline", "bootcheck", "doctor", "demo", "hook", "init", "report", "triage", "watch"):
        assert command in done.stdout + done.stderr


def test_the_version():
    assert run("--version").stdout.startswith("nodegate ")
