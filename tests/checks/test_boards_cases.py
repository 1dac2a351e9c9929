"""What the checks of a node's boards say, word for word: one odd board among eight is named, eight alike pass."""

from __future__ import annotations

import pytest
from fleet.machine import Machine
from support.cases import assert_case
from support.judging import Case

from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
UNSUPPORTED = {"why": "not supported", "detail": ""}
FAILED = {"why": "failed", "detail": "NVML 999"}


def every(machine: Machine, path: str, value: object) -> None:
    for index in range(8):
        machine.set_gpu(index, path, value)


def copied(machine: Machine, *paths: str) -> None:
    """GPU 3 says of itself what GPU 2 says."""
    for path in paths:
        machine.set_gpu(3, path, machine.sections["nvml"]["gpus"][2][path])


def other_board(machine: Machine) -> None:
    """An H20 in the place of GPU 3."""
    machine.set_pci(machine.gpu_address(3), "device", "0x2329")
    machine.set_gpu(3, "pci_device_id", 0x232910DE)
    machine.set_gpu(3, "name", "NVIDIA H20")


MODEL = (
    Case("eight of one model", "boards.model", PASS),
    Case("another board", "boards.model", FAIL, other_board),
    Case(
        "NVML and PCIe see different boards",
        "boards.model",
        FAIL,
        lambda machine: machine.set_gpu(3, "pci_device_id", 0x232910DE),
    ),
    Case("the name could not be read", "boards.model", ERROR, lambda machine: machine.set_gpu(3, "name", FAILED)),
)
REVISION = (
    Case("eight of one part number and VBIOS", "boards.revision", PASS),
    Case("another VBIOS", "boards.revision", FAIL, lambda machine: machine.set_gpu(3, "vbios", "96.00.74.00.01")),
    Case(
        "another VBIOS, later: a board that was replaced",
        "boards.revision",
        WARN,
        lambda machine: machine.set_gpu(3, "vbios", "96.00.74.00.01"),
        profile=Profile.NIGHTLY,
    ),
    Case(
        "another part number",
        "boards.revision",
        FAIL,
        lambda machine: machine.set_gpu(3, "part_number", "692-2G520-0280-000"),
    ),
    Case("the VBIOS could not be read", "boards.revision", ERROR, lambda machine: machine.set_gpu(3, "vbios", FAILED)),
    Case(
        "consumer cards report neither",
        "boards.revision",
        SKIP,
        lambda machine: [every(machine, key, UNSUPPORTED) for key in ("part_number", "vbios")],
    ),
)
MEMORY = (
    Case("as the platform has it", "boards.memory", PASS),
    Case("half of it", "boards.memory", FAIL, lambda machine: machine.set_gpu(3, "memory_total_bytes", 40 << 30)),
    Case(
        "half of what the others of an unknown platform have",
        "boards.memory",
        FAIL,
        lambda machine: machine.set_gpu(3, "memory_total_bytes", 40 << 30),
        limits={"gpu.memory_min_gib": None},
    ),
    Case("could not be read", "boards.memory", ERROR, lambda machine: machine.set_gpu(3, "memory_total_bytes", FAILED)),
)
LISTED = (
    Case("as many", "boards.listed", PASS),
    Case("fewer", "boards.listed", FAIL, lambda machine: machine.set("nvml", "count", 4)),
    Case("could not be read", "boards.listed", ERROR, lambda machine: machine.set("nvml", "count", FAILED)),
)
IDENTITY = (
    Case("each its own", "boards.identity", PASS),
    Case("two with one serial number", "boards.identity", FAIL, lambda machine: copied(machine, "serial")),
    Case(
        "two on one board",
        "boards.identity",
        PASS,
        lambda machine: copied(machine, "serial"),
        limits={"gpu.per_board": 2},
    ),
    Case("two with one UUID", "boards.identity", FAIL, lambda machine: copied(machine, "uuid")),
    Case(
        "consumer cards have no serial number",
        "boards.identity",
        PASS,
        lambda machine: every(machine, "serial", UNSUPPORTED),
    ),
    Case("cards that report zeros for one", "boards.identity", PASS, lambda machine: every(machine, "serial", "0")),
    Case("the UUID could not be read", "boards.identity", ERROR, lambda machine: machine.set_gpu(3, "uuid", FAILED)),
)
CLUSTER = (
    Case("all in one", "fabric.one_cluster", PASS),
    Case("one in another clique", "fabric.one_cluster", FAIL, lambda machine: machine.set_gpu(3, "fabric.clique", 7)),
    Case(
        "one in another cluster",
        "fabric.one_cluster",
        FAIL,
        lambda machine: machine.set_gpu(3, "fabric.cluster_uuid", "1"),
    ),
    Case(
        "one could not be read",
        "fabric.one_cluster",
        ERROR,
        lambda machine: machine.set_gpu(3, "fabric.clique", FAILED),
    ),
    Case("cards without a fabric", "fabric.one_cluster", SKIP, machine=Machine.pcie_l40s),
)
CASES = (*MODEL, *REVISION, *MEMORY, *LISTED, *IDENTITY, *CLUSTER)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    assert_case(case)
