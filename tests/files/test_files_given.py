"""Files that a user names, and those of a folder that he names: whatever stands in their place, one line, soon."""

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.sample_report import fleet

from nodegate import cli
from nodegate.errors import UsageError
from nodegate.files import bounded
from nodegate.files.bounded import open_given, open_regular
from nodegate.files.text_file import read_text
from nodegate.records.manifest import CHANGED, UNREADABLE, Manifest
from nodegate.report.render import render
from nodegate.run.prepare import prepare
from nodegate.run.settings import Settings
from nodegate.transport import known_hosts
from nodegate.transport.identities import load_key

LOG = "recorded"  # in place of a log that is right
LARGE_BYTES = 1 << 30
Make = Callable[[Path], None]
CPU_S = 2.0  # most of it is the command's start


def _pipe(path):
    os.mkfifo(path)


def _device(path):
    path.symlink_to("/dev/zero")


def _folder(path):
    path.mkdir()


def _large(path):
    with path.open("wb") as file:
        file.truncate(LARGE_BYTES)


def _socket(path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


SMALL = (_pipe, _device, _folder, _socket)
SORTS = (*SMALL, _large)
COMMANDS = {
    "baseline shown": ("baseline", "show", "hgx-h100-8", "--baseline", "FILE"),
    "baseline compared": ("baseline", "diff", "FILE", "FILE"),
    "record": ("history", "gpu01", "--record", "FILE"),
    "inventory": ("doctor", "--inventory", "FILE"),
    "baseline of a run": ("doctor", "--inventory", "gpu01,", "--baseline", "FILE"),
    "policy": ("doctor", "--inventory", "gpu01,", "--policy", "FILE"),
    "host keys": ("doctor", "--inventory", "gpu01,", "--known-hosts", "FILE"),
    "ssh configuration": ("doctor", "--inventory", "gpu01,", "--openssh-config", "FILE"),
    "homes of pods": ("triage", LOG, "--map", "FILE"),
}
LOGS = {
    "log": ("triage", "FILE"),
    "kernel log": ("triage", "--kernel", "gpu01=FILE"),
    "watched": ("watch", "FILE", "--once"),
    "earlier run": ("watch", LOG, "--once", "--like", "FILE"),
}
OPTIONS = {
    "waivers": lambda file: Settings(inventory=("gpu01,",), waivers=file),
    "record": lambda file: Settings(inventory=("gpu01,",), record=file),
    "variables": lambda file: Settings(inventory=(str(_beside(file)),)),
    "file of a folder": lambda file: Settings(inventory=(str(_within(file)),)),
}
OF_A_RUN = [
    ("report.json", ("report", "RUN")),
    ("results.jsonl.gz", ("report", "RUN")),
    ("results.jsonl.gz", ("show", "gpu001", "--run", "RUN")),
    ("run.json", ("baseline", "learn", "RUN")),
]


def _beside(file):
    """An inventory whose group variables are this file."""
    (file.parent / "hosts").write_text("[gpu]\ngpu01\n", encoding="utf-8")
    (file.parent / "group_vars").mkdir()
    file.rename(file.parent / "group_vars" / "gpu")
    return file.parent / "hosts"


def _within(file):
    """A folder of inventories, of which this file is one."""
    folder = file.parent / "inventory"
    folder.mkdir()
    file.rename(folder / "hosts")
    return folder


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(bounded, "PIPE_LIMIT_S", 0.3)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "given"


def said(argv, names, capsys):
    """What a command answers that cannot be done: one line."""
    begun = time.process_time()
    assert cli.main([names.get(word, word.replace("FILE", names.get("FILE", ""))) for word in argv]) != 0
    assert time.process_time() - begun < CPU_S
    told = capsys.readouterr()
    assert "nodegate failed" not in told.err
    lines = [line for line in told.err.splitlines() if line]
    assert len(lines) == 1, told.err
    return lines[0]


@pytest.mark.parametrize("make", SORTS)
@pytest.mark.parametrize("command", [*COMMANDS, *LOGS])
def test_a_file_that_a_command_reads(command, make, file, capsys):
    if command in LOGS and make is _large:
        return  # a log is read in pieces, however large it is
    make(file)
    log = file.with_name("log")
    log.write_text("RuntimeError: CUDA error\n", encoding="utf-8")
    told = said((COMMANDS | LOGS)[command], {"FILE": str(file), LOG: str(log)}, capsys)
    assert command in LOGS or str(file) in told


@pytest.mark.parametrize("make", SORTS)
@pytest.mark.parametrize("option", OPTIONS)
def test_a_file_that_an_option_names(option, make, file):
    make(file)
    begun = time.process_time()
    if (option, make) in {("variables", _folder), ("record", _large)}:
        return  # it may be one; a record that cannot be used is a note, and no run waits for it
    with pytest.raises(UsageError) as refused:
        prepare(OPTIONS[option](file))
    assert time.process_time() - begun < CPU_S
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("make", SORTS)
@pytest.mark.parametrize(("name", "command"), OF_A_RUN)
def test_a_file_of_a_run_folder(name, command, make, tmp_path, capsys):
    render(fleet(4), tmp_path)
    (tmp_path / "evidence").mkdir()
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)
    assert name in said(command, {"RUN": str(tmp_path)}, capsys)


@pytest.mark.parametrize("make", SMALL)
def test_evidence_is_compared_with_the_manifest_only_where_it_is_a_file(make, tmp_path):
    evidence = tmp_path / "evidence" / "gpu01" / "facts.json"
    evidence.parent.mkdir(parents=True)
    evidence.write_text("{}", encoding="utf-8")
    (tmp_path / "manifest.sha256").write_text(f"{'0' * 64}  evidence/gpu01/facts.json\n", encoding="utf-8")
    assert [each.what for each in Manifest(tmp_path).odd_files()] == [CHANGED]
    evidence.unlink()
    make(evidence)
    assert [each.what for each in Manifest(tmp_path).odd_files()] == [UNREADABLE]


@pytest.mark.parametrize("make", SORTS)
def test_files_of_ssh(make, file):
    make(file)
    (known,) = known_hosts.load([str(file)])
    assert not known.find("gpu01")
    assert "cannot be used here" in str(load_key(str(file), 1))


def test_a_pipe_that_a_program_writes_to_is_read(tmp_path):
    text = "all:\n  hosts:\n    gpu1:\n" + "# x\n" * 50_000
    (tmp_path / "source").write_text(text)
    with subprocess.Popen(["cat", tmp_path / "source"], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert read_text(Path("/proc/self/fd", str(program.stdout.fileno()))) == text


def test_a_pipe_whose_program_comes_late_is_read(file, monkeypatch):
    monkeypatch.setattr(bounded, "PIPE_LIMIT_S", 20.0)
    os.mkfifo(file)
    with subprocess.Popen(["sh", "-c", f"sleep 0.3; echo late > {file}"]), open_given(file) as stream:
        assert stream.read() == b"late\n"


def test_a_pipe_that_ends_with_nothing_is_refused(file):
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        with pytest.raises(UsageError, match="it is a pipe"):
            read_text(Path("/proc/self/fd", str(program.stdout.fileno())))


def test_no_pipe_is_read_in_a_folder(file):
    os.mkfifo(file)
    with subprocess.Popen(["sh", "-c", f"timeout 5 echo something > {file}"]) as writer:
        with pytest.raises(OSError, match="is not a regular file"):
            open_regular(file)
        writer.kill()


def test_a_device_is_not_even_opened(tmp_path, monkeypatch):
    (tmp_path / "watchdog").symlink_to("/dev/null")
    opened: list[object] = []
    monkeypatch.setattr(os, "open", lambda *given: opened.append(given))
    for opener in (open_regular, open_given):
        with pytest.raises(OSError, match=r"is not a regular file|neither a file nor a pipe"):
            opener(tmp_path / "watchdog")
    assert not opened
