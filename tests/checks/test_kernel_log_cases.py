"""What the kernel log checks say of one machine with one fault, word for word, and of lines that only look bad."""

import tracemalloc

import pytest
from fleet.changes import changes
from fleet.machine import EPOCH_S, Machine
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, WARN, asserting, of, unread
from support.judging import Case, fails, judge_one, plant

from nodegate.kernel_log.gpu_faults import faults_of
from nodegate.kernel_log.window import LogWindow
from nodegate.probe.kernel_log import KernelLine
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

BOOTCHECK = Profile.BOOTCHECK
DAY_S = 86400.0
BEFORE_THIS_BOOT_S = 20 * DAY_S
GPU = "NVRM: Xid (PCI:0000:3d:00): "
SWITCH = "nvidia-nvswitch2: SXid (PCI:0000:85:00.0): "
NIC = "mlx5_core 0000:1a:00.0"
HALF = (
    f"{NIC}: 252.056 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at 0000:17:02.0 "
    "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"
)
ASKS, DRAIN = "154, GPU recovery action changed from {} to {}", "0x4 (Drain and Reset)"
FLAPS = {"kernel.nic_flap_max": 2, "kernel.nic_flap_window_h": 24}
OUTAGE = {**FLAPS, "kernel.nic_outage_max_s": 30}
FATAL = "20034, Fatal, Link 30 LTSSM Fault Up"
LOST = "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@changes
def says(machine, *lines, ago_s=600.0):
    for number, line in enumerate(lines):
        machine.kernel(line, ago_s=ago_s - number)


def xid(*texts, ago_s=600.0):
    return says(*(GPU + text for text in texts), ago_s=ago_s)


def sxid(*texts, ago_s=600.0):
    return says(*(SWITCH + text for text in texts), ago_s=ago_s)


@changes
def left_out(machine, kind, lines, *, ago_s):
    """Lines of a kind did not fit, the newest of them so long ago."""
    machine.set("kernel_log", "dropped", lines)
    lost = {"kind": kind, "lines": lines, "until_epoch_s": EPOCH_S - ago_s}
    machine.sections["kernel_log"]["lost"] = [lost]


@changes
def flaps(machine, count):
    for number in range(count):
        machine.kernel(f"{NIC} ibp26s0: Link down", ago_s=7200.0 - 600 * number)
        machine.kernel(f"{NIC} ibp26s0: Link up", ago_s=7198.0 - 600 * number)


@changes
def outage(machine, seconds, *, ago_s=7200.0, since_an_hour=False):
    """The link goes down once and comes back later."""
    if since_an_hour:
        machine.set("system", "uptime_s", 3600.0)
    machine.kernel(f"{NIC} ibp26s0: Link down", ago_s=ago_s)
    machine.kernel(f"{NIC} ibp26s0: Link up", ago_s=ago_s - seconds)


def every_rail_limited(machine):
    for address in machine.nic_addresses:
        machine.kernel(HALF.replace("0000:1a:00.0", address), ago_s=500)


def gsp_times_out_again_and_again(machine):
    machine.kernel("NVRM: GPU at PCI:0000:3d:00: GPU-509665ad-b600-ac93-3616-d754b23d636d", ago_s=700)
    machine.kernel("NVRM: GPU Board Serial Number: 1650124014249", ago_s=699)
    for number in range(14):
        line = f"119, pid={2000 + number}, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 GSP!"
        machine.kernel(GPU + line, ago_s=690 - 6 * number)


MMU_FAULT = "31, pid=7, name=python, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS"
OF_A_MIG_INSTANCE = "NVRM: Xid (PCI:0001:3d:00 GPU-I:05 GPU-CI:00): 94, pid=7194, Contained: CE User Channel (0x9)"
DRIVER_LOADS = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024"
BUS_ERROR = "nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)"
CORRECTED = "nvidia 0000:65:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
NOT_LIMITED = "mlx5_core 0000:41:00.1: 63.008 Gb/s available PCIe bandwidth (8.0 GT/s PCIe x8 link)"
HEALTH_LOST = "mlx5_core 0000:d2:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count"
QUEUE_STANDS = "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 0 timed out"
LITTLE_POWER = (
    "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 3): Detected insufficient power on the PCIe slot (27W)."
)
OUT_OF_MEMORY = "Out of memory: Killed process 12345 (python3) total-vm:812345678kB, anon-rss:500000000kB"
CGROUP_FULL = "Memory cgroup out of memory: Killed process 8123 (python3) total-vm:81234kB"
READ_ERROR = "I/O error, dev sda, sector 123456 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"
MOUNTED = "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: (null). Quota mode: none."
SYSRQ = "Kernel panic - not syncing: sysrq triggered crash"
REMAPPED = "63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate."
AFTER_31 = xid(
    "31, pid=7, name=a b, channel 0x00000008, MMU Fault",
    "45, pid=7, name=a b, channel 0x00000008 caused by previous Xid 31",
    "43, pid=7, name=a b, channel 0x00000008",
)
AFTER_79 = xid(LOST, "119, pid=1, name=nvidia-smi, Timeout after 6s", "120, GSP task exception")
THREE_LINES = says(
    "NVRM: The NVIDIA GPU 0000:18:00.0",
    "NVRM: (PCI ID: 10de:2901) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)
TAKEN_BACK = xid("94, Contained", ASKS.format("0x0 (None)", DRAIN), ASKS.format(DRAIN, "0x0 (None)"))
ASKS_NOTHING = xid("64, pid=7, name=x, Row Remapper Error", ASKS.format("0x1 (GPU Reset Required)", "0x0 (None)"))
MEMORY_ERROR = xid(
    "48, An uncorrectable double bit error (DBE) has been detected on GPU",
    "171, Uncorrectable DRAM error in FBPA 3 subpartition 0",
    "48, pid=4242, name=python3, An uncorrectable double bit error (DBE)",
    "94, pid=4242, name=python3, Contained: CE User Channel (0x9)",
    "63, Row Remapper: New row marked for remapping",
    "45, pid=4242, name=python3, channel 0x00000008 caused by previous Xid 48",
    "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
)
DATA = "20034, Data {0x50610002, 0x10100030}"
SEVERITY = "20034, Severity 1 Engine instance 30 Sub-engine instance 00"
UNTIMED = plant.set("kernel_log", "since_epoch_s", unread("missing", "no line has a time"))
SLOW_SLOT = (
    "pci 0000:e1:00.0: 31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x4 link at "
    "0000:e0:01.0 (capable of 63.012 Gb/s with 16.0 GT/s PCIe x4 link)"
)
CHANGED = outage(300.0, since_an_hour=True)
HARMLESS = says(
    "mlx5_core: Detected insufficient power on the PCIe slot (W).",
    "mlx5_core: ACCESS_REG successful",
    "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 91): ACCESS_REG(0x805) op_mod(0x1) failed",
    "mlx5_core 0000:41:00.1: Port module event: module 1, Cable unplugged",
)
CASES = of("kernel_log.xid")(
    Case("31: a program's own fault", WARN, xid(MMU_FAULT)),
    Case("63 at delivery", FAIL, xid(REMAPPED)),
    Case("79 before this boot, at delivery", WARN, xid(LOST, ago_s=BEFORE_THIS_BOOT_S)),
    Case("94 at delivery", FAIL, xid("94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No")),
    Case("109 at delivery", FAIL, xid("109, pid=9, name=my job, Ch 8, errorString CTX SWITCH TIMEOUT")),
    Case("a code that nobody has told us", WARN, xid("999, pid=3, name=x, NVLink: FLA fault")),
    Case("45 alone at delivery", WARN, xid("45, pid=3, name=x, Ch 00000008")),
    Case("45 and 43 after 31 are its consequences", WARN, AFTER_31),
    Case("119 and 120 of a lost GPU are its consequences", FAIL, AFTER_79),
    Case("a MIG instance in a PCI domain of its own", FAIL, says(OF_A_MIG_INSTANCE)),
    Case("149 Nonfatal", WARN, xid("149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00086226 0x00000001)")),
    Case("149 Fatal", FAIL, xid("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000)")),
    Case("a lost GPU without an Xid", FAIL, says("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.")),
    Case("a lost GPU in three lines", FAIL, THREE_LINES),
    Case("an Xid line in a form that is not known", WARN, says("NVRM: Xid (PCI:garbled): fell")),
    Case("healthy: the driver says that it loads", PASS, says(DRIVER_LOADS)),
    Case("the log was not read", ERROR, fails("kernel_log", "denied", "/dev/kmsg: Operation not permitted")),
)
CASES += of("kernel_log.xid", profile=BOOTCHECK)(
    Case("31 before a job", WARN, xid("31, pid=7, name=python, Ch 00000010")),
    Case("31 three days ago", PASS, xid("31, pid=7, name=python, Ch 00000010", ago_s=3 * DAY_S)),
    Case("48", FAIL, xid("48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE)")),
    Case("63 before a job", WARN, xid("63, pid=1896, Row Remapper: New row marked for remapping")),
    Case("64", FAIL, xid("64, pid=1896, Row Remapper Error: (0x1) - All reserved rows for bank are remapped")),
    Case("64 is not settled by a reboot", FAIL, xid("64, Row Remapper Error", ago_s=BEFORE_THIS_BOOT_S)),
    Case("79", FAIL, xid(LOST)),
    Case("79 before this boot, before a job", PASS, xid(LOST, ago_s=BEFORE_THIS_BOOT_S)),
    Case("94 before a job", WARN, xid("94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No")),
    Case("95", FAIL, xid("95, pid=7194, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No")),
    Case("109 before a job", WARN, xid("109, pid=9, name=my job, Ch 8, errorString CTX SWITCH TIMEOUT")),
    Case("119 again and again is one fault of one board", FAIL, gsp_times_out_again_and_again),
    Case("120", FAIL, xid("120, pid='<unknown>', name=<unknown>, GSP task exception")),
    Case("110 before this boot", WARN, xid("110, SEC_FAULT", ago_s=BEFORE_THIS_BOOT_S)),
    Case("43 alone before a job", PASS, xid("43, pid=3, name=x, Ch 00000008")),
    Case("154 says what the driver wants", FAIL, xid("94, Contained", ASKS.format("0x0 (None)", DRAIN))),
    Case("154 takes its wish back", WARN, TAKEN_BACK),
    Case("a failed row remap that the driver asks nothing for", FAIL, ASKS_NOTHING),
    Case("a memory error with all that it brings: one root", FAIL, MEMORY_ERROR),
    Case("154 alone", FAIL, xid("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")),
)
CASES += of("kernel_log.sxid")(
    Case("fatal, with its lines of data", FAIL, sxid(FATAL, SEVERITY, DATA)),
    Case("non-fatal", WARN, sxid("12028, Non-fatal, Link 61 egress non-posted PRIV error (First)")),
    Case("fatal after the loss of a GPU", WARN, says(GPU + LOST, SWITCH + FATAL)),
    Case("fatal before this boot", PASS, sxid(FATAL, ago_s=BEFORE_THIS_BOOT_S), profile=BOOTCHECK),
    Case("only a line of data", WARN, sxid("11111, Data {0x50610002, 0x10100030}")),
    Case("an SXid line in a form that is not known", WARN, sxid("xyz, Fatal error")),
    Case("the log was not read", ERROR, fails("kernel_log", "timeout", "10 s")),
)
CASES += of("kernel_log.reaches_back")(
    Case("the ring buffer has wrapped", WARN, plant.set("kernel_log", "since_epoch_s", EPOCH_S - 3600)),
    Case("lines were left out", WARN, left_out("network", 12, ago_s=60.0)),
    Case("healthy: warnings of a firewall were left out", PASS, left_out("warning", 4711, ago_s=60.0)),
    Case("lines of level error were left out", WARN, left_out("err", 12, ago_s=60.0)),
    Case("healthy: lines of an earlier boot were left out", PASS, left_out("network", 12, ago_s=BEFORE_THIS_BOOT_S)),
    Case("the kernel overwrote messages", WARN, lambda machine: machine.sections["kernel_log"].update(missed=3)),
    Case("nobody knows how far", ERROR, UNTIMED),
)
CASES += of("kernel_log.gpu_driver")(
    Case("a GPU was not brought up", FAIL, says("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)"))
)
CASES += of("kernel_log.pcie_errors")(
    Case("an uncorrectable error", FAIL, says(BUS_ERROR)),
    Case("healthy: a corrected error is counted elsewhere", PASS, says(CORRECTED)),
)
CASES += of("kernel_log.pcie_bandwidth")(
    Case("one of eight NICs at half", FAIL, says(HALF)),
    Case("all eight NICs at half", WARN, every_rail_limited),
    Case("healthy: available, and not limited", PASS, says(NOT_LIMITED)),
    Case("healthy: a disk in a slow slot", PASS, says(SLOW_SLOT)),
    Case("the kernel does not know where the slow link is", FAIL, says(HALF.replace("0000:17:02.0", "<unknown>"))),
    Case("a line without the place of the link", FAIL, says(HALF.replace(" at 0000:17:02.0", ""))),
    Case("a wide device that is not there any more", FAIL, says(HALF.replace(NIC, "pci 0000:f1:00.0"))),
    Case("before this boot", PASS, says(HALF, ago_s=BEFORE_THIS_BOOT_S)),
)
CASES += of("kernel_log.nic_flaps")(
    Case("one long outage", FAIL, outage(300.0), limits=OUTAGE),
    Case("healthy: a cable that was changed before the last boot", WARN, CHANGED, limits=OUTAGE),
    Case("one outage of 20 s", WARN, outage(20.0)),
    Case("without a limit", NOT_JUDGED, limits={"kernel.nic_flap_max": None}),
)
CASES += of("kernel_log.nic_flaps", limits=FLAPS)(
    Case("none", PASS),
    Case("three in a day", FAIL, flaps(3)),
    Case("two in a day", WARN, flaps(2)),
    Case("it stays down", WARN, says("infiniband mlx5_3: Port: 1 Link DOWN")),
    Case("soft-RoCE", WARN, says("infiniband rxe1: set down")),
    Case("healthy: the shutdown before this boot", PASS, outage(300.0, ago_s=3800.0, since_an_hour=True)),
    Case("healthy: bring-up", PASS, outage(5.0, ago_s=3590.0, since_an_hour=True)),
    Case("three days ago", PASS, says("infiniband mlx5_3: Port: 1 Link DOWN", ago_s=3 * DAY_S)),
)
CASES += of("kernel_log.nic_errors")(
    Case("the firmware stopped", FAIL, says(HEALTH_LOST), profile=BOOTCHECK),
    Case("a queue stands still", WARN, says(QUEUE_STANDS), profile=BOOTCHECK),
    Case("too little power", WARN, says(LITTLE_POWER)),
    Case("healthy: refused registers, no watts, an unplugged cable", PASS, HARMLESS),
)
CASES += of("kernel_log.memory", profile=BOOTCHECK)(
    Case("the node ran out", WARN, says(OUT_OF_MEMORY)),
    Case("a job reached its own limit", PASS, says(CGROUP_FULL)),
    Case("three days ago", PASS, says("Out of memory: Killed process 12345 (python3)", ago_s=3 * DAY_S)),
)
CASES += of("kernel_log.storage")(
    Case("a disk fails", WARN, says(READ_ERROR)), Case("healthy: a file system is mounted", PASS, says(MOUNTED))
)
CASES += of("kernel_log.host_faults")(
    Case("no more open files", WARN, says("VFS: file-max limit 1000000 reached"), profile=BOOTCHECK),
    Case("healthy: a crash that was asked for, before this boot", PASS, says(SYSRQ, ago_s=BEFORE_THIS_BOOT_S)),
)
# Application Xids counted by unit and program; the forms: open-gpu-kernel-modules, nverror.c and kernel_rc.c
H = 3600.0
LOOK_AT_THE_JOB = "look at the job"
NOBODY = ("'<unknown>'", "<unknown>")
BUSES = ("1a", "22", "2a", "3a")


def fault(pid, name, bus="3e", mig=""):
    return (
        f"NVRM: Xid (PCI:0000:{bus}:00{mig}): 31, pid={pid}, name={name}, Ch 00000008, intr 00000000. MMU Fault: ENGINE"
        " GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f42_a0000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    )


def on_all(hours, name):
    return [(hours * H, fault(number, name, bus)) for number, bus in enumerate(BUSES)]


def warp(pid, name, gpc, tpc):
    where = f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 0): Out Of Range Address"
    return f"NVRM: Xid (PCI:0000:3e:00): 13, pid={pid}, name={name}, {where}"


def everywhere(pid, name):
    return [warp(pid, name, number % 7, number % 8) for number in range(40)]


def nvlink(link, *registers):
    words = ", ".join([*registers, *["0x0"] * 7][:7])
    return f"74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link {link}({words})"


@changes
def said(machine, *lines):
    for ago_s, told in lines:
        for number, line in enumerate([told] if isinstance(told, str) else told):
            full = line if line.startswith("NVRM") else f"NVRM: Xid (PCI:0000:3e:00): {line}"
            machine.kernel(full, ago_s=ago_s - number / 100)


SUSPECT = {
    "two programs": said((2 * H, fault(11, "train_llm")), (H, fault(22, "python3"))),
    "minutes apart": said((H, fault(11, "train_llm")), (H - 600, fault(22, "python3"))),
    "a sample of CUDA": said((H, fault(11, "matrixMul"))),
    "a name that the kernel cut": said((H, fault(11, "reduce_scatter_"))),
    "DCGM": said((H, fault(11, "dcgmproftester1"))),
    "13 on one TPC": said((3 * H, warp(11, "appa", 2, 3)), (H, warp(22, "appb", 2, 3))),
    "13 whose process the next 43 names": said(
        (3 * H, [warp(*NOBODY, 2, 3), "43, pid=3, name=appa, channel 0x00000002"]),
        (H, [warp(*NOBODY, 2, 3), "43, pid=1, name=appb, channel 0x00000002"]),
    ),
    "other programs on another GPU": said(
        (3 * H, fault(1, "appa")), (2 * H, fault(2, "appb")), (H, fault(3, "appc", "1a"))
    ),
    "a good program on all GPUs": said(*on_all(1, "all_reduce_perf")),
}
OF_THE_JOB = {
    "one script three times": said(*((hours * H, fault(hours, "python3")) for hours in (3, 2, 1))),
    "names of one interpreter": said((2 * H, fault(1, "python3.10")), (H, fault(2, "pt_main_thread"))),
    "threads of one process": said((H, fault(11, "trainer")), (H - 400, fault(11, "pt_autograd_0"))),
    "one burst": said((H, fault(11, "appa")), (H - 60, fault(22, "appb"))),
    "days apart": said((60 * H, fault(11, "appa")), (H, fault(22, "appb"))),
    "the ranks of one job": said(*on_all(1, "python3")),
    "two programs on two GPUs each": said(*on_all(3, "appa"), *on_all(1, "appb")),
    "13 on two TPCs": said((3 * H, warp(11, "appa", 2, 3)), (H, warp(22, "appb", 5, 1))),
    "13 on all TPCs": said((3 * H, everywhere(11, "appa")), (H, everywhere(22, "appb"))),
    "13 of a process that is not known": said((3 * H, warp(*NOBODY, 2, 3)), (H, warp(*NOBODY, 2, 3))),
    "two MIG instances": said((3 * H, fault(11, "appa", mig=" GPU-I:05")), (H, fault(22, "appb", mig=" GPU-I:06"))),
    "a process without a name": said((3 * H, fault(11, "appa")), (H, fault(22, "<unknown>"))),
    "a name that only begins like a sample": said((H, fault(11, "matrixMulMine"))),
}


def judged(change, profile=Profile.BOOTCHECK):
    machine = Machine.hgx_h100()
    change(machine)
    found = judge_one("kernel_log.xid", machine, profile=profile).findings
    return [(each.verdict.value, each.message) for each in found]


@pytest.mark.parametrize("change", SUSPECT.values(), ids=SUSPECT)
def test_the_gpu_is_suspected(change):
    suspected = [(verdict, message) for verdict, message in judged(change) if "suspect" in message]
    assert {verdict for verdict, _ in suspected} == {"warn"}
    assert all("run dcgmi diag" in message and LOOK_AT_THE_JOB not in message for _, message in suspected)
    assert next(verdict for verdict, message in judged(change, Profile.DELIVERY) if "suspect" in message) == "fail"


@pytest.mark.parametrize("change", OF_THE_JOB.values(), ids=OF_THE_JOB)
def test_the_job_is_looked_at(change):
    found = judged(change)
    assert all("suspect" not in message for _, message in found)
    assert any(LOOK_AT_THE_JOB in message for _, message in found)


def test_a_burst_of_thousands_of_processes_is_counted_in_bounds():
    many = [fault(number, f"p{number}x", f"{number % 250:02x}") for number in range(20_000)]
    assert judged(said((H, many)))


DECODED = {
    "13 by unit": (warp(11, "python3", 2, 3), "warn", "GPC 2, TPC 3: a program on the GPU stopped"),
    "45 by 149": ("45, pid=4242, name=python3, Ch 00000008 caused by previous Xid 149", "fail", "Xid 149 ("),
    "45 by 145": ("45, pid=4242, name=python3, Ch 00000008 caused by previous Xid 145", "fail", "Xid 145 ("),
    "45 by 13": ("45, pid=4242, name=python3, Ch 00000008 caused by previous Xid 13", "warn", "Xid 13 ("),
    "74: signal": (nvlink(8, "0x200000"), "fail", "link 8: the signal on the link is marginal"),
    "74: ECC": (nvlink(14, "0x0", "0x0", "0x4"), "fail", "link 14: an ECC or parity error in the link's hardware"),
    "74: corrected": (nvlink(2, "0x0", "0x0", "0x0", "0x0", "0x100000"), "warn", "link 2: many corrected ECC errors"),
    "74: the worst bit": (nvlink(2, "0x12", "0x0", "0x0", "0x0", "0x100000"), "fail", "link 2: an ECC or parity"),
    "74: an unknown bit": (nvlink(2, "0x80"), "fail", "link 2: a link between GPUs or to a switch failed"),
    "74: no register": ("74, NVLink: failed to train link 4 to remote PCI:0000:c5:00", "fail", "link 4: a link"),
}


@pytest.mark.parametrize(("line", "verdict", "words"), DECODED.values(), ids=DECODED)
def test_the_line_says_what_failed(line, verdict, words):
    ((found, message),) = [each for each in judged(said((600, line))) if "Xid" in each[1]]
    assert found == verdict
    assert words in message


LONG_AGO = said((90 * H, fault(1, "appa")), (80 * H, fault(2, "appb")))
CASES += of("kernel_log.xid")(
    Case("two programs on one GPU, at delivery", FAIL, SUSPECT["two programs"]),
    Case("two programs on one GPU, before a job", WARN, SUSPECT["two programs"], profile=Profile.BOOTCHECK),
    Case("one program on one GPU", WARN, OF_THE_JOB["one script three times"]),
    Case("two programs long ago", PASS, LONG_AGO, profile=Profile.BOOTCHECK),
)


test_the_check_says = asserting(CASES)


# One root per GPU and incident: what only follows is reported with it, what has its own cause stays a finding.
OTHER_GPU = "NVRM: Xid (PCI:0000:4e:00): "


def findings(*lines):
    """PCI address and code of each finding; lines are given with their age in seconds."""
    machine = Machine.hgx_h100()
    for ago_s, line in lines:
        machine.kernel(line, ago_s=ago_s)
    record = judge_one("kernel_log.xid", machine, profile=Profile.BOOTCHECK)
    return [(each.part.pci, each.code) for each in record.findings if each.verdict is not Verdict.PASS]


FOLLOW = (
    (LOST, ("119, Timeout after 6s", "120, GSP error", "45, channel 0x8", "62, 0x1", "109, CTX SWITCH TIMEOUT"), 79),
    ("48, DBE", ("171, DRAM", "94, Contained", "63, Row Remapper", "45, channel 0x8", "43, channel 0x8"), 48),
    ("95, Uncontained: LTC TAG", ("94, Contained", "63, Row Remapper", "31, MMU Fault"), 95),
    ("94, Contained", ("63, Row Remapper", "45, channel 0x8"), 94),
    ("140, unrecovered", ("45, channel 0x8",), 140),
    ("13, Graphics SM Warp Exception", ("43, channel 0x8", "45, caused by previous Xid 13"), 13),
)


@pytest.mark.parametrize(("root", "others", "code"), FOLLOW)
def test_what_follows_is_reported_with_its_root(root, others, code):
    lines = [(600.0, GPU + root)] + [(599.0 - number, GPU + other) for number, other in enumerate(others)]
    assert findings(*lines) == [("0000:3d:00.0", str(code))]


def test_lines_of_one_memory_error_may_come_before_their_root():
    lines = ((600.0, GPU + "94, Contained"), (599.5, GPU + "63, Row Remapper"), (599.0, GPU + "48, DBE"))
    assert findings(*lines) == [("0000:3d:00.0", "48")]


OWN = (
    ((600.0, GPU + "48, DBE"), (599.0, GPU + "64, Row Remapper Error"), "64"),
    ((600.0, GPU + LOST), (599.0, OTHER_GPU + "119, Timeout after 6s"), "119"),
    ((4200.0, GPU + "48, DBE"), (600.0, GPU + "31, MMU Fault"), "31"),
)


@pytest.mark.parametrize(("first", "other", "code"), OWN, ids=["a failed row remap", "another GPU", "an hour later"])
def test_what_has_a_root_of_its_own_stays_a_finding(first, other, code):
    assert [found for _, found in findings(first, other)][1:] == [code]


def test_a_reset_settles_what_came_before_it_and_nothing_after():
    none = "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    machine = Machine.hgx_h100()
    for ago_s, line in ((900.0, "62, halted"), (600.0, none), (300.0, "119, Timeout after 6s")):
        machine.kernel(GPU + line, ago_s=ago_s)
    record = judge_one("kernel_log.xid", machine, profile=Profile.BOOTCHECK)
    assert {each.code: each.verdict for each in record.findings} == {"62": Verdict.WARN, "119": Verdict.FAIL}


def test_a_burst_is_one_fault_with_a_count_and_is_read_line_by_line():
    kinds, lines = 29, 20_000
    texts = [f"NVRM: Xid (PCI:0000:9b:00): 95, pid={n}, name=python3, Uncontained: LTC TAG ({n})" for n in range(kinds)]
    window = LogWindow(now_s=100_000.0, boot_s=0.0, window_h=24, profile=Profile.DELIVERY)
    tracemalloc.start()
    (fault,) = faults_of((KernelLine(texts[n % kinds], n / 1000) for n in range(lines)), window, {})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (fault.rule.code, fault.count) == (95, lines)
    assert (fault.first.epoch_s, fault.last.epoch_s) == (0.0, (lines - 1) / 1000)
    assert peak_bytes < 1 << 20
