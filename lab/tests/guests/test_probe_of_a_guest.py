"""nodegate's probe over SSH on a guest: its facts are what the guest's own kernel says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.guests.cables import flap
from lab.guests.facts import facts
from lab.guests.guest import Guest
from lab.guests.guests import Guests
from nodegate.facts import NodeFacts
from nodegate.tools import lspci


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with Guests(1) as lab:
        yield lab.guests[0]


@pytest.fixture(scope="module")
def found(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> NodeFacts:
    """What the probe read."""
    return facts(guest, tmp_path_factory.mktemp("facts"))


def test_soft_roce_devices_are_read_from_the_kernels_own_sysfs(found: NodeFacts) -> None:
    rdma = found.rdma
    assert [device.name for device in rdma.devices] == ["rxe0", "rxe1"]
    for place, port in enumerate(rdma.ports):
        assert (port.state, port.phys_state, port.link_layer) == ("ACTIVE", "LinkUp", "Ethernet")
        assert port.netdev == f"rail{place}"
        assert "RoCE v2" in {kind for _, kind in port.gids.values()}
        assert f"0000:0000:0000:0000:0000:ffff:0a4d:0{place}01" in {gid for gid, _ in port.gids.values()}
        assert isinstance(port.hw_counters["sent_pkts"], int)
    assert {device.address for device in rdma.devices} == {"0000:01:00.0", "0000:02:00.0"}


def test_pcie_is_what_lspci_says(guest: Guest, found: NodeFacts) -> None:
    said = {device.address: device for device in lspci.parse(guest.run("lspci -D -nn -vv")).devices}
    read = {device.address: device for device in found.pci.devices}
    assert {"0000:01:00.0", "0000:02:00.0"} <= read.keys() <= said.keys()
    for address, mine in read.items():
        theirs = said[address]
        assert (mine.vendor, mine.device) == (theirs.vendor, theirs.device)
        if isinstance(theirs.width, int):
            assert (mine.width, mine.speed_gts) == (theirs.width, theirs.speed_gts)
    assert isinstance(read["0000:01:00.0"].width, int), "the rails have PCIe links"


def test_kernel_and_kernel_log_are_the_guests_own(guest: Guest, found: NodeFacts) -> None:
    assert found.host.kernel_release == guest.run("uname -r").strip() != os.uname().release
    assert [line.text for line in found.kernel_log.lines if "infiniband rxe0: added rail0" in line.text]


def test_a_link_flap_is_seen_in_the_kernel_log_and_the_counters(guest: Guest, found: NodeFacts, tmp_path: Path) -> None:
    flap(guest, 1)
    after = facts(guest, tmp_path)
    changes = [each.netdevs["rail1"].carrier_changes for each in (found, after)]
    assert isinstance(changes[0], int)
    assert changes[1] == changes[0] + 2
    said = [line.text for line in after.kernel_log.lines]
    assert [text for text in said if "rxe1: set down" in text]
    assert [text for text in said if "rxe1: set active" in text]
