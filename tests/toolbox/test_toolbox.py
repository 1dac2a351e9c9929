"""Where a node's tools are found, what is said when one is not, and that a tool in a container ends with us."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support import bare, container_engine
from support.sshd import NODE_PYTHON

from lab.processes import children_of, odd_seconds, running, tell, wait_until
from nodegate.errors import CannotMeasure, Unreachable, UsageError
from nodegate.node import Connection, Node
from nodegate.toolbox import toolbox as module
from nodegate.toolbox.found import argv_in, parse_found
from nodegate.toolbox.settings import Image, tool_settings
from nodegate.toolbox.tool_list import NAMES, USUAL_FOLDERS, how_to_get, how_to_start
from nodegate.toolbox.toolbox import Tool, Toolbox
from nodegate.transport import Options, connect


def program(path, text="exit 0"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def here(**expected):
    return Node("gpu01", Connection(transport="local", python=NODE_PYTHON), expected=expected, origin="hosts.yaml:7")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return bare.programs(tmp_path_factory.mktemp("system") / "programs")


@pytest.fixture
def session(monkeypatch, programs):
    monkeypatch.setattr(module, "USUAL_FOLDERS", ())  # what this machine has installed is no part of a test
    monkeypatch.setenv("PATH", str(programs))
    session = connect(here(), Options())
    yield session
    session.close()


def toolbox(session, **expected):
    return Toolbox(session, here(**expected))


class Counted:
    """A session that says how often it was asked."""

    def __init__(self, session):
        self.session, self.node, self.count = session, session.node, 0

    def run(self, argv, **given):
        self.count += 1
        return self.session.run(argv, **given)  # type: ignore[arg-type]


def test_a_tool_is_found_on_path_and_first_in_the_folders_of_the_inventory(session, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{os.environ['PATH']}")
    on_path = program(tmp_path / "path" / "gpu_burn")
    assert toolbox(session).find("gpu_burn") == Tool("gpu_burn", (str(on_path),), "PATH")
    path = program(tmp_path / "tools" / "gpu_burn")
    found = toolbox(session, tool_paths=[str(tmp_path / "tools")]).find("gpu_burn")
    assert found == Tool("gpu_burn", (str(path),), "nodegate_tool_paths")


def test_a_path_that_the_inventory_names_is_the_only_one_that_is_tried(session, tmp_path):
    program(tmp_path / "gpu_burn")
    named = str(tmp_path / "elsewhere" / "gpu_burn")
    box = toolbox(session, tools={"gpu_burn": named}, tool_paths=[str(tmp_path)])
    with pytest.raises(CannotMeasure, match=rf"gpu01: gpu_burn at {named} \(nodegate_tools\) does not exist") as said:
        box.find("gpu_burn")
    assert said.value.next_step == "correct nodegate_tools in the inventory"
    program(tmp_path / "elsewhere" / "gpu_burn")
    assert toolbox(session, tools={"gpu_burn": named}).find("gpu_burn").argv == (named,)


def test_the_usual_folders_may_be_patterns(session, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "USUAL_FOLDERS", (str(tmp_path / "hpcx-*" / "bin"),))
    path = program(tmp_path / "hpcx-2.18" / "bin" / "nvbandwidth")
    found = toolbox(session).find("all_gather_perf", "nvbandwidth")  # the first name that is there is taken
    assert found == Tool("nvbandwidth", (str(path),), "the usual folders")


def test_all_known_tools_take_one_round_trip(session, tmp_path):
    program(tmp_path / "gpu_burn")
    counted = Counted(session)
    box = Toolbox(counted, here(tool_paths=[str(tmp_path)]))  # type: ignore[arg-type]
    assert box.has([*NAMES]) >= {"gpu_burn"}
    box.find("gpu_burn")
    assert counted.count == 1


def test_with_become_root_is_asked_for_what_the_login_cannot_run(session, tmp_path):
    program(tmp_path / "gpu_burn")
    asked: list[tuple[object, list[str]]] = []

    class Noted(Counted):
        def run(self, argv, **given):
            names = json.loads(given["stdin"])["names"]  # type: ignore[arg-type]
            asked.append((given["as_root"], names))
            return super().run(argv, **given)

    node = here(tool_paths=[str(tmp_path)])
    node = replace(node, connection=replace(node.connection, become=True))
    box = Toolbox(Noted(session), node)  # type: ignore[arg-type]
    assert box.has(["gpu_burn", "nvbandwidth"]) == {"gpu_burn"}
    assert [(as_root, "gpu_burn" in names) for as_root, names in asked] == [(False, True), (True, False)]
    assert "nvbandwidth" in asked[1][1]


def test_a_tool_that_is_nowhere_is_told_with_the_way_to_get_it(session):
    with pytest.raises(CannotMeasure, match="gpu01: no nvbandwidth was found") as said:
        toolbox(session).find("nvbandwidth")
    assert all(word in said.value.next_step for word in ("github.com/NVIDIA/nvbandwidth", "--tools", "nodegate_image"))


def test_a_program_that_may_not_be_run_is_named(session, tmp_path):
    program(tmp_path / "gpu_burn").chmod(0o644)
    with pytest.raises(CannotMeasure, match=rf"gpu_burn at {tmp_path}/gpu_burn .* is not executable by uid"):
        toolbox(session, tool_paths=[str(tmp_path)]).find("gpu_burn")


@pytest.fixture(scope="session")
def linked(tmp_path_factory):
    """A folder with libmpi.so and libcudart.so.12, and a real program that is linked with both."""
    folder = tmp_path_factory.mktemp("linked")
    (folder / "a.c").write_text("int one(void) { return 0; }\n")
    (folder / "main.c").write_text("int one(void);\nint main(void) { return one(); }\n")
    for name in ("libmpi.so.40", "libcudart.so.12"):
        build = ["gcc", "-shared", f"-Wl,-soname,{name}", "-o", str(folder / name), str(folder / "a.c")]
        subprocess.run(build, check=True)
    libraries = [str(folder / "libmpi.so.40"), str(folder / "libcudart.so.12")]
    build = ["gcc", "-Wl,--no-as-needed", "-o", str(folder / "linked"), str(folder / "main.c"), *libraries]
    subprocess.run([*build, f"-Wl,-rpath,{folder}"], check=True)
    return folder


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


@needs_gcc
def test_a_program_without_its_library_is_passed_over_and_named_if_there_is_no_other(session, linked, tmp_path):
    (tmp_path / "broken").mkdir()
    shutil.copy(linked / "linked", tmp_path / "broken" / "gpu_burn")
    folders = [str(tmp_path / "broken"), str(tmp_path / "good")]
    (linked / "libcudart.so.12").rename(linked / "hidden")
    try:
        with pytest.raises(CannotMeasure) as said:
            toolbox(session, tool_paths=folders).find("gpu_burn")
        good = program(tmp_path / "good" / "gpu_burn")
        assert toolbox(session, tool_paths=folders).find("gpu_burn").argv == (str(good),)
    finally:
        (linked / "hidden").rename(linked / "libcudart.so.12")
    where = f"gpu_burn at {tmp_path}/broken/gpu_burn (nodegate_tool_paths)"
    assert said.value.reason == f"gpu01: {where} cannot start: libcudart.so.12 not found"
    assert said.value.next_step.startswith("install that version of the CUDA runtime")


@needs_gcc
def test_a_collective_linked_with_mpi_is_its_mpi_variant_too(session, linked, tmp_path):
    shutil.copy(linked / "linked", tmp_path / "all_reduce_perf")
    program(tmp_path / "all_gather_perf")
    box = toolbox(session, tool_paths=[str(tmp_path)])
    tool = box.find("all_reduce_perf_mpi")
    assert (tool.name, tool.argv) == ("all_reduce_perf_mpi", (str(tmp_path / "all_reduce_perf"),))
    assert box.has(["all_gather_perf", "all_gather_perf_mpi"]) == {"all_gather_perf"}


@needs_gcc
def test_a_program_for_another_machine_is_told(session, linked, tmp_path):
    elf = bytearray((linked / "linked").read_bytes())
    other = {"x86_64": (183, "aarch64"), "aarch64": (62, "x86_64")}
    if os.uname().machine not in other:
        pytest.skip("neither x86_64 nor aarch64")
    number, name = other[os.uname().machine]
    elf[18:20] = number.to_bytes(2, "little")
    (tmp_path / "gpu_burn").write_bytes(elf)
    (tmp_path / "gpu_burn").chmod(0o755)
    with pytest.raises(CannotMeasure, match=f"is built for {name}, but this node is {os.uname().machine}"):
        toolbox(session, tool_paths=[str(tmp_path)]).find("gpu_burn")


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 90, b"\x7fELF\x02\x01" + bytes(90)]
)
def test_a_damaged_program_stops_no_search(session, tmp_path, content):
    (tmp_path / "gpu_burn").write_bytes(content)
    (tmp_path / "gpu_burn").chmod(0o755)
    program(tmp_path / "nvbandwidth")
    assert toolbox(session, tool_paths=[str(tmp_path)]).has(["nvbandwidth"]) == {"nvbandwidth"}


def test_a_name_that_no_table_knows_is_looked_for_too_and_nothing_is_run(session, tmp_path):
    path = program(tmp_path / "gpu-fryer", f"touch {tmp_path}/ran")
    assert toolbox(session, tool_paths=[str(tmp_path)]).find("gpu-fryer").argv == (str(path),)
    assert not (tmp_path / "ran").exists()


def test_a_refused_search_is_not_made_again(session):
    class Silent(Counted):
        def run(self, argv, **given):
            return replace(super().run(["true"], timeout_s=20), timed_out=True)

    silent = Silent(session)
    box = Toolbox(silent, here())  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(CannotMeasure, match="gpu01: its tools were not found within 40 s"):
            box.find("gpu_burn")
    assert silent.count == 1


def test_a_broken_connection_is_never_a_missing_tool(session):
    session.close()
    with pytest.raises(Unreachable):
        toolbox(session).has(["gpu_burn"])


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"nonsense", b"[]", b'{"path": "", "found": []}'),
        b'{"path": "", "found": {"gpu_burn": [{"path": "relative"}]}}',
        b'{"path": "", "found": {"gpu_burn": [{"path": "/x\\n", "origin": "", "wrong": "", "missing": [], "mpi": 1}]}}',
        b"[" * 100_000,
    ],
)
def test_an_answer_in_no_form_is_told(answer):
    with pytest.raises(CannotMeasure, match="gpu01: the search for tools failed"):
        parse_found(answer, node="gpu01")


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"tools": ["gpu_burn"]}, "nodegate_tools must map tools to paths"),
        ({"tools": {"gpu-burn": "/opt/gpu_burn"}}, "unknown tool 'gpu-burn'.*did you mean gpu_burn"),
        ({"tools": {"gpu_burn": "bin/gpu_burn"}}, "'bin/gpu_burn' is not an absolute path"),
        ({"tool_paths": ["/opt", "tools"]}, "nodegate_tool_paths: 'tools' is not an absolute path"),
        ({"image": "nvcr.io/nvidia/pytorch"}, "does not name a container runtime"),
        ({"image": "docker://--privileged"}, "'--privileged' is not a valid image for docker"),
        ({"image": "apptainer://relative.sif"}, "is not a valid image for apptainer"),
        ({"cublas": "cuda/lib64"}, "nodegate_cublas: 'cuda/lib64' is not an absolute path.*none for"),
        ({"cublas": ["/opt"]}, "nodegate_cublas: .* is not an absolute path"),
    ],
)
def test_a_slip_in_the_inventory_is_told_with_its_place(expected, message):
    with pytest.raises(UsageError, match=rf"^hosts\.yaml:7: gpu01: .*{message}"):
        tool_settings(here(**expected))


def test_an_ini_inventory_writes_them_as_text():
    image = "docker://localhost:5000/tools@sha256:ab"
    settings = tool_settings(here(tools='{"gpu_burn": "/opt/gpu_burn"}', tool_paths="/opt/a:/opt/b", image=image))
    assert (settings.paths, settings.folders) == ({"gpu_burn": "/opt/gpu_burn"}, ("/opt/a", "/opt/b"))
    assert str(settings.image) == image


def test_every_tool_has_a_way_to_get_it():
    assert all(how_to_get([name]) for name in NAMES)
    assert "perftest" in how_to_get(["ib_write_bw"])
    assert "libnccl2" in how_to_start(["libnccl.so.2"])
    assert "distribution" in how_to_start(["GLIBC_2.38"])
    assert all(folder.startswith("/") for folder in USUAL_FOLDERS)


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """A folder first on PATH with stand-ins for the runtimes, and the daemon behind docker. Gives the daemon's log."""
    if subprocess.run(["unshare", "--pid", "--fork", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the right to make a PID namespace")
    folder = tmp_path / "engine"
    folder.mkdir()
    source = f"#!{sys.executable}\n{Path(container_engine.__file__).read_text()}"
    for name in ("docker", "podman", "enroot", "apptainer", "engine"):
        (folder / name).write_text(source)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("ENGINE_SOCKET", str(tmp_path / "s"))
    log = tmp_path / "log"
    log.touch()
    inside = program(tmp_path / "image" / "all_reduce_perf", 'echo "$NCCL_ALGO $PWD"; exit 7').parent
    environment = {**os.environ, "PATH": f"{inside}:/usr/bin:/bin"}
    command = [sys.executable, str(folder / "engine"), "daemon", str(tmp_path / "s"), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"ready\n"
        yield log
        daemon.kill()


@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_a_tool_of_an_image_is_run_in_a_container(session, engine, runtime):
    tool = toolbox(session, image=f"{runtime}://{container_engine.IMAGE}").find("all_reduce_perf")
    inside = engine.parent / "image"
    assert tool.origin == f"{runtime}://{container_engine.IMAGE}"
    assert tool.argv[-1] == str(inside / "all_reduce_perf")
    output = session.run(["env", "NCCL_ALGO=Ring", *tool.argv, "-b", "1G"], timeout_s=60)
    assert (output.stdout.decode(), output.exit_code) == (f"Ring {inside}\n", 7)
    asked = json.loads(engine.read_text().splitlines()[-1])
    options = " ".join(asked["options"])
    assert "--rm -i --pull=never --name nodegate-" in options
    gpus = "--init --gpus all" if runtime == "docker" else "--device nvidia.com/gpu=all"
    assert f"{gpus} --network host --ipc host --ulimit memlock=-1 --cap-add IPC_LOCK" in options
    assert asked["argv"][-2:] == ["-b", "1G"]


@pytest.mark.parametrize("image", ["enroot://tools", "apptainer:///images/tools.sif"])
def test_a_tool_of_an_image_without_a_daemon_is_run_too(session, engine, image):
    inside = engine.parent / "image"
    argv = argv_in(Image(*image.split("://")), NODE_PYTHON, str(inside / "all_reduce_perf"))
    output = session.run(["env", "NCCL_ALGO=Tree", *argv], timeout_s=60)
    assert (output.stdout.decode(), output.exit_code) == (f"Tree {inside}\n", 7)


def test_a_tool_on_the_node_itself_starts_no_container(session, engine, tmp_path):
    program(tmp_path / "tools" / "gpu_burn")
    box = toolbox(session, image=f"docker://{container_engine.IMAGE}", tool_paths=[str(tmp_path / "tools")])
    assert box.find("gpu_burn").origin == "nodegate_tool_paths"
    assert engine.read_text() == ""


def test_an_image_that_is_not_on_the_node_is_told_and_never_pulled(session, engine):
    box = toolbox(session, image="docker://registry.example/other:2")
    with pytest.raises(CannotMeasure, match=r"No such image: registry\.example/other:2") as said:
        box.find("nvbandwidth")
    assert "docker pull registry.example/other:2" in said.value.next_step


def test_a_runtime_that_is_not_there_is_told(session, monkeypatch, tmp_path):
    with pytest.raises(CannotMeasure, match=r"singularity:///a\.sif did not start: singularity: No such file") as said:
        toolbox(session, image="singularity:///a.sif").find("nvbandwidth")
    assert said.value.next_step.startswith("install singularity")


@pytest.mark.skipif(not shutil.which("taskset") or os.cpu_count() == 1, reason="no taskset here, or one CPU")
def test_a_tool_in_a_container_runs_on_the_cpus_of_who_asked_for_it(session, engine):
    """A daemon starts it, which may use all CPUs."""
    path = program(engine.parent / "image" / "gpu_burn", "grep Cpus_allowed_list /proc/self/status")
    last = str(max(os.sched_getaffinity(0)))
    argv = argv_in(Image("docker", container_engine.IMAGE), NODE_PYTHON, str(path))
    bound = session.run(["taskset", "-c", last, *argv], timeout_s=20)
    assert bound.stdout.split() == [b"Cpus_allowed_list:", last.encode()], bound.stderr
    free = session.run(argv, timeout_s=20)
    assert free.stdout.split() != bound.stdout.split()


STUBBORN = "trap '' TERM HUP INT; sleep {seconds} & setsid sleep {seconds} & sleep {seconds}"


def stubborn(engine):
    """A program of the image that ignores SIGTERM, with children; and its number of seconds, which is ours alone."""
    seconds = odd_seconds()
    path = program(engine.parent / "image" / "gpu_burn", STUBBORN.format(seconds=seconds))
    return seconds, argv_in(Image("docker", container_engine.IMAGE), NODE_PYTHON, str(path))


def test_the_time_limit_ends_a_container_with_everything_in_it(session, engine):
    seconds, argv = stubborn(engine)
    output = session.run(argv, timeout_s=2)
    assert output.timed_out
    assert wait_until(lambda: not running(seconds))


@pytest.mark.parametrize("victim", ["keep", "client", "both"])
def test_a_container_ends_when_its_client_is_killed(session, engine, victim):
    seconds, argv = stubborn(engine)
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    assert wait_until(lambda: len(running(seconds)) >= 3)
    client = next(pid for pid in children_of(process.pid) if pid in running(container_engine.IMAGE))
    tell({"keep": [process.pid], "client": [client], "both": [client, process.pid]}[victim], signal.SIGKILL)
    process.wait()
    assert wait_until(lambda: not running(seconds))
