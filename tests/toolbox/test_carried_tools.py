"""Tools brought by --tools: packed once, on the node while the run lasts, gone with it, `kill -9` included."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.holding import hold_in
from support.sshd import NODE_PYTHON, Fleet
from toolbox.test_toolbox import program

from lab.processes import wait_until
from nodegate.errors import CannotMeasure, Unreachable, UsageError
from nodegate.node_program import node_source
from nodegate.toolbox import carried as module
from nodegate.toolbox.carried import Carried
from nodegate.toolbox.tool_list import CublasPlaces
from nodegate.toolbox.toolbox import Toolbox
from nodegate.transport import Options, connect

MakeToolbox = Callable[..., Toolbox]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), name="gpu") as running:
        yield running


@pytest.fixture
def node(fleet):
    return fleet.nodes[0]


@pytest.fixture
def session(node):
    session = connect(node, Options())
    yield session
    session.close()


@pytest.fixture
def toolbox(session, node, folder):
    """Makes toolboxes of the node, as its inventory says, that bring the folder; they are closed at the end."""
    made: list[Toolbox] = []

    def make(**expected):
        made.append(Toolbox(session, replace(node, expected=expected), carried=Carried(folder)))
        return made[-1]

    yield make
    for one in made:
        with contextlib.suppress(Unreachable):
            one.close()


@pytest.fixture
def box(toolbox):
    return toolbox()


@pytest.fixture
def folder(tmp_path):
    """A --tools folder: two tools, one of them by a link, a library, a file that is no program."""
    tools = tmp_path / "tools"
    program(tools / "bin" / "gpu_burn-1.0", 'echo "burning $1"; exit 3')
    (tools / "bin" / "gpu_burn").symlink_to("gpu_burn-1.0")
    program(tools / "all_reduce_perf", 'echo "$LD_LIBRARY_PATH"')
    (tools / "lib").mkdir()
    (tools / "lib" / "libnccl.so.2").write_bytes(b"library")
    (tools / "bin" / "compare.ptx").write_text("// compare")
    return tools


def place(argv):
    return next(parent for parent in Path(argv[-1]).parents if parent.name.startswith("nodegate-tools-"))


def test_a_brought_tool_runs_on_the_node_with_what_lies_beside_it(session, box):
    tool = box.find("gpu_burn")
    assert tool.origin == "--tools"
    output = session.run([*tool.argv, "60"], timeout_s=20)
    assert (output.stdout, output.exit_code) == (b"burning 60\n", 3)
    there = Path(tool.argv[-1]).parent
    assert (there / "compare.ptx").read_text() == "// compare"
    assert (there / "gpu_burn").readlink() == Path("gpu_burn-1.0")
    assert place(tool.argv).stat().st_mode & 0o777 == 0o700
    assert (there / "gpu_burn-1.0").stat().st_mode & 0o777 == 0o700
    assert (there / "compare.ptx").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in place(tool.argv).iterdir()) == ["tools"]
    assert place(tool.argv) == place(box.find("all_reduce_perf").argv), "brought once for all tools"


def test_brought_libraries_are_found_by_brought_tools(session, folder, toolbox):
    program(folder / "all_reduce_perf", 'echo "$LD_LIBRARY_PATH $PWD $NCCL_ALGO $1"')
    tool = toolbox().find("all_reduce_perf")
    there = place(tool.argv) / "tools"
    argv = [*tool.argv[:-1], "env", "NCCL_ALGO=Ring", tool.argv[-1], "-g"]
    assert session.run(argv, timeout_s=20).stdout.decode() == f"{there}/lib {there} Ring -g\n"


def test_what_is_brought_comes_before_path_and_after_the_inventory(tmp_path, toolbox):
    other = program(tmp_path / "own" / "gpu_burn", "exit 0")
    assert toolbox(tool_paths=[str(other.parent)]).find("gpu_burn").origin == "--tools"
    assert toolbox(tools={"gpu_burn": str(other)}).find("gpu_burn").argv == (str(other),)


def test_nothing_is_sent_before_something_of_the_folder_is_asked_for(session, tmp_path, monkeypatch, toolbox):
    monkeypatch.setattr(session, "start", None)
    program(tmp_path / "own" / "nvbandwidth", "exit 0")
    box = toolbox(tool_paths=[str(tmp_path / "own")])
    assert box.find("nvbandwidth").origin == "nodegate_tool_paths"
    assert box.cublas().places == ()


@pytest.mark.parametrize(
    ("given", "found"),
    [("/sw/cuda", CublasPlaces((("nodegate_cublas", "/sw/cuda"),))), ("none", CublasPlaces(own_kernels=True))],
)
def test_a_cublas_of_the_inventory(session, node, given, found):
    assert Toolbox(session, replace(node, expected={"cublas": given})).cublas() == found


def test_a_brought_cublas_is_on_the_node_while_the_run_lasts(folder, toolbox):
    library = folder / "nvidia" / "cublas" / "lib" / "libcublas.so.12"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"library")
    box = toolbox()
    ((origin, there),) = box.cublas().places
    assert origin == "--tools"
    assert (Path(there) / "libcublas.so.12").read_bytes() == b"library"
    box.close()
    box.close()
    assert wait_until(lambda: not place((f"{there}/x",)).exists())


def test_a_folder_with_cublas_alone_will_do(session, node, tmp_path):
    (tmp_path / "libcublas.so.12").write_bytes(b"library")
    assert Toolbox(session, node, carried=Carried(tmp_path)).has(["gpu_burn"]) == frozenset()


def test_a_cublas_that_cannot_be_brought_is_no_end_of_the_burn(folder, monkeypatch, toolbox):
    def no_room(*_):
        raise CannotMeasure("no folder for the tools", next_step="free some space")

    monkeypatch.setattr("nodegate.toolbox.toolbox.bring", no_room)
    (folder / "libcublas.so.12").write_bytes(b"library")
    assert toolbox().cublas() == CublasPlaces(not_brought="no folder for the tools")


def test_a_large_folder_comes_in_pieces_and_whole(folder, monkeypatch, toolbox):
    monkeypatch.setattr(module, "PIECE_BYTES", 100_000)
    data = os.urandom(450_000)
    (folder / "data").write_bytes(data)
    assert (place(toolbox().find("gpu_burn").argv) / "tools" / "data").read_bytes() == data


def test_closing_the_session_removes_the_folder(session, box):
    there = place(box.find("gpu_burn").argv)
    session.close()
    assert wait_until(lambda: not there.exists())


CONTROLLER = """
import json, sys, time
from pathlib import Path
from nodegate.toolbox.carried import Carried
from nodegate.toolbox.toolbox import Toolbox
from nodegate.node import Connection, Node
from nodegate.transport import Options, connect
node = Node("gpu1", Connection(**json.loads(sys.argv[1])))
box = Toolbox(connect(node, Options()), node, carried=Carried(Path(sys.argv[2])))
print(box.find("gpu_burn").argv[-1], flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("transport", ["ssh", "ssh-binary", "local"])
def test_a_killed_controller_leaves_no_folder(node, folder, transport, tmp_path):
    connection = json.dumps(vars(replace(node.connection, transport=transport)))  # type: ignore[arg-type]
    command = [sys.executable, "-c", CONTROLLER, connection, str(folder)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as controller:
        assert controller.stdout is not None
        there = place((controller.stdout.readline().decode().strip(),))
        assert there.is_dir()
        os.kill(controller.pid, signal.SIGKILL)
    assert wait_until(lambda: not there.exists())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_killed_holder_leaves_no_folder(number):
    argv = [NODE_PYTHON, "-I", "-S", "-c", node_source("tools.tool_folder"), "1000"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdout is not None
        word, there = holder.stdout.readline().decode().split()
        assert word == "held"
        (Path(there) / "tools").mkdir()
        holder.send_signal(number)
    assert wait_until(lambda: not Path(there).exists())


def test_a_run_that_is_interrupted_while_it_sends_leaves_no_folder(box, monkeypatch):
    seen: list[Path] = []

    def send(carried, session, node, there):
        seen.append(Path(there))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_send", send)
    with pytest.raises(KeyboardInterrupt):
        box.find("gpu_burn")
    assert wait_until(lambda: not seen[0].exists())


def test_a_node_without_a_place_says_why_of_each(box, tmp_path, monkeypatch):
    nowhere = tmp_path / "nowhere"
    text = hold_in(nowhere, "/proc")
    monkeypatch.setattr(module, "node_source", lambda name: text if name == "tools.tool_folder" else node_source(name))
    for _ in range(2):
        with pytest.raises(CannotMeasure, match=f"no folder for the tools of --tools: {nowhere}: No such file") as said:
            box.find("gpu_burn")
    assert "/proc: " in said.value.reason
    assert "mount" in said.value.next_step


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_place_where_no_program_may_run_is_passed_over(tmp_path):
    (tmp_path / "noexec").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", tmp_path / "noexec"], check=False)
    if mounted.returncode != 0:
        pytest.skip("may not mount")
    try:
        argv = [NODE_PYTHON, "-I", "-S", "-c", hold_in(tmp_path / "noexec", tmp_path), "1000"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            there = Path(holder.stdout.readline().decode().split()[1])
            holder.terminate()
        assert there.parent == tmp_path
        assert list((tmp_path / "noexec").iterdir()) == []
    finally:
        subprocess.run(["umount", tmp_path / "noexec"], check=True)


def test_a_place_without_room_is_told_in_mib():
    argv = [NODE_PYTHON, "-I", "-S", "-c", node_source("tools.tool_folder"), str(1 << 60)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 73
    assert done.stdout.startswith("cannot /dev/shm: ")
    assert "MiB needed" in done.stdout


@pytest.mark.parametrize("gone", [True, False])
def test_a_folder_that_has_gone_and_a_damaged_archive_are_told(tmp_path, gone):
    there = tmp_path / "gone" if gone else tmp_path
    argv = [NODE_PYTHON, "-I", "-S", "-c", node_source("tools.unpack_tools"), str(there), "0", "last"]
    done = subprocess.run(argv, input=b"no archive", capture_output=True, timeout=60, check=False)
    assert done.stdout.startswith(b"cannot ")
    assert done.stderr == b""
    assert there.exists() is not gone


def test_the_tools_are_named_and_the_one_that_lies_least_deep_is_taken(folder):
    program(folder / "old" / "build" / "all_reduce_perf", "exit 0")
    carried = Carried(folder)
    assert carried.paths == {"all_reduce_perf": "all_reduce_perf", "gpu_burn": "bin/gpu_burn"}
    assert carried.libraries == ("lib",)


def test_a_link_inside_the_folder_is_kept_also_where_it_is_absolute(folder):
    (folder / "nvbandwidth").symlink_to(folder / "bin" / "gpu_burn-1.0")
    links = {entry.path: entry.link for entry in Carried(folder)._entries if entry.link}
    assert links == {"bin/gpu_burn": "gpu_burn-1.0", "nvbandwidth": "bin/gpu_burn-1.0"}


def refused(folder, message):
    with pytest.raises(UsageError, match=message):
        Carried(folder)


def test_a_folder_without_tools_is_told_before_anything_is_contacted(tmp_path):
    refused(tmp_path / "nowhere", "no such folder")
    refused(tmp_path, "it contains none of the tools - known: gpu_burn.*libcublas")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "out").symlink_to("/etc/passwd"), "out is a link to /etc/passwd, outside the folder"),
        (lambda folder: os.mkfifo(folder / "pipe"), "pipe is not a file, folder or link"),
        (lambda folder: (folder / "bad\nname").touch(), "is not a valid file name"),
        (lambda folder: (folder / "nvbandwidth").touch(0o644), "nvbandwidth is not executable - run chmod"),
        # No block of it is on the disk.
        (lambda folder: os.truncate(folder / "bin/compare.ptx", module.MOST_BYTES), "1024 MiB in .* at most 1024 MiB"),
    ],
)
def test_what_cannot_be_brought_is_told_too(folder, spoil, message):
    spoil(folder)
    refused(folder, message)


def test_a_file_that_goes_away_before_it_is_packed_is_told(box, folder):
    shutil.rmtree(folder)
    with pytest.raises(CannotMeasure, match=r"--tools .* could not be packed: .*No such file"):
        box.find("gpu_burn")
