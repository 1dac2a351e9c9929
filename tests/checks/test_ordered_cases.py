"""What the checks of the order say of one machine, word for word, and of an item that cannot be read."""

from support.cases import ERROR, FAIL, FAILED, PASS, asserting, of, unread
from support.judging import Case, both, every_gpu, fails, gpu, plant


def no_memory_of_one_module(machine):
    machine.set("system", "meminfo", "MemTotal:       1989012345 kB\nMemAvailable:   1900000000 kB\n")


def demanding(name, verdict, change=lambda machine: None, *, demand=None):
    """What the inventory's `nodegate_expect` demands of the machine."""
    return Case(name, verdict, change, expected={"expect": demand} if demand else {})


CASES = of("ordered.versions")(
    demanding("the version of the order", PASS, demand={"driver": "550.163.01"}),
    demanding("one of a list", PASS, demand={"driver": ["550.163.01", "560.35.03"]}),
    demanding("inside a range", PASS, demand={"kernel": ">= 5.15, < 6"}),
    demanding("an inventory of text alone", FAIL, demand='{"driver": "560.35.03"}'),
    demanding("older than the range", FAIL, demand={"driver": ">= 560"}),
    demanding(
        "a VBIOS with letters is not older than one of digits",
        PASS,
        every_gpu("vbios", "96.00.9F.00.01"),
        demand={"vbios": ">= 96.00.89.00.01"},
    ),
    demanding(
        "one board with another VBIOS", FAIL, gpu(3, "vbios", "96.00.61.00.01"), demand={"vbios": "96.00.89.00.01"}
    ),
    demanding(
        "what is demanded was not read",
        ERROR,
        plant.set("system", "dmi.bios_version", unread("denied", "bios_version")),
        demand={"bios": "2.1.0"},
    ),
    demanding(
        "the whole section was not read",
        ERROR,
        fails("infiniband", "timeout", "10 s"),
        demand={"nic_firmware.MT4129": "28.41.1000"},
    ),
    demanding("an adapter of the order that is not there", ERROR, demand={"nic_firmware.MT4131": "40.41.1000"}),
    demanding(
        "a version that a range cannot be compared with",
        ERROR,
        plant.set("system", "dmi.bios_version", "U54 v2.4"),
        demand={"bios": ">= 2.1"},
    ),
)
CASES += of("ordered.parts")(
    demanding(
        "the parts of the order",
        PASS,
        demand={"memory_gib": 2048, "gpus": 8, "nvswitches": 4, "sockets": 2, "nics": ">= 8"},
    ),
    demanding("one memory module short", FAIL, no_memory_of_one_module, demand={"memory_gib": 2048}),
    demanding("one disk short", FAIL, lambda machine: machine.sections["disks"].pop("nvme5n1"), demand={"disks": 10}),
    demanding(
        "one disk of another size",
        FAIL,
        plant.set("disks", "nvme5n1.sectors", "3750748848"),
        demand={"disk_gb": [960, 3841]},
    ),
    demanding(
        "a NUMA node and a socket short",
        FAIL,
        both(plant.set("cpus", "numa_nodes", "0"), plant.set("system", "cpu_sockets", 1)),
        demand={"numa_nodes": 2, "sockets": 2},
    ),
    demanding(
        "sockets that were not read",
        ERROR,
        plant.set("system", "cpu_sockets", unread("missing", "no physical_package_id")),
        demand={"sockets": 2},
    ),
)
CASES += of("ordered.settings")(
    demanding("the settings of the order", PASS, demand={"ecc": True}),
    demanding("capped on every GPU", FAIL, every_gpu("power_limit_mw", 500_000), demand={"power_limit_w": 700}),
    demanding(
        "a power limit that was not read", ERROR, gpu(3, "power_limit_mw", FAILED), demand={"power_limit_w": 700}
    ),
)
CASES += of("ordered.serials")(
    demanding("serials by a pattern", PASS, demand={"chassis_serial": "7XK*", "gpu_serial": "165000100000?"}),
    demanding(
        "a board that is not of the order", FAIL, gpu(3, "serial", "1320099000001"), demand={"gpu_serial": "165*"}
    ),
    demanding(
        "a list of thousands is not written out",
        FAIL,
        demand={"chassis_serial": [f"8XK{number:04}" for number in range(2000)]},
    ),
    demanding(
        "the serial needs root",
        ERROR,
        plant.set("system", "dmi.product_serial", unread("denied", "product_serial")),
        demand={"chassis_serial": "7XK0001"},
    ),
)


test_case = asserting(CASES)
