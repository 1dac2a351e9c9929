"""What the kernel log checks say of one machine with one fault, word for word, and of lines that only look bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import EPOCH_S
from support.judging import Case, assert_case

from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.machine import Machine

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
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
FLAPS = {"kernel.nic_flap_max": 2, "kernel.nic_flap_window_h": 24}
LOST = "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def says(*lines: str, ago_s: float = 600.0) -> Callable[[Machine], None]:
    """The kernel says these lines, a second apart."""

    def change(machine: Machine) -> None:
        for number, line in enumerate(lines):
            machine.kernel(line, ago_s=ago_s - number)

    return change


def left_out(kind: str, lines: int, *, ago_s: float) -> Callable[[Machine], None]:
    """Lines of a kind did not fit, the newest of them so long ago."""

    def change(machine: Machine) -> None:
        machine.set("kernel_log", "dropped", lines)
        lost = {"kind": kind, "lines": lines, "until_epoch_s": EPOCH_S - ago_s}
        machine.sections["kernel_log"]["lost"] = [lost]

    return change


def flaps(count: int) -> Callable[[Machine], None]:
    """The link goes down and comes back, every ten minutes."""

    def change(machine: Machine) -> None:
        for number in range(count):
            machine.kernel(f"{NIC} ibp26s0: Link down", ago_s=7200.0 - 600 * number)
            machine.kernel(f"{NIC} ibp26s0: Link up", ago_s=7198.0 - 600 * number)

    return change


def outage(seconds: float, *, before_the_boot: bool = False) -> Callable[[Machine], None]:
    """The link goes down once and comes back later."""

    def change(machine: Machine) -> None:
        if before_the_boot:
            machine.set("system", "uptime_s", 3600.0)
        machine.kernel(f"{NIC} ibp26s0: Link down", ago_s=7200.0)
        machine.kernel(f"{NIC} ibp26s0: Link up", ago_s=7200.0 - seconds)

    return change


def down_with_the_shutdown(machine: Machine) -> None:
    machine.set("system", "uptime_s", 3600.0)
    machine.kernel(f"{NIC} ibp26s0: Link down", ago_s=3800)
    machine.kernel(f"{NIC} ibp26s0: Link up", ago_s=3500)


def up_and_down_at_bring_up(machine: Machine) -> None:
    machine.set("system", "uptime_s", 3600.0)
    machine.kernel(f"{NIC} ibp26s0: Link down", ago_s=3590)
    machine.kernel(f"{NIC} ibp26s0: Link up", ago_s=3585)


def every_rail_limited(machine: Machine) -> None:
    for address in machine.nic_addresses:
        machine.kernel(HALF.replace("0000:1a:00.0", address), ago_s=500)


def gsp_times_out_again_and_again(machine: Machine) -> None:
    machine.kernel("NVRM: GPU at PCI:0000:3d:00: GPU-509665ad-b600-ac93-3616-d754b23d636d", ago_s=700)
    machine.kernel("NVRM: GPU Board Serial Number: 1650124014249", ago_s=699)
    for number in range(14):
        line = f"119, pid={2000 + number}, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 GSP!"
        machine.kernel(GPU + line, ago_s=690 - 6 * number)


CASES = (
    Case("none", "kernel_log.xid", PASS, "kernel log: no Xid since 2026-10-12 08:15:00Z"),
    Case(
        "31: a program's own fault",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 31 (memory page fault) once at 2026-11-21 08:05:00Z: a program on the GPU "
            "used an address that is not mapped - look at the job; if nodegate's own kernels raise it "
            "again on this GPU run field diagnostics"
        ),
        change=says(GPU + "31, pid=7, name=python, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS"),
    ),
    Case(
        "31 before a job",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 31 (memory page fault) once at 2026-11-21 08:05:00Z: a program on the GPU "
            "used an address that is not mapped - look at the job; if nodegate's own kernels raise it "
            "again on this GPU run field diagnostics"
        ),
        change=says(GPU + "31, pid=7, name=python, Ch 00000010"),
        profile=BOOTCHECK,
    ),
    Case(
        "31 three days ago",
        "kernel_log.xid",
        PASS,
        (
            "{gpu3}: Xid 31 (memory page fault) once at 2026-11-18 08:15:00Z: a program on the GPU "
            "used an address that is not mapped; more than 24 h ago"
        ),
        change=says(GPU + "31, pid=7, name=python, Ch 00000010", ago_s=3 * DAY_S),
        profile=BOOTCHECK,
    ),
    Case(
        "48",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 48 (uncorrectable memory error) once at 2026-11-21 08:05:00Z: two bits of "
            "one word of GPU memory were wrong at once - reset the GPU, then look at its row "
            "remapping and SRAM counters; replace it if it recurs"
        ),
        change=says(GPU + "48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE)"),
        profile=BOOTCHECK,
    ),
    Case(
        "63 at delivery",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 63 (row remap recorded) once at 2026-11-21 08:05:00Z: a row of GPU memory "
            "was marked for a spare one - reset the GPU when it is idle so that the remap takes "
            "effect"
        ),
        change=says(GPU + "63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate."),
    ),
    Case(
        "63 before a job",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 63 (row remap recorded) once at 2026-11-21 08:05:00Z: a row of GPU memory "
            "was marked for a spare one - reset the GPU when it is idle so that the remap takes "
            "effect"
        ),
        change=says(GPU + "63, pid=1896, Row Remapper: New row marked for remapping"),
        profile=BOOTCHECK,
    ),
    Case(
        "64",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 64 (row remap failed) once at 2026-11-21 08:05:00Z: no spare row was left "
            "or the remap could not be written - run field diagnostics and replace the GPU"
        ),
        change=says(GPU + "64, pid=1896, Row Remapper Error: (0x1) - All reserved rows for bank are remapped"),
        profile=BOOTCHECK,
    ),
    Case(
        "64 is not settled by a reboot",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 64 (row remap failed) once at 2026-11-01 08:15:00Z: no spare row was left "
            "or the remap could not be written; before this boot; only a new part settles it, a "
            "reboot does not - run field diagnostics and replace the GPU"
        ),
        change=says(GPU + "64, Row Remapper Error", ago_s=BEFORE_THIS_BOOT_S),
        profile=BOOTCHECK,
    ),
    Case(
        "79",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 79 (GPU has fallen off the bus) once at 2026-11-21 08:05:00Z: the GPU no "
            "longer answers on PCIe - power-cycle the node; reseat or replace the GPU if it recurs"
        ),
        change=says(GPU + LOST),
        profile=BOOTCHECK,
    ),
    Case(
        "79 before this boot, at delivery",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 79 (GPU has fallen off the bus) once at 2026-11-01 08:15:00Z: the GPU no "
            "longer answers on PCIe; settled by the reboot at 2026-11-08 20:14:47Z - power-cycle the "
            "node; reseat or replace the GPU if it recurs"
        ),
        change=says(GPU + LOST, ago_s=BEFORE_THIS_BOOT_S),
    ),
    Case(
        "79 before this boot, before a job",
        "kernel_log.xid",
        PASS,
        (
            "{gpu3}: Xid 79 (GPU has fallen off the bus) once at 2026-11-01 08:15:00Z: the GPU no "
            "longer answers on PCIe; settled by the reboot at 2026-11-08 20:14:47Z"
        ),
        change=says(GPU + LOST, ago_s=BEFORE_THIS_BOOT_S),
        profile=BOOTCHECK,
    ),
    Case(
        "94 at delivery",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 94 (contained memory error) once at 2026-11-21 08:05:00Z: an uncorrectable "
            "memory error ended only the program that met it - drain the GPU and reset it; look at "
            "row remapping"
        ),
        change=says(GPU + "94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No"),
    ),
    Case(
        "94 before a job",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 94 (contained memory error) once at 2026-11-21 08:05:00Z: an uncorrectable "
            "memory error ended only the program that met it - drain the GPU and reset it; look at "
            "row remapping"
        ),
        change=says(GPU + "94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No"),
        profile=BOOTCHECK,
    ),
    Case(
        "95",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 95 (uncontained memory error) once at 2026-11-21 08:05:00Z: an "
            "uncorrectable memory error may have reached every program on the GPU - reset the GPU "
            "(reboot the node for an A100 without MIG); replace it if it recurs"
        ),
        change=says(GPU + "95, pid=7194, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No"),
        profile=BOOTCHECK,
    ),
    Case(
        "109 at delivery",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 109 (context switch timeout) once at 2026-11-21 08:05:00Z: the GPU did not "
            "leave a program in time - reset the GPU; when only one program brings it look at the "
            "program"
        ),
        change=says(GPU + "109, pid=9, name=my job, Ch 8, errorString CTX SWITCH TIMEOUT"),
    ),
    Case(
        "109 before a job",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 109 (context switch timeout) once at 2026-11-21 08:05:00Z: the GPU did not "
            "leave a program in time - reset the GPU; when only one program brings it look at the "
            "program"
        ),
        change=says(GPU + "109, pid=9, name=my job, Ch 8, errorString CTX SWITCH TIMEOUT"),
        profile=BOOTCHECK,
    ),
    Case(
        "119 again and again is one fault of one board",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 119 (GSP RPC timeout) 14 times from 2026-11-21 08:03:30Z to 2026-11-21 "
            "08:04:48Z: the GPU's system processor did not answer the driver - reset the GPU, else "
            "reboot; update driver and GSP firmware if it recurs"
        ),
        change=gsp_times_out_again_and_again,
        profile=BOOTCHECK,
    ),
    Case(
        "120",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 120 (GSP error) once at 2026-11-21 08:05:00Z: the GPU's system processor "
            "crashed - reset the GPU, else reboot; update driver and GSP firmware if it recurs"
        ),
        change=says(GPU + "120, pid='<unknown>', name=<unknown>, GSP task exception"),
        profile=BOOTCHECK,
    ),
    Case(
        "110 before this boot",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 110 (security fault) once at 2026-11-01 08:15:00Z: the security processor "
            "of the GPU locked it; before this boot; settled only if the node was powered off since "
            "- switch the node's power off and on: a reset or warm reboot does not clear it"
        ),
        change=says(GPU + "110, SEC_FAULT", ago_s=BEFORE_THIS_BOOT_S),
        profile=BOOTCHECK,
    ),
    Case(
        "a code that nobody has told us",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 999 (not in the table) once at 2026-11-21 08:05:00Z: a code that this "
            'version does not know ("NVLink: FLA fault") - look it up in NVIDIA\'s Xid catalogue'
        ),
        change=says(GPU + "999, pid=3, name=x, NVLink: FLA fault"),
    ),
    Case(
        "43 alone before a job",
        "kernel_log.xid",
        PASS,
        (
            "{gpu3}: Xid 43 (channel stopped) once at 2026-11-21 08:05:00Z: the driver stopped a "
            "program after an error of the program"
        ),
        change=says(GPU + "43, pid=3, name=x, Ch 00000008"),
        profile=BOOTCHECK,
    ),
    Case(
        "45 alone at delivery",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 45 (channel removed) once at 2026-11-21 08:05:00Z: the driver cleaned up a "
            "program after another error or a kill - follow the Xid before it; when it is the only one "
            "restart nvidia-fabricmanager"
        ),
        change=says(GPU + "45, pid=3, name=x, Ch 00000008"),
    ),
    Case(
        "45 and 43 after 31 are its consequences",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 31 (memory page fault) once at 2026-11-21 08:05:00Z, followed by Xid 45, "
            "43: a program on the GPU used an address that is not mapped - look at the job; if "
            "nodegate's own kernels raise it again on this GPU run field diagnostics"
        ),
        change=says(
            GPU + "31, pid=7, name=a b, channel 0x00000008, MMU Fault",
            GPU + "45, pid=7, name=a b, channel 0x00000008 caused by previous Xid 31",
            GPU + "43, pid=7, name=a b, channel 0x00000008",
        ),
    ),
    Case(
        "119 and 120 of a lost GPU are its consequences",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 79 (GPU has fallen off the bus) once at 2026-11-21 08:05:00Z, followed by "
            "Xid 119, 120: the GPU no longer answers on PCIe - power-cycle the node; reseat or "
            "replace the GPU if it recurs"
        ),
        change=says(GPU + LOST, GPU + "119, pid=1, name=nvidia-smi, Timeout after 6s", GPU + "120, GSP task exception"),
    ),
    Case(
        "a MIG instance in a PCI domain of its own",
        "kernel_log.xid",
        FAIL,
        (
            "GPU 0001:3d:00.0: Xid 94 (contained memory error, GPU-I:05 GPU-CI:00) once at "
            "2026-11-21 08:05:00Z: an uncorrectable memory error ended only the program that met it "
            "- drain the GPU and reset it; look at row remapping"
        ),
        change=says("NVRM: Xid (PCI:0001:3d:00 GPU-I:05 GPU-CI:00): 94, pid=7194, Contained: CE User Channel (0x9)"),
    ),
    Case(
        "154 says what the driver wants",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 94 (contained memory error) once at 2026-11-21 08:05:00Z: an uncorrectable "
            "memory error ended only the program that met it - the driver asks for: Drain and Reset; "
            "drain the GPU and reset it; look at row remapping"
        ),
        change=says(
            GPU + "94, Contained", GPU + "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"
        ),
        profile=BOOTCHECK,
    ),
    Case(
        "154 takes its wish back",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 94 (contained memory error) once at 2026-11-21 08:05:00Z: an uncorrectable "
            "memory error ended only the program that met it; settled: the driver has asked for no "
            "action since 2026-11-21 08:05:02Z - drain the GPU and reset it; look at row remapping"
        ),
        change=says(
            GPU + "94, Contained",
            GPU + "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
            GPU + "154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)",
        ),
        profile=BOOTCHECK,
    ),
    Case(
        "a failed row remap that the driver asks nothing for",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 64 (row remap failed) once at 2026-11-21 08:05:00Z: no spare row was left "
            "or the remap could not be written - run field diagnostics and replace the GPU"
        ),
        change=says(
            GPU + "64, pid=7, name=x, Row Remapper Error",
            GPU + "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
        ),
        profile=BOOTCHECK,
    ),
    Case(
        "a memory error with all that it brings: one root",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 48 (uncorrectable memory error) 2 times from 2026-11-21 08:05:00Z to "
            "2026-11-21 08:05:02Z, followed by Xid 171, 94, 63, 45: two bits of one word of GPU "
            "memory were wrong at once - the driver asks for: Drain and Reset; reset the GPU, then "
            "look at its row remapping and SRAM counters; replace it if it recurs"
        ),
        change=says(
            GPU + "48, An uncorrectable double bit error (DBE) has been detected on GPU",
            GPU + "171, Uncorrectable DRAM error in FBPA 3 subpartition 0",
            GPU + "48, pid=4242, name=python3, An uncorrectable double bit error (DBE)",
            GPU + "94, pid=4242, name=python3, Contained: CE User Channel (0x9)",
            GPU + "63, Row Remapper: New row marked for remapping",
            GPU + "45, pid=4242, name=python3, channel 0x00000008 caused by previous Xid 48",
            GPU + "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
        ),
        profile=BOOTCHECK,
    ),
    Case(
        "154 alone",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 154 (recovery action changed) once at 2026-11-21 08:05:00Z: the driver says "
            "what the GPU needs now - the driver asks for: Node Reboot Required; do what the driver "
            "asks for"
        ),
        change=says(GPU + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
        profile=BOOTCHECK,
    ),
    Case(
        "149 Nonfatal",
        "kernel_log.xid",
        WARN,
        (
            "{gpu3}: Xid 149 (NVLink 5 NETIR error, Nonfatal) once at 2026-11-21 08:05:00Z: a link "
            'of the NVLink domain reported an error ("NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 '
            "(0x00086226 0x00000001)\") - nothing to do now; look at the link's signal and its cable"
        ),
        change=says(GPU + "149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00086226 0x00000001)"),
    ),
    Case(
        "149 Fatal",
        "kernel_log.xid",
        FAIL,
        (
            "{gpu3}: Xid 149 (NVLink 5 NETIR error, Fatal) once at 2026-11-21 08:05:00Z: a link of "
            'the NVLink domain reported an error ("NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 '
            "(0x004505c6 0x00000000)\") - reset the GPU; look at the link's signal: connector, board, "
            "cable"
        ),
        change=says(GPU + "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000)"),
    ),
    Case(
        "a lost GPU without an Xid",
        "kernel_log.xid",
        FAIL,
        (
            "GPU 0000:29:00.0: Xid 79 (GPU has fallen off the bus) once at 2026-11-21 08:05:00Z: "
            "the GPU no longer answers on PCIe - power-cycle the node; reseat or replace the GPU "
            "if it recurs"
        ),
        change=says("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus."),
    ),
    Case(
        "a lost GPU in three lines",
        "kernel_log.xid",
        FAIL,
        (
            "GPU 0000:18:00.0: Xid 79 (GPU has fallen off the bus) once at 2026-11-21 08:05:02Z: the "
            "GPU no longer answers on PCIe - power-cycle the node; reseat or replace the GPU if it "
            "recurs"
        ),
        change=says(
            "NVRM: The NVIDIA GPU 0000:18:00.0",
            "NVRM: (PCI ID: 10de:2901) installed in this system has",
            "NVRM: fallen off the bus and is not responding to commands.",
        ),
    ),
    Case(
        "an Xid line in a form that is not known",
        "kernel_log.xid",
        WARN,
        (
            'kernel log: Xid line in a format that this version does not know: "NVRM: Xid '
            '(PCI:garbled): fell" - read the line on the node'
        ),
        change=says("NVRM: Xid (PCI:garbled): fell"),
    ),
    Case(
        "healthy: the driver says that it loads",
        "kernel_log.xid",
        PASS,
        "kernel log: no Xid since 2026-10-12 08:15:00Z",
        change=says("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024"),
    ),
    Case(
        "the log was not read",
        "kernel_log.xid",
        ERROR,
        (
            "node: kernel_log could not be read: denied: /dev/kmsg: Operation not permitted - run as "
            "root, or set ansible_become for this node, or let the login read the journal (group "
            "systemd-journal)"
        ),
        change=lambda machine: machine.section_fails("kernel_log", "denied", "/dev/kmsg: Operation not permitted"),
    ),
    Case("none", "kernel_log.sxid", PASS, "kernel log: no SXid since 2026-10-12 08:15:00Z"),
    Case(
        "fatal, with its lines of data",
        "kernel_log.sxid",
        FAIL,
        (
            "nvidia-nvswitch2 (0000:85:00.0): SXid 20034 (Fatal) once at 2026-11-21 08:05:00Z, at the physical "
            'side of an NVLink (signal, connector or far end): "Fatal, Link 30 LTSSM Fault Up" - reset the GPUs '
            "and switches of the node; look at the link: connector, board, cable, and the GPU at its other end"
        ),
        change=says(
            SWITCH + "20034, Fatal, Link 30 LTSSM Fault Up",
            SWITCH + "20034, Severity 1 Engine instance 30 Sub-engine instance 00",
            SWITCH + "20034, Data {0x50610002, 0x10100030}",
        ),
    ),
    Case(
        "non-fatal",
        "kernel_log.sxid",
        WARN,
        (
            "nvidia-nvswitch2 (0000:85:00.0): SXid 12028 (Non-fatal) once at 2026-11-21 "
            '08:05:00Z, at the output of an NVSwitch port: "Non-fatal, Link 61 egress non-posted PRIV error (First)" '
            "- watch it: the switch continued"
        ),
        change=says(SWITCH + "12028, Non-fatal, Link 61 egress non-posted PRIV error (First)"),
    ),
    Case(
        "fatal after the loss of a GPU",
        "kernel_log.sxid",
        WARN,
        (
            "nvidia-nvswitch2 (0000:85:00.0): SXid 20034 (Fatal) once at 2026-11-21 08:05:01Z, at "
            'the physical side of an NVLink (signal, connector or far end): "Fatal, Link 30 LTSSM '
            'Fault Up"; follows the loss of GPU 0000:3d:00.0 - reset the GPUs and switches of the '
            "node; look at the link: connector, board, cable, and the GPU at its other end"
        ),
        change=says(GPU + LOST, SWITCH + "20034, Fatal, Link 30 LTSSM Fault Up"),
    ),
    Case(
        "fatal before this boot",
        "kernel_log.sxid",
        PASS,
        (
            "nvidia-nvswitch2 (0000:85:00.0): SXid 20034 (Fatal) once at 2026-11-01 08:15:00Z, at "
            'the physical side of an NVLink (signal, connector or far end): "Fatal, Link 30 LTSSM '
            'Fault Up"; settled by the reboot at 2026-11-08 20:14:47Z'
        ),
        change=says(SWITCH + "20034, Fatal, Link 30 LTSSM Fault Up", ago_s=BEFORE_THIS_BOOT_S),
        profile=BOOTCHECK,
    ),
    Case(
        "only a line of data",
        "kernel_log.sxid",
        WARN,
        (
            "nvidia-nvswitch2 (0000:85:00.0): SXid 11111 (no severity printed) once at "
            "2026-11-21 08:05:00Z, at a part of an NVSwitch that this version does not know: "
            '"Data {{0x50610002, 0x10100030}}" - look the code up in NVIDIA\'s fabric manager guide'
        ),
        change=says(SWITCH + "11111, Data {0x50610002, 0x10100030}"),
    ),
    Case(
        "an SXid line in a form that is not known",
        "kernel_log.sxid",
        WARN,
        (
            'kernel log: SXid line in a format that this version does not know: "nvidia-nvswitch2: '
            'SXid (PCI:0000:85:00.0): xyz, Fatal error" - read the line on the node'
        ),
        change=says(SWITCH + "xyz, Fatal error"),
    ),
    Case(
        "the log was not read",
        "kernel_log.sxid",
        ERROR,
        (
            "node: kernel_log could not be read: timeout: 10 s - the node is slow: check its "
            "load and kernel log, then run again"
        ),
        change=lambda machine: machine.section_fails("kernel_log", "timeout", "10 s"),
    ),
    Case(
        "it does",
        "kernel_log.reaches_back",
        PASS,
        ("kernel log: reaches back to 2026-10-12 08:15:00Z; the node booted at 2026-11-08 20:14:47Z"),
    ),
    Case(
        "the ring buffer has wrapped",
        "kernel_log.reaches_back",
        WARN,
        (
            "kernel log: reaches back only to 2026-11-21 07:15:00Z, the node booted at 2026-11-08 "
            "20:14:47Z: earlier messages are lost - keep a persistent journal (Storage=persistent) "
            "or a larger kernel ring buffer (log_buf_len)"
        ),
        change=lambda machine: machine.set("kernel_log", "since_epoch_s", EPOCH_S - 3600),
    ),
    Case(
        "lines were left out",
        "kernel_log.reaches_back",
        WARN,
        ("kernel log: 12 relevant lines of this boot did not fit and were omitted - read the log on the node"),
        change=left_out("network", 12, ago_s=60.0),
    ),
    Case(
        "healthy: warnings of a firewall were left out",
        "kernel_log.reaches_back",
        PASS,
        (
            "kernel log: reaches back to 2026-10-12 08:15:00Z; the node booted at 2026-11-08 20:14:47Z; "
            "4711 warnings without a known cause omitted"
        ),
        change=left_out("warning", 4711, ago_s=60.0),
    ),
    Case(
        "lines of level error were left out",
        "kernel_log.reaches_back",
        WARN,
        ("kernel log: 12 relevant lines of this boot did not fit and were omitted - read the log on the node"),
        change=left_out("err", 12, ago_s=60.0),
    ),
    Case(
        "healthy: lines of an earlier boot were left out",
        "kernel_log.reaches_back",
        PASS,
        ("kernel log: reaches back to 2026-10-12 08:15:00Z; the node booted at 2026-11-08 20:14:47Z"),
        change=left_out("network", 12, ago_s=BEFORE_THIS_BOOT_S),
    ),
    Case(
        "the kernel overwrote messages",
        "kernel_log.reaches_back",
        WARN,
        (
            "kernel log: messages of this boot were overwritten before they could be read - keep a persistent "
            "journal (Storage=persistent) or a larger kernel ring buffer (log_buf_len)"
        ),
        change=lambda machine: machine.sections["kernel_log"].update(missed=3),
    ),
    Case(
        "nobody knows how far",
        "kernel_log.reaches_back",
        ERROR,
        (
            "kernel log: could not read the time of its oldest line: missing: no line has a time - "
            "see the evidence file for what the node answered"
        ),
        change=lambda machine: machine.set(
            "kernel_log", "since_epoch_s", {"why": "missing", "detail": "no line has a time"}
        ),
    ),
    Case("none", "kernel_log.gpu_driver", PASS, "kernel log: no matching message since 2026-10-12 08:15:00Z"),
    Case(
        "a GPU was not brought up",
        "kernel_log.gpu_driver",
        FAIL,
        (
            '{gpu2}: the driver could not bring the GPU up, once at 2026-11-21 08:05:00Z: "NVRM: GPU '
            '0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)" - reload the driver or reboot; '
            "replace the GPU if it stays"
        ),
        change=says("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)"),
    ),
    Case("none", "kernel_log.pcie_errors", PASS, "kernel log: no matching message since 2026-10-12 08:15:00Z"),
    Case(
        "an uncorrectable error",
        "kernel_log.pcie_errors",
        FAIL,
        (
            "PCIe device 0000:65:00.0: a PCIe transfer was lost, once at 2026-11-21 08:05:00Z: "
            '"nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), '
            'type=Transaction Layer, (Requester ID)" - reseat the board or riser; replace it '
            "if it recurs"
        ),
        change=says(
            "nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)"
        ),
    ),
    Case(
        "healthy: a corrected error is counted elsewhere",
        "kernel_log.pcie_errors",
        PASS,
        "kernel log: no matching message since 2026-10-12 08:15:00Z",
        change=says("nvidia 0000:65:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"),
    ),
    Case("none is limited", "kernel_log.pcie_bandwidth", PASS, "kernel log: no device is limited by a link above it"),
    Case(
        "one of eight NICs at half",
        "kernel_log.pcie_bandwidth",
        FAIL,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): PCIe bandwidth 252 Gb/s, expected at least 504 Gb/s "
            "(kernel: 32.0 GT/s PCIe x16); limited by the 32.0 GT/s PCIe x8 link at 0000:17:02.0 - "
            "reseat the board or riser; look at the slot's bifurcation in the BIOS"
        ),
        change=says(HALF),
    ),
    Case(
        "all eight NICs at half",
        "kernel_log.pcie_bandwidth",
        WARN,
        (
            "mlx5_0 (0000:18:00.0, ibs0): PCIe bandwidth 252 Gb/s, expected at least 504 Gb/s "
            "(kernel: 32.0 GT/s PCIe x16); limited by the 32.0 GT/s PCIe x8 link at 0000:17:02.0 - "
            "all devices of this model are alike: use faster slots if the platform has them (and 7 "
            "more)"
        ),
        change=every_rail_limited,
    ),
    Case(
        "healthy: available, and not limited",
        "kernel_log.pcie_bandwidth",
        PASS,
        "kernel log: no device is limited by a link above it",
        change=says("mlx5_core 0000:41:00.1: 63.008 Gb/s available PCIe bandwidth (8.0 GT/s PCIe x8 link)"),
    ),
    Case(
        "healthy: a disk in a slow slot",
        "kernel_log.pcie_bandwidth",
        PASS,
        "kernel log: no device is limited by a link above it",
        change=says(
            "pci 0000:e1:00.0: 31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x4 link at 0000:e0:01.0 "
            "(capable of 63.012 Gb/s with 16.0 GT/s PCIe x4 link)"
        ),
    ),
    Case(
        "the kernel does not know where the slow link is",
        "kernel_log.pcie_bandwidth",
        FAIL,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): PCIe bandwidth 252 Gb/s, expected at least 504 Gb/s "
            "(kernel: 32.0 GT/s PCIe x16); limited by the 32.0 GT/s PCIe x8 link, where is not known - "
            "reseat the board or riser; look at the slot's bifurcation in the BIOS"
        ),
        change=says(HALF.replace("0000:17:02.0", "<unknown>")),
    ),
    Case(
        "a line without the place of the link",
        "kernel_log.pcie_bandwidth",
        FAIL,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): PCIe bandwidth 252 Gb/s, expected at least 504 Gb/s "
            "(kernel: 32.0 GT/s PCIe x16); limited by the 32.0 GT/s PCIe x8 link, where is not known - "
            "reseat the board or riser; look at the slot's bifurcation in the BIOS"
        ),
        change=says(HALF.replace(" at 0000:17:02.0", "")),
    ),
    Case(
        "a wide device that is not there any more",
        "kernel_log.pcie_bandwidth",
        FAIL,
        (
            "PCIe device 0000:f1:00.0: PCIe bandwidth 252 Gb/s, expected at least 504 Gb/s "
            "(kernel: 32.0 GT/s PCIe x16); limited by the 32.0 GT/s PCIe x8 link at 0000:17:02.0 - "
            "reseat the board or riser; look at the slot's bifurcation in the BIOS"
        ),
        change=says(HALF.replace(NIC, "pci 0000:f1:00.0")),
    ),
    Case(
        "before this boot",
        "kernel_log.pcie_bandwidth",
        PASS,
        "kernel log: no device is limited by a link above it",
        change=says(HALF, ago_s=BEFORE_THIS_BOOT_S),
    ),
    Case(
        "none",
        "kernel_log.nic_flaps",
        PASS,
        "kernel log: no link-down in the last 24 h, as far as the log reaches",
        limits=FLAPS,
    ),
    Case(
        "three in a day",
        "kernel_log.nic_flaps",
        FAIL,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): link down 3 times from 2026-11-21 06:15:00Z to 2026-11-21 "
            "06:35:00Z, expected at most 2 link-downs (the site's own); counted over 24 h - clean or "
            "replace the cable or transceiver; look at the switch port"
        ),
        change=flaps(3),
        limits=FLAPS,
    ),
    Case(
        "two in a day",
        "kernel_log.nic_flaps",
        WARN,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): link down 2 times from 2026-11-21 06:15:00Z to 2026-11-21 "
            "06:25:00Z; up to 2 in 24 h can be chance - clean or replace the cable or transceiver; "
            "look at the switch port"
        ),
        change=flaps(2),
        limits=FLAPS,
    ),
    Case(
        "one long outage",
        "kernel_log.nic_flaps",
        FAIL,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): link down for 300 s, once at 2026-11-21 06:15:00Z, expected at most 30 s "
            "(the site's own); longer than a job waits - clean or replace the cable or transceiver; look at the "
            "switch port; after a repair reboot the node, which settles it"
        ),
        change=outage(300.0),
        limits={**FLAPS, "kernel.nic_outage_max_s": 30},
    ),
    Case(
        "healthy: a cable that was changed before the last boot",
        "kernel_log.nic_flaps",
        WARN,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): link down once at 2026-11-21 06:15:00Z; up to 2 in 24 h can be chance - "
            "clean or replace the cable or transceiver; look at the switch port"
        ),
        change=outage(300.0, before_the_boot=True),
        limits={**FLAPS, "kernel.nic_outage_max_s": 30},
    ),
    Case(
        "one outage of 20 s",
        "kernel_log.nic_flaps",
        WARN,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): link down once at 2026-11-21 06:15:00Z; up to 2 in 24 h can be chance - "
            "clean or replace the cable or transceiver; look at the switch port"
        ),
        change=outage(20.0),
    ),
    Case(
        "it stays down",
        "kernel_log.nic_flaps",
        WARN,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): link down once at 2026-11-21 08:05:00Z; up to 2 in 24 h "
            "can be chance - clean or replace the cable or transceiver; look at the switch port"
        ),
        change=says("infiniband mlx5_3: Port: 1 Link DOWN"),
        limits=FLAPS,
    ),
    Case(
        "soft-RoCE",
        "kernel_log.nic_flaps",
        WARN,
        (
            "rxe1: link down once at 2026-11-21 08:05:00Z; up to 2 in 24 h can be chance - clean or "
            "replace the cable or transceiver; look at the switch port"
        ),
        change=says("infiniband rxe1: set down"),
        limits=FLAPS,
    ),
    Case(
        "healthy: the shutdown before this boot",
        "kernel_log.nic_flaps",
        PASS,
        "kernel log: no link-down in the last 24 h, as far as the log reaches",
        change=down_with_the_shutdown,
        limits=FLAPS,
    ),
    Case(
        "healthy: bring-up",
        "kernel_log.nic_flaps",
        PASS,
        "kernel log: no link-down in the last 24 h, as far as the log reaches",
        change=up_and_down_at_bring_up,
        limits=FLAPS,
    ),
    Case(
        "three days ago",
        "kernel_log.nic_flaps",
        PASS,
        "kernel log: no link-down in the last 24 h, as far as the log reaches",
        change=says("infiniband mlx5_3: Port: 1 Link DOWN", ago_s=3 * DAY_S),
        limits=FLAPS,
    ),
    Case(
        "without a limit",
        "kernel_log.nic_flaps",
        NOT_JUDGED,
        "node: no limit kernel.nic_flap_max for platform hgx-h100-8",
        limits={"kernel.nic_flap_max": None},
    ),
    Case("none", "kernel_log.nic_errors", PASS, "kernel log: no matching message since 2026-10-12 08:15:00Z"),
    Case(
        "the firmware stopped",
        "kernel_log.nic_errors",
        FAIL,
        (
            "NIC 0000:d2:00.0: the NIC's firmware stopped, once at 2026-11-21 08:05:00Z: "
            "\"mlx5_core 0000:d2:00.0: poll_health:825:(pid 0): device's health compromised - "
            'reached miss count" - power-cycle the node; replace the NIC if it recurs'
        ),
        change=says(
            "mlx5_core 0000:d2:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count"
        ),
        profile=BOOTCHECK,
    ),
    Case(
        "a queue stands still",
        "kernel_log.nic_errors",
        WARN,
        (
            'eth0: a queue of the NIC was hung, once at 2026-11-21 08:05:00Z: "NETDEV WATCHDOG: '
            'eth0 (mlx5_core): transmit queue 0 timed out" - watch the NIC; replace it when this '
            "returns"
        ),
        change=says("NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 0 timed out"),
        profile=BOOTCHECK,
    ),
    Case(
        "too little power",
        "kernel_log.nic_errors",
        WARN,
        (
            "NIC 0000:5c:00.0: the slot grants the NIC less power than it wants, once at "
            '2026-11-21 08:05:00Z: "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 3): '
            "Detected insufficient power on the PCIe slot (27W).\" - look at the slot's power "
            "setting in the BIOS and at the riser's power cable"
        ),
        change=says(
            "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 3): Detected insufficient power on the PCIe slot (27W)."
        ),
    ),
    Case(
        "healthy: refused registers, no watts, an unplugged cable",
        "kernel_log.nic_errors",
        PASS,
        "kernel log: no matching message since 2026-10-12 08:15:00Z",
        change=says(
            "mlx5_core: Detected insufficient power on the PCIe slot (W).",
            "mlx5_core: ACCESS_REG successful",
            "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 91): ACCESS_REG(0x805) op_mod(0x1) failed",
            "mlx5_core 0000:41:00.1: Port module event: module 1, Cable unplugged",
        ),
    ),
    Case("none", "kernel_log.memory", PASS, "kernel log: no matching message since 2026-10-12 08:15:00Z"),
    Case(
        "the node ran out",
        "kernel_log.memory",
        WARN,
        (
            "memory: the node ran out of memory and the kernel killed a process, once at "
            '2026-11-21 08:05:00Z: "Out of memory: Killed process 12345 (python3) '
            'total-vm:812345678kB, anon-rss:500000000kB" - find what used the memory: too many '
            "loader workers or a leak on the node"
        ),
        change=says("Out of memory: Killed process 12345 (python3) total-vm:812345678kB, anon-rss:500000000kB"),
        profile=BOOTCHECK,
    ),
    Case(
        "a job reached its own limit",
        "kernel_log.memory",
        PASS,
        (
            "memory: a job or container reached its own memory limit, once at 2026-11-21 "
            '08:05:00Z: "Memory cgroup out of memory: Killed process 8123 (python3) '
            'total-vm:81234kB"'
        ),
        change=says("Memory cgroup out of memory: Killed process 8123 (python3) total-vm:81234kB"),
        profile=BOOTCHECK,
    ),
    Case(
        "three days ago",
        "kernel_log.memory",
        PASS,
        (
            "memory: the node ran out of memory and the kernel killed a process, once at 2026-11-18 "
            '08:15:00Z: "Out of memory: Killed process 12345 (python3)"; more than 24 h ago'
        ),
        change=says("Out of memory: Killed process 12345 (python3)", ago_s=3 * DAY_S),
        profile=BOOTCHECK,
    ),
    Case("none", "kernel_log.storage", PASS, "kernel log: no matching message since 2026-10-12 08:15:00Z"),
    Case(
        "a disk fails",
        "kernel_log.storage",
        WARN,
        (
            "disk sda: a disk did not read or write a block, once at 2026-11-21 08:05:00Z: "
            '"I/O error, dev sda, sector 123456 op 0x0:(READ) flags 0x0 phys_seg 1 prio '
            "class 2\" - look at the disk's SMART log; replace it"
        ),
        change=says("I/O error, dev sda, sector 123456 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"),
    ),
    Case(
        "healthy: a file system is mounted",
        "kernel_log.storage",
        PASS,
        "kernel log: no matching message since 2026-10-12 08:15:00Z",
        change=says("EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: (null). Quota mode: none."),
    ),
    Case("none", "kernel_log.host_faults", PASS, "kernel log: no matching message since 2026-10-12 08:15:00Z"),
    Case(
        "no more open files",
        "kernel_log.host_faults",
        WARN,
        (
            'host: the whole node ran out of open files, once at 2026-11-21 08:05:00Z: "VFS: '
            'file-max limit 1000000 reached" - raise fs.file-max and find what holds the files'
        ),
        change=says("VFS: file-max limit 1000000 reached"),
        profile=BOOTCHECK,
    ),
    Case(
        "healthy: a crash that was asked for, before this boot",
        "kernel_log.host_faults",
        PASS,
        "kernel log: no matching message since 2026-10-12 08:15:00Z",
        change=says("Kernel panic - not syncing: sysrq triggered crash", ago_s=BEFORE_THIS_BOOT_S),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
