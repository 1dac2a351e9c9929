"""What the host checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

from fleet.changes import changes
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, WARN, asserting, of, unread
from support.judging import Case, both, fails, plant

UNREAD_LIMITS = unread("denied", "/proc/812/limits")
KERNEL = {"kernel.version_min": "5.5"}
SHM = {"host.shm_min_gib": 64}
FILES = {"host.open_files_min": 65536}
PROCESSES = {"host.processes_min": 16384}
UNLIMITED = {"host.locked_memory_min_gib": "unlimited"}
LOCKED = {"host.locked_memory_min_gib": 64}
DATA = {"mounts": ["/mnt/data"]}
SIZE = {"host.memory_gib": 2048, "host.memory_tolerance_percent": 5}
OFFSET = {"host.clock_offset_max_s": 0.1}
FREE = {"host.mount_free_min_percent": 5}
AVAILABLE = {"host.memory_available_min_percent": 50}


def cpus(key, value):
    return plant.set("cpus", key, value)


def release(text):
    return plant.set("system", "kernel_release", text)


def usage(path, **values):
    return lambda machine: machine.sections["mounts"]["usage"][path].update(values)


def usage_fails(path, why):
    return lambda machine: machine.sections["mounts"]["usage"].update({path: {"why": why, "detail": "statvfs, 2 s"}})


def slurmd_open_files(soft, hard):
    row = f"Max open files            {soft:<20} {hard:<20} files     "
    return plant.set("limits", "slurmd", row)


@changes
def login_limits(machine, **limits):
    machine.set("limits", "slurmd", unread("missing", "no slurmd"))
    machine.sections["limits"]["self"].update(limits)


def blocked(name, waits_in):
    return plant.set("system", "dstate", [{"pid": 77, "comm": name, "wchan": waits_in}])


def memory(total_kib, available_kib):
    text = f"MemTotal:       {total_kib} kB\nMemAvailable:   {available_kib} kB"
    return plant.set("system", "meminfo", text)


def chrony(old, new):
    return lambda machine: machine.set("clock", "chronyc", machine.sections["clock"]["chronyc"].replace(old, new))


def data_read_only(machine):
    table = machine.sections["mounts"]["table"]
    machine.set("mounts", "table", table.replace("/mnt/data nfs4 rw", "/mnt/data nfs4 ro"))


NO_CLOCK = [
    plant.set("clock", name, unread("missing", "no such program")) for name in ("chronyc", "adjtimex", "timedatectl")
]
UNREAD_PORTS = plant.set("jobs", "listening_ports", unread("timeout", "/proc/net/tcp"))
CASES = of("host.cpus_online")(
    Case("two CPUs that the kernel took out", FAIL, cpus("online", "0-16,18-128,130-223")),
    Case("healthy: SMT is off", PASS, both(cpus("online", "0-111"), cpus("smt", "off"))),
    Case("SMT off, and a core besides", FAIL, both(cpus("online", "0-110"), cpus("smt", "off"))),
    Case("more CPUs online than there are", ERROR, cpus("present", "0")),
    Case("a list of CPUs that is none", ERROR, cpus("online", "9-3")),
)
CASES += of("host.ports")(
    Case("the port is free", PASS, expected={"ports": 29500}),
    Case("the port is taken", FAIL, plant.set("jobs", "listening_ports", [22, 29500]), expected={"ports": [29500]}),
    Case("the ports were not read", ERROR, UNREAD_PORTS, expected={"ports": "29500"}),
)
CASES += of("host.kernel_version")(Case("without a limit", NOT_JUDGED, limits={"kernel.version_min": None}))
CASES += of("host.kernel_version", limits=KERNEL)(
    Case("new enough", PASS),
    Case("healthy: 5.15 is newer than 5.5", PASS, release("5.15.0-119-generic")),
    Case("5.4", WARN, release("5.4.0-150-generic")),
    Case("RHEL 8", WARN, release("4.18.0-553.el8.x86_64")),
    Case("no version in it", ERROR, release("custom")),
)
CASES += of("host.shared_memory", limits=SHM)(
    Case("large enough", PASS),
    Case("64 MiB", FAIL, usage("/dev/shm", size_bytes=64 << 20)),
    Case("not mounted", FAIL, plant.set("mounts", "table", "/dev/md0 / ext4 rw 0 0")),
    Case("it does not answer", ERROR, usage_fails("/dev/shm", "timeout")),
)
CASES += of("host.open_files", limits=FILES)(
    Case("slurmd grants enough", PASS),
    Case("slurmd grants too few, a job may raise it", WARN, slurmd_open_files(1024, 524288)),
    Case("slurmd grants too few", FAIL, slurmd_open_files(1024, 4096)),
    Case("no slurmd: the login's limit counts", FAIL, login_limits(nofile=[1024, 4096])),
    Case("slurmd's limits were not read", ERROR, plant.set("limits", "slurmd", UNREAD_LIMITS)),
)
CASES += of("host.processes")(
    Case("unlimited", PASS, limits=PROCESSES),
    Case("too few", FAIL, login_limits(nproc=[4096, 4096]), limits=PROCESSES),
    Case("not read", ERROR, plant.set("limits", "slurmd", "Max open files 1 1 files"), limits=PROCESSES),
)
CASES += of("host.locked_memory")(
    Case("unlimited", PASS, limits=UNLIMITED),
    Case("64 KiB", FAIL, login_limits(memlock=[65536, 65536]), limits=UNLIMITED),
    Case("a number that a site finds enough", PASS, login_limits(memlock=[64 << 30, 64 << 30]), limits=LOCKED),
    Case("less than a site's number", FAIL, login_limits(memlock=[8 << 30, 8 << 30]), limits=LOCKED),
    Case("not read", ERROR, plant.set("limits", "slurmd", UNREAD_LIMITS), limits=UNLIMITED),
)
CASES += of("host.blocked_processes")(
    Case("nvidia-smi hangs in the driver", FAIL, blocked("nvidia-smi", "os_acquire_rwlock_write")),
    Case("tar waits for a file server", WARN, blocked("tar", "rpc_wait_bit_killable")),
    Case("not read", ERROR, plant.set("system", "dstate", unread("timeout", "2 s"))),
)
CASES += of("host.memory_size")(
    Case("as installed, less what the kernel keeps", PASS, limits=SIZE),
    Case("a module is missing", FAIL, memory(1_900_000_000, 1_500_000_000), limits=SIZE),
    Case("without a limit", NOT_JUDGED, limits={"host.memory_gib": None}),
    Case("not read", ERROR, plant.set("system", "meminfo", "nonsense"), limits=SIZE),
)
CASES += of("host.memory_available")(
    Case("free", PASS, limits=AVAILABLE),
    Case("taken by something", WARN, memory(2_000_000_000, 500_000_000), limits=AVAILABLE),
    Case("not read", ERROR, memory(2_000_000_000, 10**16), limits=AVAILABLE),
)
CASES += of("host.clock_synchronised")(
    Case("steered and near", PASS, limits=OFFSET),
    Case("not synchronised", WARN, chrony("Normal", "Not synchronised"), limits=OFFSET),
    Case("1.5 s off", WARN, chrony("0.000018421", "1.5"), limits=OFFSET),
    Case("no daemon answers", ERROR, both(*NO_CLOCK), limits=OFFSET),
)
CASES += of("host.mounts")(
    Case("asked for and there", PASS, expected={"mounts": ["/mnt/data", "/scratch"]}),
    Case("asked for and not there", FAIL, expected={"mounts": "/mnt/data,/mnt/checkpoints"}),
    Case("only a folder of that name", FAIL, expected={"mounts": ["/tmp"]}),
    Case("read-only", FAIL, data_read_only, expected=DATA),
    Case("healthy: read-only, as asked for", PASS, data_read_only, expected={"mounts": ["/mnt/data:ro"]}),
    Case("asked for with a folder to write in", PASS, expected={"mounts": ["/mnt/data:write=/mnt/data/own"]}),
    Case("read-only, and to be written", FAIL, data_read_only, expected={"mounts": ["/mnt/data:write"]}),
    Case("another word than write is no mount", FAIL, expected={"mounts": ["/mnt/data:writes=/mnt/data/own"]}),
    Case("it hangs", FAIL, usage_fails("/mnt/data", "hung"), expected=DATA),
    Case("its usage was not read", ERROR, usage_fails("/mnt/data", "denied"), expected=DATA),
)
CASES += of("host.hung_mounts")(
    Case("one hangs", FAIL, usage_fails("/mnt/data", "hung")),
    Case("a mount that is no file system of its own hangs", FAIL, usage_fails("/tmp", "timeout")),
    Case("late on busy processors: not hung, and not known to be sound", ERROR, usage_fails("/mnt/data", "busy")),
    Case("the mount table was not read", ERROR, fails("mounts", "failed", "EIO")),
)
CASES += of("host.free_space", limits=FREE)(
    Case("enough", PASS),
    Case("a full /tmp", WARN, usage("/tmp", free_bytes=1 << 30)),
    Case("a full mount that jobs need", FAIL, usage("/mnt/data", free_bytes=1 << 30), expected=DATA),
    Case("healthy: a full mount that nobody asked for", PASS, usage("/mnt/data", free_bytes=1 << 30)),
    Case("more free than there is", ERROR, usage("/tmp", size_bytes=1 << 20)),
    Case("not read", ERROR, usage_fails("/", "denied")),
)


test_the_check_says = asserting(CASES)
