"""What the checks of the host and of its log say of one fault, word for word, and of machines that only look faulty."""

from fleet.changes import changes
from fleet.machine import Machine
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, WARN, asserting, of, unread
from support.judging import Case, both, fails, judge_one, plant

from nodegate.profile import Profile

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

# What the kernel says of the host itself: each sort of fault by the words of real kernels
BOOTCHECK = Profile.BOOTCHECK
HARDWARE = "host_log.hardware_errors"
HUNG = "host_log.hung_tasks"
DAY_S = 86400.0
MODULE = "CPU_SrcID#0_MC#0_Chan#1_DIMM#0"
UE = f"EDAC MC0: 1 UE memory read error on {MODULE} (channel:1 slot:0 page:0x1 offset:0x0 grain:32)"
CE = f"EDAC MC0: 1 CE memory read error on {MODULE} (channel:1 slot:0 page:0x1 offset:0x0 grain:32)"
JFS = "INFO: task jfsmount:136986 blocked for more than 120 seconds."
STACK = (
    *("Call Trace:", " <TASK>", " __schedule+0x2d0/0x8b0", " ? update_load_avg+0x82/0x640", " schedule+0x5a/0xc0"),
    *(" nfs_wait_bit_killable+0x1e/0x90 [nfs]", " __wait_on_bit+0x4b/0x110"),
)
STUCK = "watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956]"


@changes
def says(machine, *lines, ago_s=600.0):
    for number, line in enumerate(lines):
        machine.kernel(line, ago_s=ago_s - 0.1 * number)


NO_LOG = fails("kernel_log", "denied", "/dev/kmsg: Operation not permitted")
STILL_WAITS = plant.set("system", "dstate", [{"pid": 136986, "comm": "jfsmount", "wchan": "nfs_wait_bit_killable"}])
CHECK_CORRECTED = "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004200010090"
CHECK_UNCORRECTED = "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: be00000000800400"
WATCHDOG_ON = "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter."
HARD_LOCKUP = "NMI watchdog: Watchdog detected hard LOCKUP on cpu 41"
TIME_LIMIT = '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.'
CONTROLLER_DOWN = "nvme nvme2: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"
COMMAND_TIMEOUT = "nvme nvme4: I/O tag 22 (2016) opcode 0x2 (Admin Cmd) QID 0 timeout, reset controller"
READ_ERROR = "I/O error, dev nvme0n1, sector 123456 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"
NAMES_MODULE = says(
    "{1}[Hardware Error]: event severity: recoverable",
    "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4",
    "{1}[Hardware Error]:   DIMM location: P1_NODE0_CHANNEL3_DIMM0",
)
EDAC_STARTS = says(
    "EDAC MC0: Giving out device to module amd64_edac controller F19h_M10h: DEV 0000:00:18.3 (INTERRUPT)",
    "mce: CPU0: Thermal monitoring enabled (TM1)",
    "MCE: In-kernel MCE decoding enabled.",
)
FIRMWARE_CORRECTED = says(
    "{2}[Hardware Error]: event severity: corrected",
    "{2}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4",
)
NVME_STARTS = says("nvme nvme0: 128/0/0 default/read/poll queues", "nvme nvme0: Shutdown timeout set to 10 seconds")
MOUNTS = says(
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: (null). Quota mode: none.",
    "XFS (nvme1n1p1): Ending clean mount",
)
CASES += of(HARDWARE)(
    Case("the log cannot be read", ERROR, NO_LOG),
    Case("a memory module corrected errors: EDAC's own count is taken", WARN, says(CE, CE.replace("1 CE", "12 CE"))),
    Case("an AMD node names the channel", FAIL, says("EDAC MC0: 1 UE on mc#0csrow#3channel#0 (csrow:3 channel:0)")),
    Case("a machine check that was corrected", WARN, says(CHECK_CORRECTED)),
    Case("the firmware names the module", FAIL, NAMES_MODULE),
    Case("healthy: the driver of the memory controller starts", PASS, EDAC_STARTS),
)
CASES += of(HARDWARE, profile=BOOTCHECK)(
    Case("a memory module lost data", FAIL, says(UE)),
    Case("corrected errors before a job are reported", PASS, says(CE)),
    Case("a machine check whose status says uncorrected", FAIL, says(CHECK_UNCORRECTED)),
    Case("healthy: the firmware's corrected error before a job", PASS, FIRMWARE_CORRECTED),
)
CASES += of("host_log.lockups")(
    Case("the log cannot be read", ERROR, NO_LOG),
    Case("a soft lock-up at delivery", FAIL, says(STUCK)),
    Case("healthy: the watchdog is switched on", PASS, says(WATCHDOG_ON)),
)
CASES += of("host_log.lockups", profile=BOOTCHECK)(
    Case("a soft lock-up before a job", WARN, says(STUCK)),
    Case("a hard lock-up", FAIL, says(HARD_LOCKUP)),
    Case("a hard lock-up before this boot", PASS, says(HARD_LOCKUP, ago_s=20 * DAY_S)),
)
CASES += of(HUNG)(
    Case("the log cannot be read", ERROR, NO_LOG),
    Case("the stack says where it waits", WARN, says(JFS, *STACK)),
    Case("it still waits, and the kernel says where", WARN, both(says(JFS), STILL_WAITS), profile=BOOTCHECK),
    Case("nobody knows where it waited", WARN, says(JFS)),
    Case("healthy: the kernel mentions its own time limit", PASS, says(TIME_LIMIT)),
)
CASES += of("host_log.nvme")(
    Case("the log cannot be read", ERROR, NO_LOG),
    Case("a controller goes down", WARN, says(CONTROLLER_DOWN), profile=BOOTCHECK),
    Case("a command times out", WARN, says(COMMAND_TIMEOUT)),
    Case("a block cannot be read", WARN, says(READ_ERROR)),
    Case("healthy: a controller starts", PASS, NVME_STARTS),
)
CASES += of("host_log.file_systems")(
    Case("the log cannot be read", ERROR, NO_LOG),
    Case("one turns read-only", WARN, says("EXT4-fs (md0): Remounting filesystem read-only"), profile=BOOTCHECK),
    Case("one is shut down", FAIL, says("XFS (nvme0n1p1): Filesystem has been shut down due to log error (0x2).")),
    Case("healthy: one is mounted, and unmounted", PASS, MOUNTS),
)


test_the_check_says = asserting(CASES)


def test_errors_of_two_modules_are_two_findings():
    machine = Machine.hgx_h100()
    says(CE, CE, CE.replace("Chan#1", "Chan#3"))(machine)
    record = judge_one(HARDWARE, machine)
    assert [(finding.part.label, finding.observed, finding.quantity) for finding in record.findings] == [
        (f"memory module {MODULE}", 2, "errors"),
        ("memory module CPU_SrcID#0_MC#0_Chan#3_DIMM#0", 1, "errors"),
    ]


def test_a_stack_belongs_to_the_task_before_it():
    machine = Machine.hgx_h100()
    other = JFS.replace("jfsmount:136986", "python3:4242")
    says(JFS, other, " schedule+0x5a/0xc0", " os_acquire_mutex+0x3d/0x50 [nvidia]")(machine)
    by_task = {finding.part.label: finding.message for finding in judge_one(HUNG, machine).findings}
    assert "the log does not say where" in by_task["process jfsmount:136986"]
    assert "waited in os_acquire_mutex (the GPU driver)" in by_task["process python3:4242"]
