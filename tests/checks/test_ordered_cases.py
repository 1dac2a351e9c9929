"""What the checks of the order say of one machine, word for word, and of an item that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.cases import assert_case
from support.judging import Case

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

PASS, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP


def every_gpu(path: str, value: object) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        for index in range(8):
            machine.set_gpu(index, path, value)

    return change


def no_memory_of_one_module(machine: Machine) -> None:
    machine.set("system", "meminfo", "MemTotal:       1989012345 kB\nMemAvailable:   1900000000 kB\n")


CASES = (
    Case("nothing demanded", "ordered.versions", SKIP),
    Case("the version of the order", "ordered.versions", PASS, expected={"expect": {"driver": "550.163.01"}}),
    Case("one of a list", "ordered.versions", PASS, expected={"expect": {"driver": ["550.163.01", "560.35.03"]}}),
    Case("inside a range", "ordered.versions", PASS, expected={"expect": {"kernel": ">= 5.15, < 6"}}),
    Case("an inventory of text alone", "ordered.versions", FAIL, expected={"expect": '{"driver": "560.35.03"}'}),
    Case("older than the range", "ordered.versions", FAIL, expected={"expect": {"driver": ">= 560"}}),
    Case(
        "a VBIOS with letters is not older than one of digits",
        "ordered.versions",
        PASS,
        change=every_gpu("vbios", "96.00.9F.00.01"),
        expected={"expect": {"vbios": ">= 96.00.89.00.01"}},
    ),
    Case(
        "one board with another VBIOS",
        "ordered.versions",
        FAIL,
        change=lambda machine: machine.set_gpu(3, "vbios", "96.00.61.00.01"),
        expected={"expect": {"vbios": "96.00.89.00.01"}},
    ),
    Case(
        "what is demanded was not read",
        "ordered.versions",
        ERROR,
        change=lambda machine: machine.set("system", "dmi.bios_version", {"why": "denied", "detail": "bios_version"}),
        expected={"expect": {"bios": "2.1.0"}},
    ),
    Case(
        "the whole section was not read",
        "ordered.versions",
        ERROR,
        change=lambda machine: machine.section_fails("infiniband", "timeout", "10 s"),
        expected={"expect": {"nic_firmware.MT4129": "28.41.1000"}},
    ),
    Case(
        "an adapter of the order that is not there",
        "ordered.versions",
        ERROR,
        expected={"expect": {"nic_firmware.MT4131": "40.41.1000"}},
    ),
    Case(
        "a version that a range cannot be compared with",
        "ordered.versions",
        ERROR,
        change=lambda machine: machine.set("system", "dmi.bios_version", "U54 v2.4"),
        expected={"expect": {"bios": ">= 2.1"}},
    ),
    Case(
        "the parts of the order",
        "ordered.parts",
        PASS,
        expected={"expect": {"memory_gib": 2048, "gpus": 8, "nvswitches": 4, "sockets": 2, "nics": ">= 8"}},
    ),
    Case(
        "one memory module short",
        "ordered.parts",
        FAIL,
        change=no_memory_of_one_module,
        expected={"expect": {"memory_gib": 2048}},
    ),
    Case(
        "one disk short",
        "ordered.parts",
        FAIL,
        change=lambda machine: machine.sections["disks"].pop("nvme5n1"),
        expected={"expect": {"disks": 10}},
    ),
    Case(
        "one disk of another size",
        "ordered.parts",
        FAIL,
        change=lambda machine: machine.set("disks", "nvme5n1.sectors", "3750748848"),
        expected={"expect": {"disk_gb": [960, 3841]}},
    ),
    Case(
        "a NUMA node and a socket short",
        "ordered.parts",
        FAIL,
        change=lambda machine: (machine.set("cpus", "numa_nodes", "0"), machine.set("system", "cpu_sockets", 1)),
        expected={"expect": {"numa_nodes": 2, "sockets": 2}},
    ),
    Case(
        "sockets that were not read",
        "ordered.parts",
        ERROR,
        change=lambda machine: machine.set(
            "system", "cpu_sockets", {"why": "missing", "detail": "no physical_package_id"}
        ),
        expected={"expect": {"sockets": 2}},
    ),
    Case("the settings of the order", "ordered.settings", PASS, expected={"expect": {"ecc": True}}),
    Case(
        "capped on every GPU",
        "ordered.settings",
        FAIL,
        change=every_gpu("power_limit_mw", 500_000),
        expected={"expect": {"power_limit_w": 700}},
    ),
    Case(
        "a power limit that was not read",
        "ordered.settings",
        ERROR,
        change=lambda machine: machine.set_gpu(3, "power_limit_mw", {"why": "failed", "detail": "NVML 999"}),
        expected={"expect": {"power_limit_w": 700}},
    ),
    Case(
        "serials by a pattern",
        "ordered.serials",
        PASS,
        expected={"expect": {"chassis_serial": "7XK*", "gpu_serial": "165000100000?"}},
    ),
    Case(
        "a board that is not of the order",
        "ordered.serials",
        FAIL,
        change=lambda machine: machine.set_gpu(3, "serial", "1320099000001"),
        expected={"expect": {"gpu_serial": "165*"}},
    ),
    Case(
        "a list of thousands is not written out",
        "ordered.serials",
        FAIL,
        expected={"expect": {"chassis_serial": [f"8XK{number:04}" for number in range(2000)]}},
    ),
    Case(
        "the serial needs root",
        "ordered.serials",
        ERROR,
        change=lambda machine: machine.set(
            "system", "dmi.product_serial", {"why": "denied", "detail": "product_serial"}
        ),
        expected={"expect": {"chassis_serial": "7XK0001"}},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    assert_case(case)
