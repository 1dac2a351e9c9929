"""The part that a kernel line names: which sort of part it is, and that all findings give it one name."""

import pytest

from nodegate.records import part
from nodegate.records.part import Kind, Parts, from_kernel, pci_address

GPU = part.gpu(3, address="0000:3d:00.0", serial="1650003000003")
RAIL = part.nic("mlx5_2", address="0000:3a:00.0", netdev="ibs2")
PLAIN = part.nic(address="0000:03:00.0", netdev="eno1")
PARTS = Parts((GPU, RAIL, PLAIN, part.bridge("0000:17:02.0")))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3D:00.0", "0000:3d:00.0"),
        ("0000:3d:00", "0000:3d:00.0"),
        ("3d:00.0", "0000:3d:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("jfsmount:136986", "jfsmount:136986"),  # a process and its id
        ("192.0.2.16:6789", "192.0.2.16:6789"),
        ("", ""),
    ],
)
def test_only_a_pci_address_is_spelled_as_one(text, address):
    assert pci_address(text) == address


@pytest.mark.parametrize(
    ("kind", "device", "label"),
    [
        ("GPU", "0000:3D:00", GPU.label),
        ("GPU", "", "driver"),
        ("PCIe device", "3d:00.0", GPU.label),
        ("PCIe device", "0000:17:02.0", "bridge 0000:17:02.0"),
        ("PCIe device", "0000:e1:00.0", "PCIe device 0000:e1:00.0"),
        ("PCIe device", "", "PCIe device"),
        ("NIC", "0000:3a:00.0 ibp58s0", RAIL.label),
        ("NIC", "mlx5_2", RAIL.label),
        ("NIC", "ibs2", RAIL.label),
        ("NIC", "eno1", "eno1 (0000:03:00.0)"),
        ("NIC", "", "NIC"),
        ("NVMe disk", "nvme2n1p1", "disk nvme2"),
        ("memory", "", "memory"),
        ("memory module", "MC0", "memory module MC0"),
        ("CPU", "41", "CPU 41"),
        ("process", "jfsmount:136986", "process jfsmount:136986"),
        ("file server", "192.0.2.16", "file server 192.0.2.16"),
    ],
)
def test_a_line_names_the_part_as_every_finding_does(kind, device, label):
    assert PARTS.complete(from_kernel(kind, device)).label == label


def test_an_xid_is_never_put_on_a_nic_that_has_the_address():
    assert PARTS.complete(from_kernel("GPU", "0000:3a:00.0")).kind is Kind.GPU
