"""Machines that are not the one they are taken for.

One machine under two names, swapped addresses, and a machine or a board that changes while it is measured.
"""

import json
import time
from itertools import combinations

import pytest
from fleet.machine import Machine
from support.judged_fleet import judged_alone
from support.judging import fleet_of, judge_one
from support.recorded import run_pytest, write_fleet

from nodegate.baseline.baseline import Baselines
from nodegate.claims.prove import claims_of_node
from nodegate.judge.context import Context
from nodegate.judge.fleet import Fleet
from nodegate.judge.identity import Identities, Identity
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.claim import State
from nodegate.records.evidence import Evidence
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.run.decision import decide
from nodegate.suite import checks

ONE_NAME = "platform.one_name"


def four():
    return {f"gpu{number}": Machine.hgx_h100(f"gpu{number}", number) for number in range(1, 5)}


def one_name(machines):
    fleet = fleet_of(machines)
    return {name: judge_one(ONE_NAME, each, node=Node(name), fleet=fleet) for name, each in machines.items()}


@pytest.mark.parametrize("pairs", [[(index, index) for index in range(8)], [(3, 5)]], ids=["all", "one"])
def test_two_names_with_the_same_gpus_are_an_error(pairs):
    machines = four()
    for first, second in pairs:
        machines["gpu2"].set_gpu(second, "uuid", machines["gpu1"].sections["nvml"]["gpus"][first]["uuid"])
    records = [*one_name(machines).values()]
    assert [record.verdict for record in records] == [Verdict.ERROR] * 2 + [Verdict.PASS] * 2
    assert all("gpu1 and gpu2 report the same GPU GPU-" in record.message for record in records[:2])


@pytest.mark.parametrize("of_gpu", [False, True])
def test_one_serial_number_for_two_machines_is_a_warning(of_gpu):
    machines = four()
    if of_gpu:
        machines["gpu2"].set_gpu(5, "serial", machines["gpu1"].sections["nvml"]["gpus"][3]["serial"])
    else:
        machines["gpu2"].set(
            "system", "dmi.product_serial", machines["gpu1"].sections["system"]["dmi"]["product_serial"]
        )
    assert [each.verdict for each in one_name(machines).values()] == [Verdict.WARN] * 2 + [Verdict.PASS] * 2
    assert "gpu1 and gpu2 report the same serial number" in one_name(machines)["gpu2"].message


@pytest.mark.long
def test_a_swapped_pair_is_an_error(tmp_path):
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


@pytest.mark.parametrize(
    "names",
    [
        {"gpu1": "gpu1.cluster.example", "gpu2": "gpu2.cluster.example"},
        {"gpu1.a": "gpu1", "gpu1.b": "gpu1"},
        {"10.0.0.1": "gpu1", "10.0.0.2": "gpu2"},
        {"localhost": "login", "gpu1": "localhost"},
        {"a": "localhost", "b": "localhost"},
        {"gpu1": "node-17", "gpu2": "node-18"},
    ],
    ids=str,
)
def test_names_of_any_kind_are_no_swapped_pair(names):
    machines = {name: Machine.hgx_h100(name, number) for number, name in enumerate(names, 1)}
    for name, hostname in names.items():
        machines[name].set("system", "hostname", hostname)
    fleet = fleet_of(machines)
    assert [fleet.wrong_machine(name) for name in names] == [""] * len(names)


@pytest.mark.parametrize("filled", ["To Be Filled By O.E.M.", "Default string", "0", "XXXXXXXX", "0123456789", ""])
def test_what_a_board_maker_left_in_place_of_a_serial_number_is_none(filled):
    machines = four()
    for machine in machines.values():
        machine.set("system", "dmi.product_serial", filled)
    assert [each.verdict for each in one_name(machines).values()] == [Verdict.PASS] * 4


def test_containers_on_one_machine_share_its_boot_and_its_serial_number():
    machines = four()
    for machine in machines.values():
        machine.set("system", "boot_id", "11111111-2222-4333-8444-555555555555")
        machine.set("system", "dmi.product_serial", "7XK0001")
        machine.sections["nvml"] = {}
    assert Verdict.ERROR not in {each.verdict for each in one_name(machines).values()}


# Facts before the load and after it


def devices_after(change):
    first = Machine.hgx_h100("gpu1", 1)
    first.sections["system"]["machine_id"] = "a" * 32
    second = first.later(600.0)
    change(second)
    documents = {"facts": first.document(), "facts_after": second.document()}
    evidence = {name: Evidence("gpu1", name, 1.0, 1.0, document=each) for name, each in documents.items()}
    about = {"baselines": Baselines.read(), "profile": Profile.DELIVERY, "fleet": lambda: Fleet({})}
    context = Context(Node("gpu1"), evidence["facts"], measured=evidence.__getitem__, **about)
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
def test_who_answers_after_the_load_is_who_was_put_under_it(change, words):
    record = devices_after(change)
    assert record.verdict is Verdict.ERROR
    assert "not the machine of before the load" in record.message
    assert words in record.message


def test_a_machine_that_stayed_the_same_is_compared_as_ever():
    assert devices_after(lambda machine: None).verdict is Verdict.PASS
    assert devices_after(lambda machine: machine.lose_gpu(3)).verdict is Verdict.FAIL
    assert devices_after(lambda machine: machine.set("system", "dmi.product_serial", HIDDEN)).verdict is Verdict.PASS


# Two names of one machine are never both accepted, whatever of its identity could not be read


HIDDEN = {"why": "denied", "detail": "EACCES"}
BOOT, NAME, CHASSIS, GPUS, GPU_SERIALS, ADAPTERS = "boot id", "host name", "chassis", "GPUs", "GPU serials", "adapters"
READINGS = (BOOT, NAME, CHASSIS, GPUS, GPU_SERIALS, ADAPTERS)
NUMBERS = {CHASSIS, GPUS, GPU_SERIALS, ADAPTERS}
WHERE = ("gpu01", "gpu02", "both")


def hide(machine, readings):
    paths = {BOOT: "boot_id", NAME: "hostname", CHASSIS: "dmi.product_serial"}
    for reading in paths.keys() & set(readings):
        machine.set("system", paths[reading], HIDDEN)
    for key in [key for reading, key in ((GPUS, "uuid"), (GPU_SERIALS, "serial")) if reading in readings]:
        for index in range(8):
            machine.set_gpu(index, key, HIDDEN)
    for adapter in machine.sections["infiniband"].values() if ADAPTERS in readings else ():
        adapter["node_guid"] = HIDDEN


def twice(where, readings):
    """One machine under two names, by one of which, or by both, these readings are hidden."""
    machines = {name: Machine.hgx_h100("gpu01", 1) for name in ("gpu01", "gpu02")}
    for name, machine in machines.items():
        machine.name = name
        if where in (name, "both"):
            hide(machine, readings)
    return machines


@pytest.mark.parametrize("where", WHERE)
def test_one_machine_under_two_names_passes_under_neither_as_long_as_one_number_is_shared(where):
    """Every set of readings is hidden that leaves a number of a part; containers share a boot, and anyone a name."""
    for count in range(len(READINGS)):
        for hidden in combinations(READINGS, count):
            if set(hidden) >= NUMBERS:
                continue
            told = one_name(twice(where, hidden))
            apart = {name for name, record in told.items() if record.verdict not in (Verdict.ERROR, Verdict.NOT_JUDGED)}
            assert apart == set(), (hidden, {name: record.message for name, record in told.items()})


@pytest.mark.parametrize("where", WHERE)
def test_of_names_that_nothing_tells_apart_at_most_one_passes(where):
    for hidden in (READINGS, {*READINGS} - {BOOT}, {*READINGS} - {NAME}):
        told = one_name(twice(where, hidden))
        apart = {name for name, record in told.items() if record.verdict is Verdict.PASS}
        assert apart <= (set() if where == "both" else {"gpu01", "gpu02"} - {where})


@pytest.mark.parametrize("hidden", [(BOOT,), (NAME,), (BOOT, NAME)], ids=" and ".join)
@pytest.mark.parametrize("where", WHERE)
def test_at_delivery_under_load_neither_name_is_accepted(where, hidden):
    records = judged_alone([*twice(where, hidden).values()], {})
    for name, found in records.items():
        (said,) = (record for record in found if record.check == "platform.one_name")
        assert said.verdict is Verdict.ERROR
        assert "gpu01 and gpu02 " in said.message
        claims = claims_of_node(Profile.DELIVERY, found, lambda _: "", nodes=2)
        assert {each.state for each in claims if each.claim == "identity"} == {State.NOT_PROVEN}
        assert decide(name, found, claims).verdict is not NodeVerdict.ACCEPTED


@pytest.mark.parametrize("lacking", ["system", "nvml", "infiniband"])
def test_a_section_that_could_not_be_read_leaves_the_rest_to_compare_by(lacking):
    machines = twice("gpu01", ())
    machines["gpu02"].section_fails(lacking, "timeout", "10 s")
    assert {record.verdict for record in one_name(machines).values()} == {Verdict.ERROR}


def test_two_machines_are_two_and_what_is_hidden_of_one_is_named():
    machines = {f"gpu0{number}": Machine.hgx_h100(f"gpu0{number}", number) for number in (1, 2)}
    assert {record.verdict for record in one_name(machines).values()} == {Verdict.PASS}
    hide(machines["gpu02"], (NAME,))
    told = one_name(machines)
    assert told["gpu02"].message == "node: not judged: its host name could not be read"
    assert "not known of gpu02" in told["gpu01"].message


# In a run: both names are an error, and nothing is put under load


SAME = "a and b are the same machine"


def here(folder, locks=("node", "node")):
    """An inventory that calls this machine by two names, each with a lock of its own or both with one."""
    hosts = [
        f"    {name}: {{ansible_connection: local, nodegate_lock: {folder}/{lock}.lock}}\n"
        for name, lock in zip("ab", locks, strict=True)
    ]
    (folder / "hosts.yaml").write_text("".join(["all:\n  hosts:\n", *hosts]))
    return folder


def verdicts(outcome):
    return {(each.node, each.check): (each.verdict.value, SAME in each.message) for each in outcome.records}


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_both_names_are_an_error_and_no_load_is_put_on_either(tmp_path, more):
    where = here(tmp_path)
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


def test_without_a_lock_both_names_are_an_error_too(tmp_path):
    where = here(tmp_path)
    outcome = run_pytest(where, ["--inventory", "hosts.yaml", "-k", "one_name", "--profile", "bootcheck"])
    assert set(verdicts(outcome).values()) == {("error", True)}


def test_nodes_with_locks_of_their_own_on_one_machine_are_what_the_site_says(tmp_path):
    where = here(tmp_path, ("a", "b"))
    outcome = run_pytest(where, ["--inventory", "hosts.yaml", "-k", "one_name"])
    assert set(verdicts(outcome).values()) == {("pass", False)}
    again = run_pytest(where, ["--replay", str(outcome.folder.resolve()), "-k", "one_name"])
    assert set(verdicts(again).values()) == {("pass", False)}


def test_one_serial_number_of_the_whole_fleet_is_compared_once_and_not_by_each_measurement():
    names = [f"gpu{index:03}" for index in range(400)]
    shared = frozenset({"same serial number VMX-778812"})
    known = {name: Identity(name, name, name, frozenset({f"GPU-{name}"}), shared) for name in names}
    identities, spent = Identities(known), []
    for _ in range(2):
        started = time.process_time()
        assert not any(map(identities.wrong, names))
        spent.append(time.process_time() - started)
    assert spent[1] < spent[0] / 5
