"""What the checks of a node's boards say, word for word: one odd board among eight is named, eight alike pass."""

from __future__ import annotations

import pytest
from fleet.machine import Machine
from support.judging import Case, assert_case

from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
UNSUPPORTED = {"why": "not supported", "detail": ""}
FAILED = {"why": "failed", "detail": "NVML 999"}
MOST = "most GPUs of this node"
_SEE = "see the evidence file for what the node answered"
_WRONG = "check which board is in this slot; replace it with the model that this platform requires"
_COPY = "run nvidia-smi -L; if two GPUs still share a serial number, call the vendor"
_SIZE = "hgx-h100-8.yaml gpu.memory_min_gib: choice: a little less than NVML reports: 81559 MiB"


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
    Case("eight of one model", "boards.model", PASS, "{gpus}: model on PCIe 10de:2330"),
    Case(
        "another board",
        "boards.model",
        FAIL,
        f"{{gpu3}}: model on PCIe 10de:2329, expected 10de:2330 ({MOST}) - {_WRONG} (and 1 more)",
        other_board,
    ),
    Case(
        "NVML and PCIe see different boards",
        "boards.model",
        FAIL,
        "{gpu3}: PCI id by NVML 10de:2329, expected 10de:2330 (PCIe at the same address) - reboot; if they still "
        "differ, call the vendor",
        lambda machine: machine.set_gpu(3, "pci_device_id", 0x232910DE),
    ),
    Case(
        "the name could not be read",
        "boards.model",
        ERROR,
        f"{{gpu3}}: could not read model by NVML: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(3, "name", FAILED),
    ),
)
REVISION = (
    Case("eight of one part number and VBIOS", "boards.revision", PASS, "{gpus}: part number 692-2G520-0200-000"),
    Case(
        "another VBIOS",
        "boards.revision",
        FAIL,
        f"{{gpu3}}: VBIOS 96.00.74.00.01, expected 96.00.89.00.01 ({MOST}) "
        f"- update it to the version of the other GPUs",
        lambda machine: machine.set_gpu(3, "vbios", "96.00.74.00.01"),
    ),
    Case(
        "another VBIOS, later: a board that was replaced",
        "boards.revision",
        WARN,
        f"{{gpu3}}: VBIOS 96.00.74.00.01, expected 96.00.89.00.01 ({MOST}) "
        f"- update it to the version of the other GPUs",
        lambda machine: machine.set_gpu(3, "vbios", "96.00.74.00.01"),
        profile=Profile.NIGHTLY,
    ),
    Case(
        "another part number",
        "boards.revision",
        FAIL,
        f"{{gpu3}}: part number 692-2G520-0280-000, expected 692-2G520-0200-000 ({MOST}) - {_WRONG}",
        lambda machine: machine.set_gpu(3, "part_number", "692-2G520-0280-000"),
    ),
    Case(
        "the VBIOS could not be read",
        "boards.revision",
        ERROR,
        f"{{gpu3}}: could not read VBIOS: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(3, "vbios", FAILED),
    ),
    Case(
        "consumer cards report neither",
        "boards.revision",
        SKIP,
        "{gpus}: does not report part number (not supported) (and 1 more)",
        lambda machine: [every(machine, key, UNSUPPORTED) for key in ("part_number", "vbios")],
    ),
)
MEMORY = (
    Case("as the platform has it", "boards.memory", PASS, "{gpus}: device memory 79.6 GiB"),
    Case(
        "half of it",
        "boards.memory",
        FAIL,
        f"{{gpu3}}: device memory 40 GiB, expected at least 78 GiB ({_SIZE}) - {_WRONG}",
        lambda machine: machine.set_gpu(3, "memory_total_bytes", 40 << 30),
    ),
    Case(
        "half of what the others of an unknown platform have",
        "boards.memory",
        FAIL,
        f"{{gpu3}}: device memory 40 GiB, expected at least 79.6 GiB ({MOST}) - {_WRONG}",
        lambda machine: machine.set_gpu(3, "memory_total_bytes", 40 << 30),
        limits={"gpu.memory_min_gib": None},
    ),
    Case(
        "could not be read",
        "boards.memory",
        ERROR,
        f"{{gpu3}}: could not read device memory: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(3, "memory_total_bytes", FAILED),
    ),
)
LISTED = (
    Case("as many", "boards.listed", PASS, "node: GPUs that NVML counts 8"),
    Case(
        "fewer",
        "boards.listed",
        FAIL,
        "node: GPUs that NVML counts 4, expected 8 (the GPUs that it lists) - run nvidia-smi -L; reload the driver and "
        "measure again",
        lambda machine: machine.set("nvml", "count", 4),
    ),
    Case(
        "could not be read",
        "boards.listed",
        ERROR,
        f"node: could not read GPUs that NVML counts: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set("nvml", "count", FAILED),
    ),
)
IDENTITY = (
    Case("each its own", "boards.identity", PASS, "{gpus}: has a UUID"),
    Case(
        "two with one serial number",
        "boards.identity",
        FAIL,
        f"GPU 2 ({{adr2}}, S/N {{ser2}}): GPU 2, GPU 3 have one serial number, {{ser2}} - {_COPY} (and 1 more)",
        lambda machine: copied(machine, "serial"),
    ),
    Case(
        "two on one board",
        "boards.identity",
        PASS,
        "{gpus}: has a UUID",
        lambda machine: copied(machine, "serial"),
        limits={"gpu.per_board": 2},
    ),
    Case(
        "two with one UUID",
        "boards.identity",
        FAIL,
        f"GPU 2 ({{adr2}}, S/N {{ser2}}): GPU 2, GPU 3 have one UUID, {{uuid2}} - {_COPY} (and 1 more)",
        lambda machine: copied(machine, "uuid"),
    ),
    Case(
        "consumer cards have no serial number",
        "boards.identity",
        PASS,
        "{gpus}: has a UUID",
        lambda machine: every(machine, "serial", UNSUPPORTED),
    ),
    Case(
        "cards that report zeros for one",
        "boards.identity",
        PASS,
        "{gpus}: has a UUID",
        lambda machine: every(machine, "serial", "0"),
    ),
    Case(
        "the UUID could not be read",
        "boards.identity",
        ERROR,
        f"{{gpu3}}: could not read UUID: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(3, "uuid", FAILED),
    ),
)
_PARTITIONS = "look at the partitions of the fabric manager; restart it and reset the GPU"
_HERE = "00000000-0000-0000-0000-000000000000"
CLUSTER = (
    Case(
        "all in one",
        "fabric.one_cluster",
        PASS,
        "{gpus}: fabric cluster 00000000-0000-0000-0000-000000000000, clique 0",
    ),
    Case(
        "one in another clique",
        "fabric.one_cluster",
        FAIL,
        f"{{gpu3}}: fabric cluster {_HERE}, clique 7, expected {_HERE}, clique 0 ({MOST}) - {_PARTITIONS}",
        lambda machine: machine.set_gpu(3, "fabric.clique", 7),
    ),
    Case(
        "one in another cluster",
        "fabric.one_cluster",
        FAIL,
        f"{{gpu3}}: fabric cluster 1, clique 0, expected {_HERE}, clique 0 ({MOST}) - {_PARTITIONS}",
        lambda machine: machine.set_gpu(3, "fabric.cluster_uuid", "1"),
    ),
    Case(
        "one could not be read",
        "fabric.one_cluster",
        ERROR,
        f"{{gpu3}}: could not read fabric cluster: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(3, "fabric.clique", FAILED),
    ),
    Case(
        "cards without a fabric",
        "fabric.one_cluster",
        SKIP,
        "node: no GPU of this node reports a fabric state",
        machine=Machine.pcie_l40s,
    ),
)
CASES = (*MODEL, *REVISION, *MEMORY, *LISTED, *IDENTITY, *CLUSTER)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    assert_case(case)
