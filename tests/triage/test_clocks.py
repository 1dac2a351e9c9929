"""Clocks that are hours apart: estimated by lines that both sides have, given by the user, or said to be unknown."""

import gzip
from datetime import datetime, timedelta, timezone

import pytest
from support.job_logs import NOW_S, ecc_case, iteration, remarks, times_out, write
from support.whole_jobs import LAYOUTS, NODES, job, kernel_log

from nodegate.cli import main
from nodegate.errors import UsageError
from nodegate.knowledge.words import Cause
from nodegate.triage.triage import triage

LOST = ("RuntimeError: CUDA error: unknown error", "Compile with `TORCH_USE_CUDA_DSA` to enable assertions.")
MEMORY = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 2 has a total capacity"


GONE = "GPU has fallen off the bus."
ONE_FILE = ["kubectl logs -l --prefix", "by time", "stern", "compose"]


def judged(folder, *zones):
    return triage([str(folder)], zones=zones, now_s=NOW_S)


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        (timedelta(hours=8), "is 8 h ahead of the others'"),
        (timedelta(hours=17), "is 17 h ahead of the others'"),
        (-timedelta(hours=3, minutes=12), "is 3 h 12 min behind the others'"),
    ],
)
def test_a_worker_whose_clock_is_hours_off_is_put_beside_the_others(tmp_path, ahead, said):
    LAYOUTS["a file a worker"](tmp_path, job(broken=2, last_words=(MEMORY,), ahead=ahead))
    found = judged(tmp_path)
    assert (found.cause, found.root.kind.id, found.where.rank) == (Cause.PROGRAM, "cuda_oom", 2)
    (of_clocks,) = (note for note in remarks(found) if "clock of" in note)
    assert said in of_clocks
    assert "lines that both have" in of_clocks


@pytest.mark.parametrize(
    ("layout", "hours"), [*(("a file a worker", hours) for hours in (17, -20, 3.2)), *((each, 17) for each in ONE_FILE)]
)
def test_the_kernel_log_of_a_host_whose_clock_is_wrong_is_moved_with_its_worker(tmp_path, layout, hours):
    ahead = timedelta(hours=hours)
    LAYOUTS[layout](tmp_path, job(last_words=LOST, ahead=ahead))
    kernel_log(tmp_path, code=79, text=f"pid='<unknown>', name=<unknown>, {GONE}", ahead=ahead)
    found = judged(tmp_path)
    assert (found.cause, found.where.node, found.where.rank) == (Cause.HARDWARE, NODES[1], 6)


@pytest.mark.parametrize("zone", ["+08:00", "+0800"])
def test_clocks_in_another_zone_are_joined_by_the_zone_that_the_kernel_log_names(tmp_path, zone):
    """The job prints 15:36 local time; the kernel log says 15:36:05+08:00, which is 07:36 UTC."""
    found = judged(ecc_case(tmp_path, kernel_zone=zone))
    assert (found.root.kind.id, found.zone_s, round(found.began_s)) == ("xid_48", 8 * 3600, 1_786_347_366)


def test_two_attempts_of_one_worker_are_not_two_clocks(tmp_path):
    """The second attempt prints the same iteration again, and its watchdog the same number of a collective."""
    for attempt, hour in ((1, 7), (2, 12)):
        hang = (times_out(rank, f"{hour:02}:40:00") for rank in range(4))
        write(tmp_path, f"attempt{attempt}.log", iteration(f"{hour:02}:00:10", 40), *hang)
    assert not any("clock" in note for note in remarks(judged(tmp_path)))


def test_a_worker_that_shares_no_line_and_no_hour_makes_the_order_doubtful(tmp_path):
    write(tmp_path, "rank_0.log", iteration("07:00:10", 40), "[rank0]: torch.OutOfMemoryError: CUDA out of memory.")
    late = ("[2026-08-10 20:00:00] start", "[rank1]: AssertionError: shapes", iteration("21:00:00", 7))
    write(tmp_path, "rank_1.log", *late)
    found = judged(tmp_path)
    assert any("shares no line with them" in note for note in remarks(found))
    assert not found.sure


def test_the_user_names_the_zone_of_one_log(tmp_path):
    LAYOUTS["a file a worker"](tmp_path, job(last_words=LOST))
    kernel_log(tmp_path, code=79, text=GONE, zone_h=8)
    found = judged(tmp_path, "dmesg-*=+08:00")
    assert (found.cause, found.sure, found.where.node) == (Cause.HARDWARE, True, NODES[1])
    assert not any("UTC+08:00" in reason.en for reason in found.why)


@pytest.mark.parametrize("name", ["moe-worker-1.log", "*worker-1*", "moe-worker-1"])
def test_a_given_zone_of_a_log_stands_beside_that_of_all(tmp_path, name):
    LAYOUTS["a file a worker"](tmp_path, job(broken=2, last_words=(MEMORY,), ahead=timedelta(hours=8)))
    found = judged(tmp_path, "+00:00", f"{name}=+08:00")
    assert (found.root.kind.id, found.where.rank) == ("cuda_oom", 2)
    assert not any("clock of" in note for note in remarks(found))


@pytest.mark.parametrize(("zone", "said"), [("nobody.log=+08:00", "no log"), ("a.log=8", "not a valid"), ("8", "not")])
def test_a_zone_that_cannot_be_applied_is_refused(tmp_path, zone, said):
    path = write(tmp_path, "a.log", "x")
    with pytest.raises(UsageError, match=said):
        triage([str(path)], zones=(zone,), now_s=NOW_S)


def test_a_zone_for_times_that_name_their_own_is_not_applied_in_silence(tmp_path, capsys):
    path = write(
        tmp_path, "a.log", "2026-08-10T07:00:00Z RuntimeError: DataLoader worker (pid(s) 4321) exited unexpectedly"
    )
    assert main(["triage", str(path), "--tz", "a.log=+08:00"]) == 0
    assert "so --tz does not apply to it" in capsys.readouterr().out


@pytest.mark.parametrize("layout", ONE_FILE)
@pytest.mark.parametrize("hours", [8, -5.5, 3.2], ids=str)
def test_workers_of_one_file_whose_clocks_differ_are_put_beside_each_other(tmp_path, layout, hours):
    """The worker that ran out of memory is the one whose clock is wrong: by it, the others failed hours later."""
    LAYOUTS[layout](tmp_path, job(broken=6, last_words=(MEMORY.replace("2", "6", 1),), ahead=timedelta(hours=hours)))
    found = judged(tmp_path)
    assert (found.cause, found.root.kind.id, found.where.rank) == (Cause.PROGRAM, "cuda_oom", 6)
    assert (found.read.job_logs, found.read.lines) == (1, sum(len(own) for own in job(last_words=(MEMORY,)).values()))
    assert any("the clock of job.log [moe-worker-" in note for note in remarks(found))
    text = (tmp_path / "job.log").read_text().splitlines()[found.root.line - 1]
    assert "CUDA out of memory" in text


@pytest.mark.parametrize("layout", ["a file a worker", *ONE_FILE])
def test_workers_whose_clocks_agree_are_left_as_they_are(tmp_path, layout):
    LAYOUTS[layout](tmp_path, job(broken=2, last_words=(MEMORY,), ahead=timedelta(minutes=9)))
    found = judged(tmp_path)
    assert found.root.log == str(tmp_path / ("job.log" if layout in ONE_FILE else "moe-worker-0.log"))
    assert not any("clock" in note for note in remarks(found))


@pytest.mark.parametrize("packed", [False, True])
def test_a_common_file_that_is_too_large_to_be_taken_apart_makes_the_order_doubtful(tmp_path, packed, monkeypatch):
    monkeypatch.setattr("nodegate.triage.apart.MOST_BYTES", 2000)
    path = write(tmp_path, "job.log", *prefixed(2, timedelta(hours=8)))
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = judged(tmp_path)
    assert not found.sure
    assert any("give one log for each worker" in note for note in remarks(found))


def prefixed(workers, ahead, bars=False):
    """A file as `kubectl logs --prefix` writes it; the second worker's clock is `ahead`, and it loses its GPU."""
    for second in range(40):
        for worker in range(workers):
            day = datetime(2026, 8, 10, 7, tzinfo=timezone.utc) + timedelta(seconds=20 * second) + ahead * (worker == 1)
            bar = f" {second}%|#\r {second + 1}%|##\r" if bars else ""
            yield f"[pod/job-worker-{worker}/pytorch] {bar}{iteration(f'{day:%H:%M:%S}.0', second, f'{day:%Y-%m-%d}')}"
    day = datetime(2026, 8, 10, 7, 13, 30, tzinfo=timezone.utc) + ahead
    yield f"[pod/job-worker-1/pytorch] {' 40%|####' if bars else ''}\r{day:%Y-%m-%d %H:%M:%S} {ECC}"


ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def test_what_follows_a_progress_bar_on_its_line_is_of_the_same_worker_and_line(tmp_path):
    path = write(tmp_path, "job.log", *prefixed(2, timedelta(hours=8), bars=True))
    found = triage([str(path)], now_s=NOW_S)
    assert (found.where.pod, found.root.log, found.root.line) == ("job-worker-1", f"{path} [job-worker-1]", 81)


def test_a_file_of_too_many_workers_to_be_taken_apart_makes_the_order_doubtful(tmp_path, monkeypatch):
    monkeypatch.setattr("nodegate.triage.apart._MOST_WRITERS", 2)
    path = write(tmp_path, "job.log", *prefixed(3, timedelta(hours=8)))
    found = triage([str(path)], now_s=NOW_S)
    assert (found.root.kind.id, found.sure) == ("cuda_ecc", False)
    assert any("give one log for each worker" in note for note in remarks(found))
