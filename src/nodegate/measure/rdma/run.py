"""RDMA bandwidth and latency between nodes: in each round every node with another one, all rails of a pair at once.

All pairs of a round run at the same time, so that the fabric is loaded as by a job: what is only slow under load
(different congestion control, a bad uplink) shows. Latency is measured first, while the fabric is idle.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.measure.durations import OF_PROFILE, Durations
from nodegate.measure.measurement import Inapplicable, Measurement, Pool, Runs, Target
from nodegate.measure.program_run import not_begun
from nodegate.measure.rdma.asked import AT_ONCE, sends
from nodegate.measure.rdma.findings import bounds_of
from nodegate.measure.rdma.node_pair import BOTH, GPU_WRITE, LATENCIES, READ, WRITE, NodePair, Test, not_met, runs_of
from nodegate.measure.rdma.pairing import Pair, Round, in_rounds, rounds, second_looks, with_good_ones, with_roles
from nodegate.measure.rdma.rails import fabric, rails_in_service
from nodegate.measure.rdma.rdma_node import RdmaNode, prepare
from nodegate.measure.rdma.result import EVEN, INSIDE, doubtful, is_latency, number, parse
from nodegate.numbers.assessments import Doubt, Suspects
from nodegate.profile import Profile
from nodegate.records.program_run import Attempt, LinkPlan, MissingRail, Path, ProgramRun, Role
from nodegate.subjects.pcie import rdma_nics

_Key = tuple[str, ...]


_End = tuple[str, str]  # node, device


class Ends:
    """All ends of all links, each with what it reached with each partner: in a test, and in the way its data went."""

    def __init__(self, found: Mapping[str, Sequence[ProgramRun]]) -> None:
        self._best: dict[tuple[_End, _End, _Key], float] = {}  # server, client, test: of bandwidths between nodes
        self._passed = {link.peer for _, ran, link in _links(found) if ran.link.peer_passed}
        self._tries: defaultdict[_Key, list[tuple[str, float | None]]] = defaultdict(list)  # with each partner
        for name, ran, link in _links(found):
            value, test, way = number(ran), _test(ran, link), _way(ran, link, out=sends(link.role, ran.what))
            other = link.peer_device if link.path is Path.INSIDE else link.peer
            for key in ((name, link.device, *test), (name, link.device, *way)):
                self._tries[key].append((other, value))
            if link.role is Role.CLIENT and link.path is Path.BETWEEN and not _is_latency(ran):
                one = (link.peer, link.peer_device), (name, link.device), test
                self._best[one] = max(self._best.get(one, 0.0), value or 0.0)

    def told(self, name: str, ran: ProgramRun) -> ProgramRun:
        """A run of a node with what the other end reached with others: in this test, and in the same way."""
        link = ran.plan.link
        if link is None:
            return ran
        me, end = link.device if link.path is Path.INSIDE else name, (link.peer, link.peer_device)
        of_test = self._others((*end, *_test(ran, link)), me)
        of_way = self._others((*end, *_way(ran, link, out=not sends(link.role, ran.what))), me)
        best_of = min if _is_latency(ran) else max
        best, best_way = (best_of(filter(None, each), default=None) for each in (of_test, of_way))
        failed = bool(of_test) and best is None
        return replace(ran, link=replace(ran.link, peer_best=best, peer_best_way=best_way, peer_failed=failed))

    def odd_pairs(self) -> list[tuple[str, str]]:
        """The (server, client) with a link that hung, or is well below what both of its ends reach with others."""
        found: set[tuple[str, str]] = set()
        for (server, client, test), best in self._best.items():
            reached = [self._reached((*end, *test), other) for end, other in ((server, client[0]), (client, server[0]))]
            found |= {(server[0], client[0])} if best < EVEN * min(reached) else set()
        return sorted(found)

    def _reached(self, key: _Key, other: str) -> float:
        """What an end reached at best with others; without bound for one that passed before and met no other."""
        values = self._others(key, other)
        unbounded = not values and key[0] in self._passed
        return math.inf if unbounded else max(filter(None, values), default=0.0)

    def _others(self, key: _Key, name: str) -> list[float | None]:
        return [value for peer, value in self._tries.get(key, ()) if peer != name]


def _links(found: Mapping[str, Sequence[ProgramRun]]) -> Iterator[tuple[str, ProgramRun, LinkPlan]]:
    """The clients' runs. A partner is between nodes the node, with all of its rails; inside one the device."""
    for name, runs in found.items():
        for ran in runs:
            if ran.plan.link and ran.link.program is Role.CLIENT and not ran.cannot:
                yield name, ran, ran.plan.link


def _is_latency(ran: ProgramRun) -> bool:
    return ran.what.endswith("_lat")


def _test(ran: ProgramRun, link: LinkPlan) -> _Key:
    return ran.what, link.memory, link.path


def _way(ran: ProgramRun, link: LinkPlan, *, out: bool) -> _Key:
    """Writing and reading together: a client writes to its server, and reads from it. The rest has no way."""
    kind = "latency" if _is_latency(ran) else "both" if AT_ONCE in ran.what else "out" if out else "in"
    return kind, link.memory, link.path


PARTNERS_AGAIN = 2  # a suspect meets this many nodes, of those that passed if there are enough
ROUNDS_AGAIN = 4  # of a second look, however many are suspects: enough for two suspects per good node
NEARER = 4  # suspects and rounds with good nodes that one of a bad latency meets too, to find one that is near
ODD_AGAIN, ODD_ROUNDS = 2, 2  # looks more at odd pairs, and the rounds that each may take
LATENCY_S = 3.0  # of one latency test, start and end included
# A run as thorough as this measures NIC to NIC in each node too, and both directions at once.
INSIDE_FROM_S = OF_PROFILE[Profile.DELIVERY].link_s

Found = dict[str, list[ProgramRun]]  # by node


def applies(facts: NodeFacts) -> Inapplicable | None:
    """Why there is nothing to measure on a node."""
    if any(device.address for device in facts.rdma.devices):
        return None
    return Inapplicable("no RDMA adapters", witness="" if rdma_nics(facts.pci) else "PCIe lists no RDMA NIC")


def measure(targets: Sequence[Target], pool: Pool) -> Runs:
    """Rounds over the whole fleet; nodes of different link layers or rates are paired among themselves."""
    fabrics = _fabrics(targets).values()
    rdma_nodes, begun = _rdma_nodes(targets, pool, fabrics)
    found: Found = {name: [] for name in begun}
    groups = [[rdma_nodes[name] for name in names if name in rdma_nodes] for names in fabrics]
    durations = targets[0].durations
    paired = [rounds([rdma_node.name for rdma_node in group], durations.rounds) for group in groups]
    _run_rounds(pool, rdma_nodes, paired, found)
    _odd_ones_once_more(pool, rdma_nodes, found)
    inside = [group for group in groups if len(group) == 1 or durations.link_s >= INSIDE_FROM_S]
    _run_inside(pool, [rdma_node for group in inside for rdma_node in group], found)
    return _with_peers_best(begun, found)


def again(targets: Sequence[Target], pool: Pool, suspects: Suspects) -> Runs:
    """Suspects with nodes that passed; if no node of their fabric passed, as at first.

    Where more than two suspects come on each node that passed, the most doubtful have these, and the others meet one
    another, as at first: so a second look takes ROUNDS_AGAIN rounds and no more.

    Those of a bad latency then meet each other and more of the good ones, without load: if they hang on a smaller leaf,
    a switch further away than most, some of them are near. Inside a node only what was bad inside is measured again.
    """
    paired: list[tuple[Round, ...]] = []
    nearer: list[tuple[Round, ...]] = []
    needed: set[str] = set()
    by_name = {target.node.name: target for target in targets}
    fabrics = _fabrics(targets).values()
    for names in fabrics:
        bad, good = [name for name in names if name in suspects], [name for name in names if name not in suspects]
        bad.sort(key=lambda name: _far_off(suspects[name]), reverse=True)
        paired.append(second_looks(bad, good, PARTNERS_AGAIN, ROUNDS_AGAIN))
        late = [name for name in bad if any(is_latency(doubt.metric.name) for doubt in suspects[name])]
        nearer.append((*rounds(late, NEARER), *with_good_ones(late, good[::-1], NEARER)[:NEARER]))
        needed.update(bad, *_pairs((paired[-1], nearer[-1])))
    rdma_nodes, begun = _rdma_nodes([by_name[name] for name in by_name if name in needed], pool, fabrics)
    found: Found = {name: [] for name in begun}
    _run_rounds(pool, rdma_nodes, paired, found, passed=frozenset(by_name).difference(suspects))
    _odd_ones_once_more(pool, rdma_nodes, found)
    _run_rounds(pool, rdma_nodes, nearer, found, tests=())
    met, thorough = {name for pair in _pairs(paired) for name in pair}, targets[0].durations.link_s >= INSIDE_FROM_S
    # A node without a partner; one with a bad number inside; one that hung, where it may have been inside.
    for_inside = {
        name
        for name, doubts in suspects.items()
        if name not in met or any(doubt.metric.name == INSIDE for doubt in doubts) or (thorough and not doubts)
    }
    _run_inside(pool, [rdma_nodes[name] for name in suspects if name in for_inside and name in rdma_nodes], found)
    return {name: attempt for name, attempt in _with_peers_best(begun, found).items() if name in suspects}


def takes_s(durations: Durations) -> float:
    """About how long the rounds take; every pair with every other, and odd links once more, are not included."""
    thorough, test_s = durations.link_s >= INSIDE_FROM_S, durations.link_s + 4.0
    inside_s, both_s = (2 * test_s, test_s) if thorough else (0.0, 0.0)
    return (durations.rounds or 1) * (2 * (test_s + LATENCY_S) + both_s) + inside_s + 20.0


def _rdma_nodes(
    targets: Sequence[Target], pool: Pool, fabrics: Iterable[Sequence[str]]
) -> tuple[dict[str, RdmaNode], Runs]:
    """The nodes that can be paired; and of each what is to be measured, with how many others, or why nothing can.

    Nodes that are not ready count as partners.
    """
    made = pool.at_once({target.node.name: partial(prepare, target) for target in targets})
    partners = {name: len(names) - 1 for names in fabrics for name in names}
    rdma_nodes: dict[str, RdmaNode] = {}
    begun: Runs = {}
    for name, rdma_node in made.items():
        if isinstance(rdma_node, CannotMeasure):
            begun[name] = not_begun(rdma_node)
        else:
            rdma_nodes[name] = rdma_node
            rails = tuple(rail.name for rail in rdma_node.rails)
            missing = tuple(
                MissingRail(rail, why.bare, why.next_step, by_rule, why.lacks, why.whose)
                for rails_out, by_rule in ((rdma_node.missing, False), (rdma_node.left_out, True))
                for rail, why in rails_out.items()
            )
            begun[name] = Attempt(rails=rails, partners=partners.get(name, 0), missing=missing)
    return rdma_nodes, begun


def _fabrics(targets: Sequence[Target]) -> Mapping[str, list[str]]:
    """The nodes by what they must have in common to be paired."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for target in targets:
        with suppress(CannotMeasure):  # reported by its rdma_node
            found[fabric(rails_in_service(target.node, target.facts))].append(target.node.name)
    return found


def _run_rounds(
    pool: Pool,
    rdma_nodes: Mapping[str, RdmaNode],
    paired: Sequence[Sequence[Round]],
    found: Found,
    *,
    passed: frozenset[str] = frozenset(),
    tests: Sequence[Test] = (WRITE, READ, GPU_WRITE, BOTH),
) -> None:
    """Every round of all groups at the same time; in each the latencies first, before there is load.

    A latency is measured with every partner: one of them may be a switch further away than others.
    """
    turned = [with_roles(group) for group in paired]
    for place in range(max(map(len, paired), default=0)):
        pairs = [
            (pair, roles)
            for group, with_role in zip(paired, turned, strict=True)
            for pair, roles in zip(*group[place : place + 1], *with_role[place : place + 1], strict=False)
        ]
        node_pairs = {
            f"{pair[0]} - {pair[1]}": NodePair(rdma_nodes[server], rdma_nodes[client], str(place + 1))
            for pair, (server, client) in pairs
            if rdma_nodes.keys() >= {*pair}
        }
        _run_pairs(pool, node_pairs, LATENCIES, found, passed)
        if tests:
            _run_pairs(pool, node_pairs, tests, found, passed)


def _odd_ones_once_more(pool: Pool, rdma_nodes: Mapping[str, RdmaNode], found: Found) -> None:
    """Pairs that were slow or hung while both ends are well with others, up to twice: a disturbance, or the path?"""
    for turn in range(ODD_AGAIN):
        for place, pairs in enumerate(in_rounds(Ends(found).odd_pairs(), ODD_ROUNDS)):
            about = f"again {turn + 1}.{place + 1}"
            node_pairs = {
                f"{server} - {client}": NodePair(rdma_nodes[server], rdma_nodes[client], about)
                for server, client in pairs
            }
            _run_pairs(pool, node_pairs, (WRITE, READ, GPU_WRITE, BOTH), found)


def _far_off(doubts: Sequence[Doubt]) -> float:
    """How doubtful a node is: by its worst number between nodes; most of all one that gave no number."""
    between = (doubt.far_off for doubt in doubts if doubt.metric.name != INSIDE)
    return max(between, default=0.0) if doubts else math.inf


def _run_inside(pool: Pool, rdma_nodes: Iterable[RdmaNode], found: Found) -> None:
    _run_pairs(pool, {f"inside {each.name}": NodePair(each, each, "inside") for each in rdma_nodes}, (WRITE,), found)


def _run_pairs(
    pool: Pool,
    node_pairs: Mapping[str, NodePair],
    tests: Sequence[Test],
    found: Found,
    passed: frozenset[str] = frozenset(),
) -> None:
    """All node pairs at once; the result of each goes to both of its nodes."""
    if not node_pairs or pool.cancelled:
        return
    thorough = any(each.client.target.durations.link_s >= INSIDE_FROM_S for each in node_pairs.values())
    tests = [test for test in tests if thorough or not test.both]
    done = pool.at_once({name: partial(runs_of, node_pair, tests) for name, node_pair in node_pairs.items()})
    for name, node_pair in node_pairs.items():
        result = done[name]
        if isinstance(result, CannotMeasure):
            result = not_met(node_pair, tests, result)
        for node, ran in (each for both in result for each in both):
            peer_passed = ran.plan.link is not None and ran.plan.link.peer in passed
            found[node].append(replace(ran, link=replace(ran.link, peer_passed=peer_passed)))


def _with_peers_best(begun: Runs, found: Found) -> Runs:
    """Each node's runs, with what the other end reached with others, which shows which end is bad."""
    ends = Ends(found)
    return {name: replace(begun[name], runs=tuple(ends.told(name, ran) for ran in found[name])) for name in begun}


def _pairs(paired: Iterable[Iterable[Round]]) -> Iterable[Pair]:
    return (pair for group in paired for pairs in group for pair in pairs)


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
    bounds=lambda facts: bounds_of(facts.rdma),
)
