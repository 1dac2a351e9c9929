"""Machines that are not the one they are taken for.

One machine under two names, swapped addresses, and a machine or a board that changes while it is measured.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from fleet.machine import Machine, facts_of
from support.judging import baseline_of, fleet_of, judge_one
from support.recorded import run_pytest, write_fleet

from nodegate.baseline.baseline import Baselines
from nodegate.judge.characteristics import characteristics
from nodegate.judge.context import Context
from nodegate.judge.fleet import Fleet
from nodegate.judge.identity import identity
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.evidence import Evidence
from nodegate.records.finding import Record
from nodegate.records.verdict import Verdict
from nodegate.suite import checks

ONE_NAME = "platform.one_name"


def four() -> dict[str, Machine]:
    return {f"gpu{number}": Machine.hgx_h100(f"gpu{number}", number) for number in range(1, 5)}


def said(machines: Mapping[str, Machine], name: str) -> Record:
    return judge_one(ONE_NAME, machines[name], node=Node(name), fleet=fleet_of(machines))


def serial(machine: Machine) -> object:
    return machine.sections["system"]["dmi"]["product_serial"]


@pytest.mark.parametrize("pairs", [[(index, index) for index in range(8)], [(3, 5)]], ids=["all", "one"])
def test_two_names_with_the_same_gpus_are_an_error(pairs: list[tuple[int, int]]) -> None:
    machines = four()
    for first, second in pairs:
        machines["gpu2"].set_gpu(second, "uuid", machines["gpu1"].sections["nvml"]["gpus"][first]["uuid"])
    records = [said(machines, name) for name in machines]
    assert [record.verdict for record in records] == [Verdict.ERROR] * 2 + [Verdict.PASS] * 2
    assert all("gpu1 and gpu2 report the same GPU GPU-" in record.message for record in records[:2])


def test_one_serial_number_for_two_nodes_is_an_error_where_nothing_else_tells_them_apart() -> None:
    machines = four()
    machines["gpu2"].set("system", "dmi.product_serial", serial(machines["gpu1"]))
    machines["gpu2"].section_fails("nvml", "timeout", "10 s")
    for name in ("gpu1", "gpu2"):
        record = said(machines, name)
        assert record.verdict is Verdict.ERROR
        assert f"gpu1 and gpu2 report the same serial number {serial(machines['gpu1'])}" in record.message


@pytest.mark.parametrize("of_gpu", [False, True])
def test_one_serial_number_for_two_machines_is_a_warning(of_gpu: bool) -> None:
    machines = four()
    if of_gpu:
        machines["gpu2"].set_gpu(5, "serial", machines["gpu1"].sections["nvml"]["gpus"][3]["serial"])
    else:
        machines["gpu2"].set("system", "dmi.product_serial", serial(machines["gpu1"]))
    verdicts = [said(machines, name).verdict for name in machines]
    assert verdicts == [Verdict.WARN] * 2 + [Verdict.PASS] * 2
    assert "gpu1 and gpu2 report the same serial number" in said(machines, "gpu2").message


def test_a_swapped_pair_is_an_error(tmp_path: Path) -> None:
    machines = four()
    machines["gpu1"].set("system", "hostname", "gpu2.cluster.example")
    machines["gpu2"].set("system", "hostname", "GPU1")
    write_fleet(tmp_path, machines.values())
    outcome = run_pytest(tmp_path, ["--inventory", "hosts.yaml", "-k", "one_name"])
    assert outcome.verdicts(ONE_NAME) == {"gpu1": "error", "gpu2": "error", "gpu3": "pass", "gpu4": "pass"}
    messages = {record.node: record.message for record in outcome.records}
    assert "gpu1 answers as gpu2.cluster.example, which is gpu2 of the inventory" in messages["gpu1"]
    assert "gpu2 answers as gpu1, which is gpu1 of the inventory" in messages["gpu2"]
    part = ["--inventory", "hosts.yaml", "--nodes", "gpu1", "--run-dir", "part", "-k", "one_name"]
    assert "which is gpu2 of the inventory" in run_pytest(tmp_path, part).stdout
    again = run_pytest(tmp_path, ["--replay", "part", "-k", "one_name"])
    assert again.verdicts(ONE_NAME) == {"gpu1": "error"}


# What must raise no alarm


def fleet_with(names: Mapping[str, str]) -> Fleet:
    nodes, who = {}, {}
    for number, (name, hostname) in enumerate(names.items(), 1):
        machine = Machine.hgx_h100(name, number)
        machine.set("system", "hostname", hostname)
        facts = facts_of(machine)
        nodes[name] = (baseline_of(facts, Node(name)).platform, characteristics(facts))
        who[name] = identity(facts, Node(name))
    return Fleet(nodes, who)


@pytest.mark.parametrize(
    "names",
    [
        {"gpu1": "gpu1.cluster.example", "gpu2": "gpu2.cluster.example"},
        {"gpu1.a": "gpu1", "gpu1.b": "gpu1"},
        {"10.0.0.1": "gpu1", "10.0.0.2": "gpu2"},
        {"localhost": "login", "gpu1": "localhost"},
        {"gpu1": "node-17", "gpu2": "node-18"},
    ],
    ids=str,
)
def test_names_of_any_kind_are_no_swapped_pair(names: Mapping[str, str]) -> None:
    fleet = fleet_with(names)
    assert [fleet.wrong_machine(name) for name in names] == [""] * len(names)


@pytest.mark.parametrize("filled", ["To Be Filled By O.E.M.", "Default string", "0", "XXXXXXXX", "0123456789", ""])
def test_what_a_board_maker_left_in_place_of_a_serial_number_is_none(filled: str) -> None:
    machines = four()
    for machine in machines.values():
        machine.set("system", "dmi.product_serial", filled)
    assert [said(machines, name).verdict for name in machines] == [Verdict.PASS] * 4


def test_containers_on_one_machine_share_its_boot_and_its_serial_number() -> None:
    machines = four()
    for machine in machines.values():
        machine.set("system", "boot_id", "11111111-2222-4333-8444-555555555555")
        machine.set("system", "dmi.product_serial", "7XK0001")
        machine.sections["nvml"] = {}
    assert Verdict.ERROR not in {said(machines, name).verdict for name in machines}


# Facts before the load and after it


def devices_after(change: Callable[[Machine], object]) -> Record:
    first = Machine.hgx_h100("gpu1", 1)
    first.sections["system"]["machine_id"] = "a" * 32
    second = first.later(600.0)
    change(second)
    evidence = {
        name: Evidence("gpu1", name, 1.0, 1.0, document=each.document())
        for name, each in (("facts", first), ("facts_after", second))
    }
    context = Context(
        Node("gpu1"),
        evidence["facts"],
        baselines=Baselines.read(),
        profile=Profile.DELIVERY,
        fleet=lambda: Fleet({}),
        measured=evidence.__getitem__,
    )
    check = next(each for each in checks() if each.id == "counters.devices")
    return judge(check, context.resolve, "gpu1", context.parts)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda machine: machine.set("system", "hostname", "gpu2"), "host name was gpu1, is gpu2"),
        (lambda machine: machine.set("system", "dmi.product_serial", "7XK0099"), "number was 7XK0001, is 7XK0099"),
        (lambda machine: machine.set("system", "machine_id", "b" * 32), "machine id was aaaa"),
        (lambda machine: machine.set_gpu(3, "uuid", "GPU-other"), "is GPU-other"),
        (lambda machine: machine.set_gpu(3, "serial", "1999999999999"), "serial number of GPU 3 was "),
    ],
    ids=["host name", "serial number", "machine id", "uuid", "serial of a gpu"],
)
def test_who_answers_after_the_load_is_who_was_put_under_it(change: Callable[[Machine], object], words: str) -> None:
    record = devices_after(change)
    assert record.verdict is Verdict.ERROR
    assert "not the machine of before the load" in record.message
    assert words in record.message


def test_a_machine_that_stayed_the_same_is_compared_as_ever() -> None:
    assert devices_after(lambda machine: None).verdict is Verdict.PASS
    assert devices_after(lambda machine: machine.lose_gpu(3)).verdict is Verdict.FAIL
    hidden = {"why": "denied", "detail": "EACCES"}
    assert devices_after(lambda machine: machine.set("system", "dmi.product_serial", hidden)).verdict is Verdict.PASS
