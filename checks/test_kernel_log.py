"""Kernel log: nothing in it says that the GPUs, switches, NICs or file servers are bad, or that memory ran out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Limit, LimitKind, Unknown, Verdict, counted, part
from nodegate.kernel_log import bandwidth_lines, flaps, gpu_faults, incidents
from nodegate.kernel_log.window import LogWindow, shown
from nodegate.knowledge.roots import INCIDENT_S
from nodegate.knowledge.xid_lines import gpu_events

if TYPE_CHECKING:
    from nodegate.api import Baseline, Fleet, Host, KernelLog, Node, Pci, Profile, Verdicts

pytestmark = pytest.mark.tier("bootcheck")


def test_reaches_back(kernel_log: KernelLog, verdicts: Verdicts) -> None:
    """The kernel log reaches back to the start of this boot, whole. (F02, F03, F04)

    The ring buffer forgets its oldest lines and every reboot empties it: what is gone cannot be called clean.
    """
    since, boot, whose = kernel_log.since_epoch_s, kernel_log.boot_epoch_s, part.host("kernel log")
    lost = incidents.lost_since(kernel_log, boot)
    left_out = sum(each.lines for each in lost if each.kind not in incidents.OF_LITTLE_WEIGHT)
    if left_out:
        text = f"{left_out} relevant lines of this boot did not fit and were omitted"
        verdicts.found(Verdict.WARN, part=whose, text=text, action="read the log on the node", code="lines left out")
    if kernel_log.missed:
        text = "messages of this boot were overwritten before they could be read"
        verdicts.found(Verdict.WARN, part=whose, text=text, action=incidents.KEEP, code="too short")
    if isinstance(since, Unknown):
        verdicts.unknown(part=whose, quantity="the time of its oldest line", reason=since)
    elif isinstance(boot, Unknown):
        verdicts.unknown(part=whose, quantity="the time of this boot", reason=boot)
    elif since > boot + INCIDENT_S:
        message = f"reaches back only to {shown(since)}, the node booted at {shown(boot)}: earlier messages are lost"
        verdicts.found(Verdict.WARN, part=whose, text=message, action=incidents.KEEP, code="too short")
    else:
        few = sum(each.lines for each in lost) - left_out
        rest = f"; {counted(few, 'warning')} without a known cause omitted" if few else ""
        verdicts.passed(part=whose, text=f"reaches back to {shown(since)}; the node booted at {shown(boot)}{rest}")


def test_xid(kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """No GPU has an Xid that is not settled, and none has fallen off the bus. (F01, F02, F03, F04)

    Each GPU and code is one finding, whatever it printed and brought with it (45, 43 after the error that caused
    them, 154 with the driver's own advice). Before a job only what makes the GPU unusable now fails; at delivery also
    what points to worn or damaged parts. Application errors (13, 31, 43) warn: the log alone does not blame the GPU.
    A reboot settles most faults, a failed row remap (64) it does not. Operators disagree on 63, 94 and 109: NVIDIA
    lets the node work on after 63 and 94, EKS replaces it: here they fail at delivery and warn before a job.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    for fault in gpu_faults.gpu_faults(kernel_log, window):
        verdict, remark = fault.verdict(window)
        verdicts.found(
            verdict,
            part=fault.part,
            text=fault.message,
            note=remark,
            action=fault.action,
            quantity=incidents.MESSAGES,
            observed=fault.count,
            code=str(fault.rule.code),
        )
    gpu_faults.tell_unparsed(gpu_events(kernel_log.lines), "Xid", verdicts)
    text = f"no Xid since {shown(kernel_log.since_epoch_s)}"
    incidents.clean(kernel_log, incidents.XID, window, verdicts, text=text)


def test_sxid(kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """No NVSwitch has a fatal SXid in this boot. (F13)

    A fatal one stops the jobs of all GPUs on the switch. The word in the line (Fatal, Non-fatal) counts: published
    tables contradict it for 38 codes. What follows the loss of a GPU only warns: the GPU is the finding then.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    gpu_faults.tell_switches(kernel_log, window, verdicts)
    text = f"no SXid since {shown(kernel_log.since_epoch_s)}"
    incidents.clean(kernel_log, incidents.XID, window, verdicts, text=text)


def test_gpu_driver(
    kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts
) -> None:
    """The NVIDIA driver brought every GPU up and reports no fault without an Xid. (F02, F04, F32)

    Initialisation failures, a GSP that stopped and version mismatches are printed without an Xid.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell(kernel_log, "gpu_driver", window, verdicts)


def test_pcie_errors(  # noqa: PLR0917 - arguments are facts
    kernel_log: KernelLog, host: Host, pci: Pci, baseline: Baseline, profile: Profile, verdicts: Verdicts
) -> None:
    """The kernel saw no uncorrectable PCIe error, containment or lost slot in this boot. (F02, F05)

    Corrected errors are counted in sysfs, not here: newer kernels print only some of them. A slot that lost its device
    only warns if no GPU, NVSwitch or NIC is below it: disks are changed while the node runs.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell(kernel_log, "pcie", window, verdicts, incidents.of_other_devices(pci))


def test_pcie_bandwidth(kernel_log: KernelLog, pci: Pci, verdicts: Verdicts) -> None:
    """The kernel found no GPU or NIC with less PCIe bandwidth than it can use. (F05)

    At start the kernel compares each device with the slowest link above it. When all devices of a model are limited
    alike it is the platform's slots and warns; when one is, its seat, riser or uplink is bad. A disk or a port of four
    lanes in a slow slot is no fault of the node.
    """
    found = tuple(each for each in bandwidth_lines.limited(kernel_log) if not bandwidth_lines.is_another(each, pci))
    for each in found:
        alike = bandwidth_lines.common_to_model(each.device, found, pci)
        limit = Limit(each.capable_gbps, "Gb/s", f"kernel: {each.best}", kind=LimitKind.DEVICE)
        design = "all devices of this model are alike: use faster slots if the platform has them"
        verdicts.at_least(
            part=part.from_kernel("PCIe device", each.device),
            quantity="PCIe bandwidth",
            observed=each.have_gbps,
            limit=limit,
            action=design if alike else "reseat the board or riser; look at the slot's bifurcation in the BIOS",
            otherwise=Verdict.WARN if alike else Verdict.FAIL,
            note=f"limited by the {each.link} link" + (f" at {each.at}" if each.at else ", where is not known"),
            code="all alike" if alike else "",
        )
    if not verdicts.findings:
        verdicts.passed(part=part.host("kernel log"), text="no device is limited by a link above it")


def test_nic_flaps(  # noqa: PLR0917 - arguments are facts
    kernel_log: KernelLog,
    host: Host,
    baseline: Baseline,
    profile: Profile,
    fleet: Fleet,
    node: Node,
    verdicts: Verdicts,
) -> None:
    """The link of each NIC stayed up: not more link-downs in the window than the limit, and none for long. (F06)

    A short link-down breaks every collective that uses the port ("port error" in NCCL). One or two may be work on
    the cable or switch and warn. An outage that is longer than jobs wait fails by itself until the next boot (source:
    NVIDIA Health Validation, rdma_linkflap_fatal). The link-downs of bring-up and shutdown do not count; those that
    three or more nodes had within one second are one event of their switch and only warn.
    """
    within, limit = baseline.number("kernel.nic_flap_window_h"), baseline.number("kernel.nic_flap_max")
    window = LogWindow.of(kernel_log, host, baseline, profile, key="kernel.nic_flap_window_h")
    downs = flaps.link_downs(kernel_log, window, baseline.number("kernel.nic_flap_boot_grace_s").value)
    flaps.tell(
        downs,
        verdicts,
        window=within,
        limit=limit,
        longest=baseline.find_number("kernel.nic_outage_max_s"),
        together=lambda device, epoch_s: fleet.log.together(node.name, device, epoch_s),
    )
    text = f"no link-down in the last {within.value} h, as far as the log reaches"
    incidents.clean(kernel_log, "flaps", window, verdicts, text=text)


def test_nic_errors(
    kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts
) -> None:
    """No NIC reports a fault of its firmware, queues, power or transceiver. (F07)

    Source: mlx5 driver messages as NVSentinel and gpud read them. Refused register reads (ACCESS_REG) and a cable
    that is unplugged from an unused port are no faults; a used port that is down is found by its state.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell(kernel_log, "nic", window, verdicts)


def test_memory(kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """The kernel killed no process for want of memory in the window. (F17)

    A worker that was killed takes its job along with exit code 137 and no message of its own. The finding quotes the
    kernel's line: the process, and whether the whole node or only its job or container was out of memory.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell(kernel_log, "memory", window, verdicts)


def test_storage(kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """No disk, array or file server failed in the window. (F31)

    They stall checkpoints and data loading. A warning only: whether the path is needed is judged at the mounts. NVMe
    disks and local file systems have checks of their own (host_log). At delivery an array or controller that stopped
    fails.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell(kernel_log, "storage", window, verdicts)


def test_host_faults(
    kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts
) -> None:
    """The kernel met no bug of its own, ran out of no table, and slowed no CPU because of heat. (F08, F09, F24)

    They slow or stop one node, and with it every job that spans it. Crashes of a program inside NCCL warn: its job, the
    NCCL version or the fabric manager can be the cause.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell(kernel_log, "host", window, verdicts)
