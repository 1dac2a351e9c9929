"""No sentence decides: with random words in place of all, verdicts, causes, claims and exit codes stay the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.made_findings import finding, record

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.records.finding import Finding
from nodegate.records.part import NODE
from nodegate.records.verdict import Verdict

ROOT = Path(__file__).parents[2]
OF_NODE = ("node", "verdict", "checks", "failed", "errors", "waived", "not_judged")
OF_CLAIM = ("claim", "state", "by", "signed", "left_out", "waived", "amounts")
OF_CAUSE = (
    *("id", "nodes", "place", "parts", "class", "severity", "verdict"),
    *("condition", "waiver", "follows", "findings"),
)


def run_of_the_demo(folder, *start):
    """The exit code and report.json of a whole run over the demo fleet."""
    words = ["checks", "--inventory", "inventory/demo.yaml", "--run-dir", str(folder), "-p", "no:cacheprovider", "-q"]
    command = [sys.executable, *start, *words, "--history", f"{folder}.sqlite"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, timeout=300, check=False)
    return done.returncode, json.loads((folder / "report.json").read_text(encoding="utf-8"))


def decided(report):
    def kept(entry, names):
        return {name: entry[name] for name in names if name in entry}

    return {
        "nodes": [kept(node, OF_NODE) for node in report["nodes"]],
        "claims": {node["node"]: [kept(claim, OF_CLAIM) for claim in node["claims"]] for node in report["nodes"]},
        "causes": [kept(cause, OF_CAUSE) for cause in report["causes"]],
    }


def sentences(report):
    """What the decisive findings say and ask for."""
    found = [cause["decisive"] for cause in report["causes"]]
    return {each[name] for each in found for name in ("text", "note", "action") if name in each}


@pytest.mark.long
def test_a_whole_run_over_the_demo_decides_the_same_in_any_words(tmp_path):
    plain, report = run_of_the_demo(tmp_path / "plain", "-m", "pytest")
    replaced, other = run_of_the_demo(tmp_path / "random", "-m", "support.random_words", "11")
    assert replaced == plain == 1
    assert decided(other) == decided(report)
    assert len(decided(report)["causes"]) >= 31
    assert not sentences(other) & sentences(report)


@pytest.mark.parametrize("begins", ["see", "look at", "inspect", "measure", "burn"])
def test_two_errors_of_two_checks_are_two_causes_however_their_step_begins(begins):
    action = f"{begins} the evidence file"
    records = [
        record(check, Finding(NODE, Verdict.ERROR, text=text, action=action))
        for check, text in (("fabric.manager", "the unit file cannot be parsed"), ("host.kernel_version", "nothing"))
    ]
    messages = [cause.message for cause in causes_of(records, conditions())]
    assert messages == ["the unit file cannot be parsed", "nothing"]


def test_errors_that_lack_the_same_are_one_cause_whatever_they_say():
    lacking = [finding("error", text=text, lacks="nvml") for text in ("no answer", "NVML gave no answer")]
    (cause,) = causes_of([record("gpu.lost", lacking[0]), record("ecc.volatile", lacking[1])], conditions())
    assert len(cause.findings) == 2
