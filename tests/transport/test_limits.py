"""Programs on a node run within limits, and nothing of them outlives us. The same by each transport."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support.sshd import NODE_PYTHON, Fleet, changed

from lab.processes import running, tell, wait_until
from nodegate.errors import Unreachable
from nodegate.transport import NodeLock, Options, connect
from nodegate.transport.call import Frames, Request, guard_command


def stubborn_tree(seconds):
    """A program that ignores SIGTERM, with children that do so too, left its session, or were orphaned."""
    script = f"""
    trap '' TERM HUP INT
    sleep {seconds} &
    setsid sleep {seconds} &
    (setsid sh -c "trap '' TERM; sleep {seconds} & sleep {seconds}" &)
    sleep {seconds}
    """
    return ["sh", "-c", script]


def test_the_time_limit_ends_the_whole_tree(session, seconds):
    output = session.run(stubborn_tree(seconds), timeout_s=1)
    assert output.timed_out
    assert output.exit_code is None
    assert output.stuck == ()
    assert 1 < output.duration_s < 40
    assert running(seconds) == []


@pytest.mark.long
def test_what_was_written_before_the_time_limit_is_kept(session):
    script = "echo first; trap 'echo last; exit' TERM; while :; do sleep 0.1; done"
    output = session.run(["sh", "-c", script], timeout_s=6)
    assert output.timed_out
    assert output.stdout == b"first\nlast\n"


def test_a_program_that_ends_leaves_nothing_behind(session, seconds):
    output = session.run(["sh", "-c", f"setsid sleep {seconds} & echo started"], timeout_s=20)
    assert (output.stdout, output.exit_code) == (b"started\n", 0)
    assert output.duration_s < 60
    assert running(seconds) == []


CONTROLLER = """
import json, sys
from nodegate.node import Connection, Node
from nodegate.transport import Options, connect
session = connect(Node("node", Connection(**json.loads(sys.argv[1]))), Options())
print(session.hold_lock(sys.argv[2]), flush=True)
session.run(json.loads(sys.argv[3]), timeout_s=120)
"""


@pytest.mark.parametrize("transport", ["ssh", "ssh-binary", "local"])
def test_a_killed_controller_leaves_no_process(node, transport, seconds, tmp_path):
    there = vars(changed(node, transport=transport).connection)
    lock = str(tmp_path / "lock")
    command = [sys.executable, "-c", CONTROLLER, json.dumps(there), lock, json.dumps(stubborn_tree(seconds))]
    environment = os.environ | {"TMPDIR": str(tmp_path)}  # what it can no longer tidy up stays in there
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as controller:
        assert controller.stdout is not None
        assert b"NodeLock" in controller.stdout.readline()
        assert wait_until(lambda: len(running(seconds)) >= 5)
        assert running(lock)
        os.kill(controller.pid, signal.SIGKILL)
    assert wait_until(lambda: not running(seconds)), "the program was left burning"
    assert wait_until(lambda: not running(lock)), "the lock was left held"


def test_output_over_the_limit_is_cut_and_the_program_goes_on(session):
    script = "head -c 5000000 /dev/zero; echo done >&2; exit 4"
    output = session.run(["sh", "-c", script], timeout_s=30, max_output_bytes=100_000)
    assert output.truncated
    assert output.stdout == bytes(100_000)
    assert (output.stderr, output.exit_code) == (b"done\n", 4)


def test_large_input_and_output_pass_whole(session):
    data = os.urandom(3_000_000)
    assert session.run(["cat"], timeout_s=60, stdin=data).stdout == data


def test_exit_codes_are_those_of_a_shell(session):
    scripts = [["sh", "-c", script] for script in ("exit 0", "exit 255", "kill -KILL $$")]
    codes = [session.run(argv, timeout_s=20).exit_code for argv in (*scripts, ["no-such-program"], ["/etc/passwd"])]
    assert codes == [0, 255, 137, 127, 126]


def test_arguments_reach_the_program_as_they_are(session):
    words = ["a b", "'", '"', "$(reboot)", "`reboot`", ";", "\\", "!", "*", "", "ü", "\n", "-n"]
    output = session.run(["printf", "%s\\0", *words], timeout_s=20)
    assert output.stdout.decode().split("\0")[:-1] == words


def test_programs_speak_english(session):
    assert session.run(["sh", "-c", "echo $LC_ALL"], timeout_s=20).stdout == b"C\n"


def test_a_program_that_does_not_read_its_input(session):
    assert session.run(["true"], timeout_s=20, stdin=bytes(2_000_000)).exit_code == 0


def test_a_quick_program_answers_quickly(session):
    session.run(["true"], timeout_s=20)
    took_s = [session.run(["true"], timeout_s=20).duration_s for _ in range(5)]
    assert min(took_s) < 1, "a round trip takes 0.04 s here: something waits for a clock"


def test_a_noisy_login_does_not_touch_the_output(tmp_path):
    with Fleet(tmp_path, Banner=str(tmp_path / "banner")) as fleet:
        (tmp_path / "banner").write_text("Welcome\n" * 50)
        (fleet.home / ".bashrc").write_text("echo Welcome to the cluster; head -c 200000 /dev/zero; echo oops >&2\n")
        for transport in ("ssh", "ssh-binary"):
            session = connect(changed(fleet.nodes[0], transport=transport), Options())
            try:
                output = session.run(["sh", "-c", "echo out; echo err >&2"], timeout_s=20)
            finally:
                session.close()
            assert (output.stdout, output.stderr) == (b"out\n", b"err\n")


def test_a_node_that_stood_still_is_not_asked_again_in_this_session(tmp_path, monkeypatch):
    monkeypatch.setattr("nodegate.transport.call.END_S", 1.0)
    with Fleet(tmp_path) as fleet:
        session = connect(fleet.nodes[0], Options())
        (fleet.home / ".bashrc").write_text("sleep 10\n")
        with pytest.raises(Unreachable) as first:
            session.run(["true"], timeout_s=1)
        (fleet.home / ".bashrc").write_text("")  # by now it would answer
        for again in (session.run, session.start):
            with pytest.raises(Unreachable) as caught:
                again(["true"], timeout_s=20)
            assert (caught.value.kind, caught.value.reason) == ("timeout", first.value.reason)
        session.close()


def test_a_node_that_stands_still_is_not_waited_for_at_the_end_and_its_lock_ends_with_the_connection(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("nodegate.transport.guarded.CLOSE_S", 120.0)
    lock = str(tmp_path / "lock")
    with Fleet(tmp_path) as fleet:
        session = connect(fleet.nodes[0], Options())
        assert isinstance(session.hold_lock(lock), NodeLock)
        stopped = fleet.serving()
        tell(stopped, signal.SIGSTOP)
        with monkeypatch.context() as impatient:
            impatient.setattr("nodegate.transport.ssh.OPEN_S", 1.0)
            with pytest.raises(Unreachable, match="its sshd did not answer within 1 s"):
                session.run(["true"], timeout_s=20)
        begun_s = time.monotonic()
        session.close()
        assert time.monotonic() - begun_s < 60
        tell(stopped, signal.SIGCONT)
        after = connect(fleet.nodes[0], Options())
        assert wait_until(lambda: isinstance(after.hold_lock(lock), NodeLock))
        after.close()


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "fish", "tcsh"])
@pytest.mark.parametrize("as_root", [False, True])
def test_every_login_shell_starts_the_guard(shell, as_root):
    if shutil.which(shell) is None or (as_root and os.geteuid() != 0):
        pytest.skip(f"no {shell} here, or not root")
    request = Request(["printf", "%s", "a b'!$x"], timeout_s=20)
    command = [shell, "-c", guard_command(NODE_PYTHON, as_root=as_root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as login:
        assert login.stdin is not None
        assert login.stdout is not None
        login.stdin.write(request.encode())
        login.stdin.flush()
        frames = list(Frames(request.marker).feed(login.stdout.read()))
    assert frames[0] == (b"O", b"a b'!$x")
    assert json.loads(frames[-1][1])["exit"] == 0


def frames_of(*pieces):
    frames = Frames("nodegate-mark")
    return [frame for piece in pieces for frame in frames.feed(piece)]


def test_frames_come_whole_however_the_stream_is_cut():
    stream = b"motd nodegate-\nnodegate-mark\n" + b"O\0\0\0\2hi" + b"E\0\0\0\0" + b"X\0\0\0\3end"
    expected = [(b"O", b"hi"), (b"E", b""), (b"X", b"end")]
    assert frames_of(stream) == expected
    assert frames_of(*(stream[i : i + 1] for i in range(len(stream)))) == expected


@pytest.mark.parametrize("hostile", [b"Z\0\0\0\1x", b"O\x7f\xff\xff\xffx", b"HTTP/1.1 200 OK"])
def test_what_is_no_frame_is_refused(hostile):
    with pytest.raises(ValueError, match="not in the guard's form"):
        frames_of(b"nodegate-mark\n" + hostile)
