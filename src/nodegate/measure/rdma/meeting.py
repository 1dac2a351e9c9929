"""Two nodes that meet for RDMA measurements: the command lines of all their links, and what each link left for both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.measure.ran import Ran, not_run
from nodegate.measure.rdma import life as rdma_life
from nodegate.measure.rdma.pairing import inside, nic_pairs
from nodegate.measure.rdma.rails import ROCE
from nodegate.measure.rdma.result import CLIENT, OF_ANOTHER_RAIL, number
from nodegate.measure.rdma.station import Station, cuda_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nodegate.measure.rdma.pairing import Pair, Round

SIZE_BYTES = 1 << 20  # large enough that neither message rate nor start-up counts
QUEUE_PAIRS = 4  # one does not fill 400 Gb/s
LATENCY_BYTES, LATENCY_ROUNDS = 8, 5000
SETUP_S = 20.0  # to register memory and connect, on a loaded node


@dataclass(frozen=True)
class Test:
    """One program over a link. `memory` is where its buffers are: host, or the nearest GPU."""

    tool: str
    memory: str = "host"

    def words(self, seconds: float) -> tuple[str, ...]:
        """The options that both ends must share."""
        if self.tool.endswith("_lat"):
            return ("-s", str(LATENCY_BYTES), "-n", str(LATENCY_ROUNDS), "-F")
        size = ("-s", str(SIZE_BYTES), "-q", str(QUEUE_PAIRS))
        return (*size, "-D", str(max(1, round(seconds))), "--report_gbits", "-F")


WRITE, READ, GPU_WRITE = Test("ib_write_bw"), Test("ib_read_bw"), Test("ib_write_bw", "gpu")
LATENCIES = (Test("ib_write_lat"), Test("ib_read_lat"))
TESTS = (WRITE, READ, *LATENCIES, GPU_WRITE)


@dataclass(frozen=True)
class Meeting:
    """Two nodes that are measured with each other; the same one twice: NIC to NIC inside it."""

    server: Station
    client: Station
    round: str

    @property
    def is_inside(self) -> bool:
        """Whether it is one node."""
        return self.server.name == self.client.name

    @property
    def steps(self) -> tuple[Round, ...]:
        """The rails that meet, (server's, client's), step by step."""
        ours = [rail.name for rail in self.server.rails]
        return inside(ours) if self.is_inside else nic_pairs(ours, [rail.name for rail in self.client.rails])


Both = tuple[tuple[str, Ran], ...]  # what one link left, for each of its two nodes


def runs_of(meeting: Meeting, tests: Sequence[Test]) -> list[Both]:
    """One test after the other, one step after the other; within a step all links at the same time."""
    found: list[Both] = []
    for test in tests:
        for step in meeting.steps:
            links = [(pair, _words(meeting, test, pair)) for pair in step]
            able = [(pair, words) for pair, words in links if words is not None]
            if able:
                found += _run_step(meeting, test, able)
    return found


def _run_step(meeting: Meeting, test: Test, links: Sequence[tuple[Pair, rdma_life.Words]]) -> list[Both]:
    seconds = meeting.client.site.length.link_s
    limit_s = SETUP_S if test in LATENCIES else SETUP_S + seconds
    server, client = meeting.server.site, meeting.client.site
    try:
        ended = rdma_life.pair(server, client, test.tool, [words for _, words in links], timeout_s=limit_s)
    except CannotMeasure as why:
        return [_not_met(meeting, test, pair, why) for pair, _ in links]
    return [_of_both(meeting, test, pair, each) for (pair, _), each in zip(links, ended, strict=True)]


def _words(meeting: Meeting, test: Test, pair: Pair) -> rdma_life.Words | None:
    """The command lines of one link; None where an end cannot do this test (GPU memory)."""
    ends = []
    for station, name in ((meeting.server, pair[0]), (meeting.client, pair[1])):
        rail = station.rail(name)
        memory = cuda_words(station, rail) if test.memory == "gpu" else ()
        if test.memory == "gpu" and not memory:
            return None
        gid = ("-x", str(rail.gid_index)) if rail.layer == ROCE else ()
        ends.append((*station.tools[test.tool], "-d", rail.device, "-i", str(rail.port), *gid, *memory))
    places = [rail.name for rail in meeting.server.rails]
    port = meeting.server.first_port + places.index(pair[0]) * len(TESTS) + TESTS.index(test)
    common = ("-p", str(port), *test.words(meeting.client.site.length.link_s))
    where = "127.0.0.1" if meeting.is_inside else meeting.server.address
    link = f"{meeting.client.name} {pair[1]} - {meeting.server.name} {pair[0]}"
    return rdma_life.Words(link, (*ends[0], *common), (*ends[1], *common, where), port)


def _of_both(meeting: Meeting, test: Test, pair: Pair, ended: rdma_life.Ended) -> Both:
    """The client's output for both nodes; the server's too where the client gave no number: it may say why."""
    programs = {CLIENT: ended.client} if number(ended.client) is not None else vars(ended)
    return tuple(
        (node, replace(ran, labels={**labels, "program": program}))
        for program, ran in programs.items()
        for node, labels in _ends(meeting, test, pair)
    )


def not_met(meeting: Meeting, tests: Sequence[Test], why: CannotMeasure) -> list[Both]:
    """What is left of a meeting that did not come about."""
    return [_not_met(meeting, test, pair, why) for test in tests for step in meeting.steps for pair in step]


def _not_met(meeting: Meeting, test: Test, pair: Pair, why: CannotMeasure) -> Both:
    return _of_both(meeting, test, pair, rdma_life.Ended(not_run(test.tool, why), not_run(test.tool, why)))


def _ends(meeting: Meeting, test: Test, pair: Pair) -> Iterable[tuple[str, dict[str, str]]]:
    """Each node of a link, and the link as it sees it."""
    path = "inside" if meeting.is_inside else "between"
    more = {OF_ANOTHER_RAIL: "yes"} if not meeting.is_inside and pair not in meeting.steps[0] else {}
    ends = (("server", meeting.server, pair[0]), ("client", meeting.client, pair[1]))
    for (role, station, device), (_, peer, peer_device) in (ends, ends[::-1]):
        yield (
            station.name,
            {
                "role": role,
                "device": device,
                "peer": peer.name,
                "peer_device": peer_device,
                "round": meeting.round,
                "memory": test.memory,
                "path": path,
                "version": station.version,
                **more,
            },
        )
