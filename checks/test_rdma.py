"""RDMA: the node has all its rails, each in service at its full rate and alike."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nodegate.api import Limit, NotJudged, Unknown, Verdict, part
from nodegate.records.finding import NOT_READ, OWN_WORD
from nodegate.subjects import pcie
from nodegate.subjects.nccl_settings import origins
from nodegate.subjects.rdma import (
    ACTIVE,
    ROCE_V1,
    end_without_rails,
    gid_index,
    is_active,
    majority,
    rails,
    roce_gid,
    unplaced,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.api import Baseline, Environment, NetDevice, Pci, Rdma, RdmaPort, Verdicts

pytestmark = pytest.mark.tier("bootcheck")

CABLE = "reseat or replace the cable or transceiver; look at the switch port"


def rails_of(rdma: Rdma, baseline: Baseline) -> tuple[RdmaPort, ...]:
    """The ports that carry jobs on this platform."""
    return rails(rdma, rate=baseline.find_number("rdma.rate_gbps"), layer=baseline.find("rdma.link_layer"))


def test_rails(rdma: Rdma, pci: Pci, baseline: Baseline, verdicts: Verdicts) -> None:
    """The node has as many rails in service as its platform. (F07)

    When a NIC is gone or down, the GPUs of its rail use another NIC: the job goes on at a part of its speed.
    Management and storage ports do not count. The number comes from the inventory (nodegate_nics) or the platform.
    """
    if not rdma.devices and pcie.rdma_nics(pci):
        step = "load the RDMA driver (mlx5_ib)"
        verdicts.cannot(f"{len(pcie.rdma_nics(pci))} RDMA NICs on PCIe, but no RDMA device", next_step=step)
    limit = baseline.number("rdma.rails")
    listed = rails_of(rdma, baseline)
    found = [port for port in listed if is_active(port)]
    unread = {port.part: port.state for port in listed if isinstance(port.state, Unknown)}
    unread |= {port.part: reason for port, _, reason in unplaced(rdma)}
    if len(found) < limit.value <= len(found) + len(unread):
        for whose, reason in unread.items():
            verdicts.unknown(part=whose, quantity="whether it is a rail in service", reason=reason)
        return
    more = len(found) > limit.value
    verdicts.equal(
        part=part.host("RDMA"),
        quantity="rails in service",
        observed=len(found),
        expected=limit,
        action="set rdma.rails or rdma.link_layer for this node"
        if more
        else "look for the missing NIC in lspci and the kernel log",
        otherwise=Verdict.WARN if more else Verdict.FAIL,
        code="too many" if more else "too few",
    )


def test_port_state(rdma: Rdma, pci: Pci, baseline: Baseline, verdicts: Verdicts) -> None:
    """The port of each rail is ACTIVE and its link is up. (F07)

    INIT means that the cable is good and no subnet manager has configured the port. Ports beyond the platform's
    number of rails may be down: no cable is plugged in. An adapter without a port may have been a rail.
    """
    ports, limit = rails_of(rdma, baseline), baseline.find_number("rdma.rails")
    enough = limit if limit is not None and sum(map(is_active, ports)) >= limit.value else None
    for port in ports:
        if isinstance(port.state, Unknown):
            verdicts.unknown(part=port.part, quantity="state", reason=port.state)
        elif is_active(port):
            verdicts.equal(
                part=port.part, quantity="physical state", observed=port.phys_state, expected="LinkUp", action=CABLE
            )
        elif enough and port.state == "DOWN":
            text = f"not in use (state {port.state}): the other rails suffice"
            verdicts.lacking(part=port.part, text=text, witness=enough.source)
        else:
            waits = port.state == "INIT"
            verdicts.found(
                Verdict.FAIL,
                part=port.part,
                quantity="state",
                observed=port.state,
                limit=Limit(ACTIVE),
                note="the link is up, but no subnet manager has configured it"
                if waits
                else f"physical state {port.phys_state}",
                action="start the subnet manager, or find out why it does not reach this port" if waits else CABLE,
                code="init" if waits else "down",
            )
    for port, quantity, reason in unplaced(rdma):
        verdicts.unknown(part=port.part, quantity=quantity, reason=reason)
    for device in rdma.devices:
        if device.address and not device.ports:
            verdicts.unknown(part=part.nic(device.name), quantity="ports", reason="the adapter lists none")
    if not ports:
        end_without_rails(pci, baseline, verdicts)


def test_port_rate(rdma: Rdma, baseline: Baseline, verdicts: Verdicts) -> None:
    """The port of each rail in service runs at the platform's rate. (F07)

    A link that fell back (NDR to HDR, four lanes to one) works on without an error: one slow rail slows every
    collective.
    Without a limit the rails of the node are compared with each other.
    """
    ports = [port for port in rails_of(rdma, baseline) if is_active(port)]
    if not ports:
        verdicts.not_done("no rail is in service: see rdma.rails and rdma.port_state")
    limit = baseline.find_number("rdma.rate_gbps") or majority(port.rate_gbps for port in ports)
    if limit is None:
        raise NotJudged("no limit rdma.rate_gbps, and no rate that most rails of this node have")
    for port in ports:
        verdicts.at_least(
            part=port.part, quantity="rate", observed=port.rate_gbps, limit=replace(limit, unit="Gb/s"), action=CABLE
        )


def test_port_lanes(rdma: Rdma, baseline: Baseline, verdicts: Verdicts) -> None:
    """The port of each rail in service uses as many lanes as its peers. (F07)

    One bad lane makes a port train at 1X instead of 4X. An adapter that has two lanes by design (a bond of a DPU) is
    compared with its own kind only.
    """
    ports = [port for port in rails_of(rdma, baseline) if is_active(port)]
    if not ports:
        verdicts.not_done("no rail is in service: see rdma.rails and rdma.port_state")
    limit = majority(port.lanes for port in ports)
    if limit is None:
        raise NotJudged("no lane count that most rails of this node share")
    for port in ports:
        verdicts.at_least(
            part=port.part, quantity="link width", observed=port.lanes, limit=replace(limit, unit="lanes"), action=CABLE
        )


def test_gids(rdma: Rdma, pci: Pci, baseline: Baseline, verdicts: Verdicts) -> None:
    """Each RoCE rail in service has a GID of RoCE v2. (F14)

    Without one no peer can address it; RoCE v1 crosses no router, and NCCL looks for v2. A rail that lists no GID at
    all has lost its network device, or they could not be read. Source: NCCL_IB_GID_INDEX, NCCL_IB_ROCE_VERSION_NUM.
    """
    ports = [port for port in rails_of(rdma, baseline) if port.link_layer == "Ethernet" and is_active(port)]
    for port in ports:
        word = roce_gid(port)
        if isinstance(word, Unknown):
            action = "show_gids on the node; bring its network device up (ip link set DEV up)"
            verdicts.unknown(part=port.part, quantity="GID", reason=word, action=action)
            continue
        verdicts.found(
            Verdict.WARN if word == ROCE_V1 else Verdict.PASS,
            part=port.part,
            text=word,
            action="set RoCE v2 for this port (cma_roce_mode -m 2), and its GIDs with it",
            quantity="GID",
            observed=word,
            code="v1",
        )
    if not ports and not rails_of(rdma, baseline):
        end_without_rails(pci, baseline, verdicts)
    if not ports and any(port.link_layer == "Ethernet" for port in rails_of(rdma, baseline)):
        verdicts.not_done("no rail is in service: see rdma.rails and rdma.port_state")
    if not ports:
        verdicts.by_design("no RoCE rail", witness=OWN_WORD)


def test_gid_index(rdma: Rdma, environment: Environment, verdicts: Verdicts) -> None:
    """The RoCE v2 GID with IPv4 is at one place of the table on all rails, and at NCCL_IB_GID_INDEX if set. (F14)

    A rail without a GID at that place ends the job at its start (ibv_modify_qp fails). A rail whose address was added
    in another order has it elsewhere: launchers that set one number for all then use another GID.
    """
    ports = [port for port in rails(rdma, rate=None, layer=None) if port.link_layer == "Ethernet" and is_active(port)]
    action = "compare show_gids of the rails; add the addresses of all of them in the same order"
    settings = (each for each in origins(environment).values() if not isinstance(each, Unknown))
    named = {each.get("NCCL_IB_GID_INDEX", "").strip() for each in settings}
    for index in sorted(int(each) for each in named if re.fullmatch("[0-9]{1,3}", each)):
        for port in (each for each in ports if each.gids):
            kind = port.gids[index][1] or "of an unknown type" if index in port.gids else "none"
            verdicts.equal(
                part=port.part,
                quantity=f"GID at NCCL_IB_GID_INDEX {index}",
                observed=kind,
                expected=Limit("RoCE v2", "", "NCCL looks for it"),
                action=action,
                otherwise=Verdict.WARN if index in port.gids else Verdict.FAIL,
                code="named",
            )
    places = {port.part: gid_index(port) for port in ports}
    common = majority(places.values())
    for whose, place in places.items() if common else ():
        verdicts.equal(
            part=whose,
            quantity="place of the RoCE v2 GID with IPv4",
            observed="none" if isinstance(place, Unknown) else place,
            expected=common,
            action=action,
            otherwise=Verdict.WARN,
            code="place",
        )
    if not verdicts.findings:
        verdicts.not_done("no two RoCE rails in service with a GID of RoCE v2 and IPv4")


@pytest.mark.tier("nightly")
def test_firmware(rdma: Rdma, pci: Pci, baseline: Baseline, verdicts: Verdicts) -> None:
    """All rails of the node have the same NIC firmware. (F33)

    A NIC that was swapped and not updated behaves unlike its peers under load. It warns: old firmware is no fault yet.
    """
    used = {port.device for port in rails_of(rdma, baseline)}
    devices = [device for device in rdma.devices if device.name in used]
    if not devices:
        end_without_rails(pci, baseline, verdicts)
    limit = majority(device.firmware for device in devices)
    if limit is None:
        raise NotJudged("no firmware that most rails of this node have")
    for device in devices:
        verdicts.equal(
            part=part.nic(device.name),
            quantity="firmware",
            observed=device.firmware,
            expected=limit,
            action="update the NIC's firmware",
            otherwise=Verdict.WARN,
        )


@pytest.mark.tier("nightly")
def test_mtu(rdma: Rdma, pci: Pci, netdevs: Mapping[str, NetDevice], baseline: Baseline, verdicts: Verdicts) -> None:
    """All RoCE rails of the node have the same MTU. (F14)

    Two ends with different MTU agree on the smaller one, and large frames are lost where a switch takes neither. A rail
    in service whose network device is not among those that were read (a bond) is not judged; one whose network device
    is not known is an error.
    """
    ports = [port for port in rails_of(rdma, baseline) if port.link_layer == "Ethernet"]
    if not ports:
        if rails_of(rdma, baseline):
            verdicts.by_design("no RoCE rail", witness=OWN_WORD)
        end_without_rails(pci, baseline, verdicts)
    found = {port.part: netdevs[port.netdev].mtu for port in ports if port.netdev in netdevs}
    for port in ports:
        if is_active(port) and port.netdev not in netdevs:
            _say_mtu_is_not_known(port, verdicts)
    if not found and verdicts.findings:
        return
    if not found:
        verdicts.not_done("no rail is in service: see rdma.rails and rdma.port_state")
    limit = majority(found.values())
    if limit is None:
        raise NotJudged("no MTU that most RoCE rails of this node have")
    for whose, mtu in found.items():
        verdicts.equal(
            part=whose,
            quantity="MTU",
            observed=mtu,
            expected=replace(limit, unit="bytes"),
            action="set the MTU of all rails alike, here and on the switch",
            otherwise=Verdict.WARN,
        )


def _say_mtu_is_not_known(port: RdmaPort, verdicts: Verdicts) -> None:
    if not port.netdev:
        reason = "the network device of this port is not known"
        action = f"ls /sys/class/infiniband/{port.device}/device/net on the node; load the NIC's network driver"
        verdicts.unknown(part=port.part, quantity="MTU", reason=reason, action=action)
        return
    verdicts.found(
        Verdict.NOT_JUDGED,
        part=port.part,
        text=f"MTU not judged: {port.netdev} is a bond or a virtual device, which is not read",
        action=f"compare it manually with the other rails: ip link show {port.netdev}",
        quantity="MTU",
        code=NOT_READ,
    )
