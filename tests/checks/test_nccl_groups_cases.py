"""What the checks of NCCL over several nodes say, word for word: what was printed goes through the real parser."""

from dataclasses import replace

from fleet.machine import Machine
from support.attempts import having
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, SKIP, WARN, asserting, of
from support.group_node import GroupCase
from support.nccl_fleet import SIZE, table

from nodegate.errors import CannotMeasure
from nodegate.measure.program_run import not_run
from nodegate.records.program_run import Attempt, LaunchPlan, Plan, ProgramRun
from nodegate.tools.nccl_log import read_log
from nodegate.unknown import Unknown

WHATS = ("all_reduce", "alltoall", "sendrecv")


def ran(what, *, nodes=("gpu01", "gpu02"), kind="pair", group="", busbw=380.0, wrong=0, **fields):
    """A launch that ended, as gpu01 keeps it."""
    name = group or (f"pair {'+'.join(nodes)}" if kind == "pair" else kind)
    launch = LaunchPlan(name, kind, nodes[0], tuple(nodes), len(nodes), gpus_of_node=8, turns=13, builds=1)
    plan = Plan(gpus=8 * len(nodes), size_bytes=SIZE, limit_s=120.0, launch=launch)
    text, code = table(what, 8 * len(nodes), busbw, wrong), 1 if wrong else 0
    return having(ProgramRun(what, stdout=text, exit_code=code, duration_s=9.0, plan=plan), **fields)


def hung(found, **fields):
    text = found.stdout[: found.stdout.index("NCCL version")]
    return having(replace(found, stdout=text, exit_code=None, timed_out=True), **fields)


def pairs(**changes):
    return [ran(what, **changes) for what in WHATS]


def fleet(what="all_reduce", **more):
    return ran(what, nodes=("gpu01", "gpu02", "gpu03", "gpu04"), kind="fleet", **more)


EXCHANGES = (fleet("alltoall", busbw=380.0), fleet("sendrecv", busbw=380.0))


def part(*nodes, good=(), **more):
    name = f"part {'+'.join(nodes)}"
    return ran("all_reduce", nodes=nodes, kind="part", group=name, good=good, **more)


def refused(reason="gpu01: no mpirun was found"):
    why = CannotMeasure(reason, next_step="install openmpi-bin")
    return [not_run(found.what, why, found.plan) for found in pairs()]


ALONE_RUN = Attempt(node="gpu01", alone="no other node takes part")
BROKEN = [replace(each, stdout="", stderr="", exit_code=139) for each in pairs()]
OTHERS = ("gpu02", "gpu03", "gpu04")
SLOW_FLEET = [*pairs(), fleet(busbw=200.0)]
WITH_GOOD = [ran(what, nodes=("gpu01", "gpu03"), good=("gpu03",)) for what in WHATS]
PAIR_HANGS_HERE = [hung(ran("all_reduce"), blamed=("gpu01",)), hung(part("gpu01", "gpu03", good=("gpu03",)))]
PAIR_HANGS_THERE = [hung(ran("all_reduce"), blamed=("gpu02",)), part("gpu01", "gpu03", good=("gpu03",)), *WITH_GOOD]
FLEET_HANGS_THERE = [*pairs(), hung(fleet(), blamed=("gpu04",)), part("gpu01", "gpu02")]
THREE = ("gpu01", "gpu02", "gpu03")
WITHOUT_BAD = [ran("all_reduce", nodes=THREE, kind="fleet", group="fleet without 1 bad", left_out=("gpu04",))]
IN_RACK = ran("all_reduce", nodes=("gpu01", "gpu03", "gpu04"), kind="rack", group="rack a", busbw=200.0)
SLOW_RACK = [*pairs(), IN_RACK]
ECC_SAID = "gpu02: Test CUDA failure common.cu:303 'uncorrectable ECC error encountered'\n"
ECC_ENDS_IT = replace(PAIR_HANGS_THERE[0], stdout=ECC_SAID, exit_code=2, timed_out=False)
FLEET_HANGS_TOGETHER = [*pairs(), hung(fleet(), searched="gpu01, gpu02, gpu03, gpu04 are bad together only")]


WITH_ANOTHER = [*refused(), *(ran(what, nodes=("gpu01", "gpu03")) for what in WHATS)]
SEEN_NOWHERE = [hung(ran("all_reduce"), blamed=("gpu02",))]
WRONG_HERE = [ran("all_reduce", wrong=3, blamed=("gpu01",)), part("gpu01", "gpu03", good=("gpu03",), wrong=3)]
WRONG_THERE = [*pairs(), fleet(wrong=3, blamed=("gpu04",)), part("gpu01", "gpu02")]
SLOW_ALLTOALL = [*pairs(), fleet(), fleet("alltoall", busbw=30.0), EXCHANGES[1]]
SLOW_BY_THIS = [*pairs(), fleet(busbw=200.0, blamed=("gpu01",))]
SLOW_BY_ANOTHER = [*pairs(), fleet(busbw=200.0, blamed=("gpu04",))]
ALL_SLOW = [*pairs(busbw=220.0), ran("all_reduce", nodes=("gpu01", "gpu03"), busbw=221.0)]
CASES = of("nccl_groups.launch")(
    GroupCase("launched", PASS, pairs()),
    GroupCase("two builds of NCCL", WARN, [ran(what, builds=2) for what in WHATS]),
    GroupCase("no launcher", ERROR, refused()),
    GroupCase("no other node", SKIP, ALONE_RUN),
    GroupCase("refused with one node, launched with another", PASS, WITH_ANOTHER),
)

CASES += of("nccl_groups.hang")(
    GroupCase("all end", PASS, pairs()),
    GroupCase("this node hangs with one that is well", FAIL, PAIR_HANGS_HERE),
    GroupCase("its neighbour hangs", PASS, PAIR_HANGS_THERE),
    GroupCase("the fleet hangs, and another node is named", PASS, FLEET_HANGS_THERE),
    GroupCase("the fleet hangs, and nobody is named", ERROR, FLEET_HANGS_TOGETHER),
    GroupCase("another node is named, and this one was seen well nowhere", ERROR, SEEN_NOWHERE),
    GroupCase("two nodes and no third", FAIL, [hung(ran("all_reduce"))]),
    GroupCase("an ECC error on the other node ends the launch", PASS, [ECC_ENDS_IT, *PAIR_HANGS_THERE[1:]]),
    GroupCase("crashes", ERROR, BROKEN),
    GroupCase("no other node", SKIP, ALONE_RUN),
)

CASES += of("nccl_groups.data")(
    GroupCase("right", PASS, pairs()),
    GroupCase("wrong sums, with a good node too", FAIL, WRONG_HERE),
    GroupCase("wrong sums of another node", PASS, WRONG_THERE),
    GroupCase("not launched", ERROR, refused()),
)

FAST = {"nccl.group_all_reduce_gb_per_s": 360.0, "nccl.group_alltoall_gb_per_s": 360.0}
SENDRECV = {"nccl.group_sendrecv_gb_per_s": 100.0}
CASES += of("nccl_groups.all_reduce", limits=FAST)(
    GroupCase("as the site stored it", PASS, pairs()),
    GroupCase("slow", FAIL, pairs(busbw=220.0)),
    GroupCase("slow with a bad neighbour, fast with a good one", PASS, pairs(busbw=220.0), again=WITH_GOOD),
    GroupCase("hangs", ERROR, PAIR_HANGS_HERE),
)
CASES += of("nccl_groups.collectives")(
    GroupCase("no limit for sendrecv", NOT_JUDGED, pairs(), limits=FAST | {"derived.group_exchange_percent": None}),
    GroupCase("both as fast as stored", PASS, pairs(), limits=FAST | SENDRECV),
)
CASES += of("nccl_groups.collectives", limits=FAST)(
    GroupCase("alltoall is slow", FAIL, pairs(busbw=220.0)),
    GroupCase("sendrecv by the rate of the rails", PASS, pairs()),
    GroupCase("not launched", ERROR, refused()),
)
CASES += of("nccl_groups.wide")(GroupCase("pairs only", SKIP, pairs()))
CASES += of("nccl_groups.wide", limits=FAST)(
    GroupCase("the fleet is fast", PASS, [*pairs(), fleet(), *EXCHANGES]),
    GroupCase("alltoall over the fleet was not launched", ERROR, [*pairs(), fleet(), EXCHANGES[1]]),
    GroupCase("the fleet is slow in alltoall alone", FAIL, SLOW_ALLTOALL, beside=OTHERS),
    GroupCase("the fleet is slow, and all its nodes are judged", FAIL, SLOW_FLEET, beside=OTHERS),
    GroupCase("the fleet is slow, and its other nodes are not judged", PASS, [*SLOW_FLEET, *EXCHANGES]),
    GroupCase("the fleet is slow because of this node, and its other nodes are not judged", FAIL, SLOW_BY_THIS),
    GroupCase("the fleet is slow, and fast without another node", PASS, SLOW_FLEET, again=WITHOUT_BAD),
    GroupCase("the rack is slow because of a node without which the fleet is fast", PASS, SLOW_RACK, again=WITHOUT_BAD),
    GroupCase("the fleet is slow because of another node", PASS, SLOW_FLEET, again=SLOW_BY_ANOTHER),
    GroupCase("the fleet hangs", ERROR, [*pairs(), hung(fleet())]),
)

SHARED = {"nccl.group_share_of_rate_percent": 90.0}
CASES += of("nccl_groups.share_of_rate")(
    GroupCase("no share is stored", NOT_JUDGED, pairs(), limits={"nccl.group_share_of_rate_percent": None})
)
CASES += of("nccl_groups.share_of_rate", limits=SHARED)(
    GroupCase("most of the rails", PASS, pairs()),
    GroupCase("the wires are fast and NCCL is not (NVIDIA/nccl issue 2409)", FAIL, ALL_SLOW),
    GroupCase("one slow pair, whose other node met nobody else", ERROR, pairs(busbw=220.0)),
    GroupCase("hangs", ERROR, PAIR_HANGS_HERE),
)

# As NCCL 2.27 prints them on two nodes of 8 GPUs; a launcher may put its label in front.
IB = """\
{host}:5117:5117 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eno1:10.0.0.11<0>
{host}:5117:5117 [0] NCCL INFO Using network IB
{host}:5117:5203 [0] NCCL INFO comm 0x55d0c8a3b2f0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
{host}:5117:5203 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA
{host}:5117:5203 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/3(7)/GDRDMA
"""
HOST_MEMORY = IB.replace("/GDRDMA", "")
SOCKET = """\
{host}:5117:5117 [0] NCCL INFO NET/IB : No device found.
{host}:5117:5117 [0] NCCL INFO NET/Socket : Using [0]eno1:10.0.0.11<0>
{host}:5117:5117 [0] NCCL INFO Using network Socket
{host}:5117:5203 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/Socket/0
"""
EFA = """\
{host}:5117:5117 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 32 nics)
[1,0]<stdout>:{host}:5117:5117 [0] NCCL INFO Using network Libfabric
"""
NVLINK = """\
{host}:5117:5117 [0] NCCL INFO Using network IB
{host}:5117:5117 [0] NCCL INFO MNNVL busId 0x801000 fabric UUID a44167d1.7d6b24c0 cliqueId 0x2786 state 3
{host}:5117:5117 [0] NCCL INFO MNNVL 1 cliqueId 2786 cliqueSize 8 cliqueRank 0 nvlDomainSize 8
{host}:5117:5203 [0] NCCL INFO comm 0x55d0c8a3b2f0 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 1
"""


def over(mine, other=IB, **fields):
    """A pair as gpu01 keeps it: what NCCL says on gpu01 and on gpu02."""
    found = ran("all_reduce", **{"asks_transports": True, **fields})
    return replace(found, stdout=mine.format(host="gpu01") + other.format(host="gpu02") + found.stdout)


def under_another_name(said):
    """A pair in which gpu01 calls itself by the name of its cloud."""
    found = over(said.replace("{host}", "ip-10-0-0-11"))
    return Attempt((found,), node="gpu01", hostname="ip-10-0-0-11.ec2.internal")


def no_rdma():
    machine = Machine.hgx_h100()
    machine.sections["infiniband"].clear()
    return machine


NOT_STARTED = replace(over(IB), stdout="", stderr="Permission denied (publickey).", exit_code=255)
ONE = {"one_domain": True}

BY_SETTING = over(SOCKET, settings="NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=eno1")
MUTE = "{host}:5117:5117 [0] NCCL INFO Using network IB\n"
CASES += of("nccl_groups.transport")(
    GroupCase("over InfiniBand", PASS, [over(IB)]),
    GroupCase(
        "from host memory, as between PCIe boards far from the NIC: its speed is judged elsewhere",
        PASS,
        [over(HOST_MEMORY)],
    ),
    GroupCase("over EFA", PASS, [over(EFA, EFA)]),
    GroupCase("over sockets", FAIL, [over(SOCKET)]),
    GroupCase("under another name", FAIL, under_another_name(SOCKET)),
    GroupCase("sockets once, in the first of two attempts", FAIL, [over(SOCKET)], [over(IB)]),
    GroupCase("the other node goes over sockets", PASS, [over(IB, SOCKET)]),
    GroupCase("sockets are what the site asks for", SKIP, [BY_SETTING]),
    GroupCase("a node without RDMA", SKIP, [over(SOCKET)], machine=no_rdma()),
    GroupCase("NCCL says nothing", ERROR, [over("")]),
    GroupCase("recorded before NCCL was asked", SKIP, [over(SOCKET, asks_transports=False)]),
    GroupCase("no launch started", SKIP, [NOT_STARTED]),
    GroupCase("no other node", SKIP, ALONE_RUN),
)
CASES += of("nccl_groups.nvlink_between")(
    GroupCase("two trays over NVLink", PASS, [over(NVLINK, **ONE)]),
    GroupCase("two trays of one domain over the network", FAIL, [over(IB, **ONE)]),
    GroupCase("an NCCL that says nothing of it", ERROR, [over(MUTE, **ONE)]),
    GroupCase("trays of two domains, or no NVLink between nodes", SKIP, [over(IB)]),
    GroupCase("the site measures without it", SKIP, [over(IB, settings="NCCL_MNNVL_ENABLE=0", **ONE)]),
)


test_cases = asserting(CASES)


def test_a_launch_that_says_nothing_of_a_node_proves_nothing_of_it():
    case = next(each for each in CASES if each.name == "the fleet is slow, and its other nodes are not judged")
    left_out = [finding for finding in case.record().findings if finding.verdict is SKIP]
    assert [finding.is_open for finding in left_out] == [True]
    assert "3 of the 4 nodes of the launch are not judged in this run: judge them together" in left_out[0].text


def test_lines_of_another_host_are_not_this_ones():
    text = SOCKET.format(host="gpu02") + IB.format(host="gpu021")
    assert read_log(text, "gpu02.example.com").over_sockets
    assert read_log(text, "GPU021").network == "IB"
    assert isinstance(read_log(text, "gpu0").network, Unknown)
    assert isinstance(read_log("", "gpu02").mnnvl, Unknown)


def test_a_line_that_a_launcher_tore_is_replaced_by_the_channels():
    text = IB.format(host="gpu02").replace("Using network IB", "Using net[1,0]<stdout>:work IB")
    assert read_log(text, "gpu02").network == "IB"
