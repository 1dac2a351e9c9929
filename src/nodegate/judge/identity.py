"""Who a machine is: by what two names of the inventory are one machine, and whether it stayed the same over a run."""

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from nodegate.facts import NodeFacts, known_or_none
from nodegate.node import Node
from nodegate.text import some
from nodegate.unknown import Known, Unknown

MOST_NAMED = 4
_SHORTEST_SERIAL = 5
# What board makers leave in the place of a serial number; also any text of one or two different characters.
_NO_SERIALS = frozenset(
    (
        "to be filled by o.e.m.", "default string", "not specified", "not available", "not applicable", "unknown",
        "system serial number", "chassis serial number", "0123456789", "123456789", "1234567890", "invalid", "empty",
    )
)  # fmt: skip
_NO_NAMES = frozenset(("localhost", "localhost.localdomain", "(none)"))


@dataclass(frozen=True)
class Identity:
    """What tells a machine from all others; empty where it is not known.

    `machine` is the boot id with the host name and the lock: the boot id is the kernel's own, so copies of one disk
    image differ in it. Containers on one machine share it: they have a host name each, or the site gives them a lock
    each. `gpus` are UUIDs, `serials` the serial numbers of the chassis and of the GPUs, in words, `adapters` the GUIDs
    of the RDMA adapters.
    """

    machine: str = ""
    hostname: str = ""
    boot_id: str = ""
    gpus: frozenset[str] = frozenset()
    serials: frozenset[str] = frozenset()
    adapters: frozenset[str] = frozenset()

    @property
    def lacks(self) -> str:
        """In words, what of boot id and host name could not be read; empty if both could."""
        named = (("boot id", self.boot_id), ("host name", self.hostname))
        return " and ".join(what for what, found in named if not found)


def identity(facts: NodeFacts, node: Node) -> Identity:
    """Who the machine of a node is, as far as its facts tell."""
    host, rdma = known_or_none(lambda: facts.host), known_or_none(lambda: facts.rdma)
    boot_id, name = (_text(host.boot_id), _text(host.hostname)) if host else ("", "")
    return Identity(
        machine=f"{boot_id} {name} {node.settings.lock}" if boot_id and name else "",
        hostname=name,
        boot_id=boot_id,
        gpus=frozenset(uuid for gpu in facts.known_gpus if (uuid := _text(gpu.uuid))),
        serials=frozenset(_said_serials(facts)),
        adapters=frozenset(guid for each in (rdma.devices if rdma else ()) if (guid := real_serial(each.node_guid))),
    )


class Identities:
    """The machines behind the names of a run. `others` are names of the inventory that this run does not measure."""

    def __init__(self, known: Mapping[str, Identity], others: Collection[str] = ()) -> None:
        self.known = known
        self._others = others
        self._wrong: dict[str, str] = {}  # every measurement asks again, and a serial number may be of the whole fleet

    def wrong(self, name: str) -> str:
        """In words, why this name does not lead to a separate machine; empty if it does."""
        if name not in self._wrong:
            self._wrong[name] = self._why_wrong(name)
        return self._wrong[name]

    def _why_wrong(self, name: str) -> str:
        for what, said in (
            (_machine, "are the same machine"),
            (_gpus, "report the same GPU"),
            (_serials, "report the"),
            (_adapters, "report the same RDMA adapter"),
        ):
            alike, shared = self._alike(what, name)
            if what in (_serials, _adapters):
                alike = [each for each in alike if self._may_be_one(name, each)]
            if alike:
                more = "" if what is _machine else f" {shared}"
                return f"{_listed([name, *alike])} {said}{more}"
        return self._answers_as(name)

    def twin(self, name: str) -> str:
        """In words, which other machine reports a serial number of this one; empty if none does."""
        alike, shared = self._alike(_serials, name)
        return f"{_listed([name, *alike])} report the {shared}, but have GPUs of their own" if alike else ""

    def _may_be_one(self, name: str, other: str) -> bool:
        """Whether two names with a serial number in common may be one machine: not with other GPUs, nor as containers.

        Some boards carry several GPUs under one serial number, and virtual machines may share one.
        """
        one, two = self.known[name], self.known[other]
        containers = one.machine and two.machine and one.boot_id == two.boot_id
        return not containers and not (one.gpus and two.gpus)

    def _alike(self, what: Callable[[Identity], Collection[str]], name: str) -> tuple[list[str], str]:
        """The other names that have a value in common, and one such value."""
        shared = [value for value in sorted(what(self.known[name])) if len(self._holders[value]) > 1]
        return sorted({each for value in shared for each in self._holders[value]} - {name}), (shared or [""])[0]

    @cached_property
    def _holders(self) -> Mapping[str, list[str]]:
        holders: defaultdict[str, list[str]] = defaultdict(list)
        for name, each in self.known.items():
            for value in (*_machine(each), *_gpus(each), *_serials(each), *_adapters(each)):
                holders[value].append(name)
        return holders

    def _answers_as(self, name: str) -> str:
        """Whether the machine says that it is another node of the inventory: then their addresses are swapped."""
        said = self.known[name].hostname.lower()
        if not said or said in _NO_NAMES or said in (name.lower(), _short(name)):
            return ""
        exact = [each for each in self._by_name.get(_short(said), ()) if each.lower() == said]
        alike = [] if _short(said) == _short(name) else self._by_name.get(_short(said), [])
        others = exact or alike
        return f"{name} answers as {said}, which is {some(others, MOST_NAMED)} of the inventory" if others else ""

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        """The names of the inventory by their first label."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted({*self.known, *self._others}):
            found[_short(name)].append(name)
        return found


def changes(before: NodeFacts, after: NodeFacts) -> tuple[str, ...]:
    """In words, by what the machine that answers now is not the one of before; what is unknown does not count."""
    pairs = _host_pairs(before, after)
    now = {gpu.address: gpu for gpu in after.known_gpus if not isinstance(gpu.address, Unknown)}
    for gpu in before.known_gpus:
        if not isinstance(gpu.address, Unknown) and gpu.address in now:
            there = now[gpu.address]
            pairs += [
                (f"UUID of {gpu.part.short}", gpu.uuid, there.uuid),
                (f"serial number of {gpu.part.short}", gpu.serial, there.serial),
            ]
    texts = [(what, one, two, _text(one), _text(two)) for what, one, two in pairs]
    return tuple(f"{what} was {one}, is {two}" for what, one, two, a, b in texts if a and b and a != b)


def _host_pairs(before: NodeFacts, after: NodeFacts) -> list[tuple[str, Known[str], Known[str]]]:
    one, two = known_or_none(lambda: before.host), known_or_none(lambda: after.host)
    if one is None or two is None:
        return []
    return [
        ("host name", one.hostname, two.hostname),
        ("serial number", one.serial, two.serial),
        ("machine id", one.machine_id, two.machine_id),
    ]


def _text(value: Known[str]) -> str:
    return "" if isinstance(value, Unknown) else value.strip()


def real_serial(value: Known[str]) -> str:
    """A serial number by which things can be told apart; empty where it is none."""
    text = _text(value)
    is_one = len(text) >= _SHORTEST_SERIAL and len(set(text)) > 2 and text.lower() not in _NO_SERIALS
    return text if is_one else ""


def _said_serials(facts: NodeFacts) -> Iterator[str]:
    host = known_or_none(lambda: facts.host)
    if host and (chassis := real_serial(host.serial)):
        yield f"same serial number {chassis}"
    for gpu in facts.known_gpus:
        if serial := real_serial(gpu.serial):
            yield f"same serial number of a GPU, {serial}"


def _machine(each: Identity) -> Collection[str]:
    return (each.machine,) if each.machine else ()


_gpus, _serials, _adapters = map(attrgetter, ("gpus", "serials", "adapters"))


def _listed(names: list[str]) -> str:
    *most, last = sorted(names)
    return f"{some(most, MOST_NAMED)} and {last}"


def _short(name: str) -> str:
    """The first label of a host name; an address as it is."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower().partition(".")[0]
    return name
