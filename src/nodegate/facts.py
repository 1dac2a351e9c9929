"""The registry of passive facts: what a check may ask for by argument name, and how it is read from the probe document.

A fact measures and a check judges: a fact that could not be read raises CannotMeasure, which is `error` for every check
that asks for it, never `pass`.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from nodegate.errors import CannotMeasure
from nodegate.probe import (
    clock,
    driver,
    environment,
    gpu,
    host,
    jobs,
    kernel_log,
    limits,
    mounts,
    nvml_library,
    pci,
    rdma,
    readings,
    services,
    software,
)
from nodegate.probe.clock import Clock
from nodegate.probe.driver import Driver
from nodegate.probe.environment import Environment
from nodegate.probe.gpu import Gpus
from nodegate.probe.host import Host
from nodegate.probe.jobs import Jobs
from nodegate.probe.kernel_log import KernelLog
from nodegate.probe.limits import ResourceLimits
from nodegate.probe.mounts import Mounts
from nodegate.probe.pci import Pci
from nodegate.probe.rdma import NetDevice, Rdma
from nodegate.probe.section import section_data
from nodegate.probe.services import Services
from nodegate.probe.software import Software
from nodegate.tools import nvidia_smi
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nodegate.probe.document import ProbeDocument

T = TypeVar("T")


@dataclass(frozen=True)
class FactSource:
    """Where a fact comes from. `stage` and `scope` say when and for what the campaign gathers it.

    `sections` are the sections of the probe document that it needs.
    """

    name: str
    sections: tuple[str, ...]
    parse: Callable[[ProbeDocument], object]
    stage: str = "facts"
    scope: str = "node"


def read(name: str, document: ProbeDocument) -> object:
    """A fact by its name.

    Raises:
        CannotMeasure: the node could not provide it, or sent something invalid.
    """
    return FACTS[name].parse(document)


class NodeFacts:
    """The passive facts of one node, each parsed on first use and kept, a failure as well."""

    def __init__(self, document: ProbeDocument) -> None:
        self.document = document
        self._parsed: dict[str, object] = {}

    def get(self, name: str) -> object:
        """A fact by its name.

        Raises:
            CannotMeasure: the node could not provide it, or sent something invalid; or a parser failed.
        """
        if name not in self._parsed:
            try:
                self._parsed[name] = read(name, self.document)
            except CannotMeasure as why:
                self._parsed[name] = why
            except Exception as fault:  # noqa: BLE001 - costs this fact of this node, not the run
                self._parsed[name] = _own_fault(name, fault)
        found = self._parsed[name]
        if isinstance(found, CannotMeasure):
            raise CannotMeasure(found.reason, next_step=found.next_step)
        return found

    def _typed(self, name: str, kind: type[T]) -> T:
        found = self.get(name)
        if not isinstance(found, kind):
            raise TypeError(f"fact {name} is not a {kind.__name__}")
        return found

    @property
    def gpus(self) -> Gpus:
        """GPUs as NVML sees them."""
        return self._typed("gpus", Gpus)

    @property
    def pci(self) -> Pci:
        """PCIe devices."""
        return self._typed("pci", Pci)

    @property
    def rdma(self) -> Rdma:
        """RDMA adapters and ports."""
        return self._typed("rdma", Rdma)

    @property
    def netdevs(self) -> Mapping[str, NetDevice]:
        """Physical network devices by name."""
        return self._typed("netdevs", dict)

    @property
    def driver(self) -> Driver:
        """The driver's own files and device nodes."""
        return self._typed("driver", Driver)

    @property
    def services(self) -> Services:
        """The systemd units that matter."""
        return self._typed("services", Services)

    @property
    def host(self) -> Host:
        """System identity and kernel state."""
        return self._typed("host", Host)

    @property
    def limits(self) -> ResourceLimits:
        """Resource limits."""
        return self._typed("limits", ResourceLimits)

    @property
    def mounts(self) -> Mounts:
        """Mounted file systems."""
        return self._typed("mounts", Mounts)

    @property
    def environment(self) -> Environment:
        """Login environment and NCCL settings."""
        return self._typed("environment", Environment)

    @property
    def software(self) -> Software:
        """Libraries and tools."""
        return self._typed("software", Software)

    @property
    def clock(self) -> Clock:
        """Clock synchronisation."""
        return self._typed("clock", Clock)

    @property
    def jobs(self) -> Jobs:
        """Jobs and processes on the node now."""
        return self._typed("jobs", Jobs)

    @property
    def kernel_log(self) -> KernelLog:
        """Kernel messages with their time."""
        return self._typed("kernel_log", KernelLog)


def _own_fault(name: str, fault: Exception) -> CannotMeasure:
    frames = traceback.extract_tb(fault.__traceback__)
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return CannotMeasure(
        f"nodegate itself failed on fact {name} ({type(fault).__name__}: {fault}{place})",
        next_step="report this as an error of nodegate, with the node's evidence file",
    )


def _plain(name: str, section: str, parse: Callable[[object], object]) -> FactSource:
    """A fact that needs one section only."""
    return FactSource(name, (section,), lambda document: parse(section_data(document.sections, section)))


def _gpus(document: ProbeDocument) -> Gpus:
    try:
        return gpu.parse(section_data(document.sections, "nvml"))
    except CannotMeasure as nvml:
        try:
            return _gpus_of_nvidia_smi(document)
        except CannotMeasure as smi:
            raise CannotMeasure(f"{nvml.reason}; {smi.reason}", next_step=nvml.next_step) from None


def _gpus_of_nvidia_smi(document: ProbeDocument) -> Gpus:
    section = readings.record(section_data(document.sections, "nvidia_smi"))
    written = section if isinstance(section, Unknown) else readings.body(section, "q", nvidia_smi.MAX_TEXT)
    if isinstance(written, Unknown):
        raise CannotMeasure(f"nvidia-smi: {written}", next_step="run nvidia-smi on the node by hand")
    return nvidia_smi.parse_xml(written)


def _rdma(document: ProbeDocument) -> Rdma:
    """A node without /sys/class/infiniband has no RDMA adapters: the checks judge whether it should have some."""
    section = readings.taken(document.sections, "infiniband")
    if isinstance(section, Unknown) and section.why is Why.MISSING and "infiniband" in document.sections:
        return Rdma(())
    return rdma.parse(section_data(document.sections, "infiniband"))


def _host(document: ProbeDocument) -> Host:
    return host.parse(section_data(document.sections, "system"), epoch_s=document.epoch_s, uid=document.uid)


def _clock(document: ProbeDocument) -> Clock:
    return clock.parse(section_data(document.sections, "clock"), document)


def _kernel_log(document: ProbeDocument) -> KernelLog:
    return kernel_log.parse(
        section_data(document.sections, "kernel_log"), epoch_s=document.epoch_s, uptime_s=_uptime_s(document)
    )


def _uptime_s(document: ProbeDocument) -> Known[float]:
    section = readings.mapping(document.sections, "system")
    system = section if isinstance(section, Unknown) else readings.mapping(section, "data")
    return system if isinstance(system, Unknown) else readings.number(system, "uptime_s")


FACTS: Mapping[str, FactSource] = {
    source.name: source
    for source in (
        FactSource("gpus", ("nvml", "nvidia_smi"), _gpus),
        FactSource("nvml_library", ("nvml",), lambda document: nvml_library.parse(document.sections)),
        _plain("pci", "pci", pci.parse),
        FactSource("rdma", ("infiniband",), _rdma),
        _plain("netdevs", "netdev", rdma.parse_netdevs),
        _plain("driver", "driver", driver.parse),
        _plain("services", "services", services.parse),
        FactSource("host", ("system",), _host),
        _plain("limits", "limits", limits.parse),
        _plain("mounts", "mounts", mounts.parse),
        _plain("environment", "environment", environment.parse),
        _plain("software", "software", software.parse),
        FactSource("clock", ("clock",), _clock),
        _plain("jobs", "jobs", jobs.parse),
        FactSource("kernel_log", ("kernel_log", "system"), _kernel_log),
    )
}
