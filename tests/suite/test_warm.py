"""A forked run is what a run in a new interpreter is: the same code gives the same, however it was started."""

import os
import signal
import sys
from pathlib import Path

import pytest
from support import warm

from lab.processes import wait_until

TOLD = """
import locale, os, signal, sys
def handler(number): return str(signal.getsignal(number)).partition(" at ")[0]
print(sys.argv, os.getcwd(), sys.path[:2], __name__, sys.stdin.read(), sys.stdin.isatty(), sys.stdout.line_buffering)
print(sorted(set(os.environ) - {"LC_CTYPE"}), ascii(os.environ.get("OTHER")), locale.getlocale(), sys.stdout.encoding)
print(oct(os.umask(0)), [handler(number) for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)])
print(sys.flags, sys.dont_write_bytecode, sys.warnoptions, file=sys.stderr)
"""
ENDS = {
    "a code": "raise SystemExit(3)",
    "a message": "raise SystemExit('no')",
    "an exception": "1 / 0",
    "at exit": "import atexit; atexit.register(print, 'last')",
    "by a signal": "import os; os.kill(os.getpid(), 15)",
    "by Ctrl-C": "import os; os.kill(os.getpid(), 2)",
    "aborted": "import os; os.abort()",
    "a thread": "import threading, time; threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
}


def both(tmp_path, *words, **options):
    options = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 60, **options}
    done = [warm.run([sys.executable, *words], cold=cold, **options) for cold in (True, False)]
    return [(each.returncode, each.stdout, each.stderr) for each in done]


def test_it_is_told_the_same(tmp_path):
    before = os.umask(0o027)
    variables = {**os.environ, "OTHER": "é \udc80", "PYTHONPATH": f"{tmp_path}/a:{tmp_path}/b"}
    try:
        cold, forked = both(tmp_path, "-c", TOLD, "x", "-y", input="typed", env=variables)
    finally:
        os.umask(before)
    assert cold == forked
    assert cold[0] == 0


@pytest.mark.parametrize("ends", ENDS)
def test_it_ends_the_same(tmp_path, ends):
    cold, forked = both(tmp_path, "-c", ENDS[ends])
    assert cold == forked


def test_what_only_a_new_interpreter_reads_makes_a_new_one(tmp_path):
    code = "import sys; print(hash('x'), 'pandas' in sys.modules)"
    cold, started = both(tmp_path, "-c", code, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert cold == started
    assert started[1].endswith("False\n")


def test_it_is_signalled_by_its_own_number_and_leads_a_session(tmp_path):
    code = "import os, time; print(os.getpid(), os.getsid(0), flush=True); time.sleep(60)"
    with warm.Popen([sys.executable, "-c", code], stdout=warm.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == f"{running.pid} {running.pid}\n"
        assert running.poll() is None
        running.send_signal(signal.SIGKILL)
        assert running.wait(10) == -signal.SIGKILL
    assert wait_until(lambda: not Path(f"/proc/{running.pid}").exists())
