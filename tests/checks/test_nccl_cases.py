"""What the checks of NCCL inside a node say, word for word: what nccl-tests printed goes through the real parser."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest
from fleet.machine import Machine, facts_of
from support import cases
from support import nccl as fake
from support.attempts import attempts
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, SKIP, WARN, asserting, of
from support.judging import baseline_of

from nodegate.errors import CannotMeasure
from nodegate.measure.nccl.launches import LAUNCHES
from nodegate.measure.nccl.result import parse
from nodegate.measure.program_run import not_run
from nodegate.node import Node
from nodegate.numbers.peers import Peers
from nodegate.records.program_run import ProgramRun

WHATS = tuple(launch.what for launch in LAUNCHES)


@dataclass(frozen=True)
class NcclCase(cases.Case):
    """One node and what one check must say of it. `told` is what the programs do, `change` alters their evidence."""

    told: Mapping[str, object] = field(default_factory=dict)
    change: Callable[[list[ProgramRun]], list[ProgramRun]] = list
    machine: Callable[[], Machine] = Machine.hgx_h100
    limits: Mapping[str, object] = field(default_factory=dict)
    gpus: int = 8

    def record(self):
        return said(self.check, self.tried(), self.machine(), self.limits)

    def tried(self):
        return [self.change([fake.ran(what, gpus=self.gpus, **self.told) for what in WHATS])]


def said(check, tried, machine, limits=None):
    node, facts = Node("gpu01", origin="hosts.yaml:3"), facts_of(machine)
    baseline = baseline_of(facts, node, limits or {})

    peers = Peers.of({}).of_node(node.name)
    given = {"nccl": lambda: parse(attempts(tried)), "baseline": baseline, "node": node, "peers": peers}
    return cases.judged_with(check, facts, given)


LIKE_RING = {"all_reduce": 371.0, "all_reduce ring": 370.0}
HGX, L40S = Machine.hgx_h100, Machine.pcie_l40s


def fault(name, *whats):
    return {"faults": dict.fromkeys(whats or ("*",), name)}


def no_tool(rans):
    why = CannotMeasure("all_reduce_perf is not on the node", next_step="build nccl-tests")
    return [not_run(ran.what, why) for ran in rans]


def stops_after_hang(rans):
    why = CannotMeasure("not run: all_reduce did not end within 60 s before", next_step="see the finding on all_reduce")
    return [*rans[:2], *(not_run(ran.what, why) for ran in rans[2:])]


def small_average(rans):
    return [replace(ran, stdout=ran.stdout.replace(": 446.4", ": 156.742")) for ran in rans]


def stuck(rans):
    return [replace(rans[0], stuck=("4711 all_reduce_perf D",)), *rans[1:]]


def slow_and_unfinished(rans):
    """Each ended by us after its first row, on a node where that row took half a minute."""
    return [
        replace(ran, stdout=ran.stdout[: ran.stdout.index("  1073741824")], exit_code=None, timed_out=True)
        for ran in rans
    ]


UNCOUNTED = {**fault("wrong", "all_gather"), "layout": "2.9"}
OLD_LAYOUT = {"layout": "2.9"}
STORED = {"nccl.sendrecv_gb_per_s": 100.0}
LARGEST = {"size_bytes": 8 << 30}
CASES = of("nccl.data")(
    NcclCase("all right", PASS),
    NcclCase("wrong sums", FAIL, told=fault("wrong", "alltoall")),
    NcclCase("wrong sums, told by a version that counts none", FAIL, told=UNCOUNTED),
    NcclCase("a deviation of 5e-07 is rounding, and in place is not compared for alltoall", PASS, told=OLD_LAYOUT),
    NcclCase("a crash after the first size", ERROR, told=fault("crash", "sendrecv")),
    NcclCase("no tool", ERROR, change=no_tool),
)

CASES += of("nccl.hang")(
    NcclCase("all end", PASS),
    NcclCase("NVLS hangs", FAIL, told=fault("hang", "all_reduce")),
    NcclCase("everything hangs", FAIL, told=fault("hang"), change=stops_after_hang),
    NcclCase("sendrecv hangs half-way", FAIL, told=fault("stall", "sendrecv")),
    NcclCase("it cannot be killed", FAIL, told=fault("hang", "all_reduce"), change=stuck),
    NcclCase("slow boards need longer and do not hang", ERROR, told={"busbw": 1.0}, change=slow_and_unfinished),
    NcclCase("no tool", ERROR, change=no_tool),
)

CASES += of("nccl.complete")(
    NcclCase("all whole", PASS),
    NcclCase("a GPU is lost", FAIL, told=fault("lost")),
    NcclCase("an ECC error half-way", FAIL, told=fault("cuda", "all_reduce")),
    NcclCase("NVLS fails at the start", FAIL, told=fault("nccl", "all_reduce")),
    NcclCase("a GPU fewer than the board has", FAIL, gpus=7),
    NcclCase("an exit code of 0 after a mistyped option", ERROR, told=fault("typo")),
    NcclCase("too little memory for the size", ERROR, told=fault("reduced", "all_gather")),
    NcclCase("numbers that contradict each other", ERROR, told=fault("lies", "all_gather")),
    NcclCase("a whole table and then a crash", ERROR, told=fault("leftover", "sendrecv")),
)

CASES += of("nccl.all_reduce")(
    NcclCase("as fast as its platform", PASS),
    NcclCase("slow", FAIL, told={"busbw": {"all_reduce": 300.0, "all_reduce ring": 200.0}}),
    NcclCase("NVLS in use and slow", FAIL, told={"busbw": {"all_reduce": 200.0, "all_reduce ring": 370.0}}),
    NcclCase("without NVLS it is not called slow", SKIP, told={"busbw": LIKE_RING}),
    NcclCase("the average over all sizes is small on every good node", PASS, change=small_average),
    NcclCase("hangs", ERROR, told=fault("hang", "all_reduce")),
)

CASES += of("nccl.nvls")(
    NcclCase("in use", PASS),
    NcclCase("not in use", FAIL, told={"busbw": LIKE_RING, "nvls": False}),
    NcclCase("in use and slow", FAIL, told={"busbw": {"all_reduce": 200.0, "all_reduce ring": 370.0}}),
    NcclCase("a hang of all_reduce says nothing of its speed", ERROR, told=fault("hang", "all_reduce")),
    NcclCase("NCCL does not use it with four GPUs", SKIP, told={"busbw": LIKE_RING}, gpus=4),
    NcclCase("a platform without it", SKIP, limits={"nccl.nvls": False}),
    NcclCase("a platform of which nothing is known", NOT_JUDGED, machine=L40S, limits={"nccl.nvls": None}),
)

CASES += of("nccl.collectives")(
    NcclCase("no limit for sendrecv", NOT_JUDGED, limits={"derived.collectives_percent": None}),
    NcclCase("sendrecv by NVLink's rate", PASS),
    NcclCase("a slow sendrecv", FAIL, told={"busbw": {"sendrecv": 100.0}}),
    NcclCase("as fast as its platform, and sendrecv as the site stored it", PASS, told=LARGEST, limits=STORED),
    NcclCase("a slow alltoall", FAIL, told={"busbw": {"alltoall": 150.0}}),
    NcclCase("a crash of one", ERROR, told=fault("crash", "sendrecv")),
)

CASES += of("nccl.version")(
    NcclCase("new enough", PASS),
    NcclCase("with the fault of bootstrap messages", WARN, told={"nccl": "2.20.5"}),
    NcclCase("no tool", ERROR, change=no_tool),
)


test_each_case = asserting(CASES)


def launched(**told):
    return [fake.ran(what, **told) for what in WHATS]


@pytest.mark.parametrize(
    ("check", "faults", "verdict"),
    [
        ("nccl.data", ("wrong", ""), FAIL),
        ("nccl.data", ("", "wrong"), FAIL),
        ("nccl.hang", ("hang", ""), FAIL),
        ("nccl.complete", ("crash", ""), PASS),
    ],
)
def test_what_one_of_two_attempts_proves(check, faults, verdict):
    tried = [launched(faults={"*": fault}) if fault else launched() for fault in faults]
    assert said(check, tried, HGX()).verdict is verdict


@pytest.mark.parametrize(
    "told", [*({"layout": each} for each in ("2.9", "2.13", "2.16.9", "2.17.5", "2.19")), {"size_bytes": 8 << 30}]
)
def test_every_version_of_the_tool_and_the_largest_size_can_pass_every_check(told):
    for check in {case.check for case in CASES}:
        record = said(check, [launched(**told)], HGX())
        assert record.verdict is PASS, record.message
