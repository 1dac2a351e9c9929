"""What the two ends of each link reached with others: which of them is bad, and which links were only disturbed."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.measure.rdma.asked import AT_ONCE
from nodegate.measure.rdma.result import CLIENT, EVEN, NONE, number, sends

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nodegate.measure.program_run import ProgramRun

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

    @staticmethod
    def of(ran: ProgramRun, name: str) -> _Link:
        """The link of a client's run."""
        ours, theirs = ran.labels["device"], ran.labels["peer_device"]
        return _Link(ran.labels["peer"], theirs, name, ours, _of_test(ran, name, "device")[2:])


class Ends:
    """All ends of all links, each with what it reached with each partner: in a test, and in the way its data went."""

    def __init__(self, found: Found) -> None:
        self._best: dict[_Link, float] = {}  # of bandwidths between nodes
        self._passed = {ran.labels["peer"] for _, ran in _links(found) if "peer_passed" in ran.labels}
        self._tries: defaultdict[_Key, list[tuple[str, float | None]]] = defaultdict(list)  # with each partner
        for name, ran in _links(found):
            value = number(ran)
            for key in (_of_test(ran, name, "device"), _of_way(ran, name, "device", sends(ran))):
                self._tries[key].append((_other(ran, ran.labels["peer"], "peer_device"), value))
            if ran.labels.get("role") == CLIENT and ran.labels.get("path") == "between" and not _is_latency(ran):
                link = _Link.of(ran, name)
                self._best[link] = max(self._best.get(link, 0.0), value or 0.0)

    def told(self, name: str, ran: ProgramRun) -> ProgramRun:
        """A run of a node with what the other end reached with others: in this test, and in the same way."""
        if not _is_link(ran):
            return ran
        me = _other(ran, name, "device")
        of_test = self._others(_of_test(ran, ran.labels.get("peer", ""), "peer_device"), me)
        way = _of_way(ran, ran.labels.get("peer", ""), "peer_device", not sends(ran))
        labels = {"peer_best": of_test, "peer_best_way": self._others(way, me)}
        told = {label: _shown(ran, values) for label, values in labels.items() if values}
        return replace(ran, labels={**ran.labels, **told})

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


def _links(found: Found) -> Iterator[tuple[str, ProgramRun]]:
    return (
        (name, ran)
        for name, runs in found.items()
        for ran in runs
        if _is_link(ran) and ran.labels.get("program") == CLIENT and not ran.cannot
    )


def _other(ran: ProgramRun, node: str, end: str) -> str:
    """An end as a partner: between nodes the node, with all of its rails; inside one the device."""
    return ran.labels.get(end, "") if ran.labels.get("path") == "inside" else node


def _is_link(ran: ProgramRun) -> bool:
    return "peer" in ran.labels


def _is_latency(ran: ProgramRun) -> bool:
    return ran.what.endswith("_lat")


def _of_test(ran: ProgramRun, node: str, end: str) -> _Key:
    return node, ran.labels.get(end, ""), ran.what, ran.labels.get("memory", ""), ran.labels.get("path", "")


def _of_way(ran: ProgramRun, node: str, end: str, out: bool) -> _Key:
    """Writing and reading together: a client writes to its server, and reads from it. The rest has no way."""
    kind = "latency" if _is_latency(ran) else "both" if AT_ONCE in ran.what else "out" if out else "in"
    return node, ran.labels.get(end, ""), kind, ran.labels.get("memory", ""), ran.labels.get("path", "")


def _shown(ran: ProgramRun, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    best = min(known, default=None) if _is_latency(ran) else max(known, default=None)
    return NONE if best is None else f"{best:g}"
