"""RDMA between made-up nodes: rounds of pairs over the fleet as a run makes them, and NIC to NIC inside each node."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleet.changes import changes
from fleet.load import boards, perftest
from fleet.load.plan import BEGIN_S, BURN_S, Attempts, near
from fleet.machine import Machine, facts_of
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.rdma.node_pair import BOTH, GPU_WRITE, LATENCIES, READ, SETUP_S, WRITE, Test
from nodegate.measure.rdma.pairing import Pair, inside, nic_pairs, rounds, with_good_ones, with_roles
from nodegate.measure.rdma.rails import Rail, fabric, rails_in_service
from nodegate.measure.rdma.run import Ends
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.program_run import Attempt, LinkEnd, LinkNotes, LinkPlan, Memory, Path, Plan, ProgramRun, Role

NAME = "rdma_bandwidth"
ROUNDS, AGAIN = 3, 2  # of pairs over the fleet; partners of a suspect
SECONDS = OF_PROFILE[Profile.DELIVERY].link_s
# A good link, as a share of its rate, and in µs: on InfiniBand, and on Ethernet.
_SHARES = {"ib_write_bw": (0.9795, 0.9795), "ib_read_bw": (0.9705, 0.9745), "ib_write_bw -b": (1.941, 1.937)}
_CORES = 48  # of a socket
_TIMES_US = {"ib_write_lat": (1.72, 2.24), "ib_read_lat": (2.94, 3.71)}


@dataclass
class Nic:
    """How a rail works: Gb/s by program; times in µs are the same for all that are not made slower."""

    gbps: dict[str, float]
    usec: dict[str, float]


Nics = dict[str, Nic]  # by the name of the rail


@dataclass(frozen=True)
class _Station:
    """A node that takes part in one attempt."""

    name: str
    rails: tuple[Rail, ...]
    nics: Nics
    lids: Mapping[str, int]
    epoch_s: float
    attempt: int
    numa: Mapping[str, str]  # of each rail
    cuda: bool  # whether its perftest can use GPU memory: the HGX nodes have one of their own, the others a package

    def end(self, device: str) -> perftest.End:
        rail = next(rail for rail in self.rails if rail.name == device)
        return perftest.End(rail.device, self.lids[device], rail.gid_index)

    def seat(self, device: str, turn: int) -> LinkEnd:
        """Where the program of a rail ran: near its NIC, on a core of its own."""
        beside = [name for name, node in self.numa.items() if node == self.numa[device]]
        core = int(self.numa[device]) * _CORES + 1 + 2 * beside.index(device) + turn
        return LinkEnd(cpus=str(core), near=f"NUMA node {self.numa[device]}")


Found = dict[str, list[ProgramRun]]  # by node
_End = tuple[_Station, str]  # a node and one of its rails


def recorded(machines: Sequence[Machine]) -> Mapping[str, Attempts]:
    """What the links left on each node: those of the first attempt, then of suspects with partners that passed."""
    taking_part = [machine for machine in machines if NAME not in machine.load.refused]
    attempts: dict[str, list[Attempt]] = {}
    for attempt in range(max((machine.load.attempts(NAME) for machine in taking_part), default=0)):
        stations = {machine.name: _station(machine, attempt) for machine in taking_part}
        suspects = frozenset(machine.name for machine in taking_part if machine.load.attempts(NAME) > attempt)
        found = _first(stations) if attempt == 0 else _again(stations, suspects)
        planned = _planned(stations.values())
        for name in suspects if attempt else stations:
            attempts.setdefault(name, []).append(replace(planned[name], runs=tuple(found[name])))
    return attempts


@changes
def slower(found: Nics, device: str, gbps: float) -> None:
    """A NIC that reaches no more than this in either direction."""
    for tool in found[device].gbps:
        most = 2 * gbps if tool == BOTH.what else gbps
        found[device].gbps[tool] = min(most, found[device].gbps[tool])


def _station(machine: Machine, attempt: int) -> _Station:
    rails = rails_in_service(Node(machine.name), facts_of(machine))
    nics = {rail.name: _nic(rail) for rail in rails}
    machine.load.apply(NAME, attempt, nics)
    adapters = {rail.name: machine.sections["infiniband"][rail.device] for rail in rails}
    lids = {rail.name: _lid(adapters[rail.name], rail.port) for rail in rails}
    cuda = boards.of(machine.sections["nvml"]["gpus"]).gpudirect
    numa = {name: machine.pci(adapter["pci"])["numa_node"] for name, adapter in adapters.items()}
    return _Station(machine.name, rails, nics, lids, machine.epoch_s, attempt, numa, cuda)


def _lid(adapter: Mapping[str, Any], port: int) -> int:
    """As a subnet manager may number them; 0 on Ethernet."""
    if adapter["ports"][str(port)]["link_layer"] != "InfiniBand":
        return 0
    node, rail = (int(part, 16) for part in adapter["node_guid"].split(":")[2:])
    return 16 + node * 8 + rail - 0x4000


def _nic(rail: Rail) -> Nic:
    place, rate = int(rail.gid_index is not None), rail.rate_gbps or 0.0
    return Nic(
        gbps={tool: rate * shares[place] for tool, shares in _SHARES.items()},
        usec={tool: times[place] for tool, times in _TIMES_US.items()},
    )


def _first(stations: Mapping[str, _Station]) -> Found:
    """Every node with others, as far as they fit together, and each inside itself."""
    found: Found = {name: [] for name in stations}
    for group in _fabrics(stations.values()):
        for place, pairs in enumerate(with_roles(rounds(group, ROUNDS))):
            for pair in pairs:
                gpu = (GPU_WRITE,) if all(stations[name].cuda for name in pair) else ()
                _meet(stations, pair, (*LATENCIES, WRITE, READ, *gpu, BOTH), str(place + 1), found)
    for station in stations.values():
        for step in inside([rail.name for rail in station.rails]):
            for one, other in step:
                _link(WRITE, (station, one), (station, other), "inside", found)
    return _with_peers_best(found)


def _again(stations: Mapping[str, _Station], suspects: frozenset[str]) -> Found:
    found: Found = {name: [] for name in stations}
    for group in _fabrics(stations.values()):
        bad, good = [name for name in group if name in suspects], [name for name in group if name not in suspects]
        for place, pairs in enumerate(with_roles(with_good_ones(bad, good, AGAIN))):
            for pair in pairs:
                gpu = (GPU_WRITE,) if all(stations[name].cuda for name in pair) else ()
                _meet(stations, pair, (WRITE, READ, *gpu, BOTH), str(place + 1), found)
    return {
        name: [replace(ran, link=replace(ran.link, peer_passed=True)) for ran in done] for name, done in found.items()
    }


def _fabrics(stations: Iterable[_Station]) -> Iterable[list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for station in stations:
        groups[fabric(station.rails)].append(station.name)
    return groups.values()


def _planned(stations: Iterable[_Station]) -> dict[str, Attempt]:
    everyone = list(stations)
    partners = {name: len(group) - 1 for group in _fabrics(everyone) for name in group}
    return {
        each.name: Attempt(rails=tuple(rail.name for rail in each.rails), partners=partners[each.name])
        for each in everyone
    }


def _meet(stations: Mapping[str, _Station], pair: Pair, tests: Sequence[Test], turn: str, found: Found) -> None:
    """All rails of two nodes, the first with the servers."""
    server, client = (stations[name] for name in pair)
    ours, theirs = [rail.name for rail in server.rails], [rail.name for rail in client.rails]
    for test in tests:
        for step in nic_pairs(ours, theirs):
            for one, other in step:
                _link(test, (server, one), (client, other), turn, found)


def _link(test: Test, server: _End, client: _End, turn: str, found: Found) -> None:
    """One program between two NICs, as evidence of both of their nodes: the slower end sets the pace."""
    tool, gpu = test.what, test.memory is Memory.GPU
    nics = [station.nics[device] for station, device in (server, client)]
    latency = tool.endswith("_lat")
    value = max(nic.usec[tool] for nic in nics) if latency else min(nic.gbps[tool] for nic in nics)
    where = (f"{station.name} {device} {station.attempt}" for station, device in (server, client))
    value = near(value, 4.0 if latency else 0.12, tool, *where, turn, *(["gpu"] if gpu else []))
    ours, theirs = (station.end(device) for station, device in (client, server))
    text = (perftest.CUDA if gpu else "") + perftest.printed(tool, value, ours, theirs, SECONDS)
    notes = LinkNotes(server=server[0].seat(server[1], 0), client=client[0].seat(client[1], 1))
    path = Path.INSIDE if server[0] is client[0] else Path.BETWEEN
    for role, (station, device), (peer, peer_device) in ((Role.SERVER, server, client), (Role.CLIENT, client, server)):
        link = LinkPlan(peer.name, peer_device, role, device, turn, test.memory, path)
        found[station.name].append(
            ProgramRun(
                tool,
                (f"/usr/bin/{test.tool}", "-d", ours.device, *(("-b",) if test.both else ())),
                stdout=text,
                exit_code=0,
                started_epoch_s=station.epoch_s + BEGIN_S + BURN_S + 90,
                duration_s=1.3 if latency else SECONDS + SETUP_S / 100,
                plan=Plan(version=perftest.VERSION, link=link),
                link=notes,
            )
        )


def _with_peers_best(found: Found) -> Found:
    """Each node's runs, with what the other end reached with others."""
    ends = Ends(found)
    return {name: [ends.told(name, ran) for ran in done] for name, done in found.items()}
