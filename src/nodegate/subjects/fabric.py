"""The NVLink fabric: where it is to be expected, which GPUs are members of it, and what its health mask says."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.probe.gpu import Gpu, GpuFabric, Gpus
from nodegate.probe.host import Host
from nodegate.probe.pci import Pci
from nodegate.probe.services import ImexDomain, ImexNode, Services
from nodegate.records.finding import OWN_WORD, VIRTUAL
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.unknown import Known, Unknown, Why, both, known
from nodegate.verdicts import Verdicts

if TYPE_CHECKING:
    from nodegate.baseline.baseline import Baseline

UNIT, IMEX = "nvidia-fabricmanager", "nvidia-imex"
NO_SWITCHES = "a virtual machine without NVSwitches"
NO_SUMMARY = 0  # nvml.h, NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED
_NOT_SUPPORTED = 0  # nvml.h, NVML_GPU_FABRIC_STATE_NOT_SUPPORTED


def demand_fabric(pci: Pci, host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """End the check where no fabric manager is needed: the site says so, or nothing says it is and no NVSwitch is seen.

    A virtual machine may be given GPUs without their NVSwitches: then the fabric manager runs on its host.

    Raises:
        NotApplicable: this node needs none.
    """
    required = baseline.find("fabric.required")
    if required is not None and required.value is False:
        verdicts.by_design("this platform runs no fabric manager", witness=required.source)
    if host.is_virtual and not pci.nvswitches:
        verdicts.by_design(f"{NO_SWITCHES}: the fabric manager runs on its host", witness=VIRTUAL)
    if required is None and not pci.nvswitches:
        verdicts.not_done("PCIe lists no NVSwitch, and no platform says that there is none")


def members(gpus: Sequence[Gpu], verdicts: Verdicts, *, demanded: bool) -> Iterator[tuple[Gpu, GpuFabric]]:
    """The GPUs whose fabric state is to be judged.

    Cards without a fabric (and A100, whose driver reports none) say "not supported", all of a node alike: that ends
    the check, unless `demanded`: the platform's boards report one. One that says so among others that do not is
    judged with them.

    Raises:
        NotApplicable: no GPU of this node reports a fabric state.
    """
    reporting = [gpu for gpu in gpus if not _absent(gpu.fabric)]
    if gpus and not reporting and not demanded:
        verdicts.by_design("no GPU of this node reports a fabric state", witness=OWN_WORD)
    for gpu in gpus:
        if isinstance(gpu.fabric, Unknown):
            verdicts.unknown(part=gpu.part, quantity="fabric state", reason=gpu.fabric)
        elif gpu.fabric.state != _NOT_SUPPORTED or reporting or demanded:
            yield gpu, gpu.fabric


def spans_nodes(gpus: Iterable[Gpu]) -> bool:
    """Whether a GPU is in an NVLink domain of several nodes: else the UUID of its cluster is all zeros."""
    ids = known(fabric.cluster_uuid for fabric in known(gpu.fabric for gpu in gpus))
    return any(set(each) - set("0-") for each in ids)


def has_domain(gpus: Gpus) -> bool:
    """Whether a GPU may be in an NVLink domain of several nodes, for all that is known: its word is missing."""
    lost = any(gpu.lost is not None for gpu in gpus.devices)
    fabrics = [gpu.fabric for gpu in gpus.devices if not _absent(gpu.fabric)]
    return lost or any(isinstance(each, Unknown) or isinstance(each.cluster_uuid, Unknown) for each in fabrics)


def domain_of(gpus: Iterable[Gpu]) -> str | None:
    """The NVLink domain of several nodes that all of these GPUs are in; empty if in none, None if that is not known."""
    found = {None if isinstance(gpu.fabric, Unknown) else gpu.fabric.cluster_uuid for gpu in gpus}
    one = found.pop() if len(found) == 1 else None
    if not isinstance(one, str):
        return None
    return one if set(one) - set("0-") else ""


def state_of(services: Services, unit: str) -> Known[str]:
    """What systemd says of a unit: "active", "inactive", "not installed"."""
    if isinstance(services.units, Unknown):
        return services.units
    found = services.units.get(unit)
    return "not installed" if found is None or found.load_state == "not-found" else found.active_state


def demand_domain(gpus: Gpus, answering: Sequence[Gpu], verdicts: Verdicts) -> None:
    """End the check of a node whose GPUs are in no NVLink domain of several nodes.

    Raises:
        NotApplicable: it is in none, or that is not known.
    """
    if spans_nodes(answering):
        return
    if has_domain(gpus):
        verdicts.not_done("the NVLink domain of a GPU is not known: see fabric.state")
    verdicts.by_design("no GPU is in an NVLink domain of several nodes", witness=OWN_WORD)


def own_member(domain: ImexDomain, hostname: Known[str]) -> Known[ImexNode]:
    """The node's own entry in its IMEX domain, by its host name: those of other nodes are partly made up."""
    if isinstance(hostname, Unknown):
        return hostname
    names = {hostname, hostname.partition(".")[0]}
    said = [(node, each) for node in domain.nodes for each in {node.hostname, node.host} if isinstance(each, str)]
    own = [node for node, each in said if each in names or each.partition(".")[0] in names]
    return own[0] if len(own) == 1 else Unknown(Why.FAILED, f"{len(own)} of its nodes have the name {hostname}")


def known_word(said: Known[str], words: Container[str]) -> Known[str]:
    """What a program said, if it is one of its words; else nobody knows what it means."""
    return said if isinstance(said, Unknown) or said in words else Unknown(Why.FAILED, f"{said} is none of its words")


def judge_connections(own: ImexNode, service: Part, action: str, verdicts: Verdicts) -> None:
    """Whether the node is connected to all nodes of its IMEX domain: most of them lost is its own fault."""
    if isinstance(own.connections, Unknown) or not own.connections:
        reason = own.connections if isinstance(own.connections, Unknown) else "none is listed"
        verdicts.unknown(part=service, quantity="its connections", reason=reason, action=action)
        return
    count = len(own.connections)
    for host, state in own.connections.items():
        if isinstance(state, Unknown):
            verdicts.unknown(part=service, quantity=f"its connection to {host}", reason=state, action=action)
    bad = [f"{host} ({state})" for host, state in own.connections.items() if state != "CONNECTED"]
    verdicts.found(
        (Verdict.FAIL if 2 * len(bad) > count else Verdict.WARN) if bad else Verdict.PASS,
        part=service,
        text=f"not connected to {', '.join(bad)}" if bad else f"connected to all {count} nodes of its domain",
        action=action,
        quantity="connected nodes",
        observed=count - len(bad),
        code="not connected" if bad else "",
    )


def place(fabric: GpuFabric) -> Known[str]:
    """The cluster that a GPU is in, and the clique of it."""
    return both(fabric.cluster_uuid, fabric.clique, lambda cluster, clique: f"{cluster}, clique {clique}")


def _absent(fabric: Known[GpuFabric]) -> bool:
    reading = fabric if isinstance(fabric, Unknown) else fabric.state
    return reading == _NOT_SUPPORTED or (isinstance(reading, Unknown) and reading.is_absent)


FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
FABRIC_SUMMARIES = {0: "not supported", 1: "healthy", 2: "unhealthy", 3: "limited capacity"}
FABRIC_SUMMARY_VERDICTS = {1: Verdict.PASS, 2: Verdict.FAIL, 3: Verdict.FAIL}


@dataclass(frozen=True)
class _Field:
    """A field of the mask; `words` gives each value's verdict and sentence, 0 always means: not supported."""

    shift: int
    width: int  # a mask of the field's bits: bindings before 13.615 have wrong widths, so they stand here
    name: str
    words: dict[int, tuple[Verdict, str]]

    def meaning(self, value: int) -> tuple[Verdict, str]:
        """The verdict and the sentence of a value; one that has none is `error`."""
        return self.words.get(value, (Verdict.ERROR, f"{self.name} has the unknown value {value}"))


_CONFIGURATION = (
    "system GUID is wrong",
    "chassis serial number is wrong",
    "no partition",
    "too few NVLinks",
    "GPU firmware does not fit",
    "invalid location",
    "GPU state is invalid",
)
_CONFIGURED = {1: (Verdict.PASS, "")}
_CONFIGURED |= {code: (Verdict.FAIL, f"configuration: {words}") for code, words in enumerate(_CONFIGURATION, start=2)}
_FIELDS = (
    _Field(0, 0x3, "bandwidth", {1: (Verdict.FAIL, "bandwidth is degraded"), 2: (Verdict.PASS, "")}),
    _Field(2, 0x3, "route recovery", {1: (Verdict.WARN, "route recovery in progress"), 2: (Verdict.PASS, "")}),
    _Field(4, 0x3, "route", {1: (Verdict.FAIL, "route is unhealthy"), 2: (Verdict.PASS, "")}),
    _Field(6, 0x3, "access timeout", {1: (Verdict.FAIL, "access timeout recovery pending"), 2: (Verdict.PASS, "")}),
    _Field(8, 0xF, "configuration", _CONFIGURED),
    _Field(12, 0x3, "partition", {1: (Verdict.PASS, ""), 2: (Verdict.FAIL, "no partition assigned")}),
    _Field(14, 0x3, "fabric manager", {1: (Verdict.PASS, ""), 2: (Verdict.FAIL, "fabric manager disconnected")}),
)


@dataclass(frozen=True)
class BadField:
    """A field of the mask that is not as it should be: its name, what that means, and in words."""

    field: str
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class FabricHealth:
    """A mask in words: the fields that are wrong, and how many fields were reported at all."""

    wrong: tuple[BadField, ...]
    reported: int


def decode(mask: int) -> FabricHealth:
    """The mask's fields. Healthy H100: 426 (0x1aa), the first five are reported and none of them is bad."""
    values = [(field, mask >> field.shift & field.width) for field in _FIELDS]
    reported = [(field, value) for field, value in values if value]
    judged = [BadField(field.name, *field.meaning(value)) for field, value in reported]
    return FabricHealth(tuple(each for each in judged if each.verdict is not Verdict.PASS), len(reported))


def health_mask(fabric: GpuFabric) -> Known[int]:
    """The mask, if it reports any field; one without reports nothing."""
    mask = fabric.health_mask
    if isinstance(mask, Unknown) or decode(mask).reported:
        return mask
    return Unknown(Why.NOT_SUPPORTED, f"mask {mask:#x}: no field reported")
