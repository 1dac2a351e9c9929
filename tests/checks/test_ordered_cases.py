"""What the checks of the order say of one machine, word for word, and of an item that cannot be read."""

from fleet.machine import Machine
from support.cases import ERROR, FAIL, PASS, SKIP, asserting, of, unread
from support.judging import Case, both, every_gpu, plant


def no_memory_of_one_module(machine: Machine) -> None:
    machine.set("system", "meminfo", "MemTotal:       1989012345 kB\nMemAvailable:   1900000000 kB\n")


CASES = of("ordered.versions")(
    Case("nothing demanded", SKIP),
    Case("the version of the order", PASS, expected={"expect": {"driver": "550.163.01"}}),
    Case("one of a list", PASS, expected={"expect": {"driver": ["550.163.01", "560.35.03"]}}),
    Case("inside a range", PASS, expected={"expect": {"kernel": ">= 5.15, < 6"}}),
    Case("an inventory of text alone", FAIL, expected={"expect": '{"driver": "560.35.03"}'}),
    Case("older than the range", FAIL, expected={"expect": {"driver": ">= 560"}}),
    Case(
        "a VBIOS with letters is not older than one of digits",
        PASS,
        every_gpu("vbios", "96.00.9F.00.01"),
        expected={"expect": {"vbios": ">= 96.00.89.00.01"}},
    ),
    Case(
        "one board with another VBIOS",
        FAIL,
        plant.set_gpu(3, "vbios", "96.00.61.00.01"),
        expected={"expect": {"vbios": "96.00.89.00.01"}},
    ),
    Case(
        "what is demanded was not read",
        ERROR,
        plant.set("system", "dmi.bios_version", unread("denied", "bios_version")),
        expected={"expect": {"bios": "2.1.0"}},
    ),
    Case(
        "the whole section was not read",
        ERROR,
        plant.section_fails("infiniband", "timeout", "10 s"),
        expected={"expect": {"nic_firmware.MT4129": "28.41.1000"}},
    ),
    Case(
        "an adapter of the order that is not there", ERROR, expected={"expect": {"nic_firmware.MT4131": "40.41.1000"}}
    ),
    Case(
        "a version that a range cannot be compared with",
        ERROR,
        plant.set("system", "dmi.bios_version", "U54 v2.4"),
        expected={"expect": {"bios": ">= 2.1"}},
    ),
)
CASES += of("ordered.parts")(
    Case(
        "the parts of the order",
        PASS,
        expected={"expect": {"memory_gib": 2048, "gpus": 8, "nvswitches": 4, "sockets": 2, "nics": ">= 8"}},
    ),
    Case("one memory module short", FAIL, no_memory_of_one_module, expected={"expect": {"memory_gib": 2048}}),
    Case(
        "one disk short",
        FAIL,
        lambda machine: machine.sections["disks"].pop("nvme5n1"),
        expected={"expect": {"disks": 10}},
    ),
    Case(
        "one disk of another size",
        FAIL,
        plant.set("disks", "nvme5n1.sectors", "3750748848"),
        expected={"expect": {"disk_gb": [960, 3841]}},
    ),
    Case(
        "a NUMA node and a socket short",
        FAIL,
        both(plant.set("cpus", "numa_nodes", "0"), plant.set("system", "cpu_sockets", 1)),
        expected={"expect": {"numa_nodes": 2, "sockets": 2}},
    ),
    Case(
        "sockets that were not read",
        ERROR,
        plant.set("system", "cpu_sockets", unread("missing", "no physical_package_id")),
        expected={"expect": {"sockets": 2}},
    ),
)
CASES += of("ordered.settings")(
    Case("the settings of the order", PASS, expected={"expect": {"ecc": True}}),
    Case(
        "capped on every GPU", FAIL, every_gpu("power_limit_mw", 500_000), expected={"expect": {"power_limit_w": 700}}
    ),
    Case(
        "a power limit that was not read",
        ERROR,
        plant.set_gpu(3, "power_limit_mw", unread("failed", "NVML 999")),
        expected={"expect": {"power_limit_w": 700}},
    ),
)
CASES += of("ordered.serials")(
    Case("serials by a pattern", PASS, expected={"expect": {"chassis_serial": "7XK*", "gpu_serial": "165000100000?"}}),
    Case(
        "a board that is not of the order",
        FAIL,
        plant.set_gpu(3, "serial", "1320099000001"),
        expected={"expect": {"gpu_serial": "165*"}},
    ),
    Case(
        "a list of thousands is not written out",
        FAIL,
        expected={"expect": {"chassis_serial": [f"8XK{number:04}" for number in range(2000)]}},
    ),
    Case(
        "the serial needs root",
        ERROR,
        plant.set("system", "dmi.product_serial", unread("denied", "product_serial")),
        expected={"expect": {"chassis_serial": "7XK0001"}},
    ),
)


test_case = asserting(CASES)
