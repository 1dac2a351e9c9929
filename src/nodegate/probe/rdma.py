"""InfiniBand and RoCE adapters, and plain network devices, from sysfs. Sections `infiniband` and `netdev`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.unknown import Known


@dataclass(frozen=True)
class RdmaPort:
    """One port. `state` and `phys_state` are the kernel's words ("ACTIVE", "LinkUp"); `rate_gbps` Gb/s of all lanes.

    `counters` are absolute values since the driver was loaded: only a difference over a window means anything, and a
    legacy counter at its full scale (link_downed 255) counts no further.
    """

    device: str
    port: int
    state: Known[str]
    phys_state: Known[str]
    rate_gbps: Known[float]
    rate_text: Known[str]  # "400 Gb/sec (4X NDR)"
    lanes: Known[int]
    link_layer: Known[str]  # InfiniBand | Ethernet
    lid: Known[int]
    sm_lid: Known[int]
    netdev: str
    counters: Mapping[str, Known[int]]
    hw_counters: Mapping[str, Known[int]]
    gids: Mapping[int, tuple[str, str]]  # index -> (gid, type): zero gids left out

    @property
    def subject(self) -> str:
        """How a finding names this port."""
        return f"{self.device} port {self.port}"


@dataclass(frozen=True)
class RdmaDevice:
    """One RDMA adapter."""

    name: str
    firmware: Known[str]
    hca_type: Known[str]
    board_id: Known[str]
    node_guid: Known[str]
    address: str  # PCI address; "" for a software device
    numa_node: Known[int]
    ports: tuple[RdmaPort, ...]


@dataclass(frozen=True)
class Rdma:
    """All RDMA adapters of the node."""

    devices: tuple[RdmaDevice, ...]

    @property
    def ports(self) -> tuple[RdmaPort, ...]:
        """Every port of every adapter."""
        return tuple(port for device in self.devices for port in device.ports)


@dataclass(frozen=True)
class NetDevice:
    """One physical network device. `speed_mbps` is Mb/s; unknown while the link is down."""

    name: str
    state: Known[str]
    carrier: Known[bool]
    speed_mbps: Known[int]
    mtu: Known[int]
    mac: Known[str]
    carrier_changes: Known[int]
    address: str  # PCI address; "" when it is no PCI device
    driver: str
