"""Settings and parts of the host that are not GPUs: CPU clocks, modules, arrays, bonds. Section `upkeep`."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or

_chosen = read.first(r"\[(\w{1,20})\]", "a choice in brackets")
_NO_CLOCKS = Unknown(Why.NOT_SUPPORTED, "the kernel does not set the CPU clocks of this machine")
_NO_STATES = Unknown(Why.NOT_SUPPORTED, "the kernel lists no idle state")
_FULL_MEMBER = 0x8000  # bit 15 of a partition key


@dataclass(frozen=True)
class Array:
    """A software RAID array; `degraded` counts the members that it lacks."""

    name: str
    state: Known[str]
    degraded: Known[int]
    sync: Known[str]


@dataclass(frozen=True)
class Controller:
    """An NVMe controller; `alarm` is its temperature sensor's own."""

    name: str
    state: Known[str]
    alarm: Known[bool]


@dataclass(frozen=True)
class Bond:
    """A bond of network devices. `members` -> whether its link is up; `partner` is the MAC of the switch (LACP)."""

    name: str
    mode: Known[str]
    partner: Known[str]
    members: Mapping[str, Known[bool]]


@dataclass(frozen=True)
class DeviceControl:
    """PCI Express Device Control of one function, in bytes."""

    max_payload: int
    max_read_request: int


@dataclass(frozen=True)
class Dimm:
    """A memory module: its size in MiB, and the transfers that it is set to, in millions a second (0: not said)."""

    mib: int
    mts: int


@dataclass(frozen=True)
class Upkeep:
    """What an operator sets and repairs. `governor`: several are joined; `idle_latency_us` of the deepest idle state.

    `keys` are the partition keys of a port ("mlx5_0/1"), `controls` those of a PCI function.
    """

    governor: Known[str]
    preference: Known[str]
    idle_latency_us: Known[int]
    numa_balancing: Known[bool]
    huge_pages: Known[str]
    tuned: Known[str]
    modules: frozenset[str]
    arrays: tuple[Array, ...]
    pools: Mapping[str, Known[str]]
    controllers: tuple[Controller, ...]
    bonds: tuple[Bond, ...]
    keys: Mapping[str, frozenset[int]]
    controls: Mapping[str, Known[DeviceControl]]
    dimms: Known[tuple[Dimm, ...]]  # those that are plugged in; a virtual machine lists none or made-up ones
    uncorrected: Mapping[str, Known[int]]  # memory errors by controller, since its driver was loaded


def parse(found: Mapping[str, object]) -> Upkeep:
    """The data of section `upkeep`; a list that is not there is empty, a value that is not there Unknown."""
    pools, keys, controls = _group(found, "pools"), _group(found, "keys"), _group(found, "pcie")
    arrays, nvme, bonds, errors = (_group(found, key) for key in ("arrays", "nvme", "bonds", "memory_errors"))
    return Upkeep(
        governor=_joined(found, "governors"),
        preference=_joined(found, "preferences"),
        idle_latency_us=read.mapped(read.records(found, "idle"), _deepest),
        numa_balancing=read.mapped(read.counted(found, "numa_balancing"), bool),
        huge_pages=read.mapped(read.text(found, "huge_pages"), _chosen),
        tuned=read.mapped(read.text(found, "tuned"), str.strip),
        modules=frozenset(each for each in value_or(read.items(found, "modules"), ()) if isinstance(each, str)),
        arrays=tuple(_array(name, _group(arrays, name)) for name in arrays),
        pools={shown(name): read.text(pools, name) for name in pools},
        controllers=tuple(_controller(name, _group(nvme, name)) for name in nvme),
        bonds=tuple(_bond(name, _group(bonds, name)) for name in bonds),
        keys={shown(port): _keys(keys, port) for port in keys},
        dimms=read.mapped(read.records(found, "dimms"), lambda each: tuple(map(_dimm, each))),
        uncorrected={name: read.counted(_group(errors, name), "ue_count") for name in errors},
        controls={address: read.mapped(read.hexadecimal(controls, address, 16), _control) for address in controls},
    )


def full_members(keys: frozenset[int]) -> frozenset[int]:
    """The keys of partitions whose other members a port may all talk to."""
    return frozenset(key for key in keys if key & _FULL_MEMBER)


def _group(found: Mapping[str, object], key: str) -> Mapping[str, object]:
    return value_or(read.mapping(found, key), {})


def _joined(found: Mapping[str, object], key: str) -> Known[str]:
    return read.mapped(read.mapping(found, key), lambda each: " + ".join(sorted(map(shown, each))) or _NO_CLOCKS)


def _deepest(states: tuple[Mapping[str, object], ...]) -> Known[int]:
    """The exit latency, in microseconds, of the slowest state that is not disabled."""
    enabled = [state for state in states if read.counted(state, "disable") != 1]
    times = [read.counted(state, "latency") for state in enabled]
    unread = next((time for time in times if isinstance(time, Unknown)), None)
    return unread or max((time for time in times if isinstance(time, int)), default=_NO_STATES)


def _array(name: str, data: Mapping[str, object]) -> Array:
    state, sync = (read.text(data, key) for key in ("array_state", "sync_action"))
    return Array(shown(name), state, read.counted(data, "degraded"), sync)


def _controller(name: str, data: Mapping[str, object]) -> Controller:
    return Controller(shown(name), read.text(data, "state"), read.mapped(read.counted(data, "alarm"), read.switch))


def _bond(name: str, data: Mapping[str, object]) -> Bond:
    members = _group(data, "members")
    states = {shown(one): read.text(_group(members, one), "mii_status") for one in members}
    up = {one: read.mapped(state, lambda word: word == "up") for one, state in states.items()}
    return Bond(shown(name), read.text(data, "mode"), read.text(data, "ad_partner_mac"), up)


def _keys(keys: Mapping[str, object], port: str) -> frozenset[int]:
    found = [read.hexadecimal({"key": each}, "key", 16) for each in value_or(read.items(keys, port), ())]
    return frozenset(key for key in found if isinstance(key, int))


def _control(word: int) -> Known[DeviceControl]:
    """PCI Express Base Specification, 7.5.3.4: bits 7:5 and 14:12, 128 bytes shifted by either."""
    payload, request = word >> 5 & 7, word >> 12 & 7
    if max(payload, request) > 5:
        return Unknown(Why.IMPLAUSIBLE, f"Device Control {word:04x} has a reserved size")
    return DeviceControl(128 << payload, 128 << request)


def _dimm(entry: Mapping[str, object]) -> Dimm:
    return Dimm(*(value_or(read.integer(entry, key), 0) for key in ("mib", "mts")))
