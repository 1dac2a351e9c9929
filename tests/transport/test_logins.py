"""What a login runs before nodegate's program."""

import contextlib
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.sshd import Fleet, changed

from nodegate.errors import Unreachable
from nodegate.transport import Options, connect, openssh

TMUX = "echo 'open terminal failed: not a terminal' >&2; exit 1"  # what `exec tmux` says and does without a terminal


def refusal(node):
    with contextlib.closing(connect(node, Options())) as session, pytest.raises(Unreachable) as caught:
        session.hold_lock("/nonexistent/lock")
    return caught.value


def test_a_login_that_ends_is_not_a_missing_python(tmp_path):
    with Fleet(tmp_path) as fleet:
        node = fleet.nodes[0]
        (fleet.home / ".bashrc").write_text(f"{TMUX}\n")
        said = refusal(node)
        assert (said.kind, "not a terminal" in said.reason) == ("configuration", True)
        assert ".bashrc" in said.next_step
        assert "install" not in said.next_step
        (fleet.home / ".bashrc").write_text("exec /nonexistent/fish\n")
        assert refusal(node).kind == "configuration"
        (fleet.home / ".bashrc").write_text("")
        assert refusal(changed(node, python="/nonexistent/python3")).kind == "no-python"


KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from nodegate.transport import Options, connect
session = connect(pickle.loads(Path(sys.argv[1]).read_bytes()), Options())
print(session._master.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_left_is_deleted_by_the_next(tmp_path):
    with Fleet(tmp_path / "fleet", count=1) as fleet:
        node = changed(fleet.nodes[0], transport="ssh-binary")
        (tmp_path / "node").write_bytes(pickle.dumps(node))
        command = [sys.executable, "-c", KILLED, str(tmp_path / "node")]
        killed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        left = Path(killed.stdout.strip())
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert left.is_dir()
        openssh._delete_left.cache_clear()  # once in a run
        with contextlib.closing(connect(node, Options())) as session:
            assert not left.exists()
            assert session._master.folder.is_dir(), "that of a run that is alive stays"
