"""Two names of one machine are never both accepted, whatever of its identity could not be read."""

from collections.abc import Collection
from itertools import combinations

import pytest
from fleet.machine import Machine
from support.judged_fleet import judged_alone
from support.judging import fleet_of, judge_one

from nodegate.claims.prove import claims_of_node
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.claim import State
from nodegate.records.finding import Record
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.run.decision import decide

HIDDEN = {"why": "denied", "detail": "EACCES"}
BOOT, NAME, CHASSIS, GPUS, GPU_SERIALS, ADAPTERS = "boot id", "host name", "chassis", "GPUs", "GPU serials", "adapters"
READINGS = (BOOT, NAME, CHASSIS, GPUS, GPU_SERIALS, ADAPTERS)
NUMBERS = {CHASSIS, GPUS, GPU_SERIALS, ADAPTERS}
WHERE = ("gpu01", "gpu02", "both")


def hide(machine: Machine, readings: Collection[str]) -> None:
    paths = {BOOT: "boot_id", NAME: "hostname", CHASSIS: "dmi.product_serial"}
    for reading in paths.keys() & set(readings):
        machine.set("system", paths[reading], HIDDEN)
    for key in [key for reading, key in ((GPUS, "uuid"), (GPU_SERIALS, "serial")) if reading in readings]:
        for index in range(8):
            machine.set_gpu(index, key, HIDDEN)
    for adapter in machine.sections["infiniband"].values() if ADAPTERS in readings else ():
        adapter["node_guid"] = HIDDEN


def twice(where: str, readings: Collection[str]) -> dict[str, Machine]:
    """One machine under two names, by one of which, or by both, these readings are hidden."""
    machines = {name: Machine.hgx_h100("gpu01", 1) for name in ("gpu01", "gpu02")}
    for name, machine in machines.items():
        machine.name = name
        if where in (name, "both"):
            hide(machine, readings)
    return machines


def one_name(machines: dict[str, Machine]) -> dict[str, Record]:
    fleet = fleet_of(machines)
    return {
        name: judge_one("platform.one_name", machine, node=Node(name), fleet=fleet)
        for name, machine in machines.items()
    }


@pytest.mark.parametrize("where", WHERE)
def test_one_machine_under_two_names_passes_under_neither_as_long_as_one_number_is_shared(where: str) -> None:
    """Every set of readings is hidden that leaves a number of a part; containers share a boot, and anyone a name."""
    for count in range(len(READINGS)):
        for hidden in combinations(READINGS, count):
            if set(hidden) >= NUMBERS:
                continue
            told = one_name(twice(where, hidden))
            apart = {name for name, record in told.items() if record.verdict not in (Verdict.ERROR, Verdict.NOT_JUDGED)}
            assert apart == set(), (hidden, {name: record.message for name, record in told.items()})


@pytest.mark.parametrize("where", WHERE)
def test_of_names_that_nothing_tells_apart_at_most_one_passes(where: str) -> None:
    for hidden in (READINGS, {*READINGS} - {BOOT}, {*READINGS} - {NAME}):
        told = one_name(twice(where, hidden))
        apart = {name for name, record in told.items() if record.verdict is Verdict.PASS}
        assert apart <= (set() if where == "both" else {"gpu01", "gpu02"} - {where})


@pytest.mark.parametrize("hidden", [(BOOT,), (NAME,), (BOOT, NAME)], ids=" and ".join)
@pytest.mark.parametrize("where", WHERE)
def test_at_delivery_under_load_neither_name_is_accepted(where: str, hidden: tuple[str, ...]) -> None:
    records = judged_alone([*twice(where, hidden).values()], {})
    for name, found in records.items():
        (said,) = (record for record in found if record.check == "platform.one_name")
        assert said.verdict is Verdict.ERROR
        assert "gpu01 and gpu02 " in said.message
        claims = claims_of_node(Profile.DELIVERY, found, lambda _: "", nodes=2)
        assert {each.state for each in claims if each.claim == "identity"} == {State.NOT_PROVEN}
        assert decide(name, found, claims).verdict is not NodeVerdict.ACCEPTED


@pytest.mark.parametrize("lacking", ["system", "nvml", "infiniband"])
def test_a_section_that_could_not_be_read_leaves_the_rest_to_compare_by(lacking: str) -> None:
    machines = twice("gpu01", ())
    machines["gpu02"].section_fails(lacking, "timeout", "10 s")
    assert {record.verdict for record in one_name(machines).values()} == {Verdict.ERROR}


def test_two_machines_are_two_and_what_is_hidden_of_one_is_named() -> None:
    machines = {f"gpu0{number}": Machine.hgx_h100(f"gpu0{number}", number) for number in (1, 2)}
    assert {record.verdict for record in one_name(machines).values()} == {Verdict.PASS}
    hide(machines["gpu02"], (NAME,))
    told = one_name(machines)
    assert told["gpu02"].message == "node: not judged: its host name could not be read"
    assert "not known of gpu02" in told["gpu01"].message
