"""What the checks of a node's boards say, word for word: one odd board among eight is named, eight alike pass."""

from fleet.changes import changes
from fleet.machine import Machine
from support.cases import ERROR, FAIL, FAILED, PASS, SKIP, UNSUPPORTED, WARN, asserting, of
from support.judging import Case, both, every_gpu, gpu, plant

from nodegate.profile import Profile


@changes
def copied(machine, *paths):
    for path in paths:
        machine.set_gpu(3, path, machine.sections["nvml"]["gpus"][2][path])


def other_board(machine):
    machine.set_pci(machine.gpu_address(3), "device", "0x2329")
    machine.set_gpu(3, "pci_device_id", 0x232910DE)
    machine.set_gpu(3, "name", "NVIDIA H20")


NO_SIZE = {"gpu.memory_min_gib": None}
OTHER_VBIOS = gpu(3, "vbios", "96.00.74.00.01")
NEITHER = both(*(every_gpu(key, UNSUPPORTED) for key in ("part_number", "vbios")))
HALF = gpu(3, "memory_total_bytes", 40 << 30)
CASES = of("boards.model")(
    Case("another board", FAIL, other_board),
    Case("NVML and PCIe see different boards", FAIL, gpu(3, "pci_device_id", 0x232910DE)),
    Case("the name could not be read", ERROR, gpu(3, "name", FAILED)),
)
CASES += of("boards.revision")(
    Case("another VBIOS", FAIL, OTHER_VBIOS),
    Case("another VBIOS, later: a board that was replaced", WARN, OTHER_VBIOS, profile=Profile.NIGHTLY),
    Case("another part number", FAIL, gpu(3, "part_number", "692-2G520-0280-000")),
    Case("the VBIOS could not be read", ERROR, gpu(3, "vbios", FAILED)),
    Case("consumer cards report neither", SKIP, NEITHER),
)
CASES += of("boards.memory")(
    Case("half of it", FAIL, HALF),
    Case("half of what the others of an unknown platform have", FAIL, HALF, limits=NO_SIZE),
    Case("could not be read", ERROR, gpu(3, "memory_total_bytes", FAILED)),
)
CASES += of("boards.listed")(
    Case("fewer", FAIL, plant.set("nvml", "count", 4)),
    Case("could not be read", ERROR, plant.set("nvml", "count", FAILED)),
)
CASES += of("boards.identity")(
    Case("two with one serial number", FAIL, copied("serial")),
    Case("two on one board", PASS, copied("serial"), limits={"gpu.per_board": 2}),
    Case("two with one UUID", FAIL, copied("uuid")),
    Case("consumer cards have no serial number", PASS, every_gpu("serial", UNSUPPORTED)),
    Case("cards that report zeros for one", PASS, every_gpu("serial", "0")),
    Case("the UUID could not be read", ERROR, gpu(3, "uuid", FAILED)),
)
CASES += of("fabric.one_cluster")(
    Case("one in another clique", FAIL, gpu(3, "fabric.clique", 7)),
    Case("one in another cluster", FAIL, gpu(3, "fabric.cluster_uuid", "1")),
    Case("one could not be read", ERROR, gpu(3, "fabric.clique", FAILED)),
    Case("cards without a fabric", SKIP, machine=Machine.pcie_l40s),
)


test_case = asserting(CASES)
