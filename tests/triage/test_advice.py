"""What a program is told to do with a job; and the lines of an answer: none says what another has said."""

import pytest
from support.job_logs import iteration, joins, judge, kernel, stands_at, times_out, write, xid
from support.schemas import read_output

from nodegate.triage import render
from nodegate.triage.triage import triage
from nodegate.triage.wording import lasting, later

BROKEN = kernel("15:36:05.0", xid("0000:9b:00", 48, "DBE"))
RESTART = (
    "2026-08-10 15:30:00 slurmstepd: error: *** JOB 7 ON gpu-001 CANCELLED AT 2026-08-10T15:30:00 DUE TO {why} ***"
)
CASES = {
    "a fault of a node that is sure": (
        {"dmesg-gpu08.txt": [BROKEN], "gpu08.log": [iteration("15:36:04.0", 9)]},
        {"do": "restart", "without": ["gpu08"], "exclude": "--exclude=gpu08", "sure": True},
    ),
    "a fault that is perhaps a node's": (
        {"gpu08.log": ["[rank1]: RuntimeError: CUDA error: unknown error"]},
        {"do": "restart", "without": [], "exclude": "", "sure": False},
    ),
    "a fault of the program": (
        {"gpu08.log": ["[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.38 GiB."]},
        {"do": "fix", "without": [], "sure": True},
    ),
    "a hang": ({"rank0.log": [times_out(0, "15:46:05.0")]}, {"do": "stop", "without": [], "sure": False}),
    "an error that is not known": (
        {"rank0.log": ["acme.pipeline.ShardError: shard 3 has no manifest"]},
        {"do": "restart", "without": [], "sure": False},
    ),
    "the scheduler ended the job": ({"job.log": [RESTART.format(why="PREEMPTION")]}, {"do": "restart", "without": []}),
    "a pod waits for a node": (
        {"events.txt": ["5m  Warning  FailedScheduling  pod/w-0  0/3 nodes are available: 3 Insufficient gpu."]},
        {"do": "wait", "without": []},
    ),
    "nothing failed": ({"rank0.log": [iteration("15:36:04.0", 9), iteration("15:36:05.0", 10)]}, {"do": "wait"}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_advice_is(name, tmp_path):
    logs, expected = CASES[name]
    given = read_output(render.as_json(judge(tmp_path, logs)))["advice"]
    assert {key: given[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("[rank1]: RuntimeError: CUDA error: an illegal memory access was encountered", True),
        ("[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered", True),
        ("OSError: [Errno 28] No space left on device: '/data/ckpt.pt'", False),
        ("ModuleNotFoundError: No module named 'apex'", False),
    ],
)
def test_a_kernel_log_is_asked_for_only_where_it_could_say_more(tmp_path, line, asked):
    said = render.text(judge(tmp_path, {"rank1.log": [line]}))
    assert ("no kernel log was given" in said) is asked


def test_a_long_first_line_keeps_its_end(tmp_path):
    line = f"[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered {'x' * 200} on GPU 0000:9b:00.0"
    said = render.text(judge(tmp_path, {"rank1.log": [line]}))
    assert "uncorrectable ECC" in said
    assert "on GPU 0000:9b:00.0" in said


LOADS = [f"2026-08-10 15:36:0{second} loading shard {second}, password=Tr0ub4dor&3" for second in range(1, 8)]
SHARD = "acme.pipeline.ShardError: shard 7 has no manifest"


@pytest.mark.parametrize("error", [SHARD, "terminate called after throwing an instance of 'acme::Shard'"])
def test_the_lines_around_an_error_that_no_row_knows_are_printed(tmp_path, error):
    answer = judge(tmp_path, {"rank0.log": [*LOADS, error, "  what():  shard 7", "exit", "later"]}, failed=True)
    assert [(each.line, each.text[:31]) for each in answer.worth] == [
        *((second, f"2026-08-10 15:36:0{second} loading sha") for second in range(3, 8)),
        (9, "what(): shard 7"),
        (10, "exit"),
    ]
    said = render.text(answer)
    assert "line " in said
    assert "Tr0ub4dor" not in said
    assert "lines before it" not in said


def test_they_are_not_printed_beside_an_error_that_is_known(tmp_path):
    answer = judge(tmp_path, {"rank0.log": [*LOADS, "RuntimeError: CUDA error: uncorrectable ECC error encountered"]})
    assert answer.worth == ()


@pytest.mark.parametrize(
    ("seconds", "en", "zh"),
    [
        (0.26, "0.3 s", "0.3 秒"),
        (9.0, "9 s", "9 秒"),
        (-45.2, "45 s", "45 秒"),
        (600, "10 min", "10 分钟"),
        (609, "10 min 9 s", "10 分 9 秒"),
        (8 * 3600, "8 h", "8 小时"),
        (3 * 3600 + 720, "3 h 12 min", "3 小时 12 分"),
    ],
)
def test_a_duration_has_no_zeros(seconds, en, zh):
    assert (lasting(seconds).en, lasting(seconds).zh) == (en, zh)


@pytest.mark.parametrize(
    ("seconds", "en"), [(9, "9 s after it"), (-0.3, "0.3 s before it"), (0.04, "at the same moment")]
)
def test_what_is_later_earlier_or_at_once(seconds, en):
    assert later(seconds).en == en


def rows(answer, label):
    return [line.split(maxsplit=1)[1] for line in render.text(answer).splitlines()[1:] if line.split()[0] == label]


def test_the_first_error_is_not_said_once_more(tmp_path):
    """The driver prints a lost GPU twice; a second GPU that is lost is another fault."""
    lost = [kernel("15:36:05.0", xid(f"0000:{bus}:00", 79, "GPU has fallen off the bus.")) for bus in ("48", "52")]
    again = kernel("15:36:05.1", "NVRM: GPU 0000:48:00.0: GPU has fallen off the bus.")
    write(tmp_path, "dmesg-gpu09.txt", lost[0], again)
    one = triage([str(tmp_path)])
    assert [group.kind.id for group in one.followed] == ["xid_79"]
    assert rows(one, "then") == []
    write(tmp_path, "dmesg-gpu09.txt", *lost)
    assert len(rows(triage([str(tmp_path)]), "then")) == 1


def test_what_was_printed_before_the_first_error_does_not_follow_it(tmp_path):
    write(
        tmp_path,
        "gpu09.log",
        "[2026-08-10 15:35:00] gpu09:1:2 [0] NCCL INFO [Service thread] Accept failed Resource temporarily unavailable",
        "[2026-08-10 15:36:00] RuntimeError: CUDA error: invalid device ordinal",
    )
    found = triage([str(tmp_path)])
    assert [row.split()[0] for row in rows(found, "also")] == ["15:35:00.0"]
    assert rows(found, "then") == []


def test_ranks_that_are_missing_in_two_pods_are_named_with_both(tmp_path):
    for rank in range(5):
        said = [times_out(rank, "15:46:05.7"), stands_at(rank, "15:46:05.8", 979, 976)] if rank < 3 else []
        start = joins(f"moe-worker-{rank}", 0, rank, 5, address=f"10.9.0.{rank}")
        lines = [*start, iteration("15:35:58.0", 976)]
        write(tmp_path, f"moe-worker-{rank}.log", *lines, *said)
    found = triage([str(tmp_path)])
    assert found.ranks == (3, 4)
    assert rows(found, "where") == ["pod moe-worker-[3-4] (node not known: give --map), rank 3-4"]
    found = triage([str(tmp_path)], homes={"moe-worker-3": "gpu03", "moe-worker-4": "gpu04"})
    assert rows(found, "where") == ["gpu[03-04], rank 3-4"]
    assert found.action.en.endswith("--nodes 'gpu[03-04]'")
