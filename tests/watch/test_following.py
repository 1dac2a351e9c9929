"""The real command on real files: growing, rotated, truncated, finished; pipes; notices; exit codes."""

import contextlib
import gzip
import io
import json
import lzma
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from support import warm
from support.schemas import read_output
from support.training_logs import megatron, slowed

from lab.processes import wait_until

COMMAND = [sys.executable, "-m", "nodegate.cli", "watch"]
HEALTHY = megatron([2.0] * 100)
SLOW = megatron(slowed([2.0] * 200, 100, 1.5))
FINISHED = "[after training is done] datetime: 2026-03-02 09:00:00\n"


def run(*arguments, stdin=None):
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    return warm.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, **given)


class Following:
    """A watch that runs; its lines so far."""

    def __init__(self, folder, *arguments):
        self.out = folder / "out"
        with self.out.open("wb") as out:
            self.running = warm.Popen([*COMMAND, *map(str, arguments)], stdout=out, stderr=subprocess.STDOUT)

    def wait_for(self, words):
        end = time.monotonic() + 30
        while words not in (text := self.out.read_text()):
            assert time.monotonic() < end, f"no {words!r} in {text!r}"
            time.sleep(0.05)
        return text

    def read_all_of(self, path):
        """Wait until it holds this file open and has read what stands in it."""
        assert wait_until(lambda: self._place_in(path) == path.stat().st_size), self.out.read_text()

    def _place_in(self, path):
        for file in Path(f"/proc/{self.running.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # a file that was open for a moment
                if file.samefile(path):
                    return int((file.parent.parent / "fdinfo" / file.name).read_text().split()[1])
        return None

    def stop(self):
        if self.running.poll() is None:
            self.running.send_signal(signal.SIGINT)
        return self.running.wait(30)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(HEALTHY)
    return path


@pytest.fixture
def follow(tmp_path):
    with contextlib.ExitStack() as ends:

        def start(*arguments):
            watch = Following(tmp_path, *arguments)
            ends.callback(watch.stop)
            return watch

        yield start


def test_a_finished_healthy_log(log):
    done = run(log, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    note, last = done.stdout.splitlines()
    assert note.startswith("note: compared with its own pace only: a job that is slow from its first iteration looks")
    assert last == (
        f"{log}: healthy: no slow time and no silence, compared with its own pace;"
        " iterations 1-100 (megatron), usually 2000.0 ms"
    )


def test_a_finished_slow_log(log):
    log.write_text(SLOW)
    done = run(log, "--once")
    assert done.returncode == 1
    first, _, last = done.stdout.splitlines()
    assert first.startswith(
        "Smoothed mean (iters 104-135: 3000.00 ms, baseline: 2000.00 ms), threshold ratio:0.50 - slow"
    )
    assert last == f"{log}: slow: 1 slow time; iterations 1-200 (megatron), usually 2000.0 ms"


def test_the_answer_as_json(log):
    log.write_text(SLOW)
    said = read_output(run(log, "--once", "--json").stdout)
    assert (said["schema"], said["state"], said["format"]) == ("nodegate.watch/1", "slow", "megatron")
    assert said["usual_ms"] == 2000
    (slow,) = said["slow"]
    assert (slow["since"], slow["smoothed_ms"], slow["baseline_ms"], slow["excess"]) == (101, 3000, 2000, 0.5)


def test_a_log_that_ran_on_standard_input():
    assert run("-", "--once", stdin=SLOW).returncode == 1
    assert run("-", stdin=HEALTHY).returncode == 0


def test_an_old_file_of_a_running_job_is_silence(log):
    os.utime(log, (time.time() - 3600, time.time() - 3600))
    assert run(log, "--once").returncode == 0
    done = run(log, "--once", "--running")
    assert done.returncode == 1
    assert re.match(r"No new line for 36\d\d s \(limit 300 s\) - the log is silent after iteration 100 ", done.stdout)
    assert run(log, "--once", "--running", "--silence", "2h").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.log", "--once"], "nowhere.log: cannot be read: No such file or directory - give the path of the"),
        ([".", "--once"], ".: is neither a file nor a pipe"),
        (["/dev/zero"], "/dev/zero: is neither a file nor a pipe"),
        (["LOG", "--pattern", "("], "--pattern is not a regular expression"),
        (["LOG", "--pattern", r"(?P<step>\d+)"], "--pattern has an unknown group: step"),
        (["LOG", "--pattern", r"(?P<iteration>\d+)"], "--pattern does not name the iteration and its time"),
        (["LOG", "--notice", "'"], "--notice cannot be split into words"),
        (["LOG", "--notice", " "], "--notice does not name a program"),
        (["LOG", "--once", "--html", "/nowhere/x.html"], "/nowhere/x.html: cannot be written: No such file or d"),
    ],
)
def test_what_cannot_be_used_is_one_line(log, arguments, words):
    done = run(*(str(log) if argument == "LOG" else argument for argument in arguments))
    assert done.returncode == 2
    assert done.stderr.startswith(f"nodegate: {words}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--ratio", "1"], ["--ratio", "x"], ["--silence", "0"], ["--silence", "5 days"]])
def test_an_option_out_of_range_is_refused(log, arguments):
    done = run(log, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_pattern_that_takes_for_ever_is_refused(log):
    log.write_text(("a" * 3000 + "!\n") * 50)
    started = time.monotonic()
    done = run(log, "--once", "--pattern", r"(?P<iteration>\d*)(?:(?:a|aa)+)+(?P<ms>\d+)$")
    assert done.returncode == 2
    assert "--pattern takes more than 0.1 s for a line of 2000 characters" in done.stderr
    assert time.monotonic() - started < 60


def test_a_growing_file(log, follow):
    watch = follow(log)
    watch.read_all_of(log)
    with log.open("a") as file:
        file.write(megatron([3.0] * 100, first=101))
    watch.wait_for("slow since iteration 101")
    with log.open("a") as file:
        file.write(megatron([2.0] * 80, first=201))
    watch.wait_for("until iteration")
    watch.read_all_of(log)
    assert watch.stop() == 1
    assert watch.out.read_text().splitlines()[-1].startswith(f"{log}: slow: 1 slow time; iterations 1-280")


def test_a_pipe_without_new_lines_takes_no_processor(tmp_path, follow):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    watch = follow(pipe, "--once")
    with pipe.open("wb", buffering=0) as writer:
        writer.write(HEALTHY.encode())
        assert wait_until(lambda: all(_sleeps(watch.running.pid) for _ in range(20)))


def _sleeps(process):
    """Whether it waits, a moment later (proc_pid_stat(5): the state follows the name)."""
    time.sleep(0.02)
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


def test_ctrl_c_amid_a_long_log_ends_it_with_what_was_read_whole(log, follow):
    """The last line that it speaks of is the last one of what it had read, not somewhere in the middle."""
    log.write_text(megatron([2.0] * 60_000))
    watch = follow(log)
    assert wait_until(lambda: (watch._place_in(log) or 0) > 0)
    place = watch._place_in(log)
    assert watch.stop() == 0
    seen = re.search(r"iterations 1-(\d+) ", watch.out.read_text())
    assert seen
    whole = log.read_bytes()[:place].count(b"\n")
    assert int(seen[1]) >= whole, f"{place} bytes were read"


def test_a_rotated_file(log, tmp_path, follow):
    watch = follow(log)
    watch.read_all_of(log)
    kept = log.rename(tmp_path / "train.log.1")
    with kept.open("a") as file:  # the writer has not reopened its file yet
        file.write(megatron([3.0] * 5, first=101))
    watch.read_all_of(kept)
    time.sleep(1.5)  # for a while there is no file
    log.write_text(megatron([3.0] * 100, first=106))
    text = watch.wait_for("slow since iteration 101")
    assert "restarted" not in text
    watch.stop()


def test_a_truncated_file(log, follow):
    watch = follow(log)
    watch.read_all_of(log)
    with log.open("r+") as file:
        file.truncate()
        file.write(megatron([3.0] * 90, first=101))
    watch.wait_for("slow since iteration 101")
    watch.stop()


@pytest.mark.long
def test_a_file_that_is_not_written_is_silent_and_then_not(log, follow):
    watch = follow(log, "--silence", "7", "--json")
    first = json.loads(watch.wait_for('"silent"').splitlines()[0])
    assert (first["event"], first["iteration"], first["over"]) == ("silent", 100, False)
    with log.open("a") as file:
        file.write(megatron([2.0], first=101))
    second = json.loads(watch.wait_for('"over": true').splitlines()[1])
    assert second["event"] == "silent"
    assert watch.stop() == 1


def test_a_watch_that_begins_on_an_old_file_says_at_once_that_it_is_silent(log, follow):
    os.utime(log, (time.time() - 900, time.time() - 900))
    watch = follow(log, "--stop")
    watch.wait_for("the log is silent after iteration 100 (2026-03-02 08:03:20)")
    assert watch.running.wait(20) == 1


def test_a_watch_ends_some_seconds_after_the_training(log, follow):
    log.write_text(HEALTHY + FINISHED)
    os.utime(log, (time.time() - 900, time.time() - 900))
    watch = follow(log)
    assert watch.running.wait(20) == 0
    assert watch.out.read_text().endswith("usually 2000.0 ms, finished\n")


def test_the_notice_gets_the_line_and_no_shell(log, tmp_path):
    """Only what lasts when the watch begins, and what comes then; words are not read by a shell."""
    script = tmp_path / "notice.py"
    script.write_text("import sys; open(sys.argv[1], 'a').write(f'{sys.argv[2:]} {sys.stdin.read()}')")
    got = tmp_path / "got"
    log.write_text(SLOW)
    done = run(log, "--once", "--notice", f"{sys.executable} {script} {got} '$(id);' *")
    assert done.returncode == 1
    assert got.read_text().startswith("['$(id);', '*'] Smoothed mean (iters 104-135: ")
    assert len(got.read_text().splitlines()) == 1


def test_a_notice_is_sent_while_following_once_for_what_lasts(log, tmp_path, follow):
    got = tmp_path / "got"
    script = tmp_path / "notice.py"
    script.write_text(f"import sys; open({str(got)!r}, 'a').write(sys.stdin.read())")
    past = megatron(slowed([2.0] * 200, 100, 1.5)) + megatron([2.0] * 100, first=201)
    log.write_text(past + megatron([3.0] * 100, first=301))
    watch = follow(log, "--notice", f"{sys.executable} {script}")
    watch.wait_for("slow since iteration 301")
    assert wait_until(lambda: got.exists() and got.read_text())
    time.sleep(1)  # in which another notice would come
    watch.stop()
    (line,) = got.read_text().splitlines()
    assert "slow since iteration 301" in line


@pytest.mark.parametrize(
    ("command", "words"), [("/nowhere/page", "was not sent: /nowhere"), ("false", "ended with exit code 1")]
)
def test_a_notice_that_fails_changes_nothing(log, command, words):
    log.write_text(SLOW)
    done = run(log, "--once", "--notice", command)
    assert done.returncode == 1
    assert words in done.stderr


def test_a_notice_that_hangs_is_ended():
    from nodegate.notices import program
    from nodegate.notices.message import Notice
    from nodegate.notices.target import NotSent, parse

    started = time.monotonic()
    hangs = parse(f"{sys.executable} -c 'import time; time.sleep(300)'")
    with pytest.raises(NotSent, match="took more than 1 s"):
        program.send(hangs, Notice("", "watch", "", "", "finding", text="line"), limit_s=1)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, lambda text: text.decode().encode("utf-16")])
def test_a_packed_log_is_read_as_it_is(tmp_path, pack):
    log = tmp_path / "train.log.packed"
    log.write_bytes(pack(SLOW.encode()))
    done = run(log, "--once")
    assert (done.returncode, "slow since iteration 101" in done.stdout) == (1, True)


def several_logs():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("a.log", "b.log"):
            archive.writestr(name, HEALTHY)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "said"),
    [(gzip.compress(HEALTHY.encode())[:-20], "not read to its end"), (several_logs(), "holds several logs")],
    ids=["cut", "an archive of several"],
)
def test_a_packed_log_that_is_cut_or_several_is_not_called_healthy(log, data, said):
    log.write_bytes(data)
    done = run(log, "--once")
    assert (done.returncode, said in done.stdout + done.stderr) == (2, True)
