"""lspci: widths and speeds as sysfs would give them."""

from __future__ import annotations

import pytest
from support.lspci import Link, parse, parse_link
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.unknown import Unknown, Why


def test_a_healthy_machine_with_its_narrow_management_ports():
    pci = parse(recording("lspci", "vv-healthy.txt"))
    gpu, nic, switch = pci["0000:19:00.0"], pci["0000:18:00.0"], pci["0000:6d:00.0"]
    assert (gpu.is_gpu, nic.is_nic, switch.is_nvswitch) == (True, True, True)
    assert (gpu.width, gpu.width_max, gpu.speed_gts, gpu.speed_max_gts) == (16, 16, 32.0, 32.0)
    assert (nic.width, nic.speed_gts) == (16, 32.0)  # "Port #1," stands inside LnkSta
    assert (switch.width, switch.width_max) == (2, 2)
    assert (pci["0000:17:04.0"].speed_gts, pci["0000:17:04.0"].speed_max_gts) == (16.0, 32.0)
    assert (pci["0000:03:00.0"].width, pci["0000:03:00.0"].width_max) == (1, 2)
    assert (gpu.driver, gpu.numa_node, gpu.pci_id) == ("nvidia", 0, "10de:2330")


def test_downgraded_links_and_a_device_that_is_gone():
    pci = parse(recording("lspci", "vv-faulty.txt"))
    gpu, nic, gone = pci["0000:19:00.0"], pci["0000:18:00.0"], pci["0000:3b:00.0"]
    assert (gpu.width, gpu.speed_gts, gpu.answers) == (2, 8.0, True)
    assert (nic.width, nic.speed_gts) == (None, None)
    assert gone.answers is False
    assert isinstance(gone.width, Unknown)


def test_without_root_the_link_is_unknown():
    (gpu,) = parse(recording("lspci", "vv-not-root.txt")).devices
    assert isinstance(gpu.width, Unknown)
    assert gpu.width.why is Why.DENIED


def test_the_list_with_numbers():
    pci = parse(recording("lspci", "nn-healthy.txt"))
    assert [(device.address, device.pci_id) for device in pci.gpus] == [("0001:00:00.0", "10de:2330")]
    assert [device.pci_id for device in pci.nvswitches] == ["10de:22a3"]
    assert [device.pci_id for device in pci.nics] == ["15b3:1021"]


def test_a_line_that_is_cut_off_is_quoted():
    with pytest.raises(CannotMeasure, match=r"LnkSta:.Speed 32GT/s \(ok\), Width"):
        parse(recording("lspci", "vv-truncated.txt"))


def test_output_that_ends_before_the_status():
    (gpu,) = parse(recording("lspci", "vv-truncated-before-status.txt")).devices
    assert gpu.width_max == 16
    assert gpu.width == Unknown(Why.FAILED, "the output is cut off between LnkCap and LnkSta")


def test_empty_output_says_nothing():
    with pytest.raises(CannotMeasure, match="lspci is empty"):
        parse("")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\t\tLnkSta:\tSpeed 16GT/s (ok), Width x16 (ok)", Link(16.0, 16, downgraded=False)),
        ("      8           LnkSta: Speed 2.5GT/s (downgraded), Width x8", Link(2.5, 8, downgraded=True)),
        ("LnkSta: Speed unknown, Width x63, TrErr- Train-", Link(None, None, downgraded=False)),
    ],
)
def test_one_link_line(line, expected):
    assert parse_link(line) == expected


@pytest.mark.parametrize(
    "line", ["LnkSta: Speed 16GT/s (ok), Width 2 (ok)", "LnkSta: Speed 16GT/s (error), Width x2 (ok)", "Speed 16GT/s"]
)
def test_one_malformed_link_line(line):
    with pytest.raises(CannotMeasure, match="Speed 16GT/s"):
        parse_link(line)
