"""What NCCL says when it is asked (`ncclras`): reports in the form of NVIDIA/nccl issues 1911 and 1762, and JSON."""

import json

import pytest
from support.job_logs import iteration, joins, judge, remarks, times_out

from nodegate.knowledge.words import Cause

HEAD = """\
NCCL version 2.26.2 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""
ALL = "    0         1         4         8        32        32   RUNNING  {}\n"
PAIRS = "    1        16         2         1         2        32   RUNNING  {}\n"
END = "\nErrors\n======\n\n{}\nWarnings\n========\n\n{}"
RANK = "  Rank {} -- GPU {} managed by process 32303{} on node 10.9.0.{}\n"
COUNTS = "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllGather operation counts\n"
BEHIND = f"{COUNTS}  30 ranks have launched up to operation 641\n  2 ranks have launched up to operation 640\n"
BEHIND += RANK.format(12, 4, 2, 1) + RANK.format(13, "5 (NVML 1)", 3, 1)
AHEAD = BEHIND.replace("640", "639").replace("641", "640").replace("639", "641")
ONE = (
    COUNTS.replace("AllGather", "collective")
    + "  31 ranks have launched up to operation 6650\n"
    + "  Rank 9 has launched up to operation 6649 -- GPU 1 managed by process 48 on node 10.9.0.1\n"
)
NONE = (
    COUNTS
    + "  31 ranks have launched up to operation 2\n"
    + "  Rank 9 has not launched any operations -- [process information not found]\n"
)
DEAD = "INCOMPLETE\n  Missing communicator data from 1 job process\n{0}\nDEAD\n"
DEAD += "  1 job process is considered dead (unreachable via the RAS network)\n{0}\n"
DEAD = DEAD.format("  Process 60004 on node 10.9.0.3 managing GPU 2\n")
NO_ANSWER = "#0-0 (b3398875b8b2a063) INCOMPLETE\n  Missing communicator data from 1 rank\n" + RANK.format(25, 1, 1, 3)
ERROR = "#0-0 (b3398875b8b2a063) ERROR\n  Asynchronous errors on 3 ranks\n  2 ranks reported Remote process error\n"
ERROR += RANK.format(8, 0, 0, 1) + RANK.format(9, 1, 1, 1)
ERROR += "  Rank 25 reported Unhandled CUDA error -- GPU 1 managed by process 7 on node 10.9.0.3\n"
STATUS = (
    "#0-0 (b3398875b8b2a063) MISMATCH\n  Communicator ranks have different status\n  31 ranks have status RUNNING\n"
)
STATUS += "  Rank 4 has status ABORT -- GPU 4 managed by process 7 on node 10.9.0.0\n"
OF_A_PAIR = "#1-3 (93d7000200000001) INCOMPLETE\n  Missing communicator data from 1 rank\n" + RANK.format(1, 3, 1, 2)


def report(errors="", warnings="", said="MISMATCH"):
    return HEAD + ALL.format(said) + PAIRS.format("OK") + END.format(errors, warnings)


CASES = {
    "a dead process": (report(DEAD), {"says": "GPU 2 is dead", "node": "10.9.0.3", "gpu": 2, "rank": None}),
    "a rank without an answer": (report(NO_ANSWER), {"says": "rank 25 gives NCCL no answer", "rank": 25, "gpu": 1}),
    "an error before those that follow from it": (report(ERROR), {"says": '"Unhandled CUDA error"', "rank": 25}),
    "a rank that aborts": (report("", STATUS), {"says": 'rank 4 has the status "ABORT"', "node": "10.9.0.0"}),
    "a rank of a smaller communicator is named by its GPU": (
        report(OF_A_PAIR),
        {"says": "GPU 3 gives NCCL no answer", "rank": None, "node": "10.9.0.2", "gpu": 3},
    ),
    "ranks behind, at one moment": (
        report("", BEHIND),
        {"says": 'rank 12-13 is behind: "AllGather 640 / 641"; a job that goes on looks so too', "rank": None},
    ),
    "ranks behind, and again": (
        report("", BEHIND) * 2,
        {"says": "the cause is not in these logs: rank 12-13 is behind", "rank": 12, "node": "10.9.0.1", "gpu": 4},
    ),
    "moved on": (
        report("", BEHIND) + report("", BEHIND).replace("64", "65"),
        {"says": "cannot tell: rank 12-13", "rank": None},
    ),
    "who is ahead is not behind": (report("", AHEAD) * 2, {"says": "rank 12-13 is ahead", "rank": None, "node": ""}),
    "one rank behind, version 2.24": (report("", ONE) * 2, {"says": 'rank 9 is behind: "collective 6649 / 6650"'}),
    "a rank that launched nothing": (report("", NONE) * 2, {"says": 'rank 9 is behind: "AllGather 0 / 2"', "rank": 9}),
    "nobody is missing": (report(said="OK"), {"says": "cannot tell: no rank was missing or behind", "rank": None}),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_the_text_of_a_report(tmp_path, text, expected):
    judge(tmp_path, {"ras.txt": text.splitlines()}, cause=Cause.UNKNOWN, failed=True, sure=False, **expected)


LINES = [*joins("gpu08", 1, 9, 32, bus="19000", address="10.9.0.1"), times_out(9, "15:46:05.7")]

BESIDE = {
    "a time-out shows that it is more than a moment; the address gets its node": (
        {"ras.txt": report("", BEHIND).splitlines(), "rank9.log": LINES},
        {"says": "rank 12-13 is behind", "node": "gpu08", "rank": 12},
    ),
    "what a job prints below a report is read": (
        {"job.log": [*report(said="OK").splitlines(), "[rank3]: CUDA error: device-side assert triggered"]},
        {"root": "cuda_assert", "rank": 3},
    ),
    "a report of a moment says nothing against a job that goes on": (
        {"ras.txt": report("", BEHIND).splitlines(), "job.log": [iteration(f"15:3{n}:00.0", n) for n in range(9)]},
        {"failed": False, "says": "no error in these logs"},
    ),
    "an error in the logs comes first": (
        {"ras.txt": report(DEAD).splitlines(), "job.log": ["[rank3]: torch.OutOfMemoryError: CUDA out of memory."]},
        {"root": "cuda_oom", "rank": 3},
    ),
}


@pytest.mark.parametrize(("files", "expected"), BESIDE.values(), ids=BESIDE)
def test_reports_beside_logs(tmp_path, files, expected):
    judge(tmp_path, files, **expected)


def as_json(**changes):
    """ncclras -f json of a job of four ranks on two nodes."""
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    ranks = [
        {"rank": rank, "host": f"10.9.0.{rank // 2}", "pid": 70 + rank, "cuda_dev": rank % 2, "nvml_dev": rank % 2}
        | {"status": status, "collective_counts": {"AllReduce": 7, "Broadcast": 0}}
        for rank in range(4)
    ]
    comm = {"hash": "0xfa", "size": 4, "ranks_count": 4, "missing_ranks_count": 0, "ranks": ranks, "missing_ranks": []}
    ranks[3].update(changes.pop("third", {}))
    comm.update(changes)
    return json.dumps({"nccl_version": "2.28.7", "communicators_count": 1, "communicators": [comm]}, indent=2)


MISSING = {"rank": 2, "host": "10.9.0.1", "pid": 1, "cuda_dev": 0, "nvml_dev": 0}
AS_JSON = {
    "considered dead": (
        {"missing_ranks": [{**MISSING, "status": {"unresponsive": True, "considered_dead": True}}]},
        {"says": "rank 2 is dead", "rank": 2, "node": "10.9.0.1", "gpu": 0},
    ),
    "an error": (
        {"third": {"status": {"init_state": 0, "async_error": 1, "abort_flag": False}}},
        {"says": 'rank 3 reports to NCCL: "Unhandled CUDA error"', "rank": 3},
    ),
    "behind": ({"third": {"collective_counts": {"AllReduce": 6}}}, {"says": 'rank 3 is behind: "AllReduce 6'}),
    "well": ({}, {"says": "no rank was missing or behind"}),
    "another layout": ({"ranks": [1]}, {"says": "is a report of ncclras that is damaged"}),
}


@pytest.mark.parametrize(("changes", "expected"), AS_JSON.values(), ids=AS_JSON)
def test_the_json_of_a_report(tmp_path, changes, expected):
    judge(tmp_path, {"ras.json": as_json(**changes).splitlines()}, cause=Cause.UNKNOWN, failed=True, **expected)


def test_a_report_beside_another_answer_is_quoted(tmp_path):
    answer = judge(tmp_path, BESIDE["an error in the logs comes first"][0])
    assert "ncclras: GPU 2 is dead: NCCL cannot reach it" in remarks(answer)
