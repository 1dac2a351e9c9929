"""One file that holds several logs: a host's and a job's, or those of several ranks; and times without a date."""

import json

import pytest
from support.job_logs import iteration, judge

from nodegate.triage import render

BROKEN = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.38 GiB. GPU 3 has a total capacity of 79.33 GiB"
GONE = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"
HOST = [
    f"Aug 10 15:00:0{number} gpu07 {said}"
    for number, said in enumerate(
        (
            "systemd[1]: Started Session 3 of User root.",
            "kernel: [ 12.345678] mlx5_core 0000:4b:00.0 eth5: Link up",
            "sshd[12]: Accepted publickey for root",
            "systemd[1]: Starting Daily Cleanup...",
            "kernel: [ 14.345678] nvidia: loading",
            "systemd[1]: Finished Daily Cleanup.",
        )
    )
]
MESSAGES = [("kernel", "usb 1-1: new device"), ("systemd", "Started Session 3"), ("kernel", "nvidia: loading")]


def of_program(said):
    return f"Aug 10 15:36:05 gpu07 {said}"


def in_journal(program, said):
    entry = {"__REALTIME_TIMESTAMP": "1786376165000000", "_HOSTNAME": "gpu07"}
    return json.dumps({**entry, "SYSLOG_IDENTIFIER": program, "MESSAGE": said})


OF_TRAIN = of_program(f"train[2210]: [rank5]: {BROKEN}")
FOUND = {"root": "cuda_ecc", "cause": "hardware", "rank": 5, "node": "gpu07"}
XID = of_program("kernel: NVRM: Xid (PCI:0000:9b:00): 119, pid=31, name=python3, Timeout after 6s of waiting for RPC")
CASES = {
    "a host's lines, then what a job printed": ([*HOST, f"[rank5]: {BROKEN}"], {**FOUND, "node": ""}),
    "a job's unit in the journal": ([*HOST, OF_TRAIN], FOUND),
    "with priorities": ([*(f"<30>{line}" for line in HOST), f"<27>{OF_TRAIN}"], FOUND),
    "priorities alone": ([f"<27>{OF_TRAIN}"], FOUND),
    "a JSON journal": ([*(in_journal(*said) for said in MESSAGES * 3), in_journal("a", f"[rank5]: {BROKEN}")], FOUND),
    "an exception of a job": ([*HOST, of_program("python3[7]: KeyError: 'image'")], {"root": "python_error"}),
    "an exception of a service": ([*HOST, of_program("waagent[7]: KeyError: 'image'")], {"failed": False}),
    "a host's log alone": (HOST, {"failed": False}),
    "an Xid in the job's file": (
        [iteration("15:36:01.0", 7), "[rank5]: RuntimeError: CUDA error: unspecified launch failure", XID],
        {"root": "xid_119", "node": "gpu07"},
    ),
    "ranks one after the other": (
        [
            *(f"[rank{rank}]: 2026-08-10 15:00:00 starts" for rank in (0, 1)),
            f"[rank1]: {OOM}",
            *(f"[rank2]: {iteration(f'15:0{minute}:00.0', minute)}" for minute in range(1, 9)),
        ],
        {"root": "cuda_oom", "rank": 1},
    ),
    "files under their names": (
        [
            *("==> rank0.log <==", "2026-08-10 15:00:00 starts", OOM, "", "==> rank1.log <=="),
            *(iteration(f"15:0{minute}:00.0", minute) for minute in range(1, 9)),
        ],
        {"root": "cuda_oom", "rank": 0},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_a_file_with_several_logs(tmp_path, name):
    lines, expected = CASES[name]
    answer = judge(tmp_path, {"job.log": lines}, **expected)
    assert "no kernel log was given" not in " ".join(note.text.en for note in answer.notes) or XID not in lines


STARTS = "2026-08-10 23:50:00 starts"
CLOCKS = {
    "nothing has a date: the order is that of the clocks": (
        {
            "1.log": [f"18:00:25 [rank1]: {OOM}"],
            "2.log": [f"18:00:19.75 [rank2]: {BROKEN}", f"[18:00:21] [rank3]: {GONE}"],
        },
        {"rank": 2},
        "18:00:19.8: no log has a date",
    ),
    "after midnight": ({"a.log": [STARTS, f"[00:00:19] [rank2]: {BROKEN}"]}, {"rank": 2}, "2026-08-11 00:00:19.0"),
    "by another log's day": (
        {"job.log": [iteration("17:59:01.0", 7), iteration("18:02:01.0", 8)], "2.log": [f"18:02:19 [rank2]: {BROKEN}"]},
        {"rank": 2},
        "2026-08-10 18:02:19.0 UTC",
    ),
    "of several days: not before the first of them": (
        {
            "rank2.log": ["2026-08-08 12:00:00 starts", f"18:02:19 [rank2]: {BROKEN}"],
            "job.log": [iteration("17:59:01.0", 7, "2026-08-09"), iteration("18:02:01.0", 8)],
        },
        {"rank": 2},
        "after 2026-08-08 18:02:19.0 UTC",
    ),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_a_time_of_day_has_the_date_of_the_lines_around_it(tmp_path, name):
    logs, expected, when = CLOCKS[name]
    assert f"  when   {when}" in render.text(judge(tmp_path, logs, **expected))
