"""What the kernel says of the host itself: each sort of fault by the words of real kernels, and what only looks bad."""

from fleet.changes import changes
from fleet.machine import Machine
from support.cases import ERROR, FAIL, PASS, WARN, asserting, of
from support.judging import Case, both, fails, judge_one, plant

from nodegate.profile import Profile

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
CASES = of(HARDWARE)(
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
