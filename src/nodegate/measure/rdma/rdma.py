"""RDMA bandwidth and latency between nodes: in each round every node with another one, all rails of a pair at once.

All pairs of a round run at the same time, so that the fabric is loaded as a job loads it: what is only slow under load
(congestion control that differs, a bad uplink) shows. Latency is measured first, while the fabric is idle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.measure.length import OF_PROFILE
from nodegate.measure.measurement import Measurement
from nodegate.measure.ran import Ran, not_run
from nodegate.measure.rdma.meeting import GPU_WRITE, LATENCIES, READ, WRITE, Meeting, not_met, runs_of
from nodegate.measure.rdma.pairing import rounds, with_good_ones
from nodegate.measure.rdma.rails import fabric, rails_in_service
from nodegate.measure.rdma.result import CLIENT, NONE, PLAN, doubtful, number, parse
from nodegate.measure.rdma.station import Station, prepare
from nodegate.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nodegate.facts import NodeFacts
    from nodegate.measure.length import Length
    from nodegate.measure.measurement import Crew, Runs, Site
    from nodegate.measure.rdma.meeting import Both, Test
    from nodegate.measure.rdma.pairing import Pair, Round

PARTNERS_AGAIN = 2  # a suspect meets so many nodes that passed
INSIDE_FROM_S = OF_PROFILE[Profile.DELIVERY].link_s  # a run as thorough as this measures NIC to NIC in each node too


Found = dict[str, list[Ran]]  # by node


def applies(facts: NodeFacts) -> str:
    """Why there is nothing to measure on a node."""
    return "" if any(device.address for device in facts.rdma.devices) else "no RDMA adapters"


def measure(sites: Sequence[Site], crew: Crew) -> Runs:
    """Rounds over the whole fleet; nodes of different link layers or rates are paired among themselves."""
    stations, found = _stations(sites, crew)
    fabrics = _fabrics(sites).values()
    _plan(stations, fabrics, found)
    groups = [[stations[name] for name in names if name in stations] for names in fabrics]
    length = sites[0].length
    paired = [rounds([station.name for station in group], length.rounds) for group in groups]
    _run_rounds(crew, stations, paired, found)
    alone = [station for group in groups for station in group if len(group) == 1 or length.link_s >= INSIDE_FROM_S]
    _meet(crew, {f"inside {each.name}": Meeting(each, each, "inside") for each in alone}, (WRITE,), found)
    return _with_peers_best(found)


def again(sites: Sequence[Site], crew: Crew, suspects: frozenset[str]) -> Runs:
    """Suspects with nodes that passed, never with each other; where no node of their fabric passed, as at first."""
    paired: list[tuple[Round, ...]] = []
    needed: set[str] = set()
    by_name = {site.node.name: site for site in sites}
    fabrics = _fabrics(sites).values()
    for names in fabrics:
        bad, good = [name for name in names if name in suspects], [name for name in names if name not in suspects]
        paired.append(with_good_ones(bad, good, PARTNERS_AGAIN) if good else rounds(bad, PARTNERS_AGAIN))
        needed.update(bad, *(pair for pairs in paired[-1] for pair in pairs))
    stations, found = _stations([by_name[name] for name in by_name if name in needed], crew)
    _plan(stations, fabrics, found)
    _run_rounds(crew, stations, paired, found, passed=frozenset(by_name) - suspects)
    lone = [stations[name] for name in suspects & stations.keys() if not any(name in pair for pair in _pairs(paired))]
    _meet(crew, {f"inside {each.name}": Meeting(each, each, "inside") for each in lone}, (WRITE,), found)
    return {name: tuple(runs) for name, runs in found.items() if name in suspects}


def takes_s(length: Length) -> float:
    """About how long the rounds take; every pair with every other is not foreseen."""
    return (length.rounds or 1) * 2 * (length.link_s + 4.0) + 20.0


def _stations(sites: Sequence[Site], crew: Crew) -> tuple[dict[str, Station], Found]:
    """The nodes that can be paired; the reasons of the others are their only runs."""
    made = crew.at_once({site.node.name: _prepared(site) for site in sites})
    stations: dict[str, Station] = {}
    found: Found = {name: [] for name in made}
    for name, station in made.items():
        if isinstance(station, CannotMeasure):
            found[name].append(not_run("", station))
        else:
            stations[name] = station
            found[name] += [not_run("", why, {"device": rail}) for rail, why in station.missing.items()]
    return stations, found


def _fabrics(sites: Sequence[Site]) -> Mapping[str, list[str]]:
    """The nodes by what they must have in common to be paired."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for site in sites:
        with suppress(CannotMeasure):  # said by its station
            found[fabric(rails_in_service(site.node, site.facts))].append(site.node.name)
    return found


def _plan(stations: Mapping[str, Station], fabrics: Iterable[Sequence[str]], found: Found) -> None:
    """What is to be measured on each node, and how many nodes it could meet: those that were not ready included."""
    for names in fabrics:
        for name in names:
            if name in stations:
                rails = " ".join(rail.name for rail in stations[name].rails)
                found[name].append(Ran(what=PLAN, labels={"rails": rails, "partners": str(len(names) - 1)}))


def _run_rounds(
    crew: Crew,
    stations: Mapping[str, Station],
    paired: Sequence[Sequence[Round]],
    found: Found,
    *,
    passed: frozenset[str] = frozenset(),
) -> None:
    """Every round of all groups at the same time; latencies in the first that a node has, before there is load."""
    served: Counter[str] = Counter()
    met: set[str] = set()  # nodes whose latency is known: of an odd number one sits out in the first round
    for place in range(max(map(len, paired), default=0)):
        pairs = [pair for group in paired for pair in group[place : place + 1]]
        meetings = dict(
            _meeting(pair, stations, place, served) for each in pairs for pair in each if stations.keys() >= {*pair}
        )
        first = {name: each for name, each in meetings.items() if not met >= {each.server.name, each.client.name}}
        _meet(crew, first, LATENCIES, found, passed)
        met.update(end.name for each in first.values() for end in (each.server, each.client))
        _meet(crew, meetings, (WRITE, READ, GPU_WRITE), found, passed)


def _meeting(pair: Pair, stations: Mapping[str, Station], place: int, served: Counter[str]) -> tuple[str, Meeting]:
    """The servers are on the one that `served` less often: each node sends in some rounds and is sent to in others."""
    one, other = pair if served[pair[0]] <= served[pair[1]] else pair[::-1]
    served[one] += 1
    return f"{pair[0]} - {pair[1]}", Meeting(stations[one], stations[other], str(place + 1))


def _meet(
    crew: Crew,
    meetings: Mapping[str, Meeting],
    tests: Sequence[Test],
    found: Found,
    passed: frozenset[str] = frozenset(),
) -> None:
    """All meetings at once; what each left goes to both of its nodes."""
    if not meetings or crew.cancelled:
        return
    done = crew.at_once({name: _held(meeting, tests) for name, meeting in meetings.items()})
    for name, meeting in meetings.items():
        result = done[name]
        if isinstance(result, CannotMeasure):
            result = not_met(meeting, tests, result)
        for node, ran in (each for both in result for each in both):
            good = {"peer_passed": "yes"} if ran.labels.get("peer") in passed else {}
            found[node].append(replace(ran, labels={**ran.labels, **good}))


def _with_peers_best(found: Found) -> dict[str, tuple[Ran, ...]]:
    """Each node's runs, with what the other end reached with others: by that one end can be told from the other."""
    reached: defaultdict[tuple[str, ...], list[tuple[str, float | None]]] = defaultdict(list)
    for name, runs in found.items():
        for ran in runs:
            if ran.labels.get("program") == CLIENT and not ran.cannot:
                reached[_key(ran, name, ran.labels["device"])].append((ran.labels["peer"], number(ran)))
    return {name: tuple(_told(ran, name, reached) for ran in runs) for name, runs in found.items()}


def _told(ran: Ran, name: str, reached: Mapping[tuple[str, ...], Sequence[tuple[str, float | None]]]) -> Ran:
    tries = reached.get(_key(ran, ran.labels.get("peer", ""), ran.labels.get("peer_device", "")), ())
    others = [value for peer, value in tries if peer != name]
    values = [value for value in others if value is not None]
    if not others:
        return ran
    best = min(values, default=None) if ran.what.endswith("_lat") else max(values, default=None)
    return replace(ran, labels={**ran.labels, "peer_best": NONE if best is None else f"{best:g}"})


def _key(ran: Ran, node: str, device: str) -> tuple[str, ...]:
    return node, device, ran.what, ran.labels.get("memory", ""), ran.labels.get("path", "")


def _pairs(paired: Iterable[Iterable[Round]]) -> Iterable[Pair]:
    return (pair for group in paired for pairs in group for pair in pairs)


def _prepared(site: Site) -> Callable[[], Station]:
    return lambda: prepare(site)


def _held(meeting: Meeting, tests: Sequence[Test]) -> Callable[[], list[Both]]:
    return lambda: runs_of(meeting, tests)


RDMA_BANDWIDTH = Measurement(
    name="rdma_bandwidth",
    stage="links",
    applies=applies,
    rests_on=(),  # a port that is down is left out, and judged by rdma.port_state
    measure=measure,
    again=again,
    parse=parse,
    takes_s=takes_s,
    doubtful=doubtful,
)
