"""The same defects the whole way, as a user runs it: one node for each, and what the report says of it."""

import json
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.recorded import PytestOutcome, run_pytest, write_fleet


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> PytestOutcome:
    folder: Path = tmp_path_factory.mktemp("defects")
    nodes = {name: Machine.hgx_h100(name, number) for number, name in enumerate(EXPECTED, start=1)}
    nodes["remaps"].set_gpu(3, "remapped_rows", [0, 600, 0, 0])
    nodes["fabric"].set_gpu(5, "fabric.state", 1)
    nodes["nolog"].section_fails("kernel_log", "missing", "no journal, no /dev/kmsg, no file")
    nodes["dram"].set_gpu(6, "ecc.volatile_uncorrected", 19_999_999)
    place = nodes["xid140"].gpu_address(1).removesuffix(".0")
    nodes["xid140"].kernel(f"NVRM: Xid (PCI:{place}): 140, pid=1, name=x, Unrecovered ECC error", ago_s=60)
    nodes["warned"].set_gpu(0, "persistence_mode", False)
    for index in range(8):
        nodes["newmodel"].set_gpu(index, "pci_device_id", 0xFFFF10DE)
        nodes["newmodel"].set_pci(nodes["newmodel"].gpu_address(index), "device", "0xffff")
    inventory = write_fleet(folder, nodes.values())
    return run_pytest(folder, ["--inventory", str(inventory), "-q", "-p", "no:cacheprovider"])


EXPECTED = {
    "healthy": ("accepted", ""),
    "remaps": ("rejected", "ecc.remapped_rows"),
    "fabric": ("rejected", "fabric.state"),
    "nolog": ("incomplete", "kernel_log.xid"),
    "dram": ("rejected", "ecc.volatile"),
    "xid140": ("rejected", "kernel_log.xid"),
    "warned": ("accepted", "gpu.persistence"),
    "newmodel": ("incomplete", "platform.known"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_run_says_the_same(outcome: PytestOutcome, name: str) -> None:
    verdict, check = EXPECTED[name]
    report = json.loads((outcome.folder / "report.json").read_text())
    assert {node["node"]: node["verdict"] for node in report["nodes"]}[name] == verdict
    worst = {"rejected": "fail", "incomplete": "error", "accepted": "warn"}[verdict]
    if check:
        assert outcome.verdicts(check)[name] == worst


def test_a_run_with_defects_does_not_exit_with_0(outcome: PytestOutcome) -> None:
    assert outcome.exit_code == 1
