"""What the checks of GPUs and boards say of one machine with one fault, word for word, and what only looks faulty."""

from fleet.changes import changes
from fleet.machine import Machine
from support.cases import ERROR, FAIL, FAILED, NOT_JUDGED, PASS, SKIP, UNSUPPORTED, WARN, asserting, of, unread
from support.judging import UNNAMED, Case, both, every_gpu, fails, gpu, plant

from nodegate.profile import Profile

LOST = unread("lost", "NVML 15")
UPTIME_S = Machine.hgx_h100().sections["system"]["uptime_s"]


@changes
def hide(machine, *indices):
    """As sshd's device cgroup does it: the device node refuses, NVML leaves the GPU out and closes the gap."""
    nvml = machine.sections["nvml"]
    for index in indices:
        machine.sections["driver"]["devices"][f"nvidia{index}"] = "EPERM"
    nvml["gpus"] = [entry for entry in nvml["gpus"] if entry["index"] not in indices]
    nvml["count"] = len(nvml["gpus"])
    for number, entry in enumerate(nvml["gpus"]):
        entry["index"] = number


@changes
def refuse(machine, index, why, detail):
    """NVML lists the GPU and gives no handle."""
    gpu = machine.sections["nvml"]["gpus"][index]
    gpu.clear()
    gpu.update(index=index, handle={"why": why, "detail": detail})


@changes
def leave_out(machine, index):
    nvml = machine.sections["nvml"]
    nvml["gpus"] = [gpu for gpu in nvml["gpus"] if gpu["index"] != index]
    nvml["count"] -= 1


@changes
def leave_it_to_nvidia_smi(machine, said):
    """NVML broke, and nvidia-smi stopped at a GPU that it cannot open."""
    machine.section_fails("nvml", "failed", "ended by SIGSEGV")
    machine.sections["nvidia_smi"] = {"q": f"Unable to determine the device handle for {said}\n", "exit_code": 15}


@changes
def unbind(machine, index, driver=""):
    """The driver did not take the GPU: it is on PCIe only."""
    machine.set_pci(machine.gpu_address(index), "driver", driver)
    machine.sections["driver"]["gpus"].pop(machine.gpu_address(index))
    machine.sections["driver"]["devices"].pop(f"nvidia{index}")
    leave_out(index)(machine)


@changes
def exclude(machine, index):
    """As NVreg_ExcludedGpus leaves it: driven by nobody, listed by the driver as excluded."""
    address, files = machine.gpu_address(index), machine.sections["driver"]["gpus"]
    files[address] = files[address].replace("GPU Excluded:\t No", "GPU Excluded:\t Yes")
    leave_out(index)(machine)


def unload(machine):
    machine.set("driver", "loaded", False)
    for index in range(8):
        machine.set_pci(machine.gpu_address(index), "driver", "")


@changes
def in_a_container(machine, *shown):
    """PCIe shows every GPU of the host, the driver's files and NVML only those of the container."""
    for index in set(range(8)) - set(shown):
        machine.sections["driver"]["gpus"].pop(machine.gpu_address(index))
        machine.sections["driver"]["devices"].pop(f"nvidia{index}")
        leave_out(index)(machine)


@changes
def of_gpu_3(machine, key, value):
    machine.set_pci(machine.gpu_address(3), key, value)


no_driver_files = plant.set("driver", "gpus", unread("missing", "no such folder"))


@changes
def log(machine, *lines, ago_s=60.0):
    for number, line in enumerate(lines):
        machine.kernel(line, ago_s=ago_s - number * 0.001)


def begins_late(machine):
    """The ring buffer has forgotten the first weeks of this boot."""
    machine.sections["kernel_log"]["since_epoch_s"] = machine.epoch_s - 3600.0


@changes
def copied(machine, *paths):
    for path in paths:
        machine.set_gpu(3, path, machine.sections["nvml"]["gpus"][2][path])


def other_board(machine):
    machine.set_pci(machine.gpu_address(3), "device", "0x2329")
    machine.set_gpu(3, "pci_device_id", 0x232910DE)
    machine.set_gpu(3, "name", "NVIDIA H20")


OF_A_MIG_INSTANCE = "NVRM: Xid (PCI:0000:5d:00 GPU-I:05): 43, pid=79, name=python3, Ch 00000008"
XID_79 = "NVRM: Xid (PCI:0000:5d:00): 79, pid=1, name=x, GPU has fallen off the bus."
FELL_OFF = "NVRM: GPU 0000:5d:00.0: GPU has fallen off the bus."
UNKNOWN_ERROR = refuse(5, "failed", "NVML 999: Unknown Error")
SAYS_LOST = both(gpu(5, "temperature_c", LOST), gpu(5, "power_mw", LOST))
FEWER = both(hide(2), refuse(4, "lost", "NVML 15"))
BY_INDEX = leave_it_to_nvidia_smi("GPU3: GPU is lost.")
BY_ADDRESS = leave_it_to_nvidia_smi("GPU0000:3d:00.0: Unknown Error")
WITH_XID = log(
    "NVRM: GPU at PCI:0000:5d:00: GPU-51b0e0a4-3c1f-4d57-9c11-2f0d7c1a9a55",
    "NVRM: GPU Board Serial Number: 1654922006536",
    "NVRM: Xid (PCI:0000:5d:00): 79, pid=4711, name=python3, GPU has fallen off the bus.",
    FELL_OFF,
)
WITHOUT_XID = log(
    "NVRM: GPU 0001:9b:00.0: GPU has fallen off the bus.", "NVRM: GPU 0001:9b:00.0: GPU serial number is 1654922006537."
)
REFUSED = log(
    "NVRM: The NVIDIA GPU 0000:5d:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and "
    "is not responding to commands."
)
EIGHT = {"gpus": 8}
CASES = of("gpu.count")(
    Case("one is not there at all", FAIL, plant.remove_gpu(3)),
    Case("one is lost", FAIL, plant.lose_gpu(3)),
    Case("two are hidden from this login", ERROR, hide(2, 5)),
    Case("NVML hung before one of them", ERROR, refuse(6, "timeout", "5 s")),
    Case("the inventory says four", FAIL, expected={"gpus": 4}),
    Case("a server of free choice, and the inventory says nothing", NOT_JUDGED, machine=Machine.pcie_l40s),
    Case("a server of free choice, and the inventory says eight", PASS, machine=Machine.pcie_l40s, expected=EIGHT),
)

CASES += of("gpu.lost")(
    Case("one fell off the bus", FAIL, plant.lose_gpu(3)),
    Case("NVML knows no more than Unknown Error, PCIe still answers", FAIL, UNKNOWN_ERROR),
    Case("NVML gives a handle, and every call says lost", FAIL, SAYS_LOST),
    Case(
        "NVML lists one that PCIe does not",
        ERROR,
        lambda machine: machine.sections["pci"].remove(machine.pci(machine.gpu_address(3))),
    ),
    Case("the driver lists it and NVML does not", FAIL, leave_out(3)),
    Case("the driver did not take it", FAIL, unbind(3)),
    Case("healthy ones are hidden from this login by the device cgroup: never lost", ERROR, hide(2, 5)),
    Case("NVML counts it and may not open it: never lost", ERROR, refuse(1, "denied", "NVML 4")),
    Case("a container shows two of eight: never lost", ERROR, in_a_container(0, 1)),
    Case("NVML gives no answer for one", ERROR, refuse(6, "timeout", "5 s")),
    Case("a lost one is named even where others are hidden", FAIL, both(plant.lose_gpu(3), hide(2, 3))),
    Case("one without an address is lost, where NVML lists fewer than PCIe", FAIL, FEWER),
    Case("an index that cannot be", FAIL, both(refuse(3, "lost", "NVML 15"), gpu(3, "index", 8))),
    Case("NVML leaves one out, and the driver's files cannot be read", FAIL, both(leave_out(3), no_driver_files)),
    Case("excluded by the driver's settings", FAIL, exclude(3)),
    Case(
        "no device node for one",
        ERROR,
        both(leave_out(3), lambda machine: machine.sections["driver"]["devices"].pop("nvidia3")),
    ),
    Case("NVML cannot be had", ERROR, fails("nvml", "timeout", "10 s")),
    Case("nvidia-smi names the lost one by its index, and tells of no other", FAIL, BY_INDEX),
)
CASES += of("gpu.count")(
    Case("so does one that names it by its address: the others are never called lost", FAIL, BY_ADDRESS)
)

CASES += of("gpu.on_bus")(
    Case("one fell off the bus, and NVML hangs", FAIL, both(plant.lose_gpu(3), fails("nvml", "hung", "10 s"))),
    Case("revision ff alone", FAIL, of_gpu_3("revision", "0xff")),
    Case("the configuration space may not be read", ERROR, of_gpu_3("config", unread("denied", "config"))),
    Case("no NVIDIA GPU on PCIe", ERROR, lambda machine: machine.sections["pci"].clear()),
)

CASES += of("gpu.bound")(
    Case("the driver did not take one", FAIL, unbind(3)),
    Case("one is given to a virtual machine", FAIL, unbind(3, "vfio-pci")),
    Case("the driver is not loaded", FAIL, unload),
    Case("PCIe cannot be read", ERROR, fails("pci", "timeout", "5 s")),
)

CASES += of("gpu.fallen_off_bus")(
    Case("with an Xid, and the serial number on the board's line", FAIL, WITH_XID),
    Case("without an Xid, and the serial number on a line of its own", FAIL, WITHOUT_XID),
    Case("refused when the driver started", FAIL, REFUSED),
    Case("a MIG instance's Xid of another kind", PASS, log(OF_A_MIG_INSTANCE)),
    Case("before the node was started again", PASS, log(XID_79, ago_s=30 * 86400.0)),
    Case("before the clock was set, seconds after the start", FAIL, log(FELL_OFF, ago_s=UPTIME_S + 30.0)),
    Case("the log begins long after the start of the node", NOT_JUDGED, begins_late),
    Case("no log can be read", ERROR, fails("kernel_log", "denied", "dmesg")),
)

CASES += of("gpu.recovery_action")(
    Case("none needed", PASS, every_gpu("recovery_action", 0)),
    Case("reset asked for", FAIL, gpu(2, "recovery_action", 1)),
    Case("drain of peer-to-peer work asked for", FAIL, gpu(2, "recovery_action", 3)),
    Case("an action of a later driver", FAIL, gpu(2, "recovery_action", 9)),
    Case("the recovery action could not be read", ERROR, gpu(2, "recovery_action", FAILED)),
)
CASES += of("gpu.inforom")(
    Case("corrupt", FAIL, gpu(4, "inforom_valid", False)),
    Case("a card without an InfoROM", SKIP, every_gpu("inforom_valid", UNSUPPORTED), limits=UNNAMED),
    Case("a lost GPU leaves the InfoROM unknown, never valid", ERROR, plant.lose_gpu(3)),
    Case("NVML lists nothing", ERROR, plant.set("nvml", "gpus", [])),
)

CASES += of("gpu.persistence")(
    Case("off on one", WARN, gpu(1, "persistence_mode", 0)),
    Case("no limit for it", NOT_JUDGED, limits={"gpu.persistence": None}),
)
CASES += of("gpu.compute_mode")(
    Case("prohibited", FAIL, gpu(1, "compute_mode", 2)),
    Case("the site wants exclusive process", PASS, every_gpu("compute_mode", 3), limits={"gpu.compute_mode": 3}),
)
CASES += of("gpu.mig")(
    Case("on everywhere, and no policy: a site's choice", PASS, every_gpu("mig_mode", [1, 1])),
    Case("on for one of eight, and no policy", FAIL, gpu(6, "mig_mode", [1, 1])),
    Case("on for one of eight, as the site wants it", PASS, gpu(6, "mig_mode", [1, 1]), expected={"mig": "mixed"}),
    Case("on where the inventory wants it off", FAIL, gpu(6, "mig_mode", [1, 1]), expected={"mig": "off"}),
    Case("a change waits for a reset", WARN, gpu(6, "mig_mode", [0, 1])),
    Case("a card without MIG", SKIP, machine=Machine.pcie_l40s),
)
NO_SIZE = {"gpu.memory_min_gib": None}
OTHER_VBIOS = gpu(3, "vbios", "96.00.74.00.01")
NEITHER = both(*(every_gpu(key, UNSUPPORTED) for key in ("part_number", "vbios")))
HALF = gpu(3, "memory_total_bytes", 40 << 30)
CASES += of("boards.model")(
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
