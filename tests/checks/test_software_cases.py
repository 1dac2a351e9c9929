"""What the software and platform checks say of one machine with one fault, word for word, and of harmless oddities."""

from fleet.changes import changes
from fleet.machine import Machine
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, SKIP, WARN, asserting, of, unread
from support.judging import Case, both, fails, plant

from nodegate.profile import Profile

L40S = Machine.pcie_l40s
CURL = "/usr/lib/x86_64-linux-gnu/libcurl.so.4"
SERIAL = {"serial": "7XK0001"}
ALONE = {"gpu.per_board": 1}
CUDNN = "/usr/lib/x86_64-linux-gnu/libcudnn.so.9"
SEVEN = ",".join(f"mlx5_{number}" for number in range(7))
TOPOLOGY = "/opt/site/topology.xml"
NCCL = {"software.nccl_version_min": "2.21.5"}


def nccl_library(file):
    return plant.set("software", "nccl", [{"path": "/usr/lib/libnccl.so.2", "file": file}])


def nccl_conf(*lines):
    return plant.set("environment", "nccl_conf", "\n".join(lines))


@changes
def topology_file(machine, *, there):
    nccl_conf(f"NCCL_TOPO_FILE={TOPOLOGY}")(machine)
    machine.sections["environment"]["files"] = {TOPOLOGY: there}


def tools(**found):
    return lambda machine: machine.sections["software"]["tools"].update(found)


@changes
def without_module(machine, name):
    machine.sections["system"]["modules"].pop(name)


without_peermem = without_module("nvidia_peermem")


unload = plant.set("driver", "loaded", False)
VERSION_UNREAD = plant.set("driver", "version", unread("denied", "/proc/driver/nvidia/version"))
driver_file_unread = both(without_peermem, VERSION_UNREAD)


def on_kernel(release):
    return both(without_peermem, plant.set("system", "kernel_release", release))


def proprietary(machine):
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025"
    machine.set("driver", "version", version)


def no_gpu_and_no_driver(machine):
    machine.set("driver", "loaded", False)
    machine.sections["pci"] = []


def unknown_gpus(machine):
    for address in machine.gpu_addresses:
        machine.set_pci(address, "device", "0x9999")


@changes
def library(machine, name, path):
    """No program of this name, and the library of it where it is."""
    machine.sections["software"]["tools"][name] = ""
    machine.sections["software"]["libraries"] = {name: path}


NO_GDRDRV = both(tools(gdrdrv=""), without_module("gdrdrv"))
GCC = tools(gcc="/usr/bin/gcc")
AN_OLDER_PROBE = tools(libcudnn9="")
LIBCURL = library("curl", CURL)
CUDA_UNREAD = plant.set("software", "cuda", unread("timeout", "5 s"))
EXACT = nccl_conf("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1")
ANOTHER_BOARD = nccl_conf(f"NCCL_IB_HCA={SEVEN},mlx5_12", "NCCL_SOCKET_IFNAME=eno1")
ONE_UNKNOWN = nccl_conf("NCCL_IB_HCA=mlx5_0,mlx5_12")
FOUR = nccl_conf("NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3")
NO_MNNVL = nccl_conf("NCCL_MNNVL_ENABLE=0")
BLOCKING = plant.set("environment", "variables", {"CUDA_LAUNCH_BLOCKING": "1"})
SERIAL_UNREAD = plant.set("system", "dmi.product_serial", unread("denied", "product_serial"))
CASES = of("software.required")(
    Case("a kernel module", PASS, tools(gdrdrv=""), expected={"require": ["gdrdrv"]}),
    Case("a kernel module that is not loaded", FAIL, NO_GDRDRV, expected={"require": ["gdrdrv"]}),
    Case("a program beside those that are always looked for", PASS, GCC, expected={"require": ["gcc"]}),
    Case("a program that is not there", FAIL, tools(conda=""), expected={"require": ["conda"]}),
    *(
        Case(f"{name} is there as a library", PASS, library(name, CUDNN), expected={"require": [name]})
        for name in ("cudnn", "libcudnn9", "libcudnn.so.9")
    ),
    Case("a library that is not where libraries are", ERROR, library("cudnn", ""), expected={"require": ["cudnn"]}),
    Case("a library of which an older probe did not ask", ERROR, AN_OLDER_PROBE, expected={"require": ["libcudnn9"]}),
    Case("no NCCL where libraries are", ERROR, plant.set("software", "nccl", []), expected={"require": ["nccl"]}),
    Case("a library of the name of a program is no program", FAIL, LIBCURL, expected={"require": ["curl"]}),
    Case("a program that nobody looked for", ERROR, expected={"require": ["ninja"]}),
    Case("asked for and there", PASS, expected={"require": ["cuda", "nvcc", "srun", "nccl"]}),
    Case("asked for and not there", FAIL, expected={"require": ["cuda", "docker"]}),
    Case("the toolkit is too old", FAIL, limits={"software.cuda_version_min": "12.8"}, expected={"require": "cuda"}),
    Case("the toolkit's folder was not read", ERROR, CUDA_UNREAD, expected={"require": "cuda"}),
)
CASES += of("software.driver_loaded")(
    Case("not loaded", FAIL, unload),
    Case("older than the platform needs", FAIL, limits={"software.driver_version_min": "570.86.10"}),
    Case("the version was not read", ERROR, driver_file_unread),
    Case("no GPU and no driver", SKIP, no_gpu_and_no_driver),
)
CASES += of("software.driver_and_library")(
    Case("another library", FAIL, plant.set("nvml", "driver_version", "550.54.15")),
    Case("NVML refuses the driver", FAIL, fails("nvml", "failed", "NVML 18: Driver/library version mismatch")),
    Case("NVML hangs", ERROR, fails("nvml", "timeout", "10 s")),
    Case("no driver", SKIP, unload),
)
CASES += of("software.nccl_version")(
    Case("new enough", PASS, limits=NCCL),
    Case("2.20.5", WARN, nccl_library("libnccl.so.2.20.5"), limits=NCCL),
    Case("2.9 is older than 2.21", WARN, nccl_library("libnccl.so.2.9.6"), limits=NCCL),
    Case("a file without a version", ERROR, nccl_library("libnccl.so.2"), limits=NCCL),
    Case("no NCCL on the node", SKIP, plant.set("software", "nccl", []), limits=NCCL),
)
CASES += of("software.gpudirect")(
    Case("healthy: the open kernel module has dma-buf", PASS, without_peermem),
    Case("dma-buf on a kernel that has none", FAIL, on_kernel("5.10.0-34-amd64")),
    Case("a kernel of RHEL 8 may have it", NOT_JUDGED, on_kernel("4.18.0-553.el8_10.x86_64")),
    Case("the kernel's version was not read", ERROR, on_kernel(unread("denied", "osrelease"))),
    Case("neither of the two", FAIL, both(without_peermem, proprietary)),
    Case("the driver's flavour was not read", ERROR, driver_file_unread),
    Case("no GPU", SKIP, no_gpu_and_no_driver),
)
CASES += of("software.nccl_settings")(
    Case("InfiniBand switched off", FAIL, nccl_conf("NCCL_IB_DISABLE=1")),
    Case("healthy: InfiniBand not switched off", PASS, nccl_conf("NCCL_IB_DISABLE=0")),
    Case("healthy: a line that is commented out", PASS, nccl_conf("#NCCL_IB_DISABLE=1")),
    Case("NVLink switched off", FAIL, nccl_conf("NCCL_P2P_DISABLE=1")),
    Case("peer-to-peer switched off without NVSwitch", WARN, nccl_conf("NCCL_P2P_DISABLE=1"), machine=L40S),
    Case("NVLS switched off", WARN, nccl_conf("NCCL_NVLS_ENABLE=0")),
    Case("healthy: NVLS switched off where there is no NVSwitch", PASS, nccl_conf("NCCL_NVLS_ENABLE=0"), machine=L40S),
    Case("a pinned algorithm", WARN, nccl_conf("NCCL_ALGO=Ring")),
    Case("tracing", WARN, nccl_conf("NCCL_DEBUG=TRACE")),
    Case("healthy: information", PASS, nccl_conf("NCCL_DEBUG=INFO")),
    Case("an interface of another machine", FAIL, nccl_conf("NCCL_SOCKET_IFNAME=eth7")),
    Case("healthy: a prefix of one that is there", PASS, nccl_conf("NCCL_SOCKET_IFNAME=en")),
    Case("healthy: a bond, which the probe does not list", PASS, nccl_conf("NCCL_SOCKET_IFNAME=bond0")),
    Case("healthy: all but some", PASS, nccl_conf("NCCL_SOCKET_IFNAME=^docker,lo")),
    Case("an adapter of another machine", FAIL, nccl_conf("NCCL_IB_HCA=mlx4")),
    Case("healthy: adapters by exact name and port", PASS, EXACT, limits={"rdma.rails": 2}),
    Case("healthy: all adapters but the bond", PASS, nccl_conf("NCCL_IB_HCA=^mlx5_bond_0")),
    Case("one adapter of the list is another board's", FAIL, ANOTHER_BOARD),
    Case("before a job: a rail is left out", WARN, nccl_conf(f"NCCL_IB_HCA={SEVEN}"), profile=Profile.BOOTCHECK),
    Case("one of eight rails", FAIL, nccl_conf("NCCL_IB_HCA=mlx5_0")),
    Case("a rail that is taken out", FAIL, nccl_conf("NCCL_IB_HCA=^mlx5_3")),
    Case("one port that is not there", FAIL, nccl_conf(f"NCCL_IB_HCA=={SEVEN},mlx5_7:2")),
    Case("all rails, and one more that is not there", WARN, nccl_conf(f"NCCL_IB_HCA={SEVEN},mlx5_7,mlx5_12")),
    Case("a name that is not there, of a platform without a number of rails", WARN, ONE_UNKNOWN, machine=L40S),
    Case("healthy: all rails by name", PASS, nccl_conf(f"NCCL_IB_HCA=={SEVEN}:1,mlx5_7")),
    Case("healthy: adapters by the beginning of their names", PASS, nccl_conf("NCCL_IB_HCA=mlx5,bnxt_re")),
    Case("healthy: as many rails as the site counts", PASS, FOUR, limits={"rdma.rails": 4}),
    Case("one interface of the list is not there", WARN, nccl_conf("NCCL_SOCKET_IFNAME=eno1,eth7")),
    Case("healthy: interfaces by the beginning of their names", PASS, nccl_conf("NCCL_SOCKET_IFNAME=en,eth,bond0")),
    Case("NVLink between trays is switched off", WARN, NO_MNNVL, limits={"gpu.per_board": 2}),
    Case("healthy: NVLink between trays is switched off where there are none", PASS, NO_MNNVL, limits=ALONE),
    Case("a topology file that is gone", WARN, topology_file(there=False)),
    Case("healthy: a topology file", PASS, topology_file(there=True)),
    Case("a topology file of which nothing is known", ERROR, topology_file(there=unread("denied", TOPOLOGY))),
    Case("healthy: evidence from before files were looked for", PASS, nccl_conf(f"NCCL_TOPO_FILE={TOPOLOGY}")),
    Case("a plugin path", WARN, nccl_conf("NCCL_NET_PLUGIN=/opt/old/libnccl-net.so")),
    Case("healthy: no plugin", PASS, nccl_conf("NCCL_NET_PLUGIN=none")),
    Case("a debugging aid in the login environment", FAIL, BLOCKING),
    Case("nccl.conf was not read", ERROR, plant.set("environment", "nccl_conf", unread("denied", "/etc/nccl.conf"))),
)
CASES += of("software.persistence_daemon")(
    Case("it stopped", WARN, plant.stop_service("nvidia-persistenced")),
    Case("systemd does not answer", ERROR, fails("services", "timeout", "5 s")),
    Case("no GPU", SKIP, no_gpu_and_no_driver),
)
CASES += of("platform.known")(
    Case("named, and so it is", PASS, expected={"platform": "hgx-h100-8"}),
    Case("another machine than the inventory says", FAIL, expected={"platform": "hgx-a100-80gb-8"}),
    Case("no baseline has these GPUs", ERROR, unknown_gpus),
)
CASES += of("platform.serial")(
    Case("the machine of the inventory", PASS, expected=SERIAL),
    Case("another machine answers", FAIL, expected={"serial": "7XK0002"}),
    Case("the serial number needs root", ERROR, SERIAL_UNREAD, expected=SERIAL),
)
CASES += of("platform.one_name")(
    Case("its boot id is hidden", NOT_JUDGED, plant.set("system", "boot_id", unread("denied", "EACCES")))
)

# What only some contracts ask for
DMA_BUF = {"contract.gpudirect_dma_buf": True}
UNSET = {"contract.nccl_unset": "NCCL_ALGO NCCL_PROTO"}
CASES += of("contract.gpudirect")(
    Case("the open kernel module", PASS, limits=DMA_BUF),
    Case("peermem alone", FAIL, proprietary, limits=DMA_BUF),
    Case("peermem on an old kernel", FAIL, plant.set("system", "kernel_release", "5.10.0-34-amd64"), limits=DMA_BUF),
    Case("the type of the module was not read", ERROR, VERSION_UNREAD, limits=DMA_BUF),
)
CASES += of("contract.nccl_unset")(
    Case("nothing set", PASS, limits=UNSET),
    Case("healthy: another setting", PASS, nccl_conf("NCCL_DEBUG=INFO"), limits=UNSET),
    Case("an algorithm for every job", FAIL, nccl_conf("NCCL_ALGO=Ring"), limits=UNSET),
    Case("not read", ERROR, plant.set("environment", "nccl_conf", unread("denied", "/etc/nccl.conf")), limits=UNSET),
)


test_the_check_says = asserting(CASES)
