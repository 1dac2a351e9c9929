"""The lock of a node: who may hold it.

Each test starts the program that runs on a node, as root or as a user without rights.
"""

import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from nodegate.transport.guarded import node_source

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
USER, OTHER = 65534, 65533


class Locks:
    """A folder where every user may write, as /run/lock, and those who hold locks in it."""

    def __init__(self, folder, stack):
        self.folder, self._stack = folder, stack
        self.path = folder / "nodegate.lock"

    def asks(self, user, who):
        source = node_source("lock").replace("/tmp/nodegate-", f"{self.folder}/spare-")
        argv = ["/usr/bin/python3", "-I", "-S", "-c", source + "\nmain(*sys.argv[1:])", self.path, who]
        return self.starts(user, *argv)

    def starts(self, user, *argv):
        program = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            user=user,
            group=user,
            extra_groups=[],
            cwd="/",
        )
        self._stack.callback(program.wait)
        self._stack.callback(program.kill)
        assert program.stdout is not None
        self._stack.callback(program.stdout.close)
        return program.stdout.readline().rstrip("\n")

    def flock(self, user, path):
        code = f"import fcntl,time; f=open({str(path)!r}); fcntl.flock(f,fcntl.LOCK_EX); print('locked',flush=True)"
        return self.starts(user, "/usr/bin/python3", "-c", f"{code}; time.sleep(300)")


@pytest.fixture
def locks():
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        folder.chmod(0o1777)
        yield Locks(folder, stack)


def test_a_user_cannot_hold_the_lock_of_root(locks):
    assert locks.asks(0, "a run") == f"held {locks.path}"
    assert locks.flock(USER, locks.path) == ""
    assert locks.asks(0, "another run") == "busy a run"


def test_a_planted_lock_file_is_taken_away(locks):
    locks.path.write_text("")
    os.chown(locks.path, USER, USER)
    assert locks.flock(USER, locks.path) == "locked"
    assert locks.asks(0, "a run") == f"held {locks.path}"
    assert locks.path.stat().st_uid == 0
    assert locks.path.stat().st_mode & 0o777 == 0o600


def test_other_logins_respect_the_locks_of_all(locks):
    assert locks.asks(USER, "first").startswith(f"held {locks.path}.{USER}")
    assert locks.asks(OTHER, "second") == f"busy first, as user {USER}"
    assert locks.asks(USER, "third") == "busy first"
    assert locks.asks(0, "root's run") == f"held {locks.path}"


def test_a_run_of_root_is_named_to_other_logins(locks):
    assert locks.asks(0, "root's run") == f"held {locks.path}"
    assert locks.asks(USER, "mine") == "busy root's run, as user 0"


def test_a_program_that_is_not_ours_is_named(locks):
    spare = locks.folder / "spare-7.lock"
    spare.write_text("nodegate run x")
    spare.chmod(0o644)
    assert locks.flock(OTHER, spare) == "locked"
    said = locks.asks(USER, "mine")
    assert f"of user {OTHER}: /usr/bin/python3 -c" in said
    assert "nodegate run x" not in said
