"""A reading that no machine can have is unknown, and no node is fit or accepted by it."""

import pytest
from fleet.machine import Machine, facts_of
from support.judging import judge_one

from nodegate.probe.kernel_log import parse_line
from nodegate.probe.pci import _total_in
from nodegate.records.verdict import Verdict
from nodegate.unknown import Known, Unknown, Why

NOW_S, XID = 1_785_000_000.0, "NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus."
BOOT_S = NOW_S - 86_400


def impossible(reading: Known[object]) -> bool:
    return isinstance(reading, Unknown) and reading.why is Why.IMPLAUSIBLE


@pytest.mark.parametrize("name", ["temperature_c", "memory_temperature_c"])
@pytest.mark.parametrize(("value", "wrong"), [(-128, True), (-40, True), (-39, False), (97, False), (255, True)])
def test_a_temperature(name: str, value: int, wrong: bool) -> None:
    machine = Machine.hgx_h100()
    machine.set_gpu(3, name, value)
    assert impossible(getattr(facts_of(machine).gpus.devices[3], name)) is wrong
    check = "power.temperature" if name == "temperature_c" else "power.memory_temperature"
    assert (judge_one(check, machine).verdict is Verdict.ERROR) is wrong


@pytest.mark.parametrize("gibibytes", [1024, 4096, 1 << 30])
def test_a_memory(gibibytes: int) -> None:
    machine = Machine.hgx_h100()
    machine.set_gpu(3, "memory_total_bytes", gibibytes << 30)
    assert impossible(facts_of(machine).gpus.devices[3].memory_total_bytes)
    assert judge_one("boards.memory", machine).verdict is Verdict.ERROR


@pytest.mark.parametrize("kind", ["COR", "NONFATAL", "FATAL"])
@pytest.mark.parametrize(
    ("kinds", "total", "wrong"), [((7, 3), 0, True), ((7, 3), 6, True), ((7, 3), 7, False), ((0, 0), 4, False)]
)
def test_a_total_of_pcie_errors(kind: str, kinds: tuple[int, int], total: int, wrong: bool) -> None:
    """A message may be of several kinds at once, and is counted once: the kernel's aer_stats."""
    written = f"DLP {kinds[0]}\nTLP {kinds[1]}\nTOTAL_ERR_{kind} {total}\n"
    assert impossible(_total_in(written)) is wrong


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (f"1970-01-01T00:00:09.123456+00:00 gpu01 kernel: {XID}", True),
        (f"[Thu Jan  1 00:00:09 1970] {XID}", True),
        (f"2000-01-01T00:00:09+0000 gpu01 kernel: {XID}", True),
        (f"2026-07-25T00:00:09+0000 gpu01 kernel: {XID}", False),
    ],
)
def test_the_time_of_a_line(line: str, wrong: bool) -> None:
    found = parse_line(line, now_epoch_s=NOW_S, boot_epoch_s=BOOT_S, names_host=True)
    assert found.text == XID
    assert impossible(found.epoch_s) is wrong


def test_a_loss_that_was_written_before_the_clock_was_set_is_one_of_this_boot() -> None:
    machine = Machine.hgx_h100()
    log = machine.sections["kernel_log"]
    address = machine.gpu_address(3).rpartition(".")[0]
    log["lines"].append(f"1970-01-01T00:00:09.123456+00:00 gpu01 kernel: {XID.replace('0000:19:00', address)}")
    assert judge_one("gpu.fallen_off_bus", machine).verdict is Verdict.FAIL
