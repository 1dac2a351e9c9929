"""The host besides its GPUs: what nodes of one platform compare, and what a site can demand of it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from nodegate.facts import NodeFacts
from nodegate.probe.pci import Pci, PciDevice
from nodegate.probe.rdma import RdmaPort
from nodegate.probe.readings import mapped
from nodegate.probe.upkeep import Array, DeviceControl, Dimm, Upkeep
from nodegate.records import part
from nodegate.records.part import Part
from nodegate.subjects.gpu import on_off
from nodegate.subjects.rdma import gid_index, is_active, rails
from nodegate.unknown import Known, Unknown, Why, known, unread

Readings = list[tuple[Part, Known[int | float | str]]]
MODULE = "module."  # module.gdrdrv: whether it is loaded
# Of drivers/md/md.c: the words of array_state of an array that serves, and of sync_action while it is rebuilt.
_SERVING = ("clean", "active", "active-idle", "read-auto", "readonly", "write-pending")
_SYNC = ("resync", "recover", "reshape")
_NONE = "none"  # known to be absent: a value like any other
_UNREAD = Unknown(Why.MISSING, "it was not read")


def traits(facts: NodeFacts) -> Mapping[str, Known[str]]:
    """What of the host's upkeep the nodes of a platform should have in common."""
    found = facts.upkeep
    absent = isinstance(found.tuned, Unknown) and found.tuned.why is Why.MISSING
    return {
        "CPU governor": found.governor,
        "CPU energy preference": found.preference,
        "CPU idle latency": mapped(found.idle_latency_us, lambda latency: f"{latency} us"),
        "NUMA balancing": on_off(found.numa_balancing),
        "transparent huge pages": found.huge_pages,
        "tuned profile": _NONE if absent else found.tuned,
        "memory modules": _modules(found.dimms),
    }


def rail_traits(facts: NodeFacts) -> Mapping[str, Known[str]]:
    """The same of the rails: read requests, payload and partition keys, several values joined."""
    ports = _active(facts)
    controls = [each for _, each in _controls(facts)]
    keys = {f"{key:#06x}" for port in ports for key in keys_of(facts.upkeep, port)}
    found: dict[str, Known[str]] = {}
    if any(port.link_layer == "InfiniBand" for port in ports) and keys:
        found["partition keys"] = " + ".join(sorted(keys))
    read = known(controls)
    if read and len(read) == len(controls):
        found["rail MaxReadReq"] = " + ".join(map(str, sorted({each.max_read_request for each in read})))
        found["rail MaxPayload"] = " + ".join(map(str, sorted({each.max_payload for each in read})))
    return found


def keys_of(upkeep: Upkeep, port: RdmaPort) -> frozenset[int]:
    """The partition keys of a port; empty where they were not read."""
    return upkeep.keys.get(f"{port.device}/{port.port}", frozenset())


def max_read_request(facts: NodeFacts) -> Readings:
    """MaxReadReq of each rail's NIC, in bytes."""
    return [(whose, mapped(control, lambda of: of.max_read_request)) for whose, control in _controls(facts)]


def mtu(facts: NodeFacts) -> Readings:
    """The MTU of each RoCE rail's network device, in bytes."""
    netdevs = facts.netdevs
    return [(port.part, netdevs[port.netdev].mtu if port.netdev in netdevs else _UNREAD) for port in _roce(facts)]


def gid_indices(facts: NodeFacts) -> Readings:
    """The place of the RoCE v2 GID with IPv4 of each RoCE rail."""
    return [(port.part, gid_index(port)) for port in _roce(facts)]


def bond_members(facts: NodeFacts) -> Readings:
    """How many members of each bond are up; unknown where one of them is."""
    return [(part.host(bond.name), _up(list(bond.members.values()))) for bond in facts.upkeep.bonds]


def setting(
    name: str, read: Callable[[Upkeep], Known[int] | Known[float] | Known[str]]
) -> Callable[[NodeFacts], Readings]:
    """The reader of one setting of the host."""
    return lambda facts: [(part.setting(name), read(facts.upkeep))]


def module(name: str) -> Callable[[NodeFacts], Readings]:
    """The reader of whether a kernel module is loaded or built in; unknown where no module could be listed."""

    def read(upkeep: Upkeep) -> Known[str]:
        if not upkeep.modules:
            return Unknown(Why.MISSING, "the node lists no module")
        return on_off(name.replace("-", "_") in upkeep.modules)

    return setting(f"module {name}", read)


def dimm_speeds(facts: NodeFacts) -> Readings:
    """The transfers, in millions a second, that each memory module is set to."""
    dimms = facts.upkeep.dimms
    return [(part.MEMORY, dimms)] if isinstance(dimms, Unknown) else [(part.MEMORY, speed) for speed in speeds(dimms)]


def speeds(dimms: tuple[Dimm, ...]) -> list[int]:
    """The distinct speeds that the memory modules state."""
    return sorted({dimm.mts for dimm in dimms if dimm.mts})


def array_fault(array: Array) -> tuple[str, str]:
    """What is wrong with a software RAID array, and the rebuild that is in progress; each empty where there is none."""
    syncs = str(array.sync) if array.sync in _SYNC else ""
    if array.state not in _SERVING:
        return f"array state {array.state}", syncs
    lacking = array.degraded if isinstance(array.degraded, int) else 0
    return f"members missing: {lacking}" if lacking else "", syncs


def narrower(pci: Pci, device: PciDevice, upkeep: Upkeep) -> str:
    """The first bridge above a device that takes smaller packets than it sends, in words; empty where none does."""
    own = upkeep.controls.get(device.address)
    for bridge in pci.path(device) if isinstance(own, DeviceControl) else ():
        found = upkeep.controls.get(bridge.address)
        if isinstance(own, DeviceControl) and isinstance(found, DeviceControl) and found.max_payload < own.max_payload:
            return f"bridge {bridge.address} takes {found.max_payload} bytes"
    return ""


def _modules(dimms: Known[tuple[Dimm, ...]]) -> Known[str]:
    if isinstance(dimms, Unknown):
        return dimms
    counts = Counter((dimm.mib, dimm.mts) for dimm in dimms)
    return " + ".join(f"{count} x {mib >> 10} GiB {mts} MT/s" for (mib, mts), count in sorted(counts.items())) or _NONE


def _up(states: list[Known[bool]]) -> Known[int]:
    why = unread(*states)
    return states.count(True) if why is None else why


def _active(facts: NodeFacts) -> list[RdmaPort]:
    return [port for port in rails(facts.rdma, rate=None, layer=None) if is_active(port)]


def _roce(facts: NodeFacts) -> list[RdmaPort]:
    return [port for port in _active(facts) if port.link_layer == "Ethernet"]


def _controls(facts: NodeFacts) -> Iterator[tuple[Part, Known[DeviceControl]]]:
    used = {port.device for port in _active(facts)}
    for device in facts.rdma.devices:
        if device.name in used:
            yield part.nic(device.name, address=device.address), facts.upkeep.controls.get(device.address, _UNREAD)
