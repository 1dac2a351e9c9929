"""PCIe: each GPU and RDMA NIC responds and is attached at the width and speed that it supports."""

from typing import Any

import pytest

from nodegate.api import Baseline, Gpus, Host, Limit, LimitKind, Pci, Profile, Unknown, Verdict, Verdicts, absence, part
from nodegate.records.finding import VIRTUAL
from nodegate.subjects import pcie
from nodegate.subjects.gpu import answering

pytestmark = pytest.mark.tier("bootcheck")

RESEAT = "power-cycle the node; if it stays, reseat the board or riser"


def test_devices_answer(pci: Pci, verdicts: Verdicts) -> None:
    """Each GPU, NVSwitch and RDMA NIC responds on PCIe. (F02, F07)

    A device whose configuration space reads all ff has fallen off the bus: programs that use it hang or fail.
    Source: PCI specification (reads of an absent device return all ones); OCI looks for "rev ff".
    """
    for device in (*pcie.judged(pci), *pci.nvswitches):
        verdicts.holds(
            part=pcie.part_of(device),
            quantity="PCIe configuration space",
            observed=device.answers,
            good="responds on PCIe",
            bad="does not respond on PCIe: its configuration space reads all ff",
            action="power-cycle the node; if it stays, reseat or replace the device",
        )
    if not verdicts.findings:
        verdicts.not_done(pcie.NOTHING)


def test_link_width(pci: Pci, host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """The link of each GPU and RDMA NIC uses every lane that the device has. (F05)

    A link that trains at x8 or x2 after a bad seat or riser still works, and slows the whole job. The limit is the
    device's own maximum (max_link_width). Virtual machines may be wired narrower (AWS: A10G, T4 and L40S at x8): when
    all GPUs of a virtual machine are equally narrow it warns, and pcie.gpu_width in the baseline says that it is right.
    """
    wired = baseline.find_number("pcie.gpu_width")
    for group in pcie.peers(pcie.judged(pci)).values():
        alike = group[0].is_gpu and len({device.width for device in group}) == 1
        for device in (each for each in group if not pcie.has_no_link(each)):
            verdicts.at_least(
                part=pcie.part_of(device),
                quantity="link width",
                observed=pcie.lanes(device.width),
                limit=wired if wired and device.is_gpu else pcie.own_limit(device.width_max),
                action=f"set pcie.gpu_width if this is by design, else {RESEAT}" if alike else RESEAT,
                otherwise=Verdict.WARN if alike and host.is_virtual else Verdict.FAIL,
                note=f"all {len(group)} GPUs are alike" if alike else "",
                code="all alike" if alike else "",
            )
    if not verdicts.findings:
        pcie.end_without_links(pci, verdicts)


def test_bridge_width(pci: Pci, host: Host, verdicts: Verdicts) -> None:
    """No bridge above a GPU or RDMA NIC runs on fewer lanes than both it and the device have. (F05)

    A switch whose uplink trained at x4 slows everything below it while each device shows its full width. A port that
    is wider than its device is healthy, and so is a narrow port that leads to nothing but management devices.
    """
    for device, bridge in pcie.hops(pci):
        used = device.width
        if used is None or bridge.width is None or pcie.has_no_link(bridge):
            continue
        readings = (used, bridge.width, bridge.width_max)
        limit = pcie.least(used, bridge.width_max)
        verdicts.at_least(
            part=pcie.part_of(bridge),
            quantity="link width",
            observed=next((reading for reading in readings if isinstance(reading, Unknown)), bridge.width),
            limit=Limit(limit, "lanes", "what the bridge and the device below it support", kind=LimitKind.DEVICE),
            action=RESEAT,
            note=f"on the path to {pcie.part_of(device).short}",
        )
    if not verdicts.findings:
        pcie.end_without_bridges(pci, host, verdicts)


def test_link_speed(pci: Pci, gpus: Gpus, verdicts: Verdicts) -> None:
    """The link of each RDMA NIC, and of each busy GPU, runs at the speed that device and slot support. (F05)

    Idle GPUs drop to 2.5 GT/s to save power: that is no fault, so a slow GPU link is judged only while the GPU is busy
    or its clock is at its highest. A slot slower than its device warns, for it may be the platform's design.
    """
    busy = pcie.busy(gpus)
    for device in (each for each in pcie.judged(pci) if not pcie.has_no_link(each)):
        own, slot = pcie.own_speed(device), pcie.slot_speed(pci, device)
        idle = device.is_gpu and device.address not in busy
        slow = device.speed_gts == pcie.IDLE_GTS if isinstance(own, Unknown) else device.speed_gts != own
        if idle and slow and not isinstance(device.speed_gts, Unknown):
            verdicts.left_out(
                part=pcie.part_of(device),
                quantity="link speed",
                observed=device.speed_gts,
                unit="GT/s",
                note="judged only while the GPU is busy",
            )
            continue
        by_slot = slot is not None and slot == device.speed_gts
        verdicts.at_least(
            part=pcie.part_of(device),
            quantity="link speed",
            observed=0.0 if device.speed_gts is None else device.speed_gts,
            limit=own
            if isinstance(own, Unknown)
            else Limit(own, "GT/s", "the device's maximum", kind=LimitKind.DEVICE),
            action="move the device if the platform has faster slots" if by_slot else RESEAT,
            otherwise=Verdict.WARN if by_slot else Verdict.FAIL,
            note="the slot supports no more" if by_slot else "",
            code="slow slot" if by_slot else "",
        )
    if not verdicts.findings:
        pcie.end_without_links(pci, verdicts)


def test_bridge_speed(pci: Pci, host: Host, gpus: Gpus, verdicts: Verdicts) -> None:
    """No bridge above an RDMA NIC or a busy GPU runs below the speed that both ends of its link support. (F05)

    A switch whose uplink trained at Gen2 slows everything below it while each device shows its full speed. Above idle
    GPUs nothing is judged: their links drop to save power. Source: PCI Express, link capabilities (max_link_speed).
    """
    for bridge, able, must in pcie.uplinks(pci, pcie.busy(gpus)):
        if pcie.has_no_link(bridge) or bridge.speed_gts is None:
            continue
        seen: dict[str, Any] = {"part": pcie.part_of(bridge), "quantity": "link speed", "observed": bridge.speed_gts}
        slow = not isinstance(able, Unknown) and not isinstance(bridge.speed_gts, Unknown) and bridge.speed_gts < able
        if slow and not must:
            verdicts.left_out(unit="GT/s", note="judged only while a GPU below is busy", **seen)
            continue
        verdicts.at_least(limit=pcie.both_ends(able), action=RESEAT, **seen)
    if not verdicts.findings:
        pcie.end_without_bridges(pci, host, verdicts)


def test_acs(pci: Pci, host: Host, profile: Profile, verdicts: Verdicts) -> None:
    """No bridge between GPUs and RDMA NICs of one PCIe switch redirects their traffic to the CPU by ACS. (F32)

    With ACS redirection GPUDirect and peer-to-peer copies go up to the CPU and back, at a part of the speed. It warns
    except at delivery. Source: NCCL troubleshooting guide, PCI access control; PCI Express, ACS control register.
    """
    if host.is_virtual:
        verdicts.by_design("the host's bridges are not visible here", witness=VIRTUAL)
    for bridge in pcie.between(pci):
        verdicts.holds(
            part=pcie.part_of(bridge),
            quantity="ACS control word",
            observed=pcie.redirects(bridge),
            good="ACS redirects nothing",
            bad="ACS sends traffic between its GPUs and NICs to the CPU",
            action="turn ACS off in the BIOS, or at boot: setpci -s BRIDGE ECAP_ACS+6.w=0000",
            expected=False,
            otherwise=Verdict.FAIL if profile is Profile.DELIVERY else Verdict.WARN,
        )
    if not verdicts.findings:
        pcie.end_without_bridges(pci, host, verdicts)


@pytest.mark.tier("nightly")
def test_uncorrectable_errors(pci: Pci, verdicts: Verdicts) -> None:
    """No GPU, RDMA NIC, NVSwitch or bridge above them counts an uncorrectable PCIe error since boot. (F05)

    A fatal error fails: the link was lost once. A non-fatal one warns: the firmware's search for devices can leave
    one behind on a healthy board; its growth under load is what proves a fault. Source: kernel, sysfs aer_dev_*.
    """
    for device in pcie.on_the_way(pci):
        for name, count, verdict in (
            ("fatal", device.aer.fatal, Verdict.FAIL),
            ("non-fatal", device.aer.nonfatal, Verdict.WARN),
        ):
            if isinstance(count, Unknown) and count.is_absent:
                continue  # the firmware keeps these counters for itself
            verdicts.at_most(
                part=pcie.part_of(device),
                quantity=f"{name} PCIe errors since boot",
                observed=count,
                limit=Limit(0, "", "AER"),
                action="reseat the board or riser; replace it when the count grows",
                otherwise=verdict,
                code=name,
            )
    if not verdicts.findings:
        pcie.end_without_counters(pcie.judged(pci), verdicts)


@pytest.mark.tier("nightly")
def test_correctable_errors(pci: Pci, baseline: Baseline, verdicts: Verdicts) -> None:
    """Correctable PCIe errors since boot stay below the limit. (F05)

    Each was repaired by sending again. Many of them are the early sign of a bad seat; since they add up over months,
    the count since boot only warns. Source: kernel, sysfs aer_dev_correctable; DCGM counts them in its PCIe test.
    """
    limit = baseline.number("pcie.aer_correctable_max")
    for device in pcie.on_the_way(pci):
        count = device.aer.correctable
        if isinstance(count, Unknown) and count.is_absent:
            continue
        verdicts.at_most(
            part=pcie.part_of(device),
            quantity="correctable PCIe errors since boot",
            observed=count,
            limit=limit,
            action="read them before and after load; reseat the board or riser if they grow",
            otherwise=Verdict.WARN,
        )
    if not verdicts.findings:
        pcie.end_without_counters(pcie.judged(pci), verdicts)


@pytest.mark.tier("nightly")
def test_replays(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """PCIe replays of each GPU since boot stay below the limit. (F05)

    A replay is a packet that had to be sent again. Source: NVML PCIe replay counter; DCGM's PCIe test counts them.
    Over months they add up, so the count since boot only warns.
    """
    limit = baseline.number("pcie.replays_max")
    for gpu in answering(gpus, verdicts):
        verdicts.at_most(
            part=gpu.part,
            quantity="PCIe replays since boot",
            observed=gpu.pcie_replays,
            limit=limit,
            action="read them before and after load; reseat the board or riser if they grow",
            otherwise=Verdict.WARN,
            absent=absence("pcie_replays", gpu, gpus, baseline),
        )


@pytest.mark.tier("nightly")
def test_iommu(host: Host, pci: Pci, verdicts: Verdicts) -> None:
    """The IOMMU is off or in pass-through mode, so that GPUs and NICs reach each other directly. (F32)

    With translation on, peer-to-peer traffic goes through the CPU: GPUDirect is slow or off. It warns only, because
    a host that carries virtual machines needs translation. Source: NCCL troubleshooting guide, PCI access control.
    """
    if not pci.gpus:
        verdicts.not_done(pcie.NOTHING)
    if host.is_virtual:
        verdicts.by_design("the host's IOMMU is not visible here", witness=VIRTUAL)
    groups, words = host.iommu_groups, host.kernel_command_line
    if isinstance(groups, Unknown) or isinstance(words, Unknown):
        reason = next(each for each in (groups, words) if isinstance(each, Unknown))
        verdicts.unknown(part=part.setting("IOMMU"), quantity="mode", reason=reason)
    elif groups == 0:
        verdicts.passed(part=part.setting("IOMMU"), text="off")
    elif {"iommu=pt", "iommu.passthrough=1"} & set(words.split()):
        verdicts.passed(part=part.setting("IOMMU"), text="pass-through")
    else:
        verdicts.found(
            Verdict.WARN,
            part=part.setting("IOMMU"),
            text=f"translates addresses in {groups} groups: the kernel command line has no iommu=pt",
            action="add iommu=pt to the kernel command line, or turn the IOMMU off in the BIOS",
            quantity="IOMMU groups",
            observed=groups,
        )
