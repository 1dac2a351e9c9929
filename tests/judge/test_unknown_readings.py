"""What a node does not say, or says wrongly.

Each test judges a healthy node of which one thing was changed, by every check of the facts.
"""

from collections.abc import Mapping

import pytest
from fleet.machine import Machine
from support.judging import judge_one
from support.whole_node import bootchecked, whole

from nodegate.facts import FACTS
from nodegate.records.finding import Record
from nodegate.records.verdict import Verdict
from nodegate.run.bootcheck import Exit

UNSUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}
HEALTH = {  # readings of an H100 and the check that judges each
    "sram_threshold_exceeded": "ecc.sram_threshold",
    "remapped_rows": "ecc.remap_pending",
    "remap_histogram": "ecc.spare_rows",
    "ecc.aggregate_sram_uncorrected": "ecc.sram",
    "inforom_valid": "gpu.inforom",
    "processes": "idle.processes",
    "power_limit_mw": "power.limit",
    "power_limit_enforced_mw": "power.enforced",
    "temperature_margin_c": "power.temperature",
    "event_reasons": "clocks.event_reasons",
    "fabric.health_mask": "fabric.health",
    "compute_mode": "gpu.compute_mode",
    "mig_mode": "gpu.mig",
    "pcie_replays": "pcie.replays",
}
IMPOSSIBLE = (
    ("ecc.volatile_uncorrected", -1),
    ("ecc.volatile_uncorrected", 0xFFFFFFFF),
    ("ecc.aggregate_uncorrected", -4),
    ("remapped_rows", [-1, -600, 0, 0]),
    ("remapped_rows", [0, 0, 7, 0]),
    ("remap_histogram", [2560, 0, 0, 0, -4]),
    ("sm_clock_max_mhz", 0xFFFFFFFF),
    ("memory_clock_max_mhz", 1 << 31),
    ("temperature_margin_c", 1 << 31),
    ("power_limit_mw", 0xFFFFFFFF),
    ("memory_total_bytes", 1 << 60),
    ("ecc_mode", [7, 7]),
    ("pcie_replays", -1),
)


def h100() -> Machine:
    return Machine.hgx_h100("gpu01")


def every(machine: Machine, path: str, value: object) -> None:
    for index in range(8):
        machine.set_gpu(index, path, value)


def by_facts(machine: Machine) -> Mapping[str, Record]:
    return whole(machine, only=lambda check: set(check.asks_for) <= {*FACTS, "baseline", "profile", "node", "verdicts"})


def bad(machine: Machine) -> set[str]:
    return {name for name, record in by_facts(machine).items() if record.verdict in (Verdict.ERROR, Verdict.FAIL)}


def test_the_node_is_good_until_it_is_changed() -> None:
    assert bad(h100()) == set()
    assert bootchecked(h100()).exit is Exit.FIT


@pytest.mark.parametrize("reading", HEALTH)
def test_one_of_eight_does_not_support_it(reading: str) -> None:
    machine = h100()
    machine.set_gpu(3, reading, UNSUPPORTED)
    record = by_facts(machine)[HEALTH[reading]]
    assert record.verdict is Verdict.ERROR
    assert {finding.part.index for finding in record.findings if finding.verdict is Verdict.ERROR} == {3}


@pytest.mark.parametrize("reading", HEALTH)
def test_none_of_a_known_board_supports_it(reading: str) -> None:
    machine = h100()
    every(machine, reading, UNSUPPORTED)
    assert HEALTH[reading] in bad(machine)


def test_nothing_is_supported_before_a_job() -> None:
    machine = h100()
    for reading in HEALTH:
        every(machine, reading, UNSUPPORTED)
    assert bootchecked(machine).exit is Exit.UNKNOWN


def test_what_an_older_driver_does_not_report_is_no_fault() -> None:
    machine = h100()
    every(machine, "sram_threshold_exceeded", {"why": "missing", "detail": "function not found"})
    machine.set("nvml", "driver_version", "535.183.01")
    assert judge_one("ecc.sram_threshold", machine).verdict is Verdict.SKIP


@pytest.mark.parametrize(("reading", "value"), IMPOSSIBLE, ids=str)
def test_a_number_that_cannot_be_true_proves_nothing(reading: str, value: object) -> None:
    machine = h100()
    machine.set_gpu(3, reading, value)
    assert bad(machine)


def test_a_link_speed_that_cannot_be_true() -> None:
    machine = h100()
    machine.set_nvlink(3, 7, "speed_mbps", 0xFFFFFFFF)
    assert bad(machine) == {"nvlink.speed"}


@pytest.mark.parametrize("text", ["garbage", "", "DLP 7\nTLP 3", "DLP 7\nTOTAL_ERR_FATAL -3"])
def test_an_unreadable_file_of_pcie_errors(text: str) -> None:
    machine = h100()
    machine.set_pci(machine.gpu_address(3), "aer_dev_fatal", text)
    assert bad(machine) == {"pcie.uncorrectable_errors"}


def test_ports_without_counters() -> None:
    machine = h100()
    for name in [name for name in machine.sections["infiniband"] if name != "mlx5_bond_0"]:
        machine.set_port(name, 1, "counters", {"why": "missing", "detail": "counters: No such file or directory"})
    record = judge_one("counters.nic", machine)
    assert record.verdict is Verdict.ERROR
    unread = [finding.quantity for finding in record.findings if finding.verdict is Verdict.ERROR]
    assert sorted(unread) == ["link_downed"] * 8 + ["symbol_error"] * 8


@pytest.mark.parametrize("gpus", [(3,), range(8)], ids=["one", "all"])
def test_a_health_mask_without_a_field(gpus: tuple[int, ...]) -> None:
    machine = h100()
    for index in gpus:
        machine.set_gpu(index, "fabric.health_mask", 0)
    assert bad(machine) == {"fabric.health"}


@pytest.mark.parametrize(
    ("path", "value"),
    [("bus_id", {"why": "failed", "detail": ""}), ("uuid", ""), ("uuid", "0"), ("nvlinks.7.link", 6)],
    ids=str,
)
def test_what_identifies_nothing(path: str, value: object) -> None:
    machine = h100()
    if path == "nvlinks.7.link":
        machine.set_nvlink(3, 7, "link", value)
    else:
        machine.set_gpu(3, path, value)
    assert bad(machine)
