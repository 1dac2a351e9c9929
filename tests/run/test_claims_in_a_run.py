"""A run proves what it ran and no more; what is not proven is told, and counts unless somebody signs for it."""

import json
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.recorded import PytestOutcome, run_pytest, write_fleet

GAP = "- {{node: gpu01, claim: {claim}, reason: no fabric yet, owner: site, expires: 2099-01-01}}\n"


def run(folder: Path, *options: str) -> tuple[PytestOutcome, dict[str, object]]:
    if not (folder / "hosts.yaml").exists():
        write_fleet(folder, [Machine.hgx_h100("gpu01", 1)])
    outcome = run_pytest(folder, ["--inventory", "hosts.yaml", *options])
    (node,) = json.loads((outcome.folder / "report.json").read_text())["nodes"]
    return outcome, node


def states(node: dict[str, object]) -> dict[str, str]:
    return {each["claim"]: each["state"] for each in node["claims"]}  # type: ignore[index, attr-defined]


def test_a_bootcheck_proves_all_that_it_claims(tmp_path: Path) -> None:
    outcome, node = run(tmp_path, "--profile", "bootcheck")
    assert (outcome.exit_code, node["verdict"], set(states(node).values())) == (0, "accepted", {"proven"})


def test_a_delivery_of_a_node_alone_is_not_accepted(tmp_path: Path) -> None:
    outcome, node = run(tmp_path)
    found = states(node)
    assert (outcome.exit_code, node["verdict"]) == (1, "incomplete")
    assert found["parts"] == found["compute"] == "proven"
    assert found["rails"] == found["collectives_between_nodes"] == "not-proven"
    assert "claims not proven on 1 node" in outcome.stdout
    assert "  not proven  gpu01  " in outcome.stdout


@pytest.mark.parametrize("part", [["-k", "gpu and count"], ["--passive"]])
def test_a_part_of_a_run_accepts_nothing_and_fails_nothing(tmp_path: Path, part: list[str]) -> None:
    outcome, node = run(tmp_path, *part)
    assert (outcome.exit_code, node["verdict"]) == (0, "incomplete")
    left = [each for each in node["claims"] if each["state"] == "not-proven"]  # type: ignore[attr-defined]
    assert {each["why"] for each in left} == {"not asked for: this run covered only part of its profile"}
    assert "run the whole profile" in outcome.stdout


def test_a_run_that_ended_early_says_so_of_what_it_did_not_judge(tmp_path: Path) -> None:
    machine = Machine.hgx_h100("gpu01", 1)
    machine.set_gpu(3, "memory_total_bytes", 40 << 30)
    write_fleet(tmp_path, [machine])
    outcome, node = run(tmp_path, "-x")
    assert (outcome.exit_code, node["verdict"]) == (1, "rejected")
    left = {each["why"]: each for each in node["claims"] if each["state"] == "not-proven"}  # type: ignore[attr-defined]
    assert list(left) == ["the run ended before it was judged"]
    assert not any(each["left_out"] for each in left.values())


def test_a_gap_that_the_site_signs_for_is_accepted_as_one(tmp_path: Path) -> None:
    _, node = run(tmp_path)
    left = [name for name, state in states(node).items() if state == "not-proven"]
    (tmp_path / "waivers.yaml").write_text("".join(GAP.format(claim=name) for name in left))
    outcome, node = run(tmp_path, "--waivers", "waivers.yaml")
    assert (outcome.exit_code, node["verdict"]) == (0, "accepted-with-gaps")
    assert "1 accepted-with-gaps of 1 node" in outcome.stdout
    (tmp_path / "waivers.yaml").write_text("".join(GAP.format(claim=name) for name in left[1:]))
    outcome, node = run(tmp_path, "--waivers", "waivers.yaml")
    assert (outcome.exit_code, node["verdict"]) == (1, "incomplete")


def test_a_gap_of_an_unknown_claim_is_refused_with_its_line(tmp_path: Path) -> None:
    write_fleet(tmp_path, [Machine.hgx_h100("gpu01", 1)])
    (tmp_path / "waivers.yaml").write_text(GAP.format(claim="rail"))
    outcome = run_pytest(tmp_path, ["--inventory", "hosts.yaml", "--waivers", "waivers.yaml"])
    assert outcome.exit_code == 4
    assert "waivers.yaml:1: a waiver for the unknown claim 'rail' - did you mean rails" in outcome.stderr
