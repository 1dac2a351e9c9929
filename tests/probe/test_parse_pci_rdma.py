"""Sections `pci`, `infiniband` and `netdev`."""

import pytest
from fleet.machine import Machine, facts_of

from nodegate.errors import CannotMeasure
from nodegate.probe import pci, rdma
from nodegate.unknown import Unknown, Why

# PCIe


def test_a_healthy_tree():
    machine = Machine.hgx_h100()
    tree = facts_of(machine).pci
    assert [len(found) for found in (tree.gpus, tree.nvswitches, tree.nics)] == [8, 4, 11]
    gpu = tree[machine.gpu_address(0)]
    assert (gpu.width, gpu.width_max, gpu.speed_gts, gpu.speed_max_gts) == (16, 16, 32.0, 32.0)
    assert (gpu.pci_id, gpu.driver, gpu.numa_node) == ("10de:2330", "nvidia", 0)
    assert [bridge.address for bridge in tree.path(gpu)] == ["0000:17:01.0", "0000:16:00.0", "0000:15:01.0"]
    assert (gpu.answers, gpu.aer.correctable) == (True, 0)


def test_a_device_off_the_bus_does_not_answer():
    machine = Machine.hgx_h100()
    machine.lose_gpu(3)
    gpu = facts_of(machine).pci[machine.gpu_address(3)]
    assert (gpu.answers, gpu.width, gpu.speed_gts, gpu.width_max) == (False, None, None, None)


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


def test_correctable_errors_are_the_kernels_own_total():
    machine = Machine.hgx_h100()
    machine.count_correctable_errors(machine.nic_address(2), 1413)
    machine.set_pci(machine.nic_address(3), "aer_dev_correctable", {"why": "missing", "detail": "no AER"})
    machine.set_pci(machine.nic_address(4), "aer_dev_correctable", "RxErr 0")
    tree = facts_of(machine).pci
    assert tree[machine.nic_address(2)].aer.correctable == 1413
    assert tree[machine.nic_address(3)].aer.correctable == Unknown(Why.MISSING, "no AER")
    assert isinstance(tree[machine.nic_address(4)].aer.correctable, Unknown)


# RDMA


def test_healthy_rails_and_the_management_bond():
    adapters = facts_of(Machine.hgx_h100()).rdma
    assert [device.name for device in adapters.devices] == [*(f"mlx5_{number}" for number in range(8)), "mlx5_bond_0"]
    rail, saturated, bond = adapters.ports[0], adapters.ports[1], adapters.ports[8]
    assert (rail.state, rail.phys_state, rail.rate_gbps, rail.lanes) == ("ACTIVE", "LinkUp", 400.0, 4)
    assert (rail.link_layer, rail.sm_lid) == ("InfiniBand", 1)
    assert (saturated.counters["link_downed"], rail.counters["excessive_buffer_overrun_errors"]) == (251, 13)
    assert (bond.rate_gbps, bond.lanes, bond.link_layer, bond.netdev) == (200.0, 2, "Ethernet", "bond0")
    assert bond.gids[3] == ("0000:0000:0000:0000:0000:ffff:0a14:0002", "RoCE v2")


def test_a_port_that_is_down_or_narrow():
    machine = Machine.hgx_h100()
    machine.set_port("mlx5_2", 1, "state", "1: DOWN")
    machine.set_port("mlx5_2", 1, "phys_state", "2: Polling")
    machine.set_port("mlx5_3", 1, "rate", "100 Gb/sec (1X NDR)")
    machine.set_port("mlx5_3", 1, "counters.symbol_error", "N/A (no PMA)")
    ports = facts_of(machine).rdma.ports
    assert (ports[2].state, ports[2].phys_state) == ("DOWN", "Polling")
    assert (ports[3].rate_gbps, ports[3].lanes) == (100.0, 1)
    assert ports[3].counters["symbol_error"] == Unknown(Why.NOT_SUPPORTED, "N/A (no PMA)")


@pytest.mark.parametrize("written", ["", "fast", "400 Gb/s"])
def test_a_rate_that_cannot_be_read_is_unknown(written):
    rate, lanes = rdma.rate_in(written)
    assert isinstance(rate, Unknown)
    assert isinstance(lanes, Unknown)


def test_no_adapter_at_all_is_known_and_an_unreadable_one_is_not():
    assert rdma.parse({}).devices == ()
    with pytest.raises(CannotMeasure, match="RDMA adapter mlx5_0 cannot be read"):
        rdma.parse({"mlx5_0": "?"})
    with pytest.raises(CannotMeasure, match="port x of mlx5_0"):
        rdma.parse({"mlx5_0": {"ports": {"x": {}}}})


def test_network_devices():
    machine = Machine.hgx_h100()
    machine.set_netdev("eno1", "carrier", "0")
    devices = facts_of(machine).netdevs
    assert devices["eno1"].carrier is False
    assert (devices["ens2f0np0"].mtu, devices["ens2f0np0"].address) == (9000, "0000:2a:00.0")
