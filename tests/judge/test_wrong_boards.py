"""Wrong boards in a node.

Each test judges a healthy node in which one board was exchanged, by every check of the facts.
"""

from collections.abc import Iterable

import pytest
from fleet.machine import Machine
from support.judging import judge_one
from support.whole_node import bootchecked, whole

from nodegate.facts import FACTS
from nodegate.records.verdict import Verdict
from nodegate.run.bootcheck import Exit


def h100() -> Machine:
    return Machine.hgx_h100("gpu01")


def odd(machine: Machine) -> dict[str, set[int | None]]:
    records = whole(machine, only=lambda check: set(check.asks_for) <= {*FACTS, "baseline", "profile", "verdicts"})
    return {
        name: {finding.part.index for finding in record.findings if finding.verdict is Verdict.FAIL}
        for name, record in records.items()
        if record.verdict is Verdict.FAIL
    }


def every(machine: Machine, indices: Iterable[int], path: str, value: object) -> None:
    for index in indices:
        machine.set_gpu(index, path, value)


@pytest.mark.parametrize("indices", [{3}, {1, 3, 6}], ids=str)
def test_another_model_among_eight(indices: set[int]) -> None:
    machine = h100()
    every(machine, indices, "pci_device_id", 0x232910DE)
    every(machine, indices, "name", "NVIDIA H20")
    for index in indices:
        machine.set_pci(machine.gpu_address(index), "device", "0x2329")
    records = whole(machine, only=lambda check: check.id == "boards.model")
    named = {finding.part.pci for finding in records["boards.model"].findings if finding.verdict is Verdict.FAIL}
    assert {machine.gpu_address(index) for index in indices} <= named


@pytest.mark.parametrize(
    ("reading", "value", "check"),
    [
        ("memory_total_bytes", 40 << 30, "boards.memory"),
        ("memory_total_bytes", 0, "boards.memory"),
        ("vbios", "96.00.61.00.01", "boards.revision"),
        ("part_number", "692-2G520-0280-000", "boards.revision"),
        ("pci_device_id", 0x232910DE, "boards.model"),  # NVML and sysfs see different boards
        ("fabric.clique", 7, "fabric.one_cluster"),
        ("fabric.cluster_uuid", "11111111-1111-1111-1111-111111111111", "fabric.one_cluster"),
        ("mig_mode", [1, 1], "gpu.mig"),
    ],
    ids=str,
)
def test_one_of_eight_is_another(reading: str, value: object, check: str) -> None:
    machine = h100()
    machine.set_gpu(3, reading, value)
    assert odd(machine) == {check: {3}}
    assert (bootchecked(machine).exit is Exit.FIT) is (check == "boards.revision"), "after the delivery a warning"


def test_another_size_of_memory_on_all() -> None:
    machine = h100()
    every(machine, range(8), "memory_total_bytes", 40 << 30)
    assert odd(machine) == {"boards.memory": set(range(8))}


@pytest.mark.parametrize(("reading", "gpus"), [("serial", {2, 3}), ("serial", set(range(8))), ("uuid", {2, 3})])
def test_one_number_twice(reading: str, gpus: set[int]) -> None:
    machine = h100()
    every(machine, gpus, reading, machine.sections["nvml"]["gpus"][2][reading])
    assert odd(machine)["boards.identity"] == gpus


@pytest.mark.parametrize("count", [4, 16])
def test_nvml_counts_other_than_it_lists(count: int) -> None:
    machine = h100()
    machine.set("nvml", "count", count)
    assert odd(machine) == {"boards.listed": {None}}


BRIDGES = {"nvlink.count": None, "nvlink.per_bridge": 4}


@pytest.mark.parametrize("links", [12, 18])
def test_cards_without_bridges(links: int) -> None:
    machine = h100()
    for index in range(8):
        listed = [dict(each, state=0) for each in machine.sections["nvml"]["gpus"][index]["nvlinks"][:links]]
        machine.set_gpu(index, "nvlinks", listed)
    assert judge_one("nvlink.links", machine, baseline=BRIDGES).verdict is Verdict.SKIP


def test_cards_with_one_bridge_of_three() -> None:
    machine = h100()
    for index in range(8):
        for link in range(4, 18):
            machine.set_nvlink(index, link, "state", 0)
    assert judge_one("nvlink.links", machine, baseline=BRIDGES).verdict is Verdict.PASS
