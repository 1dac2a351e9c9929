"""What the checks of the order say of one machine, word for word, and of an item that cannot be read."""

from support.cases import ERROR, FAIL, FAILED, PASS, asserting, of, unread
from support.judging import Case, both, every_gpu, fails, gpu, plant


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
CASES = of("ordered.versions")(
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
