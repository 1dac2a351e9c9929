"""Two nodes that meet for RDMA measurements: the command lines of all links, and each link's result for both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nodegate.errors import CannotMeasure, Unreachable
from nodegate.measure.program_run import not_run
from nodegate.measure.rdma import perftest_runner
from nodegate.measure.rdma.asked import AT_ONCE
from nodegate.measure.rdma.pairing import Pair, Round, inside, nic_pairs
from nodegate.measure.rdma.rails import ROCE, Rail
from nodegate.measure.rdma.rdma_node import FIRST_PORT, IPV6, RdmaNode, cuda_words
from nodegate.measure.rdma.result import number
from nodegate.records.program_run import LinkNotes, LinkPlan, Memory, Path, Plan, ProgramRun, Role

SIZE_BYTES = 1 << 20  # large enough that neither message rate nor start-up counts
QUEUE_PAIRS = 4  # one queue pair does not fill 400 Gb/s
BOND_QUEUE_PAIRS = 16  # each goes over one port of a bond: of four, all may go over the same
BOTH_BYTES = 64 << 10  # what goes both ways at once stays in the CPUs' caches: memory may be slower than the NICs
LATENCY_BYTES, LATENCY_ROUNDS = 8, 5000
SETUP_S = 20.0  # to register memory and connect, on a loaded node
GPU_SETUP_S = 60.0  # the same, and to start CUDA: of eight GPUs in sixteen programs at once, without persistence


@dataclass(frozen=True)
class Test:
    """One program over a link. `memory` is where its buffers are: host, or the nearest GPU.

    `both`: data goes both ways at once, and the number is that of both together.
    """

    tool: str
    memory: Memory = Memory.HOST
    both: bool = False

    @property
    def what(self) -> str:
        """Its name in evidence."""
        return f"{self.tool} {AT_ONCE}" if self.both else self.tool

    @property
    def setup_s(self) -> float:
        """How long it may take to start and connect."""
        return GPU_SETUP_S if self.memory is Memory.GPU else SETUP_S

    def words(self, seconds: float, queue_pairs: int = 0) -> tuple[str, ...]:
        """The options that both ends must share."""
        if self.tool.endswith("_lat"):
            return ("-s", str(LATENCY_BYTES), "-n", str(LATENCY_ROUNDS), "-F")
        size = ("-s", str(BOTH_BYTES if self.both else SIZE_BYTES), "-q", str(queue_pairs or QUEUE_PAIRS))
        return (*size, *((AT_ONCE,) if self.both else ()), "-D", str(max(1, round(seconds))), "--report_gbits", "-F")


WRITE, READ, GPU_WRITE = Test("ib_write_bw"), Test("ib_read_bw"), Test("ib_write_bw", Memory.GPU)
BOTH = Test("ib_write_bw", both=True)
LATENCIES = (Test("ib_write_lat"), Test("ib_read_lat"))
TESTS = (WRITE, READ, *LATENCIES, GPU_WRITE, BOTH)


@dataclass(frozen=True)
class NodePair:
    """Two nodes that are measured with each other; the same one twice: NIC to NIC inside it."""

    server: RdmaNode
    client: RdmaNode
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


Both = tuple[tuple[str, ProgramRun], ...]  # what one link left, for each of its two nodes


def runs_of(node_pair: NodePair, tests: Sequence[Test]) -> list[Both]:
    """One test after the other, one step after the other; within a step all links at the same time."""
    found: list[Both] = []
    for test in tests:
        for step in node_pair.steps:
            links = [(pair, _words(node_pair, test, pair)) for pair in step]
            able = [(pair, words) for pair, words in links if words is not None]
            if able:
                found += _run_step(node_pair, test, able)
    return found


def _run_step(
    node_pair: NodePair, test: Test, links: Sequence[tuple[Pair, perftest_runner.LinkCommands]]
) -> list[Both]:
    seconds = node_pair.client.target.durations.link_s
    limit_s = test.setup_s if test in LATENCIES else test.setup_s + seconds
    server, client = (
        perftest_runner.End(each.target, tuple(rail.name for rail in each.rails))
        for each in (node_pair.server, node_pair.client)
    )
    try:
        ended = perftest_runner.pair(server, client, test.what, [words for _, words in links], timeout_s=limit_s)
    except CannotMeasure as why:
        return [_not_met(node_pair, test, pair, why) for pair, _ in links]
    return [_of_both(node_pair, test, pair, each) for (pair, _), each in zip(links, ended, strict=True)]


def _words(node_pair: NodePair, test: Test, pair: Pair) -> perftest_runner.LinkCommands | None:
    """The command lines of one link; None where an end cannot do this test (GPU memory; both ways at once on EFA)."""
    ends, bonds = [], False
    for rdma_node, name in ((node_pair.server, pair[0]), (node_pair.client, pair[1])):
        rail = rdma_node.rail(name)
        memory = cuda_words(rdma_node, rail) if test.memory is Memory.GPU else ()
        if (test.memory is Memory.GPU and not memory) or (test.both and rdma_node.is_efa(rail)):
            return None
        ends.append((*rdma_node.tools[test.tool], *_of_port(rdma_node, rail), *memory))
        bonds = bonds or rdma_node.is_bond(rail)
    places = [rail.name for rail in node_pair.server.rails]
    first = node_pair.server.target.node.settings.rdma_port or FIRST_PORT
    port = first + places.index(pair[0]) * len(TESTS) + TESTS.index(test)
    pairs = BOND_QUEUE_PAIRS if bonds else 0
    common = ("-p", str(port), *test.words(node_pair.client.target.durations.link_s, pairs))
    where = "127.0.0.1" if node_pair.is_inside else node_pair.server.address
    common += (f"--{IPV6}",) if ":" in where else ()
    link = f"{node_pair.client.name} {pair[1]} - {node_pair.server.name} {pair[0]}"
    server, client = (*ends[0], *common), (*ends[1], *common, where)
    return perftest_runner.LinkCommands(
        link,
        perftest_runner.Program(server, _counters(node_pair.server.rail(pair[0])), pair[0]),
        perftest_runner.Program(client, _counters(node_pair.client.rail(pair[1])), pair[1], turn=1),
        port,
    )


def _of_port(rdma_node: RdmaNode, rail: Rail) -> tuple[str, ...]:
    """The options of one end's port, and of the fabric as its site uses it."""
    words = ("-d", rail.device, "-i", str(rail.port))
    if rdma_node.is_efa(rail):
        return (*words, "-c", "SRD", "-x", "0")
    gid = ("-x", str(rail.gid_index)) if rail.layer == ROCE else ()
    return (*words, *gid, *rdma_node.traffic.words(routed=rail.layer == ROCE))


def _counters(rail: Rail) -> str:
    return f"/sys/class/infiniband/{rail.device}/ports/{rail.port}/counters"


def _of_both(node_pair: NodePair, test: Test, pair: Pair, ended: perftest_runner.Ended) -> Both:
    """The client's output for both nodes; the server's too if the client has no number: it may have the reason."""
    server, client = ended.server.link.server, ended.client.link.client
    programs = [(Role.CLIENT, ended.client)]
    if number(ended.client) is None:
        programs.insert(0, (Role.SERVER, ended.server))
    return tuple(
        (node, replace(ran, plan=plan, link=replace(ran.link, program=program, server=server, client=client)))
        for program, ran in programs
        for node, plan in _ends(node_pair, test, pair)
    )


def not_met(node_pair: NodePair, tests: Sequence[Test], why: CannotMeasure) -> list[Both]:
    """The result of a pair that could not be measured."""
    return [_not_met(node_pair, test, pair, why) for test in tests for step in node_pair.steps for pair in step]


def _not_met(node_pair: NodePair, test: Test, pair: Pair, why: CannotMeasure) -> Both:
    names = (node_pair.server.name, node_pair.client.name)
    lost = why.whose if isinstance(why, Unreachable) and why.whose in names else ""
    ran = replace(not_run(test.what, why), link=LinkNotes(lost=lost))
    return _of_both(node_pair, test, pair, perftest_runner.Ended(ran, ran))


def _ends(node_pair: NodePair, test: Test, pair: Pair) -> Iterable[tuple[str, Plan]]:
    """Each node of a link, and the link as it sees it."""
    ends = ((Role.SERVER, node_pair.server, pair[0]), (Role.CLIENT, node_pair.client, pair[1]))
    for (role, rdma_node, device), (_, peer, peer_device) in (ends, ends[::-1]):
        link = LinkPlan(
            peer=peer.name,
            peer_device=peer_device,
            role=role,
            device=device,
            round=node_pair.round,
            memory=test.memory,
            path=Path.INSIDE if node_pair.is_inside else Path.BETWEEN,
            of_another_rail=not node_pair.is_inside and pair not in node_pair.steps[0],
        )
        yield rdma_node.name, Plan(version=rdma_node.version, link=link)
