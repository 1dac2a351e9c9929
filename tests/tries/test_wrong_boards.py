"""Wrong boards in a node.

Each test judges a healthy node in which one board was exchanged, by every check of the facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.judging import judge_one
from support.tries import tried
from support.whole_node import bootchecked, whole

from nodegate.facts import FACTS
from nodegate.records.verdict import Verdict
from nodegate.run.bootcheck import Exit

if TYPE_CHECKING:
    from collections.abc import Iterable


def h100() -> Machine:
    return Machine.hgx_h100("gpu01")


def odd(machine: Machine) -> dict[str, set[int | None]]:
    """The checks that reject the node, each with the GPUs that it names."""
    records = whole(machine, only=lambda check: set(check.asks_for) <= {*FACTS, "baseline", "profile", "verdicts"})
    return {
        name: {finding.part.index for finding in record.findings if finding.verdict is Verdict.FAIL}
        for name, record in records.items()
        if record.verdict is Verdict.FAIL
    }


def other_boards(machine: Machine, indices: Iterable[int]) -> None:
    for index in indices:
        machine.set_pci(machine.gpu_address(index), "device", "0x2329")
        machine.set_gpu(index, "pci_device_id", 0x232910DE)
        machine.set_gpu(index, "name", "NVIDIA H20")


@tried(
    "one or three of eight GPUs are of another model",
    before="accepted as the model of the majority",
    now="rejected, with the odd ones named",
)
@pytest.mark.parametrize("indices", [{3}, {1, 3, 6}], ids=str)
def test_another_model_among_eight(indices: set[int]) -> None:
    machine = h100()
    other_boards(machine, indices)
    records = whole(machine, only=lambda check: check.id == "boards.model")
    named = {finding.part.pci for finding in records["boards.model"].findings if finding.verdict is Verdict.FAIL}
    assert {machine.gpu_address(index) for index in indices} <= named
    assert "boards.model" in odd(machine)


@tried(
    "one GPU has half of the memory, or none",
    before="accepted; with three nodes or more a warning",
    now="rejected, with the GPU named",
)
@pytest.mark.parametrize("size", [40 << 30, 0])
def test_another_size_of_memory(size: int) -> None:
    machine = h100()
    machine.set_gpu(3, "memory_total_bytes", size)
    assert odd(machine) == {"boards.memory": {3}}


@tried(
    "all GPUs of an H100 node have 40 GiB",
    before="accepted",
    now="rejected: the platform's file gives the size",
)
def test_another_size_of_memory_on_all() -> None:
    machine = h100()
    for index in range(8):
        machine.set_gpu(index, "memory_total_bytes", 40 << 30)
    assert odd(machine) == {"boards.memory": set(range(8))}


@tried(
    "one GPU has another VBIOS or part number than the seven others",
    before="accepted",
    now="rejected at delivery, a warning later",
)
@pytest.mark.parametrize(("reading", "value"), [("vbios", "96.00.61.00.01"), ("part_number", "692-2G520-0280-000")])
def test_another_revision(reading: str, value: str) -> None:
    machine = h100()
    machine.set_gpu(3, reading, value)
    assert odd(machine) == {"boards.revision": {3}}


@tried(
    "two GPUs, or all eight, have one serial number, or two one UUID",
    before="accepted",
    now="rejected, with the GPUs named",
)
@pytest.mark.parametrize(("reading", "gpus"), [("serial", {2, 3}), ("serial", set(range(8))), ("uuid", {2, 3})])
def test_one_number_twice(reading: str, gpus: set[int]) -> None:
    machine = h100()
    for index in gpus:
        machine.set_gpu(index, reading, machine.sections["nvml"]["gpus"][2][reading])
    assert odd(machine)["boards.identity"] == gpus


@tried("NVML's PCI id of a GPU contradicts sysfs", before="accepted", now="rejected, with the GPU named")
def test_nvml_and_sysfs_see_different_boards() -> None:
    machine = h100()
    machine.set_gpu(3, "pci_device_id", 0x232910DE)
    assert odd(machine) == {"boards.model": {3}}


@tried("NVML counts 4 or 16 GPUs and lists 8", before="accepted", now="rejected")
@pytest.mark.parametrize("count", [4, 16])
def test_nvml_counts_other_than_it_lists(count: int) -> None:
    machine = h100()
    machine.set("nvml", "count", count)
    assert odd(machine) == {"boards.listed": {None}}


@tried(
    "one GPU is in another fabric cluster or clique",
    before="accepted",
    now="rejected, with the GPU named",
)
@pytest.mark.parametrize(
    ("reading", "value"), [("clique", 7), ("cluster_uuid", "11111111-1111-1111-1111-111111111111")]
)
def test_another_clique_of_the_fabric(reading: str, value: object) -> None:
    machine = h100()
    machine.set_gpu(3, f"fabric.{reading}", value)
    assert odd(machine) == {"fabric.one_cluster": {3}}


@tried("MIG is on for one GPU of eight", before="fit, without a warning", now="unfit")
def test_mig_on_one_of_eight() -> None:
    machine = h100()
    machine.set_gpu(3, "mig_mode", [1, 1])
    assert odd(machine) == {"gpu.mig": {3}}
    assert bootchecked(machine).exit is Exit.UNFIT


@tried(
    "PCIe cards list 12 or 18 NVLinks, all inactive, for no bridge is fitted",
    before="rejected, and drained by the hook: 0 links, expected 12",
    now="no fault",
)
@pytest.mark.parametrize("links", [12, 18])
def test_cards_without_bridges(links: int) -> None:
    machine = h100()
    for index in range(8):
        listed = [dict(each, state=0) for each in machine.sections["nvml"]["gpus"][index]["nvlinks"][:links]]
        machine.set_gpu(index, "nvlinks", listed)
    limits = {"nvlink.count": None, "nvlink.per_bridge": 4}
    assert judge_one("nvlink.links", machine, baseline=limits).verdict is Verdict.SKIP


@tried("PCIe cards with one bridge of three", before="rejected: 4 links, expected 12", now="accepted")
def test_cards_with_one_bridge_of_three() -> None:
    machine = h100()
    for index in range(8):
        for link in range(4, 18):
            machine.set_nvlink(index, link, "state", 0)
    limits = {"nvlink.count": None, "nvlink.per_bridge": 4}
    assert judge_one("nvlink.links", machine, baseline=limits).verdict is Verdict.PASS
