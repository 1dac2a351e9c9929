"""Two made-up platforms: an HGX H100 with InfiniBand rails, and a server with eight L40S cards and RoCE."""

from dataclasses import dataclass
from typing import Any

from fleet import gpus, nics, pcie, system

Sections = dict[str, Any]


@dataclass(frozen=True)
class Parts:
    """A machine as it leaves the factory: the sections of its probe document and where its parts sit."""

    sections: Sections
    units: dict[str, dict[str, str]]
    gpu_addresses: tuple[str, ...]
    nic_addresses: tuple[str, ...]
    boot_lines: tuple[str, ...]


_SWITCH_BUSES = (0x15, 0x37, 0x97, 0xB7)  # the root bus of each PCIe switch: two on either socket


def hgx_h100(name: str, index: int) -> Parts:
    """8 H100 SXM with 4 NVSwitches, 8 NDR InfiniBand rails, a BlueField-3 for management and storage."""
    devices: list[pcie.Device] = []
    gpu_addresses: list[str] = []
    nic_addresses: list[str] = []
    for number, bus in enumerate(_SWITCH_BUSES):
        ports = _pcie_switch(devices, bus, numa=number // 2)
        for slot, (port, model) in enumerate(zip(ports, (pcie.CONNECTX_7, pcie.H100_SXM) * 2, strict=True)):
            address = f"0000:{bus + 3 + slot:02x}:00.0"
            devices.append(pcie.device(model, address, port, numa=number // 2))
            (gpu_addresses if model is pcie.H100_SXM else nic_addresses).append(address)
    _nvswitches(devices)
    _management(devices)
    # Some GPUs save power on an idle link, and the port above shows the same low speed: not a fault.
    idle = {2, 5}
    for number in idle:
        _idle_link(devices, gpu_addresses[number])
    cards = _cards(gpus.H100_SXM, gpu_addresses, index, serial="165", uuid="4e1d-4a7b-9c35")
    rails = {f"mlx5_{number}": _rail(index, number, address) for number, address in enumerate(nic_addresses)}
    bond = nics.ethernet_adapter(
        "0000:2a:00.0",
        guid=_guid(index, 99),
        netdev="bond0",
        rate="200 Gb/sec (2X NDR)",
        ip=f"10.20.{index // 250}.{index % 250 + 1}",
        bluefield=True,
    )
    netdevs = {f"ibs{number}": nics.netdev(address, mtu=4092) for number, address in enumerate(nic_addresses)}
    node = (name, f"7XK{index:04d}", ("Dell Inc.", "PowerEdge XE9680"))
    units = system.units(fabric_manager=True)
    sections = _sections(node, devices, cards, units, memory_kib=2_113_511_424)
    sections["infiniband"] = rails | {"mlx5_bond_0": bond}
    sections["netdev"] = netdevs | {
        "ens2f0np0": nics.netdev("0000:2a:00.0", mtu=9000),
        "ens2f1np1": nics.netdev("0000:2a:00.1", mtu=9000),
        "eno1": nics.netdev("0000:03:00.0", mtu=1500),
    }
    sections["upkeep"] = system.upkeep(devices, sections["infiniband"])
    return Parts(sections, units, tuple(gpu_addresses), tuple(nic_addresses), _boot_lines(nic_addresses, nvswitches=4))


def pcie_l40s(name: str, index: int) -> Parts:
    """8 L40S cards without NVLink, 4 ConnectX-7 RoCE rails of 200 Gb/s."""
    devices: list[pcie.Device] = []
    gpu_addresses: list[str] = []
    nic_addresses: list[str] = []
    for number, bus in enumerate(_SWITCH_BUSES):
        ports = _pcie_switch(devices, bus, numa=number // 2)
        models = (pcie.L40S, pcie.L40S, pcie.CONNECTX_7_ETHERNET)
        for slot, (port, model) in enumerate(zip(ports[:3], models, strict=True)):
            address = f"0000:{bus + 3 + slot:02x}:00.0"
            devices.append(pcie.device(model, address, port, numa=number // 2))
            (gpu_addresses if model is pcie.L40S else nic_addresses).append(address)
            if model is pcie.L40S:
                _narrow(devices, port, speed="16.0")
    _management(devices)
    awake = {0}
    for number, address in enumerate(gpu_addresses):
        if number not in awake:
            _idle_link(devices, address)
    cards = _cards(gpus.L40S, gpu_addresses, index, serial="132", uuid="77aa-4c02-8d11")
    units = system.units(fabric_manager=False)
    node = (name, f"S49{index:04d}", ("Supermicro", "SYS-521GE-TNRT"))
    sections = _sections(node, devices, cards, units, memory_kib=1_056_312_320, fabric_manager=False)
    sections["infiniband"] = {
        f"mlx5_{number}": nics.ethernet_adapter(
            address,
            guid=_guid(index, number),
            netdev=f"ens{number + 1}np0",
            rate="200 Gb/sec (4X HDR)",
            ip=f"10.{30 + number}.{index // 250}.{index % 250 + 1}",
        )
        for number, address in enumerate(nic_addresses)
    }
    sections["netdev"] = {
        f"ens{number + 1}np0": nics.netdev(address, mtu=9000) for number, address in enumerate(nic_addresses)
    } | {"eno1": nics.netdev("0000:03:00.0", mtu=1500)}
    sections["upkeep"] = system.upkeep(devices, sections["infiniband"])
    return Parts(sections, units, tuple(gpu_addresses), tuple(nic_addresses), _boot_lines(nic_addresses, nvswitches=0))


def _sections(
    node: tuple[str, str, tuple[str, str]],
    devices: list[pcie.Device],
    cards: list[gpus.Gpu],
    units: dict[str, dict[str, str]],
    *,
    memory_kib: int,
    fabric_manager: bool = True,
) -> Sections:
    name, serial, product = node
    cpu = "INTEL(R) XEON(R) PLATINUM 8480C" if fabric_manager else "INTEL(R) XEON(R) GOLD 6448Y"
    return {
        "system": system.system(
            name, serial, product, cpu=cpu, cpus=224 if fabric_manager else 128, memory_kib=memory_kib
        ),
        "pci": devices,
        "driver": system.driver(cards),
        "nvml": {
            "driver_version": system.DRIVER,
            "cuda_driver_version": 12040,
            "confidential": 0,
            "count": len(cards),
            "library": f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{system.DRIVER}",
            "gpus": cards,
            "peers": gpus.peers(len(cards)),
        },
        "services": system.services(units, fabric_manager=fabric_manager, gpu_count=len(cards)),
        "limits": system.limits(),
        "mounts": system.mounts(),
        "environment": system.environment(),
        "software": system.software(fabric_manager=fabric_manager),
        "clock": system.clock(),
        "jobs": system.jobs(),
        "hooks": system.hooks(),
        "disks": system.disks(serial),
        "cpus": system.cpus(224 if fabric_manager else 128),
    }


def _cards(board: gpus.Board, addresses: list[str], index: int, *, serial: str, uuid: str) -> list[gpus.Gpu]:
    return [
        gpus.gpu(
            board,
            number,
            address,
            serial=f"{serial}{index:04d}{number:06d}",
            uuid=f"GPU-{index:08x}-{uuid}-{number:012x}",
            driver=system.DRIVER,
        )
        for number, address in enumerate(addresses)
    ]


def _pcie_switch(devices: list[pcie.Device], bus: int, *, numa: int) -> list[str]:
    """A root port with a PCIe switch below it; the addresses of the switch's four lower ports."""
    root, upstream = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
    ports = [f"0000:{bus + 2:02x}:{slot:02x}.0" for slot in range(4)]
    devices.append(pcie.device(pcie.ROOT_PORT, root, "", numa=numa))
    devices.append(pcie.device(pcie.SWITCH_PORT, upstream, root, numa=numa))
    devices.extend(pcie.device(pcie.SWITCH_PORT, port, upstream, numa=numa) for port in ports)
    return ports


def _nvswitches(devices: list[pcie.Device]) -> None:
    """Four NVSwitches, x2 by design, below ports that could be wider and faster."""
    devices.append(pcie.device(pcie.ROOT_PORT, "0000:69:01.0", "", numa=0, speed="16.0", width=4))
    devices.append(pcie.device(pcie.SWITCH_PORT, "0000:6a:00.0", "0000:69:01.0", numa=0, speed="16.0", width=4))
    for number in range(4):
        port = f"0000:6b:{number:02x}.0"
        devices.append(pcie.device(pcie.SWITCH_PORT, port, "0000:6a:00.0", numa=0, speed="16.0", width=2))
        devices.append(pcie.device(pcie.NVSWITCH_3, f"0000:{0x6C + number:02x}:00.0", port, numa=0))


def _management(devices: list[pcie.Device]) -> None:
    """A BlueField-3, and a 1 Gb/s adapter that is wired with one of its two lanes."""
    devices.append(pcie.device(pcie.ROOT_PORT, "0000:29:01.0", "", numa=0))
    devices.extend(pcie.device(pcie.BLUEFIELD_3, f"0000:2a:00.{port}", "0000:29:01.0", numa=0) for port in range(2))
    devices.append(pcie.device(pcie.PLATFORM_PORT, "0000:00:1c.0", "", numa=0, speed="5.0", width=1))
    devices.append(pcie.device(pcie.BCM5720, "0000:03:00.0", "0000:00:1c.0", numa=0, width=1))


def _idle_link(devices: list[pcie.Device], address: str) -> None:
    _narrow(devices, address, speed="2.5")
    _narrow(devices, next(one["parent"] for one in devices if one["address"] == address), speed="2.5")


def _narrow(devices: list[pcie.Device], address: str, *, speed: str) -> None:
    for one in devices:
        if one["address"] == address:
            one["current_link_speed"] = f"{speed} GT/s PCIe"


def _rail(index: int, number: int, address: str) -> dict[str, Any]:
    return nics.infiniband_adapter(number, address, guid=_guid(index, number), netdev=f"ibs{number}")


def _guid(index: int, number: int) -> str:
    return f"a088:c203:{index & 0xFFFF:04x}:{0x4000 + number:04x}"


def _boot_lines(nic_addresses: list[str], *, nvswitches: int) -> tuple[str, ...]:
    """What a healthy boot leaves in the kernel log that a check may be interested in."""
    switches = [f"nvidia-nvswitch{number}: open (major=510)" for number in range(nvswitches)]
    links = [
        f"mlx5_core {address}: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)"
        for address in nic_addresses
    ]
    cables = [f"mlx5_core {address}: Port module event: module 0, Cable plugged" for address in nic_addresses]
    return (
        f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {system.DRIVER}  Release Build",
        *switches,
        *links,
        *cables,
        "tg3 0000:03:00.0 eno1: Link is up at 1000 Mbps, full duplex",
    )
