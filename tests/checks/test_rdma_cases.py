"""What the RDMA checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

import copy

from fleet.changes import changes
from fleet.machine import Machine
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, SKIP, WARN, asserting, of, unread
from support.judging import Case, both, fails, plant

from nodegate.records.finding import Limit

L40S = Machine.pcie_l40s
ANY_RATE, NDR = {"rdma.rate_gbps": None}, {"rdma.rate_gbps": 400}
EIGHT = {"rdma.rails": Limit(8, "ports", "the site's own")}
MOST = {"rdma.rails": Limit(7, "ports", "the site's own")}


def without(adapter):
    return lambda machine: machine.sections["infiniband"].pop(adapter)


def down(machine):
    machine.set_port("mlx5_4", 1, "state", "1: DOWN")
    machine.set_port("mlx5_4", 1, "phys_state", "2: Polling")
    machine.set_port("mlx5_4", 1, "rate", "10 Gb/sec (4X SDR)")


def second_ports_unplugged(machine):
    """Boards with two ports of which only the first has a cable: a device mlx5_<n+20> at function 1 that is down."""
    adapters = machine.sections["infiniband"]
    for number in range(8):
        twin = copy.deepcopy(adapters[f"mlx5_{number}"])
        twin["pci"] = twin["pci"].replace(".0", ".1")
        twin["ports"]["1"] |= {"state": "1: DOWN", "phys_state": "3: Disabled", "rate": "10 Gb/sec (4X SDR)"}
        adapters[f"mlx5_{number + 20}"] = twin


@changes
def gids(machine, rail, types):
    machine.set_port(f"mlx5_{rail}", 1, "gids", dict.fromkeys(types, "fe80:0000:0000:0000:a088:c203:0001:4001"))
    machine.set_port(f"mlx5_{rail}", 1, "gid_types", types)


def no_network_device_at_all(machine):
    for number in range(4):
        machine.set_port(f"mlx5_{number}", 1, "netdev", "")


def no_network_device_and_all_down(machine):
    no_network_device_at_all(machine)
    for number in range(4):
        machine.set_port(f"mlx5_{number}", 1, "state", "1: DOWN")


def rate(adapter, text):
    return plant.set_port(adapter, 1, "rate", text)


def every_rail_unlike(machine):
    """Eight rails in service: two each of four speeds, lanes and releases of the firmware."""
    speeds = ("400 Gb/sec (4X NDR)", "200 Gb/sec (2X NDR)", "100 Gb/sec (1X NDR)", "150 Gb/sec (3X HDR)")
    for number in range(8):
        machine.set_port(f"mlx5_{number}", 1, "rate", speeds[number // 2])
        machine.set_adapter(f"mlx5_{number}", "fw_ver", f"28.4{number // 2}.1000")


no_rdma_driver = fails("infiniband", "missing", "/sys/class/infiniband")


def no_nic_at_all(machine):
    no_rdma_driver(machine)
    machine.sections["pci"] = [device for device in machine.sections["pci"] if device["vendor"] != "0x15b3"]


ONE_LANE = rate("mlx5_2", "50 Gb/sec (1X HDR)")
BOND = rate("mlx5_bond_0", "100 Gb/sec (2X HDR)")
DOWN_UNKNOWN = both(plant.set_port("mlx5_1", 1, "netdev", ""), plant.set_port("mlx5_1", 1, "state", "1: DOWN"))
CASES = of("rdma.rails")(
    Case("all eight", PASS, limits=EIGHT),
    Case("one adapter is gone", FAIL, without("mlx5_4"), limits=EIGHT),
    Case("one port is down", FAIL, down, limits=EIGHT),
    Case("the inventory says how many", FAIL, without("mlx5_4"), expected={"nics": 8}),
    Case("a slow rail is a rail", PASS, rate("mlx5_4", "200 Gb/sec (4X HDR)"), limits=EIGHT),
    Case("healthy: the management bond does not count", PASS, without("mlx5_bond_0"), limits=EIGHT),
    Case("healthy: second ports without a cable", PASS, second_ports_unplugged, limits=EIGHT),
    Case("more than the limit", WARN, limits={"rdma.rails": Limit(4, "ports", "the site's own")}),
    Case("NICs without an RDMA driver", ERROR, no_rdma_driver, limits=EIGHT),
    Case("no NIC at all", FAIL, no_nic_at_all, limits=EIGHT),
    Case("without a limit", NOT_JUDGED, machine=L40S),
    Case("adapters were not read", ERROR, fails("infiniband", "timeout", "5 s")),
)
CASES += of("rdma.port_state")(
    Case("one port is down", FAIL, down),
    Case("an adapter lists no port", ERROR, plant.set_adapter("mlx5_4", "ports", {})),
    Case("no subnet manager", FAIL, plant.set_port("mlx5_4", 1, "state", "2: INIT")),
    Case("the link recovers from errors", FAIL, plant.set_port("mlx5_4", 1, "phys_state", "6: LinkErrorRecovery")),
    Case("healthy: the management bond is down", PASS, plant.set_port("mlx5_bond_0", 1, "state", "1: DOWN")),
    Case("healthy: a port beyond the platform's number is not plugged in", PASS, down, limits=MOST),
    Case("healthy: second ports without a cable", PASS, second_ports_unplugged),
    Case("the state was not read", ERROR, plant.set_port("mlx5_4", 1, "state", unread("failed", "EIO"))),
    Case("no adapter", SKIP, no_nic_at_all),
)
CASES += of("rdma.port_rate")(
    Case("all at the rate", PASS, limits=NDR),
    Case("one fell back to HDR", FAIL, rate("mlx5_4", "200 Gb/sec (4X HDR)"), limits=NDR),
    Case("one differs from its peers, without a limit", FAIL, ONE_LANE, machine=L40S, limits=ANY_RATE),
    Case("healthy: the bond of two lanes has another rate", PASS, BOND, limits=NDR),
    Case("the rate was not read", ERROR, rate("mlx5_2", "fast"), limits=NDR),
    Case("no adapter at all", SKIP, no_nic_at_all, limits=ANY_RATE),
    Case("every rail has another rate, and no limit", NOT_JUDGED, every_rail_unlike, limits=ANY_RATE),
)
CASES += of("rdma.port_lanes")(
    Case("one lane of four", FAIL, rate("mlx5_4", "100 Gb/sec (1X NDR)")),
    Case("the lanes were not read", ERROR, rate("mlx5_4", "100 Gb/sec")),
    Case("no adapter at all", SKIP, no_nic_at_all),
    Case("every rail has other lanes", NOT_JUDGED, every_rail_unlike, limits=ANY_RATE),
)
CASES += of("rdma.firmware")(
    Case("one is old", WARN, plant.set_adapter("mlx5_2", "fw_ver", "28.39.1002")),
    Case("one was not read", ERROR, plant.set_adapter("mlx5_2", "fw_ver", unread("failed", "EIO"))),
    Case("no adapter at all", SKIP, no_nic_at_all),
    Case("every rail has another firmware", NOT_JUDGED, every_rail_unlike, limits=ANY_RATE),
)
CASES += of("rdma.gids", machine=L40S)(
    Case("RoCE v2", PASS),
    Case("the network device of one is gone", ERROR, gids(1, {})),
    Case("RoCE v1 only", WARN, gids(1, {"0": "IB/RoCE v1"})),
    Case("only its link-local address", PASS, gids(1, {"1": "RoCE v2"})),
    Case("the type of one was not read", ERROR, gids(1, {"0": ""})),
    Case("none is in service", SKIP, no_network_device_and_all_down),
)
CASES += of("rdma.mtu")(
    Case("all alike", PASS, machine=L40S),
    Case("one is small", WARN, plant.set_netdev("ens2np0", "mtu", "1500"), machine=L40S),
    Case("one was not read", ERROR, plant.set_netdev("ens2np0", "mtu", unread("failed", "EIO")), machine=L40S),
    Case("one whose network device is not known", ERROR, plant.set_port("mlx5_1", 1, "netdev", ""), machine=L40S),
    Case("one is a bond", NOT_JUDGED, plant.set_port("mlx5_1", 1, "netdev", "bond0"), machine=L40S),
    Case("one is down, its network device not known: rdma.port_state says so", PASS, DOWN_UNKNOWN, machine=L40S),
    Case("no network device is known", ERROR, no_network_device_at_all, machine=L40S),
    Case("none is in service", SKIP, no_network_device_and_all_down, machine=L40S),
)


test_the_check_says = asserting(CASES)
