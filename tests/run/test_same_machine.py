"""Two names of the inventory that lead to one machine: both are an error, and nothing is put under load."""

import json
import time
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.recorded import PytestOutcome, run_pytest, write_fleet

from nodegate.judge.identity import Identities, Identity

SAME = "a and b are the same machine"


def here(folder: Path, *names: str, locks: bool = False) -> Path:
    """An inventory that calls this machine by several names, each with a lock of its own or all with one."""
    lines = ["all:", "  hosts:"]
    for name in names:
        lock = folder / f"{name if locks else 'node'}.lock"
        lines.append(f"    {name}: {{ansible_connection: local, nodegate_lock: {lock}}}")
    (folder / "hosts.yaml").write_text("\n".join(lines) + "\n")
    return folder


def verdicts(outcome: PytestOutcome) -> dict[tuple[str, str], tuple[str, bool]]:
    return {(each.node, each.check): (each.verdict.value, SAME in each.message) for each in outcome.records}


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_both_names_are_an_error_and_no_load_is_put_on_either(tmp_path: Path, more: list[str]) -> None:
    where = here(tmp_path, "a", "b")
    outcome = run_pytest(where, ["--inventory", "hosts.yaml", "-k", "one_name or test_complete and test_burn", *more])
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    found = verdicts(outcome)
    assert {node for node, _ in found} == {"a", "b"}
    assert set(found.values()) == {("error", True)}, [each.message for each in outcome.records]
    for name in ("a", "b"):
        kept = json.loads((outcome.folder / "evidence" / name / "burn.json").read_text())
        assert SAME in json.dumps(kept["error"])
    again = run_pytest(where, ["--replay", str(outcome.folder.resolve()), "-k", "one_name"])
    assert set(verdicts(again).values()) == {("error", True)}


def test_without_a_lock_both_names_are_an_error_too(tmp_path: Path) -> None:
    where = here(tmp_path, "a", "b")
    outcome = run_pytest(where, ["--inventory", "hosts.yaml", "-k", "one_name", "--profile", "bootcheck"])
    assert set(verdicts(outcome).values()) == {("error", True)}


def test_nodes_with_locks_of_their_own_on_one_machine_are_what_the_site_says(tmp_path: Path) -> None:
    where = here(tmp_path, "a", "b", locks=True)
    outcome = run_pytest(where, ["--inventory", "hosts.yaml", "-k", "one_name"])
    assert set(verdicts(outcome).values()) == {("pass", False)}
    again = run_pytest(where, ["--replay", str(outcome.folder.resolve()), "-k", "one_name"])
    assert set(verdicts(again).values()) == {("pass", False)}


def test_copies_of_one_disk_image_are_machines_of_their_own(tmp_path: Path) -> None:
    machines = [Machine.hgx_h100(name, number) for number, name in enumerate(("a", "b"), 1)]
    for machine in machines:
        machine.set("system", "hostname", "localhost")
    write_fleet(tmp_path, machines)
    outcome = run_pytest(tmp_path, ["--inventory", "hosts.yaml", "-k", "one_name"])
    assert set(verdicts(outcome).values()) == {("pass", False)}


def test_a_machine_that_cannot_be_told_apart_is_not_passed(tmp_path: Path) -> None:
    machine = Machine.hgx_h100("a", 1)
    machine.set("system", "boot_id", {"why": "denied", "detail": "EACCES"})
    write_fleet(tmp_path, [machine, Machine.hgx_h100("b", 2)])
    outcome = run_pytest(tmp_path, ["--inventory", "hosts.yaml", "-k", "one_name"])
    found = {each.node: (each.verdict.value, each.message) for each in outcome.records}
    assert found["a"][0] == "not-judged"
    assert found["b"][0] == "pass"
    assert "no other name that could be read leads to it; not known of a" in found["b"][1]


def test_one_serial_number_of_the_whole_fleet_is_compared_once_and_not_by_each_measurement() -> None:
    names = [f"gpu{index:03}" for index in range(400)]
    shared = frozenset({"same serial number VMX-778812"})
    known = {name: Identity(name, name, name, frozenset({f"GPU-{name}"}), shared) for name in names}
    identities, spent = Identities(known), []
    for _ in range(2):
        started = time.process_time()
        assert not any(map(identities.wrong, names))
        spent.append(time.process_time() - started)
    assert spent[1] < spent[0] / 5
