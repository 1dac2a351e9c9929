"""What the checks say of the ways that NCCL says it takes between nodes, word for word."""

from dataclasses import replace

from fleet.machine import Machine
from support.attempts import having
from support.cases import ERROR, FAIL, PASS, SKIP, asserting, of
from support.group_node import GroupCase
from support.nccl_fleet import SIZE, table

from nodegate.records.program_run import Attempt, LaunchPlan, Plan, ProgramRun
from nodegate.tools.nccl_log import read_log
from nodegate.unknown import Unknown

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


def ran(mine, other=IB, **fields):
    """A pair as gpu01 keeps it: what NCCL says on gpu01 and on gpu02."""
    launch = LaunchPlan(
        "pair gpu01+gpu02",
        "pair",
        "gpu01",
        ("gpu01", "gpu02"),
        count=2,
        gpus_of_node=8,
        turns=13,
        builds=1,
        asks_transports=True,
    )
    plan = Plan(gpus=16, size_bytes=SIZE, limit_s=120.0, launch=launch)
    said = mine.format(host="gpu01") + other.format(host="gpu02") + table("all_reduce", 16, 380.0)
    return having(ProgramRun("all_reduce", stdout=said, exit_code=0, duration_s=9.0, plan=plan), **fields)


def under_another_name(said):
    """A pair in which gpu01 calls itself by the name of its cloud."""
    found = ran(said.replace("{host}", "ip-10-0-0-11"))
    return Attempt((found,), node="gpu01", hostname="ip-10-0-0-11.ec2.internal")


def no_rdma():
    machine = Machine.hgx_h100()
    for device in list(machine.sections["infiniband"]):
        machine.sections["infiniband"].pop(device)
    return machine


def not_asked(found):
    return having(found, asks_transports=False)


REFUSED = replace(ran(IB), stdout="", stderr="Permission denied (publickey).", exit_code=255)
ALONE_RUN = Attempt(node="gpu01", alone="no other node takes part")
ONE = {"one_domain": True}

BY_SETTING = ran(SOCKET, settings="NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=eno1")
MUTE = "{host}:5117:5117 [0] NCCL INFO Using network IB\n"
CASES = of("nccl_groups.transport")(
    GroupCase("over InfiniBand", PASS, [ran(IB)]),
    GroupCase(
        "from host memory, as between PCIe boards far from the NIC: its speed is judged elsewhere",
        PASS,
        [ran(HOST_MEMORY)],
    ),
    GroupCase("over EFA", PASS, [ran(EFA, EFA)]),
    GroupCase("over sockets", FAIL, [ran(SOCKET)]),
    GroupCase("under another name", FAIL, under_another_name(SOCKET)),
    GroupCase("sockets once, in the first of two attempts", FAIL, [ran(SOCKET)], [ran(IB)]),
    GroupCase("the other node goes over sockets", PASS, [ran(IB, SOCKET)]),
    GroupCase("sockets are what the site asks for", SKIP, [BY_SETTING]),
    GroupCase("a node without RDMA", SKIP, [ran(SOCKET)], machine=no_rdma()),
    GroupCase("NCCL says nothing", ERROR, [ran("")]),
    GroupCase("recorded before NCCL was asked", SKIP, [not_asked(ran(SOCKET))]),
    GroupCase("no launch started", SKIP, [REFUSED]),
    GroupCase("no other node", SKIP, ALONE_RUN),
)
CASES += of("nccl_groups.nvlink_between")(
    GroupCase("two trays over NVLink", PASS, [ran(NVLINK, **ONE)]),
    GroupCase("two trays of one domain over the network", FAIL, [ran(IB, **ONE)]),
    GroupCase("an NCCL that says nothing of it", ERROR, [ran(MUTE, **ONE)]),
    GroupCase("trays of two domains, or no NVLink between nodes", SKIP, [ran(IB)]),
    GroupCase("the site measures without it", SKIP, [ran(IB, settings="NCCL_MNNVL_ENABLE=0", **ONE)]),
)


test_cases = asserting(CASES)


def test_lines_of_another_host_are_not_this_ones():
    text = SOCKET.format(host="gpu02") + IB.format(host="gpu021")
    assert read_log(text, "gpu02.example.com").over_sockets
    assert read_log(text, "GPU021").network == "IB"
    assert isinstance(read_log(text, "gpu0").network, Unknown)
    assert isinstance(read_log("", "gpu02").mnnvl, Unknown)


def test_a_line_that_a_launcher_tore_is_replaced_by_the_channels():
    text = IB.format(host="gpu02").replace("Using network IB", "Using net[1,0]<stdout>:work IB")
    assert read_log(text, "gpu02").network == "IB"
