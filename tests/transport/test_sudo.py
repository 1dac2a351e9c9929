"""As root by `sudo -n`: what works, and what is said where it does not. With real users and the real sudo."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from support.sshd import Fleet, changed

from lab.processes import running, tell, wait_until
from nodegate.errors import Unreachable
from nodegate.transport import Options, connect

SUDOERS = Path("/etc/sudoers.d")
ABLE = os.geteuid() == 0 and all(shutil.which(name) for name in ("sudo", "useradd")) and SUDOERS.is_dir()
pytestmark = pytest.mark.skipif(not ABLE, reason="needs root, sudo and useradd: makes users of its own")


@pytest.fixture(scope="module")
def user():
    """A new login without any right."""
    name = f"ngtest{os.getpid()}"
    subprocess.run(["useradd", "-M", "-s", "/bin/sh", "-p", "*", name], check=True)
    try:
        yield name
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)


@pytest.fixture(scope="module")
def fleet(user):
    folder = Path(tempfile.mkdtemp(prefix="ng-sudo-"))  # pytest's own folders are closed to other users
    folder.chmod(0o755)
    try:
        with Fleet(folder, user=user) as fleet:
            yield fleet
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def allowed(user):
    file = SUDOERS / user
    file.write_text(f"{user} ALL=(ALL) NOPASSWD: ALL\n")
    file.chmod(0o440)
    try:
        yield
    finally:
        file.unlink()


@pytest.fixture(params=["ssh", "ssh-binary"])
def transport(request):
    return str(request.param)


@contextlib.contextmanager
def opened(fleet, user="", **connection):
    node = changed(fleet.nodes[0], **connection)
    with allowed(user) if user else contextlib.nullcontext(), contextlib.closing(connect(node, Options())) as session:
        yield session


def test_sudo_without_a_password_makes_root(fleet, user, transport):
    with opened(fleet, user, transport=transport) as session:
        output = session.run(["sh", "-c", "id -u; echo $LC_ALL; exit 3"], timeout_s=20, as_root=True)
    assert (output.stdout, output.exit_code) == (b"0\nC\n", 3)


def test_a_refusing_sudo_is_no_failure_of_the_program(fleet, transport):
    with opened(fleet, transport=transport) as session, pytest.raises(Unreachable) as caught:
        session.run(["true"], timeout_s=20, as_root=True)
    assert caught.value.kind == "no-sudo"
    assert "sudo wants a password" in caught.value.reason
    assert "NOPASSWD" in caught.value.next_step


def test_no_sudo_at_all(fleet, user):
    programs = fleet.folder / "bin"
    programs.mkdir()
    for name in ("sh", "id"):
        (programs / name).symlink_to(str(shutil.which(name)))
    with (
        Fleet(fleet.folder, name="bare", user=user, SetEnv=f"PATH={programs}") as bare,
        opened(bare) as session,
        pytest.raises(Unreachable) as caught,
    ):
        session.run(["true"], timeout_s=20, as_root=True)
    assert caught.value.kind == "no-sudo"
    assert "there is no sudo and the login is not root" in caught.value.reason


def test_no_python_for_root(fleet, user):
    with opened(fleet, user, python="python3.999") as session, pytest.raises(Unreachable) as caught:
        session.run(["true"], timeout_s=20, as_root=True)
    assert caught.value.kind == "no-python"


def test_root_s_processes_end_with_us(fleet, user, transport):
    seconds = f"{os.getpid()}{transport == 'ssh':d}77"
    with opened(fleet, user, transport=transport) as session:
        script = f"setsid sleep {seconds} & sleep {seconds}"
        assert session.run(["sh", "-c", script], timeout_s=1, as_root=True).timed_out
        assert running(seconds) == []


@pytest.mark.long
def test_what_cannot_be_killed_is_reported_and_not_waited_for(fleet, user):
    """A process of root's is for the login what one in the kernel's D state is for everybody."""
    seconds = f"{os.getpid()}99"
    with opened(fleet, user) as session:
        output = session.run(["sudo", "-n", "sh", "-c", f"trap '' TERM; sleep {seconds}; :"], timeout_s=6)
    left = running(seconds)
    tell(left, signal.SIGKILL)
    assert left
    assert output.timed_out
    assert output.duration_s < 60
    assert any(" sleep S" in line for line in output.stuck), output.stuck
    assert wait_until(lambda: not running(seconds))


def test_the_lock_is_root_s_where_the_inventory_says_become(fleet, user, tmp_path):
    path = tmp_path / "node.lock"  # in a folder that only root may enter
    with opened(fleet, user, become=True) as session, session.hold_lock(str(path)):
        assert path.owner() == "root"
