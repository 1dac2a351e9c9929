"""What the checks of NCCL inside a node say, word for word: what nccl-tests printed goes through the real parser."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support import nccl as fake
from support.nccl_node import WHATS, NcclCase, said

from nodegate.errors import CannotMeasure
from nodegate.measure.program_run import not_run
from nodegate.records.program_run import ProgramRun
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
HGX, L40S = Machine.hgx_h100, Machine.pcie_l40s


def fault(name: str, *whats: str) -> Mapping[str, object]:
    return {"faults": dict.fromkeys(whats or ("*",), name)}


def no_tool(rans: list[ProgramRun]) -> list[ProgramRun]:
    why = CannotMeasure("all_reduce_perf is not on the node", next_step="build nccl-tests")
    return [not_run(ran.what, why) for ran in rans]


def stops_after_hang(rans: list[ProgramRun]) -> list[ProgramRun]:
    why = CannotMeasure("not run: all_reduce did not end within 60 s before", next_step="see the finding on all_reduce")
    return [*rans[:2], *(not_run(ran.what, why) for ran in rans[2:])]


def stuck(rans: list[ProgramRun]) -> list[ProgramRun]:
    return [replace(rans[0], stuck=("4711 all_reduce_perf D",)), *rans[1:]]


def slow_and_unfinished(rans: list[ProgramRun]) -> list[ProgramRun]:
    """Each ended by us after its first row, on a node where that row took half a minute."""
    return [
        replace(ran, stdout=ran.stdout[: ran.stdout.index("  1073741824")], exit_code=None, timed_out=True)
        for ran in rans
    ]


NO_TOOL = "gpu01: all_reduce_perf is not on the node - build nccl-tests"
FOOTER = "no line 'Out of bounds values'; no line 'Avg bus bandwidth'"
AGAIN = "measure this node again, or run the command in the evidence file by hand"
SEE = "read the output of nccl-tests in the evidence file"
TAKE_OUT = "drain the node; burn each GPU alone to tell a GPU from the fabric between them"
FABRIC = (
    "look at nvidia-fabricmanager and its log, at NVLink errors and SXid lines; restart the node and measure it again"
)
XID = "see the kernel log for the GPU's Xid; restart the node and measure it again"

DATA = [
    NcclCase(
        "all right",
        "nccl.data",
        PASS,
        ("6 alike: all_reduce, all_reduce ring, all_gather, reduce_scatter, alltoall, sendrecv: right at 2 sizes"),
    ),
    NcclCase(
        "wrong sums",
        "nccl.data",
        FAIL,
        f"alltoall: 6 wrong elements at 536870912, 1073741824 bytes: silent data corruption - {TAKE_OUT}",
        told=fault("wrong", "alltoall"),
    ),
    NcclCase(
        "wrong sums, told by a version that counts none",
        "nccl.data",
        FAIL,
        f"all_gather: 6 wrong elements: silent data corruption - {TAKE_OUT}",
        told={**fault("wrong", "all_gather"), "layout": "2.9"},
    ),
    NcclCase(
        "a deviation of 5e-07 is rounding, and in place is not compared for alltoall",
        "nccl.data",
        PASS,
        ("6 alike: all_reduce, all_reduce ring, all_gather, reduce_scatter, alltoall, sendrecv: right at 2 sizes"),
        told={"layout": "2.9"},
    ),
    NcclCase(
        "a crash after the first size",
        "nccl.data",
        ERROR,
        (f"sendrecv: could not read result comparison: no row of 1073741824 bytes; {FOOTER}; exit code 139 - {AGAIN}"),
        told=fault("crash", "sendrecv"),
    ),
    NcclCase(
        "no tool", "nccl.data", ERROR, "node: all_reduce_perf is not on the node - build nccl-tests", change=no_tool
    ),
]

HANG = [
    NcclCase(
        "all end",
        "nccl.hang",
        PASS,
        ("6 alike: all_reduce, all_reduce ring, all_gather, reduce_scatter, alltoall, sendrecv: ended after 9 s"),
    ),
    NcclCase(
        "NVLS hangs",
        "nccl.hang",
        FAIL,
        (
            "all_reduce: hung: did not end within 60 s, and finished no size; it ends with NCCL_ALGO=Ring, "
            "so NVLS hangs - restart nvidia-fabricmanager with no job on the node; it must be of the "
            "driver's version"
        ),
        told=fault("hang", "all_reduce"),
    ),
    NcclCase(
        "everything hangs",
        "nccl.hang",
        FAIL,
        f"all_reduce: hung: did not end within 60 s, and finished no size - {FABRIC} (and 1 more)",
        told=fault("hang"),
        change=stops_after_hang,
    ),
    NcclCase(
        "sendrecv hangs half-way",
        "nccl.hang",
        FAIL,
        (f"sendrecv: hung: did not end within 60 s; the last size that it finished is 536870912 bytes - {FABRIC}"),
        told=fault("stall", "sendrecv"),
    ),
    NcclCase(
        "it cannot be killed",
        "nccl.hang",
        FAIL,
        (
            "all_reduce: hung: did not end within 60 s, and finished no size; it ends with NCCL_ALGO=Ring, "
            "so NVLS hangs; it cannot be killed: 4711 all_reduce_perf D - restart the node; see the kernel "
            "log for what the driver waits for"
        ),
        told=fault("hang", "all_reduce"),
        change=stuck,
    ),
    NcclCase(
        "slow boards need longer and do not hang",
        "nccl.hang",
        ERROR,
        (
            "all_reduce: did not end within 60 s; the last size that it finished is 536870912 bytes: at 1 "
            "GB/s it needs more time than the limit - measure it with a longer profile (and 5 more)"
        ),
        told={"busbw": 1.0},
        change=slow_and_unfinished,
    ),
    NcclCase(
        "no tool", "nccl.hang", ERROR, "node: all_reduce_perf is not on the node - build nccl-tests", change=no_tool
    ),
]

COMPLETE = [
    NcclCase(
        "all whole",
        "nccl.complete",
        PASS,
        (
            "6 alike: all_reduce, all_reduce ring, all_gather, reduce_scatter, alltoall, sendrecv: 8 GPUs, "
            "up to 1073741824 bytes"
        ),
    ),
    NcclCase(
        "a GPU is lost",
        "nccl.complete",
        FAIL,
        f"all_reduce: Invalid number of GPUs: 8 requested but only 7 were found - {XID} (and 5 more)",
        told=fault("lost"),
    ),
    NcclCase(
        "an ECC error half-way",
        "nccl.complete",
        FAIL,
        f"all_reduce: CUDA failed: uncorrectable ECC error encountered - {XID}",
        told=fault("cuda", "all_reduce"),
    ),
    NcclCase(
        "NVLS fails at the start",
        "nccl.complete",
        FAIL,
        "all_reduce: NCCL failed: unhandled cuda error (run with NCCL_DEBUG=INFO for details) / Cuda failure  - " + XID,
        told=fault("nccl", "all_reduce"),
    ),
    NcclCase(
        "a GPU fewer than the board has",
        "nccl.complete",
        FAIL,
        ("node: 7 GPUs in the collectives, expected at least 8 GPUs (SOURCE) - see the checks gpu.count and gpu.lost"),
        gpus=7,
    ),
    NcclCase(
        "an exit code of 0 after a mistyped option",
        "nccl.complete",
        ERROR,
        (f"all_reduce: could not read result: nccl-tests did not run: invalid option 'q' - {AGAIN} (and 5 more)"),
        told=fault("typo"),
    ),
    NcclCase(
        "too little memory for the size",
        "nccl.complete",
        ERROR,
        (
            "all_gather: could not read result: the largest size was reduced to 536875008 bytes for lack "
            f"of memory; no row of 1073741824 bytes - {AGAIN}"
        ),
        told=fault("reduced", "all_gather"),
    ),
    NcclCase(
        "numbers that contradict each other",
        "nccl.complete",
        ERROR,
        (
            "all_gather: could not read result: 536870912 bytes, out of place: algbw 683.71 GB/s is not "
            f"size over time - {AGAIN}"
        ),
        told=fault("lies", "all_gather"),
    ),
    NcclCase(
        "a whole table and then a crash",
        "nccl.complete",
        ERROR,
        f"sendrecv: could not read result: exit code 139 - {AGAIN}",
        told=fault("leftover", "sendrecv"),
    ),
]

ALL_REDUCE = [
    NcclCase("as fast as its platform", "nccl.all_reduce", PASS, ""),
    NcclCase("slow", "nccl.all_reduce", FAIL, "", told={"busbw": {"all_reduce": 300.0, "all_reduce ring": 200.0}}),
    NcclCase(
        "NVLS in use and slow",
        "nccl.all_reduce",
        FAIL,
        "",
        told={"busbw": {"all_reduce": 200.0, "all_reduce ring": 370.0}},
    ),
    NcclCase(
        "without NVLS it is not called slow",
        "nccl.all_reduce",
        SKIP,
        "node: NVLS is not in use, which nccl.nvls reports",
        told={"busbw": {"all_reduce": 371.0, "all_reduce ring": 370.0}},
    ),
    NcclCase(
        "the average over all sizes is small on every good node",
        "nccl.all_reduce",
        PASS,
        "",
        change=lambda rans: [replace(ran, stdout=ran.stdout.replace(": 446.4", ": 156.742")) for ran in rans],
    ),
    NcclCase(
        "hangs",
        "nccl.all_reduce",
        ERROR,
        (f"all_reduce: could not read bus bandwidth: did not end within 60 s, and finished no size - {SEE}"),
        told=fault("hang", "all_reduce"),
    ),
]

NVLS = [
    NcclCase("in use", "nccl.nvls", PASS, "NVLS: all_reduce is 1.30 times as fast as with NCCL_ALGO=Ring"),
    NcclCase(
        "not in use",
        "nccl.nvls",
        FAIL,
        (
            "NVLS: not in use: all_reduce is 1.00 times as fast as with NCCL_ALGO=Ring, expected at least "
            "1.05 times (SOURCE); NCCL reports NVLS multicast as not available - look for "
            "NCCL_NVLS_ENABLE=0 in /etc/nccl.conf, then at nvidia-fabricmanager and the fabric state"
        ),
        told={"busbw": {"all_reduce": 371.0, "all_reduce ring": 370.0}, "nvls": False},
    ),
    NcclCase(
        "in use and slow",
        "nccl.nvls",
        FAIL,
        (
            "NVLS: slower than Ring: all_reduce is 0.54 times as fast as with NCCL_ALGO=Ring, expected at "
            "least 1.05 times (SOURCE) - look for NCCL_NVLS_ENABLE=0 in /etc/nccl.conf, then at "
            "nvidia-fabricmanager and the fabric state"
        ),
        told={"busbw": {"all_reduce": 200.0, "all_reduce ring": 370.0}},
    ),
    NcclCase(
        "a hang of all_reduce says nothing of its speed",
        "nccl.nvls",
        ERROR,
        (f"all_reduce: could not read bus bandwidth: did not end within 60 s, and finished no size - {SEE}"),
        told=fault("hang", "all_reduce"),
    ),
    NcclCase(
        "NCCL does not use it with four GPUs",
        "nccl.nvls",
        SKIP,
        "node: NVLS is not used with 4 GPUs",
        told={"busbw": {"all_reduce": 371.0, "all_reduce ring": 370.0}},
        gpus=4,
    ),
    NcclCase("a platform without it", "nccl.nvls", SKIP, "node: the platform has no NVLS", limits={"nccl.nvls": False}),
    NcclCase(
        "a platform of which nothing is known",
        "nccl.nvls",
        NOT_JUDGED,
        "node: no limit nccl.nvls for platform l40s",
        machine=L40S,
        limits={"nccl.nvls": None},
    ),
]

COLLECTIVES = [
    NcclCase("no limit for sendrecv", "nccl.collectives", NOT_JUDGED, "", limits={"derived.collectives_percent": None}),
    NcclCase("sendrecv by NVLink's rate", "nccl.collectives", PASS, ""),
    NcclCase("a slow sendrecv", "nccl.collectives", FAIL, "", told={"busbw": {"sendrecv": 100.0}}),
    NcclCase(
        "as fast as its platform, and sendrecv as the site stored it",
        "nccl.collectives",
        PASS,
        "",
        told={"size_bytes": 8 << 30},
        limits={"nccl.sendrecv_gb_per_s": 100.0},
    ),
    NcclCase("a slow alltoall", "nccl.collectives", FAIL, "", told={"busbw": {"alltoall": 150.0}}),
    NcclCase(
        "a crash of one",
        "nccl.collectives",
        ERROR,
        (f"sendrecv: could not read bus bandwidth: no row of 1073741824 bytes; {FOOTER}; exit code 139 - {AGAIN}"),
        told=fault("crash", "sendrecv"),
    ),
]

VERSION = [
    NcclCase("new enough", "nccl.version", PASS, "NCCL: version 2.27.3"),
    NcclCase(
        "with the fault of bootstrap messages",
        "nccl.version",
        WARN,
        "NCCL: version 2.20.5, expected at least 2.21.5 (SOURCE) - update NCCL on the node or in the image that "
        "brings it",
        told={"nccl": "2.20.5"},
    ),
    NcclCase(
        "no tool", "nccl.version", ERROR, "node: all_reduce_perf is not on the node - build nccl-tests", change=no_tool
    ),
]

CASES = [*DATA, *HANG, *COMPLETE, *ALL_REDUCE, *NVLS, *COLLECTIVES, *VERSION]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_case(case: NcclCase) -> None:
    record = case.record()
    if case.message:
        source = next((each.limit.source for each in record.findings if each.limit), "SOURCE")
        shown = record.message.replace(f"({source})", "(SOURCE)") if "(SOURCE)" in case.message else record.message
        assert shown == case.message
    assert record.verdict is case.verdict, record.message
    assert all("itself failed" not in finding.message for finding in record.findings)


def test_every_finding_that_is_no_pass_says_what_to_do() -> None:
    for case in CASES:
        for finding in case.record().findings:
            if finding.verdict in (WARN, FAIL, ERROR):
                assert finding.message.endswith(f" - {finding.action}"), finding.message
                assert finding.action


def test_wrong_data_in_one_of_two_attempts_is_wrong_data() -> None:
    wrong, right = [fake.ran(what, faults={"*": "wrong"}) for what in WHATS], [fake.ran(what) for what in WHATS]
    for attempts in ([wrong, right], [right, wrong]):
        assert said("nccl.data", attempts, HGX()).verdict is FAIL


def test_a_hang_that_does_not_come_back_is_a_hang_all_the_same() -> None:
    hung, good = [fake.ran(what, faults={"*": "hang"}) for what in WHATS], [fake.ran(what) for what in WHATS]
    assert said("nccl.hang", [hung, good], HGX()).verdict is FAIL


def test_a_tool_that_failed_once_and_ran_again_is_complete() -> None:
    crash, good = [fake.ran(what, faults={"*": "crash"}) for what in WHATS], [fake.ran(what) for what in WHATS]
    assert said("nccl.complete", [crash, good], HGX()).verdict is PASS


@pytest.mark.parametrize("layout", ["2.9", "2.13", "2.16.9", "2.17.5", "2.19"])
def test_every_version_of_the_tool_can_pass_every_check(layout: str) -> None:
    attempts = [[fake.ran(what, layout=layout) for what in WHATS]]
    for check in {case.check for case in CASES}:
        assert said(check, attempts, HGX()).verdict is PASS, check


def test_at_delivery_the_largest_size_is_judged() -> None:
    attempts = [[fake.ran(what, size_bytes=8 << 30) for what in WHATS]]
    for check in {case.check for case in CASES}:
        record = said(check, attempts, HGX())
        assert record.verdict is PASS, record.message
