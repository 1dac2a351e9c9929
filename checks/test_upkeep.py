"""Upkeep: the host's settings, arrays, bonds and memory modules are as its own parts say they should be."""

import pytest

from nodegate.api import Host, Limit, Node, Pci, Rdma, Storage, Unknown, Upkeep, Verdict, Verdicts, Why, part
from nodegate.probe.mounts import folders_of
from nodegate.probe.readings import next_step
from nodegate.probe.upkeep import full_members
from nodegate.records.finding import OWN_WORD, VIRTUAL
from nodegate.subjects import pcie
from nodegate.subjects.rdma import is_active, rails
from nodegate.subjects.upkeep import array_fault, keys_of, narrower, speeds

pytestmark = pytest.mark.tier("bootcheck")

_NO_ERROR = Limit(0, "errors", "none on a healthy memory controller")
NO_PARTNER = "00:00:00:00:00:00"


def test_governor(upkeep: Upkeep, verdicts: Verdicts) -> None:
    """All CPUs of the node have the same frequency governor and the same energy preference. (F33)

    A few CPUs left in another governor slow the ranks that run on them. Which one is right is the site's choice.
    """
    for quantity, found in (("governor", upkeep.governor), ("energy preference", upkeep.preference)):
        if isinstance(found, Unknown):
            continue
        verdicts.found(
            Verdict.WARN if " + " in found else Verdict.PASS,
            part=part.setting("CPU clocks"),
            quantity=quantity,
            observed=found,
            text=f"{quantity} {found}",
            action="set one for all CPUs (cpupower frequency-set -g), and make it persist across reboots",
            code=quantity,
        )
    if not verdicts.findings:
        verdicts.by_design("the kernel does not set the CPU clocks of this machine", witness=OWN_WORD)


def test_max_payload(upkeep: Upkeep, pci: Pci, host: Host, verdicts: Verdicts) -> None:
    """No GPU or RDMA NIC sends larger PCIe packets than every bridge above it takes. (F05)

    A bridge that takes smaller ones drops them as malformed. Source: PCI Express Base Specification, 2.2.2. A virtual
    machine sees bridges that its host has made up.
    """
    if host.is_virtual:
        verdicts.by_design("the PCIe bridges of a virtual machine are made up", witness=VIRTUAL)
    for device in pcie.judged(pci):
        own = upkeep.controls.get(device.address)
        if own is None or isinstance(own, Unknown):
            continue
        note = narrower(pci, device, upkeep)
        verdicts.found(
            Verdict.FAIL if note else Verdict.PASS,
            part=pcie.part_of(device),
            quantity="MaxPayload",
            observed=own.max_payload,
            unit="bytes",
            note=note,
            action="boot with pci=pcie_bus_safe, or set MaxPayload in the BIOS",
        )
    if not verdicts.findings:
        verdicts.not_done("no Device Control word could be read: it needs root")


def test_arrays(upkeep: Upkeep, verdicts: Verdicts) -> None:
    """Software RAID arrays and ZFS pools have all their members and serve. (F31)

    The next disk that fails takes the node and what it stores with it. A rebuild warns: it slows the disk until done.
    """
    for array in upkeep.arrays:
        whose = part.host(array.name)
        for quantity, value in (("state", array.state), ("missing members", array.degraded)):
            if isinstance(value, Unknown) and (quantity == "state" or value.why is not Why.MISSING):
                verdicts.unknown(part=whose, quantity=quantity, reason=value)  # RAID 0 counts no missing members
        if isinstance(array.state, Unknown):
            continue
        fault, syncs = array_fault(array)
        verdict = Verdict.WARN if syncs else Verdict.FAIL if fault else Verdict.PASS
        verdicts.found(
            verdict,
            part=whose,
            quantity="state",
            observed=array.state,
            text=fault or array.state,
            note=f"{syncs} is in progress" if syncs else "",
            action="replace the failed disk and add it to the array (mdadm --add); wait for the rebuild",
            code="rebuild" if syncs else "degraded",
        )
    for name, state in upkeep.pools.items():
        verdicts.equal(
            part=part.host(f"pool {name}"),
            quantity="state",
            observed=state,
            expected="ONLINE",
            action="look at zpool status on the node; replace the failed disk",
        )
    if not verdicts.findings:
        verdicts.by_design("the kernel lists no software RAID array and no ZFS pool", witness="the kernel")


def test_nvme(upkeep: Upkeep, verdicts: Verdicts) -> None:
    """Each NVMe controller is live, and its temperature sensor raises no alarm. (F31)

    A controller that is resetting or dead has lost its disk: jobs that read it stop. Wear and media errors need root
    and a command to the drive; they are not read.
    """
    for each in upkeep.controllers:
        verdicts.equal(
            part=part.host(each.name),
            quantity="state",
            observed=each.state,
            expected="live",
            action="look at the kernel log; reseat or replace the drive",
        )
        if isinstance(each.alarm, Unknown) and each.alarm.why is not Why.MISSING:
            verdicts.unknown(part=part.host(each.name), quantity="temperature alarm", reason=each.alarm)
        if each.alarm is True:
            action = "look at the airflow; compare the drive with the others of the node"
            verdicts.found(
                Verdict.WARN, part=part.host(each.name), text="temperature alarm", action=action, code="alarm"
            )
    if not verdicts.findings:
        verdicts.by_design("no NVMe controller", witness="the kernel")


def test_bonds(upkeep: Upkeep, verdicts: Verdicts) -> None:
    """All members of each bond are up, and the switch of an LACP bond responds. (F07)

    A bond works on with one link at half its rate. It warns: how many members it should have is the site's choice
    (nodegate_expect: bond_members).
    """
    action = "look at the cable and the switch port of the member; compare /proc/net/bonding with another node"
    for bond in upkeep.bonds:
        for member, is_up in bond.members.items():
            verdicts.holds(
                part=part.host(bond.name),
                quantity=f"member {member}",
                observed=is_up,
                good=f"member {member} is up",
                bad=f"member {member} is down",
                action=action,
                otherwise=Verdict.WARN,
                code="member",
            )
        for quantity, value in (("mode", bond.mode), ("LACP partner", bond.partner)):
            if isinstance(value, Unknown) and not (quantity != "mode" and value.why is Why.MISSING):
                verdicts.unknown(part=part.host(bond.name), quantity=quantity, reason=value)
        if isinstance(bond.mode, str) and bond.mode.startswith("802.3ad") and bond.partner == NO_PARTNER:
            text = "no LACP partner: the switch does not respond"
            verdicts.found(Verdict.WARN, part=part.host(bond.name), text=text, action=action, code="partner")
    if not verdicts.findings:
        verdicts.by_design("no bond has a member", witness="the kernel")


def test_memory_modules(upkeep: Upkeep, verdicts: Verdicts) -> None:
    """Memory modules run at one speed, and no memory controller has counted an uncorrected error. (F17)

    One slow module slows its channel. A corrected error is no fault. Drivers that are not loaded count nothing.
    """
    for name, count in upkeep.uncorrected.items():
        verdicts.at_most(
            part=part.Part(part.Kind.MEMORY, name),
            quantity="uncorrected errors",
            observed=count,
            limit=_NO_ERROR,
            action="replace the module that edac-util or the BMC's event log names",
        )
    found = () if isinstance(upkeep.dimms, Unknown) else upkeep.dimms
    if stated := speeds(found):
        verdicts.found(
            Verdict.WARN if len(stated) > 1 else Verdict.PASS,
            part=part.MEMORY,
            quantity="speed",
            observed=" + ".join(map(str, stated)),
            unit="MT/s",
            text=f"{len(found)} modules at {' and '.join(map(str, stated))} MT/s",
            action="compare the modules with dmidecode -t 17; replace the slow one",
            code="speed",
        )
    if not verdicts.findings:
        verdicts.not_done("no table of memory modules (it needs root) and no memory controller that counts errors")


def test_partition_keys(upkeep: Upkeep, rdma: Rdma, verdicts: Verdicts) -> None:
    """Each InfiniBand rail in service is a full member of a partition. (F14)

    Two limited members cannot talk to each other. Source: InfiniBand Architecture Specification, volume 1, 10.9.
    """
    for port in rails(rdma, rate=None, layer=None):
        keys = keys_of(upkeep, port)
        if port.link_layer != "InfiniBand" or not is_active(port):
            continue
        if not keys:
            unread = Unknown(Why.MISSING, "the kernel shows none, and a rail in service has one at least")
            verdicts.unknown(part=port.part, quantity="partition keys", reason=unread)
            continue
        written = " + ".join(f"{key:#06x}" for key in sorted(keys))
        verdicts.found(
            Verdict.PASS if full_members(keys) else Verdict.WARN,
            part=port.part,
            quantity="partition keys",
            observed=written,
            text=written if full_members(keys) else f"{written}: a limited member only",
            action="make the port a full member in the subnet manager's partition file",
        )
    if not verdicts.findings:
        verdicts.not_done("no InfiniBand rail in service")


def test_written(storage: Storage, node: Node, verdicts: Verdicts) -> None:
    """In each folder that the site names a file of 4 MiB is written, read back and removed. (F31)

    `nodegate_mounts` names it: "/lustre:write=/lustre/nodegate". It is written as the folder's owner. What is mounted
    and answers can still be full, out of quota or stale; what is read back may come from a cache of the file server.
    """
    for folder in folders_of(node.settings.mounts):
        found, where = storage.of(folder), part.host(folder)
        if isinstance(found, Unknown) and found.why in (Why.HUNG, Why.TIMEOUT):
            text, note, action = "hung", found.detail, "look at the file server and the network path to it"
        elif isinstance(found, Unknown) and found.why in (Why.FAILED, Why.MISSING):
            text, note = "a file cannot be written", found.detail
            action = "look at quota, inodes and the kernel log; write there by hand as the folder's owner"
        elif isinstance(found, Unknown):
            step = next_step("storage", found.why)
            verdicts.unknown(part=where, quantity="a file written there", reason=found, action=step)
            continue
        elif found.same:
            verdicts.passed(part=where, text=f"4 MiB written in {found.write_s} s, read back in {found.read_s} s")
            continue
        else:
            text, note = "what was read back differs", ""
            action = "take the node out of service: it or the file server changes data"
        verdicts.found(Verdict.FAIL, part=where, text=text, note=note, action=action, code=text)
    if not verdicts.findings:
        verdicts.not_demanded("no folder to write in: nodegate_mounts names it as /data:write=/data/nodegate")
