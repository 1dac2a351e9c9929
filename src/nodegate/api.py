"""What a check of a site may import: `from nodegate.api import Baseline, Host, Verdicts, part` (docs/guide/api.md).

Names only, from the rooms where they are made. What a bootcheck does not load anyway (measurements, the fleet) is
imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nodegate.baseline.baseline import Baseline
from nodegate.errors import CannotMeasure, NotApplicable, NotJudged, UsageError
from nodegate.node import Node
from nodegate.probe.driver import Driver, DriverGpu
from nodegate.probe.environment import Environment, ResourceLimits
from nodegate.probe.gpu import EccCounters, Gpu, GpuFabric, GpuProcess, Gpus, NvLink, RowRemap
from nodegate.probe.host import BlockedProcess, Clock, Cpus, Host
from nodegate.probe.jobs import DeviceUser, Jobs, Owner, Whose
from nodegate.probe.kernel_log import KernelLine, KernelLog
from nodegate.probe.mounts import Disk, Disks, Mount, Mounts, Storage
from nodegate.probe.nvml import NvmlLibrary
from nodegate.probe.pci import AerCounters, Pci, PciDevice
from nodegate.probe.rdma import NetDevice, Rdma, RdmaDevice, RdmaPort
from nodegate.probe.services import Service, Services
from nodegate.probe.software import NcclLibrary, Software
from nodegate.probe.upkeep import Upkeep
from nodegate.profile import Profile
from nodegate.records import part
from nodegate.records.finding import Finding, Limit, LimitKind, NumberLimit
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.subjects.gpu import mebibytes
from nodegate.subjects.host import gibibytes, percent
from nodegate.subjects.reported import absence
from nodegate.text import counted, some, with_unit
from nodegate.unknown import Known, Unknown, Why, value_or
from nodegate.verdicts import Verdicts

if TYPE_CHECKING:
    from nodegate.judge.fleet import Fleet
    from nodegate.measure.burn.run import Burn
    from nodegate.measure.copies.result import Copies
    from nodegate.measure.groups.result import NcclGroups
    from nodegate.measure.nccl.result import Nccl
    from nodegate.measure.rdma.result import RdmaBandwidth
    from nodegate.metric import Metric
    from nodegate.numbers.peers import NodePeers
    from nodegate.subjects.counters import Counters
    from nodegate.subjects.order import Order

__all__ = [
    "AerCounters", "Baseline", "BlockedProcess", "Burn", "CannotMeasure", "Clock", "Copies", "Counters", "Cpus",
    "DeviceUser", "Disk", "Disks", "Driver", "DriverGpu", "EccCounters", "Environment", "Finding", "Fleet", "Gpu",
    "GpuFabric", "GpuProcess", "Gpus", "Host", "Jobs", "KernelLine", "KernelLog", "Known", "Limit", "LimitKind",
    "Metric", "Mount", "Mounts", "Nccl", "NcclGroups", "NcclLibrary", "NetDevice", "Node", "NodePeers",
    "NotApplicable", "NotJudged", "NumberLimit", "NvLink", "NvmlLibrary", "Order", "Owner", "Part", "Pci", "PciDevice",
    "Profile", "Rdma", "RdmaBandwidth", "RdmaDevice", "RdmaPort", "ResourceLimits", "RowRemap", "Service", "Services",
    "Software", "Storage", "Unknown", "Upkeep", "UsageError", "Verdict", "Verdicts", "Whose", "Why", "absence",
    "counted", "gibibytes", "mebibytes", "part", "percent", "some", "value_or", "with_unit",
]  # fmt: skip
_LATER = {
    "Burn": "nodegate.measure.burn.run",
    "Copies": "nodegate.measure.copies.result",
    "Counters": "nodegate.subjects.counters",
    "Fleet": "nodegate.judge.fleet",
    "Metric": "nodegate.metric",
    "Nccl": "nodegate.measure.nccl.result",
    "NcclGroups": "nodegate.measure.groups.result",
    "NodePeers": "nodegate.numbers.peers",
    "Order": "nodegate.subjects.order",
    "RdmaBandwidth": "nodegate.measure.rdma.result",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LATER[name]), name)
    return found
