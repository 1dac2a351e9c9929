"""Section `nvml` becomes GPUs with units."""

import pytest
from fleet.machine import Machine, facts_of

from nodegate.errors import CannotMeasure
from nodegate.probe import nvml
from nodegate.probe.gpu import Gpu, GpuFabric, GpuProcess, NvLink, RowRemap
from nodegate.unknown import Unknown, Why


def parsed(machine: Machine, index: int = 3) -> Gpu:
    return facts_of(machine).gpus.devices[index]


@pytest.mark.parametrize(("mode", "words"), [(1, "pass-through"), (2, "vGPU"), (9, "mode 9")])
def test_the_mode_of_a_virtual_machine_has_its_words(mode, words):
    machine = Machine.hgx_h100()
    machine.sections["nvml"]["gpus"][3]["virtualization_mode"] = mode
    assert parsed(machine).virtualization == words


def test_a_healthy_gpu():
    machine = Machine.hgx_h100()
    gpus, one = facts_of(machine).gpus, parsed(machine)
    assert (gpus.count, len(gpus.devices), gpus.source, gpus.cuda_driver_version) == (8, 8, "nvml", "12.4")
    assert one.part.label == "GPU 3 (0000:3d:00.0, S/N 1650001000003)"
    assert (one.lost, one.pci_id) == (None, "10de:2330")
    assert (one.power_limit_w, one.power_limit_max_w) == (700.0, 700.0)
    assert one.event_reasons == frozenset({"gpu_idle"})
    assert (one.ecc_enabled, one.mig_enabled, one.persistence, one.gsp_enabled) == (True, False, True, True)
    assert (one.virtualization, gpus.confidential) == ("none", False)
    assert (one.remap, one.spent_banks) == (RowRemap(0, 0, False, False), 0)
    assert not isinstance(one.nvlinks, Unknown)
    assert len(one.nvlinks) == 18
    assert one.nvlinks[7] == NvLink(7, True, 26562, 2, 0, 0, 0)
    assert isinstance(one.fabric, GpuFabric)
    assert (one.fabric.state, one.fabric.status, one.fabric.health_mask) == (3, 0, 426)


def test_a_lost_gpu_is_listed_with_its_reason_and_nothing_else_is_known():
    machine = Machine.hgx_h100()
    machine.lose_gpu(3)
    lost = parsed(machine)
    assert lost.lost == Unknown(Why.LOST, "NVML 15: GPU is lost", 15)
    assert lost.part.label == "GPU 3"
    for reading in (lost.serial, lost.remap, lost.nvlinks, lost.ecc.volatile_uncorrected):
        assert isinstance(reading, Unknown)
        assert reading.why is Why.LOST
    assert parsed(machine, 4).lost is None


def test_an_entry_that_is_no_object_is_a_gpu_that_is_not_known():
    found = nvml.parse({"gpus": ["?", {"index": 1, "handle": "gone"}]})
    assert [one.lost for one in found.devices] == [
        Unknown(Why.FAILED, "expected an object, the node sent ?"),
        Unknown(Why.FAILED, "no handle, and no reason given"),
    ]


def test_faults_come_through():
    machine = Machine.hgx_h100()
    process = {"pid": 77, "kind": "compute", "memory_bytes": {"why": "not supported"}}
    faults = {"remapped_rows": [0, 2, 1, 1], "event_reasons": 0x8 | 0x80 | 0x200 | 0x800, "recovery_action": 1}
    for name, value in {**faults, "processes": [process]}.items():
        machine.set_gpu(3, name, value)
    machine.set_nvlink(3, 7, "state", 0)
    one = parsed(machine)
    assert one.remap == RowRemap(0, 2, pending=True, failed=True)
    assert one.event_reasons == frozenset({"hw_slowdown", "hw_power_brake_slowdown", "board_limit", "bit_0x800"})
    assert one.recovery_action == 1
    assert not isinstance(one.nvlinks, Unknown)
    assert [link.link for link in one.nvlinks if link.up is False] == [7]
    assert one.processes == (GpuProcess(77, "compute", "", Unknown(Why.NOT_SUPPORTED)),)


def test_one_bad_link_or_process_makes_the_list_unknown_so_that_none_is_overlooked():
    machine = Machine.hgx_h100()
    machine.sections["nvml"]["gpus"][3]["nvlinks"][5] = "?"
    machine.set_gpu(4, "processes", [{"kind": "compute"}])
    assert parsed(machine).nvlinks == Unknown(Why.FAILED, "expected an object, the node sent ?")
    assert parsed(machine, 4).processes == Unknown(Why.MISSING, "the node sent no pid")


def test_no_list_of_gpus_cannot_be_measured():
    with pytest.raises(CannotMeasure, match="NVML returned no list of GPUs"):
        nvml.parse({"count": 8})
