"""Sections `nvml`, `pci`, `infiniband` and `netdev`."""

import pytest
from fleet.machine import Machine, facts_of

from nodegate.errors import CannotMeasure
from nodegate.probe import nvml, pci, rdma
from nodegate.unknown import Unknown, Why

# PCIe


@pytest.mark.parametrize(
    ("read", "written", "value"),
    [
        *(
            (pci.speed_in, *row)
            for row in (("16 GT/s", 16.0), ("2.5 GT/s PCIe", 2.5), ("32GT/s", 32.0), ("Unknown", None))
        ),
        *((pci.width_in, *row) for row in (("16", 16), ("0", None), ("63", None), ("255", None))),  # None: no link
        *((pci.width_in, each, Unknown) for each in ("999999", "-1", "3", "garbage")),
    ],
)
def test_links_of_all_kernels(read, written, value):
    found = read(written)
    assert isinstance(found, Unknown) if value is Unknown else found == value


@pytest.mark.parametrize(
    ("key", "written", "why"),
    [
        *(("parent", each, "failed: expected") for each in ("garbage", "0000:16", None, 3)),  # it hangs nowhere
        ("class", {"why": "denied", "detail": ""}, "denied"),
    ],
)
def test_a_device_of_which_too_little_is_known_ends_the_section(key, written, why):
    machine = Machine.hgx_h100()
    machine.set_pci(machine.gpu_address(2), key, written)
    with pytest.raises(CannotMeasure, match=rf"PCI device 0000:3b:00\.0 cannot be read: {why}"):
        _ = facts_of(machine).pci


def test_correctable_errors_without_a_total_are_unknown():
    machine = Machine.hgx_h100()
    machine.set_pci(machine.nic_address(4), "aer_dev_correctable", "RxErr 0")
    assert isinstance(facts_of(machine).pci[machine.nic_address(4)].aer.correctable, Unknown)


# RDMA


def test_no_adapter_at_all_is_known_and_an_unreadable_one_is_not():
    assert rdma.parse({}).devices == ()
    with pytest.raises(CannotMeasure, match="RDMA adapter mlx5_0 cannot be read"):
        rdma.parse({"mlx5_0": "?"})
    with pytest.raises(CannotMeasure, match="port x of mlx5_0"):
        rdma.parse({"mlx5_0": {"ports": {"x": {}}}})


# GPUs


def parsed(machine, index=3):
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
