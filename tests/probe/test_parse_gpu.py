"""Section `nvml` becomes GPUs with units."""

import pytest
from fleet.machine import Machine, facts_of

from nodegate.errors import CannotMeasure
from nodegate.probe import nvml
from nodegate.probe.gpu import Gpu
from nodegate.unknown import Unknown, Why


def parsed(machine: Machine, index: int = 3) -> Gpu:
    return facts_of(machine).gpus.devices[index]


@pytest.mark.parametrize(("mode", "words"), [(1, "pass-through"), (2, "vGPU"), (9, "mode 9")])
def test_the_mode_of_a_virtual_machine_has_its_words(mode, words):
    machine = Machine.hgx_h100()
    machine.sections["nvml"]["gpus"][3]["virtualization_mode"] = mode
    assert parsed(machine).virtualization == words


def test_an_entry_that_is_no_object_is_a_gpu_that_is_not_known():
    found = nvml.parse({"gpus": ["?", {"index": 1, "handle": "gone"}]})
    assert [one.lost for one in found.devices] == [
        Unknown(Why.FAILED, "expected an object, the node sent ?"),
        Unknown(Why.FAILED, "no handle, and no reason given"),
    ]


def test_one_bad_link_or_process_makes_the_list_unknown_so_that_none_is_overlooked():
    machine = Machine.hgx_h100()
    machine.sections["nvml"]["gpus"][3]["nvlinks"][5] = "?"
    machine.set_gpu(4, "processes", [{"kind": "compute"}])
    assert parsed(machine).nvlinks == Unknown(Why.FAILED, "expected an object, the node sent ?")
    assert parsed(machine, 4).processes == Unknown(Why.MISSING, "the node sent no pid")


def test_no_list_of_gpus_cannot_be_measured():
    with pytest.raises(CannotMeasure, match="NVML returned no list of GPUs"):
        nvml.parse({"count": 8})
