"""What the RDMA checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.cases import assert_case
from support.judging import Case

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
    Case("all eight", "rdma.rails", PASS, limits=EIGHT),
    Case("one adapter is gone", "rdma.rails", FAIL, change=without("mlx5_4"), limits=EIGHT),
    Case("one port is down", "rdma.rails", FAIL, change=down, limits=EIGHT),
    Case("the inventory says how many", "rdma.rails", FAIL, change=without("mlx5_4"), expected={"nics": 8}),
    Case("a slow rail is a rail", "rdma.rails", PASS, change=rate("mlx5_4", "200 Gb/sec (4X HDR)"), limits=EIGHT),
    Case(
        "healthy: the management bond does not count", "rdma.rails", PASS, change=without("mlx5_bond_0"), limits=EIGHT
    ),
    Case("healthy: second ports without a cable", "rdma.rails", PASS, change=second_ports_unplugged, limits=EIGHT),
    Case("more than the limit", "rdma.rails", WARN, limits={"rdma.rails": Limit(4, "ports", "the site's own")}),
    Case("NICs without an RDMA driver", "rdma.rails", ERROR, change=no_rdma_driver, limits=EIGHT),
    Case("no NIC at all", "rdma.rails", FAIL, change=no_nic_at_all, limits=EIGHT),
    Case("without a limit", "rdma.rails", NOT_JUDGED, machine=L40S),
    Case(
        "adapters were not read",
        "rdma.rails",
        ERROR,
        change=lambda machine: machine.section_fails("infiniband", "timeout", "5 s"),
    ),
    Case("all active", "rdma.port_state", PASS),
    Case("one port is down", "rdma.port_state", FAIL, change=down),
    Case(
        "no subnet manager",
        "rdma.port_state",
        FAIL,
        change=lambda machine: machine.set_port("mlx5_4", 1, "state", "2: INIT"),
    ),
    Case(
        "the link recovers from errors",
        "rdma.port_state",
        FAIL,
        change=lambda machine: machine.set_port("mlx5_4", 1, "phys_state", "6: LinkErrorRecovery"),
    ),
    Case(
        "healthy: the management bond is down",
        "rdma.port_state",
        PASS,
        change=lambda machine: machine.set_port("mlx5_bond_0", 1, "state", "1: DOWN"),
    ),
    Case(
        "healthy: a port beyond the platform's number is not plugged in",
        "rdma.port_state",
        PASS,
        change=down,
        limits=MOST,
    ),
    Case("healthy: second ports without a cable", "rdma.port_state", PASS, change=second_ports_unplugged),
    Case(
        "the state was not read",
        "rdma.port_state",
        ERROR,
        change=lambda machine: machine.set_port("mlx5_4", 1, "state", {"why": "failed", "detail": "EIO"}),
    ),
    Case("no adapter", "rdma.port_state", SKIP, change=no_nic_at_all),
    Case("all at the rate", "rdma.port_rate", PASS, limits={"rdma.rate_gbps": 400}),
    Case(
        "one fell back to HDR",
        "rdma.port_rate",
        FAIL,
        change=rate("mlx5_4", "200 Gb/sec (4X HDR)"),
        limits={"rdma.rate_gbps": 400},
    ),
    Case(
        "one differs from its peers, without a limit",
        "rdma.port_rate",
        FAIL,
        change=rate("mlx5_2", "50 Gb/sec (1X HDR)"),
        machine=L40S,
        limits={"rdma.rate_gbps": None},
    ),
    Case(
        "healthy: the bond of two lanes has another rate",
        "rdma.port_rate",
        PASS,
        change=rate("mlx5_bond_0", "100 Gb/sec (2X HDR)"),
        limits={"rdma.rate_gbps": 400},
    ),
    Case(
        "the rate was not read", "rdma.port_rate", ERROR, change=rate("mlx5_2", "fast"), limits={"rdma.rate_gbps": 400}
    ),
    Case("no adapter at all", "rdma.port_rate", SKIP, change=no_nic_at_all, limits={"rdma.rate_gbps": None}),
    Case(
        "every rail has another rate, and no limit",
        "rdma.port_rate",
        NOT_JUDGED,
        change=every_rail_unlike,
        limits={"rdma.rate_gbps": None},
    ),
    Case("all alike", "rdma.port_lanes", PASS),
    Case("one lane of four", "rdma.port_lanes", FAIL, change=rate("mlx5_4", "100 Gb/sec (1X NDR)")),
    Case("the lanes were not read", "rdma.port_lanes", ERROR, change=rate("mlx5_4", "100 Gb/sec")),
    Case("no adapter at all", "rdma.port_lanes", SKIP, change=no_nic_at_all),
    Case(
        "every rail has other lanes",
        "rdma.port_lanes",
        NOT_JUDGED,
        change=every_rail_unlike,
        limits={"rdma.rate_gbps": None},
    ),
    Case("all alike", "rdma.firmware", PASS),
    Case(
        "one is old",
        "rdma.firmware",
        WARN,
        change=lambda machine: machine.set_adapter("mlx5_2", "fw_ver", "28.39.1002"),
    ),
    Case(
        "one was not read",
        "rdma.firmware",
        ERROR,
        change=lambda machine: machine.set_adapter("mlx5_2", "fw_ver", {"why": "failed", "detail": "EIO"}),
    ),
    Case("no adapter at all", "rdma.firmware", SKIP, change=no_nic_at_all),
    Case(
        "every rail has another firmware",
        "rdma.firmware",
        NOT_JUDGED,
        change=every_rail_unlike,
        limits={"rdma.rate_gbps": None},
    ),
    Case("all alike", "rdma.mtu", PASS, machine=L40S),
    Case(
        "one is small",
        "rdma.mtu",
        WARN,
        change=lambda machine: machine.set_netdev("ens2np0", "mtu", "1500"),
        machine=L40S,
    ),
    Case(
        "one was not read",
        "rdma.mtu",
        ERROR,
        change=lambda machine: machine.set_netdev("ens2np0", "mtu", {"why": "failed", "detail": "EIO"}),
        machine=L40S,
    ),
    Case(
        "one whose network device is not known",
        "rdma.mtu",
        ERROR,
        change=lambda machine: machine.set_port("mlx5_1", 1, "netdev", ""),
        machine=L40S,
    ),
    Case(
        "one is a bond",
        "rdma.mtu",
        NOT_JUDGED,
        change=lambda machine: machine.set_port("mlx5_1", 1, "netdev", "bond0"),
        machine=L40S,
    ),
    Case(
        "one is down, its network device not known: rdma.port_state says so",
        "rdma.mtu",
        PASS,
        change=roce_port_without_driver_and_link,
        machine=L40S,
    ),
    Case("no network device is known", "rdma.mtu", ERROR, change=no_network_device_at_all, machine=L40S),
    Case("none is in service", "rdma.mtu", SKIP, change=no_network_device_and_all_down, machine=L40S),
    Case("InfiniBand has none to judge", "rdma.mtu", SKIP),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
