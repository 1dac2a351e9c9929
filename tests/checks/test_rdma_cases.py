"""What the RDMA checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.judging import Case, assert_case

from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
L40S = Machine.pcie_l40s
EIGHT = {"rdma.rails": Limit(8, "ports", "the site's own")}
MOST = {"rdma.rails": Limit(7, "ports", "the site's own")}


def without(adapter: str) -> Callable[[Machine], None]:
    return lambda machine: machine.sections["infiniband"].pop(adapter)


def down(machine: Machine) -> None:
    machine.set_port("mlx5_4", 1, "state", "1: DOWN")
    machine.set_port("mlx5_4", 1, "phys_state", "2: Polling")
    machine.set_port("mlx5_4", 1, "rate", "10 Gb/sec (4X SDR)")


def second_ports_unplugged(machine: Machine) -> None:
    """Boards with two ports of which only the first has a cable: a device mlx5_<n+20> at function 1 that is down."""
    adapters = machine.sections["infiniband"]
    for number in range(8):
        twin = copy.deepcopy(adapters[f"mlx5_{number}"])
        twin["pci"] = twin["pci"].replace(".0", ".1")
        twin["ports"]["1"] |= {"state": "1: DOWN", "phys_state": "3: Disabled", "rate": "10 Gb/sec (4X SDR)"}
        adapters[f"mlx5_{number + 20}"] = twin


def roce_port_without_driver_and_link(machine: Machine) -> None:
    machine.set_port("mlx5_1", 1, "netdev", "")
    machine.set_port("mlx5_1", 1, "state", "1: DOWN")


def no_network_device_at_all(machine: Machine) -> None:
    for number in range(4):
        machine.set_port(f"mlx5_{number}", 1, "netdev", "")


def no_network_device_and_all_down(machine: Machine) -> None:
    no_network_device_at_all(machine)
    for number in range(4):
        machine.set_port(f"mlx5_{number}", 1, "state", "1: DOWN")


def rate(adapter: str, text: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set_port(adapter, 1, "rate", text)


def every_rail_unlike(machine: Machine) -> None:
    """Eight rails in service: two each of four speeds, lanes and releases of the firmware."""
    speeds = ("400 Gb/sec (4X NDR)", "200 Gb/sec (2X NDR)", "100 Gb/sec (1X NDR)", "150 Gb/sec (3X HDR)")
    for number in range(8):
        machine.set_port(f"mlx5_{number}", 1, "rate", speeds[number // 2])
        machine.set_adapter(f"mlx5_{number}", "fw_ver", f"28.4{number // 2}.1000")


def no_rdma_driver(machine: Machine) -> None:
    machine.section_fails("infiniband", "missing", "/sys/class/infiniband")


def no_nic_at_all(machine: Machine) -> None:
    no_rdma_driver(machine)
    machine.sections["pci"] = [device for device in machine.sections["pci"] if device["vendor"] != "0x15b3"]


CASES = (
    Case("all eight", "rdma.rails", PASS, "RDMA: rails in service 8 ports", limits=EIGHT),
    Case(
        "one adapter is gone",
        "rdma.rails",
        FAIL,
        (
            "RDMA: rails in service 7 ports, expected 8 ports (the site's own) - look for the "
            "missing NIC in lspci and the kernel log"
        ),
        change=without("mlx5_4"),
        limits=EIGHT,
    ),
    Case(
        "one port is down",
        "rdma.rails",
        FAIL,
        (
            "RDMA: rails in service 7 ports, expected 8 ports (the site's own) - look for the "
            "missing NIC in lspci and the kernel log"
        ),
        change=down,
        limits=EIGHT,
    ),
    Case(
        "the inventory says how many",
        "rdma.rails",
        FAIL,
        (
            "RDMA: rails in service 7 ports, expected 8 ports (inventory hosts.yaml:3) - look for "
            "the missing NIC in lspci and the kernel log"
        ),
        change=without("mlx5_4"),
        expected={"nics": 8},
    ),
    Case(
        "a slow rail is a rail",
        "rdma.rails",
        PASS,
        "RDMA: rails in service 8 ports",
        change=rate("mlx5_4", "200 Gb/sec (4X HDR)"),
        limits=EIGHT,
    ),
    Case(
        "healthy: the management bond does not count",
        "rdma.rails",
        PASS,
        "RDMA: rails in service 8 ports",
        change=without("mlx5_bond_0"),
        limits=EIGHT,
    ),
    Case(
        "healthy: second ports without a cable",
        "rdma.rails",
        PASS,
        "RDMA: rails in service 8 ports",
        change=second_ports_unplugged,
        limits=EIGHT,
    ),
    Case(
        "more than the limit",
        "rdma.rails",
        WARN,
        (
            "RDMA: rails in service 8 ports, expected 4 ports (the site's own) - set rdma.rails or "
            "rdma.link_layer for this node"
        ),
        limits={"rdma.rails": Limit(4, "ports", "the site's own")},
    ),
    Case(
        "NICs without an RDMA driver",
        "rdma.rails",
        ERROR,
        "node: 10 RDMA NICs on PCIe, but no RDMA device - load the RDMA driver (mlx5_ib)",
        change=no_rdma_driver,
        limits=EIGHT,
    ),
    Case(
        "no NIC at all",
        "rdma.rails",
        FAIL,
        (
            "RDMA: rails in service 0 ports, expected 8 ports (the site's own) - look for the "
            "missing NIC in lspci and the kernel log"
        ),
        change=no_nic_at_all,
        limits=EIGHT,
    ),
    Case(
        "without a limit",
        "rdma.rails",
        NOT_JUDGED,
        "node: no limit rdma.rails for platform l40s",
        machine=L40S,
    ),
    Case(
        "adapters were not read",
        "rdma.rails",
        ERROR,
        (
            "node: infiniband could not be read: timeout: 5 s - the node is slow: check its load "
            "and kernel log, then run again"
        ),
        change=lambda machine: machine.section_fails("infiniband", "timeout", "5 s"),
    ),
    Case(
        "all active",
        "rdma.port_state",
        PASS,
        (
            "8 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_4 port 1, "
            "mlx5_5 port 1, mlx5_6 port 1, mlx5_7 port 1: physical state LinkUp"
        ),
    ),
    Case(
        "one port is down",
        "rdma.port_state",
        FAIL,
        (
            "mlx5_4 port 1 (0000:9a:00.0, ibs4): state DOWN, expected ACTIVE; physical state Polling "
            "- reseat or replace the cable or transceiver; look at the switch port"
        ),
        change=down,
    ),
    Case(
        "no subnet manager",
        "rdma.port_state",
        FAIL,
        (
            "mlx5_4 port 1 (0000:9a:00.0, ibs4): state INIT, expected ACTIVE; the link is up, but no "
            "subnet manager has configured it - start the subnet manager, or find out why it does "
            "not reach this port"
        ),
        change=lambda machine: machine.set_port("mlx5_4", 1, "state", "2: INIT"),
    ),
    Case(
        "the link recovers from errors",
        "rdma.port_state",
        FAIL,
        (
            "mlx5_4 port 1 (0000:9a:00.0, ibs4): physical state LinkErrorRecovery, expected LinkUp - "
            "reseat or replace the cable or transceiver; look at the switch port"
        ),
        change=lambda machine: machine.set_port("mlx5_4", 1, "phys_state", "6: LinkErrorRecovery"),
    ),
    Case(
        "healthy: the management bond is down",
        "rdma.port_state",
        PASS,
        (
            "8 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_4 port 1, "
            "mlx5_5 port 1, mlx5_6 port 1, mlx5_7 port 1: physical state LinkUp"
        ),
        change=lambda machine: machine.set_port("mlx5_bond_0", 1, "state", "1: DOWN"),
    ),
    Case(
        "healthy: a port beyond the platform's number is not plugged in",
        "rdma.port_state",
        PASS,
        (
            "7 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_5 port 1, "
            "mlx5_6 port 1, mlx5_7 port 1: physical state LinkUp"
        ),
        change=down,
        limits=MOST,
    ),
    Case(
        "healthy: second ports without a cable",
        "rdma.port_state",
        PASS,
        (
            "8 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_4 port 1, "
            "mlx5_5 port 1, mlx5_6 port 1, mlx5_7 port 1: physical state LinkUp"
        ),
        change=second_ports_unplugged,
    ),
    Case(
        "the state was not read",
        "rdma.port_state",
        ERROR,
        (
            "mlx5_4 port 1 (0000:9a:00.0, ibs4): could not read state: failed: EIO - see the "
            "evidence file for what the node answered"
        ),
        change=lambda machine: machine.set_port("mlx5_4", 1, "state", {"why": "failed", "detail": "EIO"}),
    ),
    Case("no adapter", "rdma.port_state", SKIP, "node: no RDMA adapter", change=no_nic_at_all),
    Case(
        "all at the rate",
        "rdma.port_rate",
        PASS,
        (
            "8 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_4 port 1, "
            "mlx5_5 port 1, mlx5_6 port 1, mlx5_7 port 1: rate 400 Gb/s"
        ),
        limits={"rdma.rate_gbps": 400},
    ),
    Case(
        "one fell back to HDR",
        "rdma.port_rate",
        FAIL,
        (
            "mlx5_4 port 1 (0000:9a:00.0, ibs4): rate 200 Gb/s, expected at least 400 Gb/s (the "
            "site's own) - reseat or replace the cable or transceiver; look at the switch port"
        ),
        change=rate("mlx5_4", "200 Gb/sec (4X HDR)"),
        limits={"rdma.rate_gbps": 400},
    ),
    Case(
        "one differs from its peers, without a limit",
        "rdma.port_rate",
        FAIL,
        (
            "mlx5_2 port 1 (0000:9c:00.0, ens3np0): rate 50 Gb/s, expected at least 200 Gb/s (3 of 4 "
            "rails of this node) - reseat or replace the cable or transceiver; look at the switch "
            "port"
        ),
        change=rate("mlx5_2", "50 Gb/sec (1X HDR)"),
        machine=L40S,
        limits={"rdma.rate_gbps": None},
    ),
    Case(
        "healthy: the bond of two lanes has another rate",
        "rdma.port_rate",
        PASS,
        (
            "8 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_4 port 1, "
            "mlx5_5 port 1, mlx5_6 port 1, mlx5_7 port 1: rate 400 Gb/s"
        ),
        change=rate("mlx5_bond_0", "100 Gb/sec (2X HDR)"),
        limits={"rdma.rate_gbps": 400},
    ),
    Case(
        "the rate was not read",
        "rdma.port_rate",
        ERROR,
        (
            "mlx5_2 port 1 (0000:3a:00.0, ibs2): could not read rate: failed: expected a rate in "
            "Gb/sec, the node sent fast - see the evidence file for what the node answered"
        ),
        change=rate("mlx5_2", "fast"),
        limits={"rdma.rate_gbps": 400},
    ),
    Case(
        "no adapter at all",
        "rdma.port_rate",
        SKIP,
        "node: no rail is in service: see rdma.rails and rdma.port_state",
        change=no_nic_at_all,
        limits={"rdma.rate_gbps": None},
    ),
    Case(
        "every rail has another rate, and no limit",
        "rdma.port_rate",
        NOT_JUDGED,
        "node: no limit rdma.rate_gbps, and no rate that most rails of this node have",
        change=every_rail_unlike,
        limits={"rdma.rate_gbps": None},
    ),
    Case(
        "all alike",
        "rdma.port_lanes",
        PASS,
        (
            "8 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_4 port 1, "
            "mlx5_5 port 1, mlx5_6 port 1, mlx5_7 port 1: link width 4 lanes"
        ),
    ),
    Case(
        "one lane of four",
        "rdma.port_lanes",
        FAIL,
        (
            "mlx5_4 port 1 (0000:9a:00.0, ibs4): link width 1 lanes, expected at least 4 lanes (7 of "
            "8 rails of this node) - reseat or replace the cable or transceiver; look at the switch "
            "port"
        ),
        change=rate("mlx5_4", "100 Gb/sec (1X NDR)"),
    ),
    Case(
        "the lanes were not read",
        "rdma.port_lanes",
        ERROR,
        (
            "mlx5_4 port 1 (0000:9a:00.0, ibs4): could not read link width: failed: expected a rate "
            "with its lanes, the node sent 100 Gb/sec - see the evidence file for what the node "
            "answered"
        ),
        change=rate("mlx5_4", "100 Gb/sec"),
    ),
    Case(
        "no adapter at all",
        "rdma.port_lanes",
        SKIP,
        "node: no rail is in service: see rdma.rails and rdma.port_state",
        change=no_nic_at_all,
    ),
    Case(
        "every rail has other lanes",
        "rdma.port_lanes",
        NOT_JUDGED,
        "node: no lane count that most rails of this node share",
        change=every_rail_unlike,
        limits={"rdma.rate_gbps": None},
    ),
    Case(
        "all alike",
        "rdma.firmware",
        PASS,
        ("8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: firmware 28.41.1000"),
    ),
    Case(
        "one is old",
        "rdma.firmware",
        WARN,
        (
            "mlx5_2 (0000:3a:00.0, ibs2): firmware 28.39.1002, expected 28.41.1000 (7 of 8 rails of "
            "this node) - update the NIC's firmware"
        ),
        change=lambda machine: machine.set_adapter("mlx5_2", "fw_ver", "28.39.1002"),
    ),
    Case(
        "one was not read",
        "rdma.firmware",
        ERROR,
        (
            "mlx5_2 (0000:3a:00.0, ibs2): could not read firmware: failed: EIO - see the evidence "
            "file for what the node answered"
        ),
        change=lambda machine: machine.set_adapter("mlx5_2", "fw_ver", {"why": "failed", "detail": "EIO"}),
    ),
    Case(
        "no adapter at all",
        "rdma.firmware",
        SKIP,
        "node: no RDMA adapter",
        change=no_nic_at_all,
    ),
    Case(
        "every rail has another firmware",
        "rdma.firmware",
        NOT_JUDGED,
        "node: no firmware that most rails of this node have",
        change=every_rail_unlike,
        limits={"rdma.rate_gbps": None},
    ),
    Case(
        "all alike",
        "rdma.mtu",
        PASS,
        "4 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1: MTU 9000 bytes",
        machine=L40S,
    ),
    Case(
        "one is small",
        "rdma.mtu",
        WARN,
        (
            "mlx5_1 port 1 (0000:3c:00.0, ens2np0): MTU 1500 bytes, expected 9000 bytes (3 of 4 "
            "rails of this node) - set the MTU of all rails alike, here and on the switch"
        ),
        change=lambda machine: machine.set_netdev("ens2np0", "mtu", "1500"),
        machine=L40S,
    ),
    Case(
        "one was not read",
        "rdma.mtu",
        ERROR,
        (
            "mlx5_1 port 1 (0000:3c:00.0, ens2np0): could not read MTU: failed: EIO - see the "
            "evidence file for what the node answered"
        ),
        change=lambda machine: machine.set_netdev("ens2np0", "mtu", {"why": "failed", "detail": "EIO"}),
        machine=L40S,
    ),
    Case(
        "one whose network device is not known",
        "rdma.mtu",
        ERROR,
        (
            "mlx5_1 port 1 (0000:3c:00.0, ens2np0): could not read MTU: the network device of this port is not known - "
            "ls /sys/class/infiniband/mlx5_1/device/net on the node; load the NIC's network driver"
        ),
        change=lambda machine: machine.set_port("mlx5_1", 1, "netdev", ""),
        machine=L40S,
    ),
    Case(
        "one is a bond",
        "rdma.mtu",
        NOT_JUDGED,
        (
            "mlx5_1 port 1 (0000:3c:00.0, ens2np0): MTU not judged: bond0 is a bond or a virtual device, which is "
            "not read - compare it manually with the other rails: ip link show bond0"
        ),
        change=lambda machine: machine.set_port("mlx5_1", 1, "netdev", "bond0"),
        machine=L40S,
    ),
    Case(
        "one is down, its network device not known: rdma.port_state says so",
        "rdma.mtu",
        PASS,
        "3 alike: mlx5_0 port 1, mlx5_2 port 1, mlx5_3 port 1: MTU 9000 bytes",
        change=roce_port_without_driver_and_link,
        machine=L40S,
    ),
    Case(
        "no network device is known",
        "rdma.mtu",
        ERROR,
        (
            "mlx5_0 port 1 (0000:1a:00.0, ens1np0): could not read MTU: the network device of this port is not known - "
            "ls /sys/class/infiniband/mlx5_0/device/net on the node; load the NIC's network driver (and 3 more)"
        ),
        change=no_network_device_at_all,
        machine=L40S,
    ),
    Case(
        "none is in service",
        "rdma.mtu",
        SKIP,
        "node: no rail is in service: see rdma.rails and rdma.port_state",
        change=no_network_device_and_all_down,
        machine=L40S,
    ),
    Case("InfiniBand has none to judge", "rdma.mtu", SKIP, "node: no RoCE rail"),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
