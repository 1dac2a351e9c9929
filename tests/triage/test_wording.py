"""The lines of an answer: no line says what another has said, and each says no more than is known."""

import pytest
from support.job_logs import iteration, joins, kernel, stands_at, times_out, write, xid

from nodegate.triage import render
from nodegate.triage.triage import triage
from nodegate.triage.wording import lasting, later


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


def test_a_hang_without_a_missing_rank_blames_no_place(tmp_path):
    write(tmp_path, "rank1.log", times_out(1, "15:46:05.7"))
    assert rows(triage([str(tmp_path)]), "where") == ["not known"]
