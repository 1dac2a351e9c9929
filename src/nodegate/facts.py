"""The passive facts: what a check may ask for by argument name, and how it is read from the probe document.

`NodeFacts` has a line for each; nothing else registers one. A fact measures and a check judges: a fact that could not
be read raises CannotMeasure, which is `error` for every check that asks for it, never `pass`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Generic, TypeVar, overload

from nodegate.errors import CannotMeasure, NotApplicable
from nodegate.packed import pack, unpack
from nodegate.probe import (
    driver,
    environment,
    hooks,
    host,
    jobs,
    kernel_log,
    mounts,
    nvml,
    pci,
    rdma,
    readings,
    services,
    software,
    upkeep,
)
from nodegate.probe.document import ProbeDocument, refuse_later_sections
from nodegate.probe.gpu import Gpu, Gpus
from nodegate.probe.kernel_log import KernelLog
from nodegate.probe.rdma import Rdma
from nodegate.probe.readings import section_data, section_object
from nodegate.tools import nvidia_smi
from nodegate.unknown import Known, Unknown, Why

T = TypeVar("T")


class Fact(Generic[T]):
    """One fact: the sections of the probe document that it needs, and how it is parsed from the document.

    `may_lack`: it is known without them too, so that evidence of an older probe has it.
    """

    def __init__(self, parse: Callable[[ProbeDocument], T], *sections: str, may_lack: bool = False) -> None:
        self.parse, self.sections, self.may_lack = parse, sections, may_lack

    def __set_name__(self, owner: type, name: str) -> None:
        """Its name is that of the class attribute."""
        self.name = name

    @overload
    def __get__(self, facts: None, owner: type) -> Fact[T]: ...
    @overload
    def __get__(self, facts: NodeFacts, owner: type) -> T: ...
    def __get__(self, facts: NodeFacts | None, owner: type) -> Fact[T] | T:
        """The fact of one node."""
        return self if facts is None else facts.get(self.name)  # type: ignore[return-value]


def _of(section: str, parse: Callable[[Mapping[str, object]], T]) -> Fact[T]:
    """A fact that is parsed from the data of one section, an object."""
    return Fact(lambda document: parse(section_object(document.sections, section)), section)


def _gpus(document: ProbeDocument) -> Gpus:
    try:
        return nvml.parse(section_object(document.sections, "nvml"))
    except CannotMeasure as by_nvml:
        try:
            return _gpus_of_nvidia_smi(document)
        except CannotMeasure as smi:
            said = f"{by_nvml.reason}; {smi.reason}"
            raise CannotMeasure(said, next_step=by_nvml.next_step, lacks=by_nvml.lacks) from None


def _gpus_of_nvidia_smi(document: ProbeDocument) -> Gpus:
    written = readings.body(section_object(document.sections, "nvidia_smi"), "q", nvidia_smi.MAX_TEXT)
    if isinstance(written, Unknown):
        raise CannotMeasure(f"nvidia-smi: {written}", next_step="run nvidia-smi on the node by hand")
    return nvidia_smi.parse_xml(written)


def _rdma(document: ProbeDocument) -> Rdma:
    """A node without /sys/class/infiniband has no RDMA adapters: the checks judge whether it should have some."""
    section = readings.taken(document.sections, "infiniband")
    if isinstance(section, Unknown) and section.why is Why.MISSING and "infiniband" in document.sections:
        return Rdma(())
    return rdma.parse(section_object(document.sections, "infiniband"))


def _kernel_log(document: ProbeDocument) -> KernelLog:
    uptime_s = readings.number(_data(document, "system"), "uptime_s")
    written = section_object(document.sections, "kernel_log")
    return kernel_log.parse(written, epoch_s=document.epoch_s, uptime_s=uptime_s)


def _data(document: ProbeDocument, section: str) -> Known[Mapping[str, object]]:
    return readings.mapping(readings.mapping(document.sections, section), "data")


def known_or_none(read: Callable[[], T]) -> T | None:
    """What facts say; None where they do not."""
    try:
        return read()
    except (CannotMeasure, NotApplicable):
        return None


class NodeFacts:
    """The passive facts of one node, each parsed on first use and kept, a failure as well."""

    gpus = Fact(_gpus, "nvml", "nvidia_smi")
    nvml_library = Fact(lambda document: nvml.library_of(document.sections), "nvml")
    pci = Fact(lambda of: pci.parse(section_data(of.sections, "pci")), "pci")
    netdevs = _of("netdev", rdma.parse_netdevs)  # before `rdma`, which is the module up to its own line
    rdma = Fact(_rdma, "infiniband")
    driver = _of("driver", driver.parse)
    services = _of("services", services.parse)
    cpus = _of("cpus", host.parse_cpus)  # before `host`, as above
    host = Fact(lambda of: host.parse(section_object(of.sections, "system"), epoch_s=of.epoch_s), "system")
    limits = _of("limits", environment.parse_limits)
    environment = _of("environment", environment.parse)
    software = _of("software", software.parse)
    clock = Fact(lambda of: host.parse_clock(section_object(of.sections, "clock"), of), "clock")
    disks = _of("disks", mounts.parse_disks)
    mounts = _of("mounts", mounts.parse)
    jobs = _of("jobs", jobs.parse)
    hooks = _of("hooks", hooks.parse)
    upkeep = _of("upkeep", upkeep.parse)
    storage = Fact(lambda of: mounts.parse_storage(_data(of, "storage")), "storage", may_lack=True)
    kernel_log = Fact(_kernel_log, "kernel_log", "system")

    def __init__(
        self,
        document: ProbeDocument,
        packed: Mapping[str, bytes] | None = None,
        read_again: Callable[[], ProbeDocument] | None = None,
    ) -> None:
        """`packed` and `document` as `kept` gave them; `read_again` then gives the document for any other fact."""
        self.document = document
        self._parsed: dict[str, object] = {}
        self._packed = dict(packed or {})
        self._read_again = read_again

    def kept(self, names: Container[str]) -> tuple[ProbeDocument, dict[str, bytes]]:
        """The document without its sections, and those of these facts that were read so far, each packed by itself."""
        read = {
            name: pack(each)
            for name, each in self._parsed.items()
            if name in names and name not in self._packed and not isinstance(each, Exception)
        }
        return replace(self.document, sections={}, raw={}), {**self._packed, **read}

    @property
    def known_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs, none where they could not be read: for names and hints, never for a verdict."""
        gpus = known_or_none(lambda: self.gpus)
        return () if gpus is None else gpus.devices

    def get(self, name: str) -> object:
        """A fact by its name.

        Raises:
            CannotMeasure: the node could not provide it, or sent something invalid; or a parser failed.
            NotApplicable: the release that recorded the document did not know it yet.
        """
        if name not in self._parsed:
            packed = self._packed.get(name)
            self._parsed[name] = self._read(name) if packed is None else unpack(packed)
        found = self._parsed[name]
        if isinstance(found, CannotMeasure):
            raise CannotMeasure(found.reason, next_step=found.next_step)
        if isinstance(found, NotApplicable):
            raise type(found)(str(found))
        return found

    def _read(self, name: str) -> object:
        try:
            if self._read_again is not None:
                self.document, self._read_again = self._read_again(), None
            return read(name, self.document)
        except (CannotMeasure, NotApplicable) as why:
            return why.with_traceback(None)  # whose frames hold these facts: they would hold themselves
        except Exception as fault:  # noqa: BLE001 - costs this fact of this node, not the run
            return _own_fault(name, fault)


FACTS: dict[str, Fact[object]] = {name: fact for name, fact in vars(NodeFacts).items() if isinstance(fact, Fact)}


def read(name: str, document: ProbeDocument) -> object:
    """A fact by its name.

    Raises:
        CannotMeasure: the node could not provide it, or sent something invalid.
        NotApplicable: the release that recorded the document did not know it yet.
    """
    fact = FACTS[name]
    if not fact.may_lack:
        refuse_later_sections(document.recorder, document.sections, fact.sections)
    return fact.parse(document)


def _own_fault(name: str, fault: Exception) -> CannotMeasure:
    frames = traceback.extract_tb(fault.__traceback__)
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return CannotMeasure(
        f"nodegate itself failed on fact {name} ({type(fault).__name__}: {fault}{place})",
        next_step="report this as an error of nodegate, with the node's evidence file",
    )
