"""What hostile nodes send, and readings that no machine can have: they are unknown, and no node is fit by them."""

import copy
import json
import time

import pytest
from fleet.machine import Machine, facts_of
from support.judging import judge_one
from support.load_fleet import LoadFleet
from support.payload import run_probe

from nodegate.errors import CannotMeasure
from nodegate.probe.kernel_log import parse_line
from nodegate.probe.pci import _total_in
from nodegate.records.verdict import Verdict
from nodegate.unknown import Unknown, Why

CPU_S = 8.0  # on a machine of which other tests have a part; it takes 1 s


def test_more_gpus_than_a_machine_has_are_no_reading():
    machine = Machine.hgx_h100()
    listed = machine.sections["nvml"]["gpus"]
    listed += [{**copy.deepcopy(listed[0]), "index": number} for number in range(8, 4000)]
    with pytest.raises(CannotMeasure, match="lists 4000 GPUs, which no machine has"):
        facts_of(machine).gpus  # noqa: B018 - it is read when it is asked for


def test_many_instances_cost_no_time():
    machine = Machine.hgx_h100()
    for number in range(4096):
        machine.kernel(f"NVRM: Xid (PCI:0000:19:00, GPU-I:{number:02}): 13, pid=1, name=x", ago_s=4000 - number / 2)
    began_s = time.process_time()
    record = judge_one("kernel_log.xid", machine)
    assert time.process_time() - began_s < CPU_S
    assert len(record.findings) > 4000


def test_a_tree_that_is_measured_in_place_of_the_machine_is_told(tmp_path):
    with LoadFleet(tmp_path / "fleet", 1, with_rdma=0) as fleet:
        outcome = fleet.run(tmp_path / "run", asked=("node",))
        tree = str(fleet["gpu1"].folder / "tree")
    assert json.loads((outcome.folder / "evidence/gpu1/facts.json").read_text())["document"]["root"] == tree
    assert "note: NODEGATE_PROBE_ROOT is set on gpu1: what is judged is a tree of files" in outcome.stdout
    assert "root" not in run_probe(sections=["system"]).document


# Readings that no machine can have

NOW_S, XID = 1_785_000_000.0, "NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus."
BOOT_S = NOW_S - 86_400


def impossible(reading):
    return isinstance(reading, Unknown) and reading.why is Why.IMPLAUSIBLE


@pytest.mark.parametrize("name", ["temperature_c", "memory_temperature_c"])
@pytest.mark.parametrize(("value", "wrong"), [(-128, True), (-40, True), (-39, False), (97, False), (255, True)])
def test_a_temperature(name, value, wrong):
    machine = Machine.hgx_h100()
    machine.set_gpu(3, name, value)
    assert impossible(getattr(facts_of(machine).gpus.devices[3], name)) is wrong
    check = "power.temperature" if name == "temperature_c" else "power.memory_temperature"
    assert (judge_one(check, machine).verdict is Verdict.ERROR) is wrong


@pytest.mark.parametrize("gibibytes", [1024, 4096, 1 << 30])
def test_a_memory(gibibytes):
    machine = Machine.hgx_h100()
    machine.set_gpu(3, "memory_total_bytes", gibibytes << 30)
    assert impossible(facts_of(machine).gpus.devices[3].memory_total_bytes)
    assert judge_one("boards.memory", machine).verdict is Verdict.ERROR


@pytest.mark.parametrize("kind", ["COR", "NONFATAL", "FATAL"])
@pytest.mark.parametrize(
    ("kinds", "total", "wrong"), [((7, 3), 0, True), ((7, 3), 6, True), ((7, 3), 7, False), ((0, 0), 4, False)]
)
def test_a_total_of_pcie_errors(kind, kinds, total, wrong):
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
def test_the_time_of_a_line(line, wrong):
    found = parse_line(line, now_epoch_s=NOW_S, boot_epoch_s=BOOT_S, names_host=True)
    assert found.text == XID
    assert impossible(found.epoch_s) is wrong


def test_a_loss_that_was_written_before_the_clock_was_set_is_one_of_this_boot():
    machine = Machine.hgx_h100()
    log = machine.sections["kernel_log"]
    address = machine.gpu_address(3).rpartition(".")[0]
    log["lines"].append(f"1970-01-01T00:00:09.123456+00:00 gpu01 kernel: {XID.replace('0000:19:00', address)}")
    assert judge_one("gpu.fallen_off_bus", machine).verdict is Verdict.FAIL
