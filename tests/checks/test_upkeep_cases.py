"""What the checks of the host's upkeep and of the order say of one fault, and of machines that only look faulty."""

import pytest
from fleet.machine import Machine
from support.cases import ERROR, FAIL, FAILED, PASS, SKIP, WARN, asserting, of, unread
from support.judging import Case, both, every_gpu, fails, fleet_of, gpu, judge_one, plant

from nodegate.node import Node

DENIED = unread("denied", "needs root")
DIMM, SLOW = {"mib": 65536, "mts": 4800}, {"mib": 65536, "mts": 4400}
PARTNER, MII = "bonds.bond0.ad_partner_mac", "bonds.bond0.members.eno2.mii_status"
OLD = fails("upkeep", "timeout", "10 s")


def kept(path, value):
    return plant.set("upkeep", path, value)


def no(*keys, value=None):
    return both(*(kept(key, {} if value is None else value) for key in keys))


def virtual(machine):
    machine.set("system", "dmi.product_name", "Virtual Machine")
    machine.sections["upkeep"]["pcie"] = dict.fromkeys(machine.sections["upkeep"]["pcie"], "2817")
    machine.sections["upkeep"]["pcie"][machine.nic_addresses[0]] = "2857"


def payload(word):
    return lambda machine: machine.sections["upkeep"]["pcie"].update({machine.nic_addresses[2]: word})


def wrote(value):
    return lambda machine: machine.sections.update(storage={"/lustre/nodegate": value})


def rail_key(*keys):
    return kept("keys.mlx5_3/1", list(keys))


def shifted(machine):
    """An address was added before the rail's own: its GID moves from 3 to 5."""
    gids = machine.sections["infiniband"]["mlx5_2"]["ports"]["1"]
    gids["gids"] = {("5" if index == "3" else index): gid for index, gid in gids["gids"].items()}
    gids["gid_types"] = {("5" if index == "3" else index): kind for index, kind in gids["gid_types"].items()}


NO_PARTNER = kept(PARTNER, "00:00:00:00:00:00")
INDEX_3 = plant.set("environment", "nccl_conf", "NCCL_IB_GID_INDEX=3")
L40S = {"machine": Machine.pcie_l40s}
CASES = of("upkeep.governor")(
    Case("a few CPUs in another", WARN, kept("governors", {"performance": 222, "powersave": 2})),
    Case("healthy: the firmware owns the clocks", SKIP, no("governors", "preferences")),
    Case("the section was not read", ERROR, OLD),
)
CASES += of("upkeep.max_payload")(
    Case("larger than the bridges take", FAIL, payload("5977")),
    Case("healthy: smaller than the bridges take", PASS, payload("5937")),
    Case("healthy: a virtual machine's bridges are made up", SKIP, virtual),
    Case("without root", SKIP, no("pcie")),
    Case("the section was not read", ERROR, OLD),
)
CASES += of("upkeep.arrays")(
    Case("a member is missing", FAIL, kept("arrays.md1.degraded", "1")),
    Case("inactive", FAIL, kept("arrays.md1.array_state", "inactive")),
    Case("a rebuild", WARN, both(kept("arrays.md1.degraded", "1"), kept("arrays.md1.sync_action", "recover"))),
    Case("healthy: the monthly check runs", PASS, kept("arrays.md1.sync_action", "check")),
    Case("a pool that lost a disk", FAIL, kept("pools", {"tank": "DEGRADED"})),
    Case("healthy: no array", SKIP, no("arrays")),
    Case("the state cannot be read", ERROR, kept("arrays.md1.array_state", DENIED)),
)
CASES += of("upkeep.nvme")(
    Case("one resets", FAIL, kept("nvme.nvme3.state", "resetting")),
    Case("one is hot", WARN, kept("nvme.nvme3.alarm", "1")),
    Case("healthy: no sensor", PASS, kept("nvme.nvme3.alarm", unread("missing", "hwmon"))),
    Case("healthy: no drive", SKIP, no("nvme")),
    Case("the state cannot be read", ERROR, kept("nvme.nvme3.state", DENIED)),
)
CASES += of("upkeep.bonds")(
    Case("one link is down", WARN, kept(MII, "down")),
    Case("the switch does not speak LACP", WARN, NO_PARTNER),
    Case("healthy: active-backup has no partner", PASS, both(kept("bonds.bond0.mode", "active-backup 1"), NO_PARTNER)),
    Case("healthy: no bond", SKIP, no("bonds")),
    Case("a link that cannot be read", ERROR, kept(MII, DENIED)),
)
CASES += of("upkeep.memory_modules")(
    Case("an uncorrected error", FAIL, kept("memory_errors.mc2.ue_count", "1")),
    Case("one slow module", WARN, kept("dimms", [SLOW, *31 * [DIMM]])),
    Case("healthy: corrected errors", PASS, kept("memory_errors.mc2.ce_count", "900")),
    Case("healthy: a virtual machine has no table", SKIP, both(no("memory_errors"), kept("dimms", DENIED))),
    Case("a count that is none", ERROR, kept("memory_errors.mc2.ue_count", "x")),
)
CASES += of("upkeep.partition_keys")(
    Case("a limited member only", WARN, rail_key("0x7fff")),
    Case("healthy: a tenant's key beside a limited one", PASS, rail_key("0x7fff", "0x8012")),
    Case("one rail's could not be read", ERROR, rail_key()),
    Case("none could be read", ERROR, no("keys")),
    Case("the section was not read", ERROR, OLD),
)
WRITES = {"expected": {"mounts": ["/lustre:write=/lustre/nodegate"]}}
GOOD = {"write_s": 0.03, "read_s": 0.01, "same": True}
CASES += of("upkeep.written")(
    Case("no folder is asked for", SKIP),
    Case("written and read back", PASS, wrote(GOOD), **WRITES),
    Case("what came back differs", FAIL, wrote({**GOOD, "same": False}), **WRITES),
    Case("read-only, full or out of quota", FAIL, wrote(unread("failed", "Disk quota exceeded")), **WRITES),
    Case("the server does not answer", FAIL, wrote(unread("hung", "write in /lustre/nodegate")), **WRITES),
    Case("healthy: its owner's alone, and the login is not root", ERROR, wrote(unread("denied", "EACCES")), **WRITES),
    Case("the processors are busy", ERROR, wrote(unread("busy", "4 s")), **WRITES),
    Case("what the node sent is no answer", ERROR, wrote({**GOOD, "same": "yes"}), **WRITES),
    Case("what the node sent has no end", ERROR, wrote({"write_s": 0.03}), **WRITES),
    Case("a probe that did not write", ERROR, **WRITES),
    Case("the section was not read", ERROR, fails("storage", "timeout", "15 s"), **WRITES),
)
CASES += of("rdma.gid_index", **L40S)(
    Case("one place on all rails", PASS),
    Case("a rail with it elsewhere", WARN, shifted),
    Case("NCCL_IB_GID_INDEX fits", PASS, INDEX_3),
    Case("NCCL_IB_GID_INDEX is not there on a rail", FAIL, both(INDEX_3, shifted)),
    Case("NCCL_IB_GID_INDEX is RoCE v1", WARN, plant.set("environment", "nccl_conf", "NCCL_IB_GID_INDEX=2")),
    Case("healthy: NCCL picks by itself", PASS, plant.set("environment", "nccl_conf", "NCCL_IB_GID_INDEX=-1")),
    Case("the adapters were not read", ERROR, fails("infiniband", "timeout", "10 s")),
)


# The order
def no_memory_of_one_module(machine):
    machine.set("system", "meminfo", "MemTotal:       1989012345 kB\nMemAvailable:   1900000000 kB\n")


def demanding(name, verdict, change=lambda machine: None, *, demand=None):
    """What the inventory's `nodegate_expect` demands of the machine."""
    return Case(name, verdict, change, expected={"expect": demand} if demand else {})


LETTERS = every_gpu("vbios", "96.00.9F.00.01")
NEWER = {"vbios": ">= 96.00.89.00.01"}
VBIOS = {"vbios": "96.00.89.00.01"}
BIOS_UNREAD = plant.set("system", "dmi.bios_version", unread("denied", "bios_version"))
ODD_BIOS = plant.set("system", "dmi.bios_version", "U54 v2.4")
NO_RDMA = fails("infiniband", "timeout", "10 s")
PARTS = {"memory_gib": 2048, "gpus": 8, "nvswitches": 4, "sockets": 2, "nics": ">= 8"}
OTHER_DISK = plant.set("disks", "nvme5n1.sectors", "3750748848")
ONE_SOCKET = both(plant.set("cpus", "numa_nodes", "0"), plant.set("system", "cpu_sockets", 1))
SOCKETS_UNREAD = plant.set("system", "cpu_sockets", unread("missing", "no physical_package_id"))
LIMIT_UNREAD = gpu(3, "power_limit_mw", FAILED)
OTHER_BOARD = gpu(3, "serial", "1320099000001")
THOUSANDS = [f"8XK{number:04}" for number in range(2000)]
SERIAL_UNREAD = plant.set("system", "dmi.product_serial", unread("denied", "product_serial"))
CASES += of("ordered.versions")(
    demanding("the version of the order", PASS, demand={"driver": "550.163.01"}),
    demanding("one of a list", PASS, demand={"driver": ["550.163.01", "560.35.03"]}),
    demanding("inside a range", PASS, demand={"kernel": ">= 5.15, < 6"}),
    demanding("an inventory of text alone", FAIL, demand='{"driver": "560.35.03"}'),
    demanding("older than the range", FAIL, demand={"driver": ">= 560"}),
    demanding("a VBIOS with letters is not older than one of digits", PASS, LETTERS, demand=NEWER),
    demanding("one board with another VBIOS", FAIL, gpu(3, "vbios", "96.00.61.00.01"), demand=VBIOS),
    demanding("what is demanded was not read", ERROR, BIOS_UNREAD, demand={"bios": "2.1.0"}),
    demanding("the whole section was not read", ERROR, NO_RDMA, demand={"nic_firmware.MT4129": "28.41.1000"}),
    demanding("an adapter of the order that is not there", ERROR, demand={"nic_firmware.MT4131": "40.41.1000"}),
    demanding("a version that a range cannot be compared with", ERROR, ODD_BIOS, demand={"bios": ">= 2.1"}),
)
CASES += of("ordered.parts")(
    demanding("the parts of the order", PASS, demand=PARTS),
    demanding("one memory module short", FAIL, no_memory_of_one_module, demand={"memory_gib": 2048}),
    demanding("one disk short", FAIL, lambda machine: machine.sections["disks"].pop("nvme5n1"), demand={"disks": 10}),
    demanding("one disk of another size", FAIL, OTHER_DISK, demand={"disk_gb": [960, 3841]}),
    demanding("a NUMA node and a socket short", FAIL, ONE_SOCKET, demand={"numa_nodes": 2, "sockets": 2}),
    demanding("sockets that were not read", ERROR, SOCKETS_UNREAD, demand={"sockets": 2}),
)
CASES += of("ordered.settings")(
    demanding("the settings of the order", PASS, demand={"ecc": True}),
    demanding("capped on every GPU", FAIL, every_gpu("power_limit_mw", 500_000), demand={"power_limit_w": 700}),
    demanding("a power limit that was not read", ERROR, LIMIT_UNREAD, demand={"power_limit_w": 700}),
)
CASES += of("ordered.serials")(
    demanding("serials by a pattern", PASS, demand={"chassis_serial": "7XK*", "gpu_serial": "165000100000?"}),
    demanding("a board that is not of the order", FAIL, OTHER_BOARD, demand={"gpu_serial": "165*"}),
    demanding("a list of thousands is not written out", FAIL, demand={"chassis_serial": THOUSANDS}),
    demanding("the serial needs root", ERROR, SERIAL_UNREAD, demand={"chassis_serial": "7XK0001"}),
)

test_case = asserting(CASES)

DEMANDED = {
    "governor": "performance", "numa_balancing": "off", "idle_latency_us": "<= 50", "huge_pages": "madvise",
    "max_read_request": 4096, "bond_members": 2, "module.gdrdrv": "on", "module.nouveau": "off", "dimms": 32,
    "dimm_mts": 4800,
}  # fmt: skip


@pytest.mark.parametrize(
    ("item", "change", "verdict"),
    [
        *((item, None, PASS) for item in DEMANDED),
        ("governor", kept("governors", {"powersave": 224}), FAIL),
        ("numa_balancing", kept("numa_balancing", "1"), FAIL),
        ("idle_latency_us", kept("idle", [{"name": "C6", "latency": "190", "disable": "0"}]), FAIL),
        ("max_read_request", payload("2957"), FAIL),
        ("bond_members", kept(MII, "down"), FAIL),
        ("module.gdrdrv", kept("modules", ["nvidia"]), FAIL),
        ("module.nouveau", kept("modules", ["nouveau"]), FAIL),
        ("dimms", kept("dimms", 31 * [DIMM]), FAIL),
        ("governor", no("governors"), ERROR),
        ("module.nouveau", no("modules", value=[]), ERROR),
        ("max_read_request", OLD, ERROR),
    ],
)
def test_what_a_site_demands_is_held_to_the_reading(item, change, verdict):
    machine = Machine.hgx_h100()
    if change:
        change(machine)
    check = "ordered.parts" if item.startswith("dimm") else "ordered.settings"
    node = Node("gpu01", origin="hosts.yaml:3", expected={"expect": {item: DEMANDED[item]}})
    assert judge_one(check, machine, node=node).verdict is verdict


@pytest.mark.parametrize(
    ("item", "value", "verdict"), [("mtu", 9000, PASS), ("mtu", 4200, FAIL), ("gid_index", 3, PASS)]
)
def test_what_a_site_demands_of_roce_rails(item, value, verdict):
    node = Node("gpu01", origin="hosts.yaml:3", expected={"expect": {item: value}})
    assert judge_one("ordered.settings", Machine.pcie_l40s(), node=node).verdict is verdict


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("CPU governor", kept("governors", {"powersave": 224})),
        ("CPU idle latency", kept("idle", [{"name": "C6", "latency": "190", "disable": "0"}])),
        ("NUMA balancing", kept("numa_balancing", "1")),
        ("memory modules", kept("dimms", 31 * [DIMM])),
        ("partition keys", kept("keys", {f"mlx5_{number}/1": ["0x8012"] for number in range(8)})),
        ("rail MaxReadReq", payload("2957")),
    ],
)
def test_the_fleet_finds_the_node_that_was_booted_without_its_settings(name, change):
    machines = {f"gpu{number:02}": Machine.hgx_h100(f"gpu{number:02}", number) for number in range(1, 5)}
    assert not fleet_of(machines).compare("gpu01")
    change(machines["gpu01"])
    assert [odd.characteristic for odd in fleet_of(machines).compare("gpu01")] == [name]
