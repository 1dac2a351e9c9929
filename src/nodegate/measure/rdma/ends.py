"""What the two ends of each link reached with others: which of them is bad, and which links were only disturbed."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nodegate.measure.rdma.asked import AT_ONCE, sends
from nodegate.measure.rdma.result import EVEN, number
from nodegate.records.program_run import LinkPlan, Path, ProgramRun, Role

Found = Mapping[str, Sequence[ProgramRun]]  # by node
_Key = tuple[str, ...]


@dataclass(frozen=True)
class _Link:
    """One test between two devices, whose numbers are one number."""

    server: str
    server_device: str
    client: str
    client_device: str
    test: _Key


class Ends:
    """All ends of all links, each with what it reached with each partner: in a test, and in the way its data went."""

    def __init__(self, found: Found) -> None:
        self._best: dict[_Link, float] = {}  # of bandwidths between nodes
        self._passed = {link.peer for _, ran, link in _links(found) if ran.link.peer_passed}
        self._tries: defaultdict[_Key, list[tuple[str, float | None]]] = defaultdict(list)  # with each partner
        for name, ran, link in _links(found):
            value, test, way = number(ran), _test(ran, link), _way(ran, link, out=sends(link.role, ran.what))
            other = link.peer_device if link.path is Path.INSIDE else link.peer
            for key in ((name, link.device, *test), (name, link.device, *way)):
                self._tries[key].append((other, value))
            if link.role is Role.CLIENT and link.path is Path.BETWEEN and not _is_latency(ran):
                one = _Link(link.peer, link.peer_device, name, link.device, test)
                self._best[one] = max(self._best.get(one, 0.0), value or 0.0)

    def told(self, name: str, ran: ProgramRun) -> ProgramRun:
        """A run of a node with what the other end reached with others: in this test, and in the same way."""
        link = ran.plan.link
        if link is None:
            return ran
        me, end = link.device if link.path is Path.INSIDE else name, (link.peer, link.peer_device)
        of_test = self._others((*end, *_test(ran, link)), me)
        of_way = self._others((*end, *_way(ran, link, out=not sends(link.role, ran.what))), me)
        best, best_way = _best(ran, of_test), _best(ran, of_way)
        failed = bool(of_test) and best is None
        return replace(ran, link=replace(ran.link, peer_best=best, peer_best_way=best_way, peer_failed=failed))

    def odd_pairs(self) -> list[tuple[str, str]]:
        """The (server, client) with a link that hung, or is well below what both of its ends reach with others."""
        return sorted({(link.server, link.client) for link, best in self._best.items() if self._is_odd(link, best)})

    def _is_odd(self, link: _Link, best: float) -> bool:
        ends = (link.server, link.server_device, link.client), (link.client, link.client_device, link.server)
        return best < EVEN * min(self._reached(name, (name, device, *link.test), other) for name, device, other in ends)

    def _reached(self, name: str, key: _Key, other: str) -> float:
        """What an end reached at best with others; without bound for one that passed before and met no other."""
        values = self._others(key, other)
        if not values and name in self._passed:
            return math.inf
        return max((value for value in values if value is not None), default=0.0)

    def _others(self, key: _Key, name: str) -> list[float | None]:
        return [value for peer, value in self._tries.get(key, ()) if peer != name]


def _links(found: Found) -> Iterator[tuple[str, ProgramRun, LinkPlan]]:
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


def _best(ran: ProgramRun, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(known, default=None) if _is_latency(ran) else max(known, default=None)
