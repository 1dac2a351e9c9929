"""Run folders that are full, used, hostile or half done: one clear message, never a run that hangs or passes."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fleet.machine import Machine
from support import warm
from support.recorded import PytestOutcome, run_pytest, write_fleet
from support.sshd import Fleet

from lab.processes import wait_until
from nodegate.errors import UsageError
from nodegate.records.evidence import parse_evidence
from nodegate.records.run_folder import RunFolder
from nodegate.run.conditions import read_earlier
from nodegate.run.prepare import prepare
from nodegate.run.settings import Settings

WIDTH = ["-q", "--tb=short", "-k", "link_width"]


def healthy(count):
    return [Machine.hgx_h100(f"gpu{number:04}", number) for number in range(1, count + 1)]


@pytest.fixture
def fleet(tmp_path):
    return write_fleet(tmp_path, healthy(3))


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    where = tmp_path_factory.mktemp("ended")
    write_fleet(where, healthy(3))
    assert run_pytest(where, ["--inventory", "hosts.yaml", "--run-dir", "first", *WIDTH]).exit_code == 0
    return where / "first"


@pytest.fixture
def earlier(fleet, ended):
    return Path(shutil.copytree(ended, fleet.parent / "first"))


def evidence(run, node="gpu0001"):
    return run / "evidence" / node / "facts.json"


def replay(run, *arguments):
    return run_pytest(run.parent, ["--replay", run.name, *WIDTH, *arguments], timeout_s=60)


def begin(folder, *arguments):
    """A run over the inventory of this folder, in a session of its own, that goes on."""
    command = [sys.executable, "-m", "pytest", "--inventory", "hosts.yaml", "--run-dir", "run", "-q", "--tb=no"]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return warm.Popen([*command, *arguments], cwd=folder, text=True, start_new_session=True, **streams)


def is_one_message(outcome, words):
    said = outcome.stdout + outcome.stderr
    assert outcome.exit_code == 4, said
    assert words in said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said


# What stands in place of evidence


AN_ERROR_OF_MEGABYTES = {"kind": "x" * (1 << 20), "reason": "\x1b[2J" * (1 << 18), "next_step": []}
PUTS: list[Callable[[Path], object]] = [
    Path.mkdir,
    os.mkfifo,
    lambda file: file.symlink_to(file),
    lambda file: file.symlink_to("/dev/zero"),
    lambda file: file.write_text('{"schema": "' + "x" * (5 << 20) + '"}'),
    lambda file: file.write_text("[" * 200_000),
    lambda file: file.write_bytes(b'{"schema": "\xff\xfe"}'),
    lambda file: file.write_text(json.dumps({"schema": "nodegate.evidence/1", "error": AN_ERROR_OF_MEGABYTES})),
]


@pytest.mark.long
def test_wrong_evidence_is_an_error_of_its_node_alone(tmp_path):
    names = [f"gpu{number:04}" for number in range(1, len(PUTS) + 2)]
    write_fleet(tmp_path, [Machine.hgx_h100(name, number) for number, name in enumerate(names)])
    run_pytest(tmp_path, ["--inventory", "hosts.yaml", "--run-dir", "first", *WIDTH])
    for put, name in zip(PUTS, names, strict=False):
        evidence(tmp_path / "first", name).unlink()
        put(evidence(tmp_path / "first", name))
    outcome = replay(tmp_path / "first")
    assert outcome.exit_code == 1, outcome.stdout
    assert outcome.verdicts("pcie.link_width") == {**dict.fromkeys(names, "error"), names[-1]: "pass"}
    assert "INTERNALERROR" not in outcome.stdout
    assert len(outcome.stdout) < 50_000
    assert "\x1b" not in outcome.stdout


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "NaN", '"x"', "[]"])
def test_a_time_that_is_none_is_an_unknown_one(number):
    raw = (
        '{"schema": "nodegate.evidence/1", "node": "gpu0001", "measurement": "facts", "document": {}, '
        f'"started_epoch_s": {number}, "round_trip_s": {number}}}'
    )
    read = parse_evidence(raw.encode(), node="gpu0001", measurement="facts", file="facts.json")
    assert (read.started_epoch_s, read.round_trip_s) == (0.0, 0.0)


# run.json

GOOD = {"id": "x", "profile": "delivery", "started_epoch_s": 1.0, "finished_epoch_s": 0.0, "suite_version": "0.2.0"}
GOOD |= {"nodes": [{"name": "gpu0001"}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": None}, r"\$\.nodes"),
        ({"nodes": [7]}, r"Expected `object`, got `int` - at `\$\.nodes\[0\]`"),
        ({"nodes": [{}]}, "`name`"),
        *(({"nodes": [{"name": name}]}, "not a valid node name") for name in ("..", "../../etc", "a\0b", "\u202egpu")),
        ({"nodes": [{"name": "gpu1"}, {"name": "gpu1"}]}, "twice"),
        ({"nodes": [{"name": "gpu1", "groups": [5]}]}, r"nodes\[0\]\.groups\[0\]"),
        ({"nodes": [{"name": "gpu1", "address": []}]}, r"nodes\[0\]\.address"),
        ({"profile": "weekly"}, "not a profile"),
        ({"profile": 5}, r"\$\.profile"),
        ({"asked": {"inventory": [1]}}, r"asked\.inventory"),
        ({"asked": {"pairs": "some"}}, r"asked\.pairs"),
        ({"asked": {"tools": ["/"]}}, r"asked\.tools"),
        ({"asked": {"tools": "/tools\0"}}, "the tools are not a folder"),
    ],
)
def test_a_run_file_of_another_kind_is_refused(tmp_path, change, words):
    (tmp_path / "run.json").write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(UsageError, match=words) as refused:
        read_earlier(RunFolder(tmp_path))
    assert str(tmp_path / "run.json") in str(refused.value)


def test_a_run_file_that_was_changed_is_refused(earlier):
    file = earlier / "run.json"
    text = file.read_text()
    assert read_earlier(RunFolder(earlier)).nodes
    for changed in (text.replace('"profile"', '"more": 1,\n "profile"'), text.replace("{", '{"id": "y",', 1)):
        file.write_text(changed)
        with pytest.raises(UsageError, match=r"not as nodegate writes it|stands twice"):
            read_earlier(RunFolder(earlier))
    file.write_text(text)


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "{", '"x"', "\udcff"])
def test_a_run_file_that_is_no_object_is_refused(tmp_path, text):
    (tmp_path / "run.json").write_text(text, errors="surrogateescape")
    with pytest.raises(UsageError, match=r"run\.json"):
        read_earlier(RunFolder(tmp_path))


def test_a_hostile_run_file_is_one_message_of_pytest(earlier):
    (earlier / "run.json").unlink()
    os.mkfifo(earlier / "run.json")
    is_one_message(replay(earlier), "is not a regular file")
    (earlier / "run.json").unlink()
    node = {"name": "gpu0001", "expected": {"platform": 7}}
    (earlier / "run.json").write_text(json.dumps({**GOOD, "nodes": [node]}))
    is_one_message(replay(earlier), "no baseline for '7'")


# --replay


def test_replay_takes_patterns_groups_and_refuses_what_is_not_there(earlier):
    assert set(replay(earlier, "--nodes", "gpu*:!gpu0002").verdicts("pcie.link_width")) == {"gpu0001", "gpu0003"}
    is_one_message(replay(earlier, "--nodes", "gpo[0001-0002]"), "no host or group is called")


def test_replay_judges_by_the_profile_of_its_run(fleet):
    run_pytest(fleet.parent, ["--inventory", "hosts.yaml", "--run-dir", "night", "--profile", "nightly", *WIDTH])
    outcome = run_pytest(fleet.parent, ["--replay", "night", *WIDTH])
    assert json.loads((outcome.folder / "run.json").read_text())["profile"] == "nightly"
    outcome = run_pytest(fleet.parent, ["--replay", "night", "--profile", "bootcheck", *WIDTH])
    assert json.loads((outcome.folder / "run.json").read_text())["profile"] == "bootcheck"


# Where a run may not go


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_a_folder_that_holds_a_run_is_refused(earlier, more):
    before = (earlier / "results.jsonl.gz").read_bytes()
    outcome = run_pytest(earlier.parent, ["--inventory", "hosts.yaml", "--run-dir", "first", *WIDTH, *more])
    is_one_message(outcome, "already contains a run")
    assert (earlier / "results.jsonl.gz").read_bytes() == before


def test_a_file_for_a_folder_is_one_message(fleet):
    (fleet.parent / "taken").touch()
    outcome = run_pytest(fleet.parent, ["--inventory", "hosts.yaml", "--run-dir", "taken", *WIDTH])
    is_one_message(outcome, "cannot make the run folder")


def test_runs_of_one_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [RunFolder.create(None, profile="delivery", started_epoch_s=0.0).path.name for _ in range(3)]
    assert folders == ["19700101T000000Z-delivery", "19700101T000000Z-delivery-2", "19700101T000000Z-delivery-3"]


def test_two_runs_do_not_work_in_one_folder(tmp_path):
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    first.hold()
    with pytest.raises(UsageError, match="another run uses this folder"):
        second.hold()


def test_latest_that_is_a_folder_stays_and_nothing_is_left_beside_it(fleet):
    (fleet.parent / "reports" / "latest").mkdir(parents=True)
    assert run_pytest(fleet.parent, ["--inventory", "hosts.yaml", *WIDTH]).exit_code == 0
    others = [path.name for path in (fleet.parent / "reports").iterdir() if not path.name.endswith("-delivery")]
    assert sorted(others) == ["fleet.sqlite", "latest"], "the fleet's record, and nothing beside it"
    assert list((fleet.parent / "reports" / "latest").iterdir()) == []


# A disk that is full


@pytest.fixture
def small_disk(tmp_path):
    """A file system with room for one node's evidence or so."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_a_full_disk_ends_the_run_with_one_message(fleet, small_disk, more):
    run = ["--inventory", "hosts.yaml", "--run-dir", str(small_disk / "run"), "-q", "--tb=no", *more]
    outcome = run_pytest(fleet.parent, run, timeout_s=60)
    assert outcome.exit_code == 3, outcome.stdout
    assert "No space left on device" in outcome.stdout
    assert "Traceback" not in outcome.stdout + outcome.stderr


def test_a_folder_that_vanishes_in_mid_run_ends_it(fleet):
    (fleet.parent / "checks").mkdir()
    body = "import shutil\ndef test_own(host, verdicts):\n    '''It holds.'''\n"
    body += "    shutil.rmtree('gone', ignore_errors=True)\n"
    body += "    verdicts.passed(part=__import__('nodegate').part.NODE, text='holds')\n"
    (fleet.parent / "checks" / "test_site.py").write_text(body)
    outcome = run_pytest(fleet.parent, ["--inventory", "hosts.yaml", "--run-dir", "gone", "--passive"], timeout_s=60)
    assert outcome.exit_code == 3, outcome.stdout
    why = r"ERROR: gone\S*: (the reports )?cannot be written: (the run folder is gone|No such)"
    assert re.search(why, outcome.stdout)
    assert "accepted" not in outcome.stdout
    assert "Traceback" not in outcome.stdout + outcome.stderr


# --resume


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), 3, name="node") as running:
        yield running


def start(machines, folder, *arguments):
    """A run over SSH in which node2's Python sleeps, as on a node that hangs."""
    slow = machines.home / "slow-python"
    slow.write_text("#!/bin/sh\nsleep 300\n")
    slow.chmod(0o755)
    text = machines.inventory().replace("    node2: {", f"    node2: {{ansible_python_interpreter: {slow}, ")
    (folder / "hosts.yaml").write_text(text)
    return begin(folder, *arguments)


@pytest.mark.long
@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_resume_after_kill_9_measures_the_rest(machines, tmp_path, more):
    running = start(machines, tmp_path, "--profile", "nightly", "--nodes", "node[1-2]")
    assert wait_until(evidence(tmp_path / "run", "node1").exists, limit_s=60)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    assert wait_until(lambda: not machines.descendants(), limit_s=60)  # their locks are free
    before = evidence(tmp_path / "run", "node1").stat().st_mtime_ns
    assert not evidence(tmp_path / "run", "node2").exists()
    (tmp_path / "hosts.yaml").write_text(machines.inventory())  # node2 is repaired

    done = run_pytest(tmp_path, ["--resume", "run", "-q", "--tb=no", *more], timeout_s=120)
    after = PytestOutcome(done.exit_code, done.stdout, done.stderr, tmp_path / "run")
    assert after.verdicts("node.reachable") == {"node1": "pass", "node2": "pass"}, done.stdout
    assert evidence(tmp_path / "run", "node1").stat().st_mtime_ns == before
    assert json.loads((tmp_path / "run" / "run.json").read_text())["profile"] == "nightly"


@pytest.mark.long
@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_ctrl_c_in_mid_measurement_accepts_nobody(machines, tmp_path, more):
    running = start(machines, tmp_path, *more)
    assert wait_until(evidence(tmp_path / "run", "node1").exists, limit_s=60)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[0]
    assert running.returncode == 2, said
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["run"]["interrupted"] is True
    assert not [node for node in report["nodes"] if node["verdict"].startswith("accepted")]
    assert "continue with: pytest --resume run" in said
    assert wait_until(lambda: not machines.descendants(), limit_s=60)


def test_a_second_ctrl_c_ends_the_wait_for_the_nodes_and_keeps_the_report(machines, tmp_path):
    (tmp_path / "patient.py").write_text("from nodegate.transport import guarded\nguarded.CLOSE_S = 600.0\n")
    running = start(machines, tmp_path, "-p", "patient")
    slow = machines.home / "slow-python"
    slow.write_text("#!/bin/sh\ntrap '' TERM INT HUP\nsleep 300\n")
    assert wait_until(evidence(tmp_path / "run", "node1").exists, limit_s=60)
    running.send_signal(signal.SIGINT)
    time.sleep(1.5)
    with contextlib.suppress(ProcessLookupError):
        running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[0]
    assert running.returncode == 2, said
    assert (tmp_path / "run" / "report.html").exists()
    assert wait_until(lambda: not machines.descendants(), limit_s=60)


# Presses Ctrl-C once in mid-run, and then whenever the end of the run has got one step further.
PRESSES = """
import os, signal
import pytest
from nodegate.run.campaign import Campaign
from nodegate.run.results import Results

def press():
    os.kill(os.getpid(), signal.SIGINT)

def pressed_before(function):
    def both(*arguments, **options):
        press()
        return function(*arguments, **options)
    return both

@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    if report.when == "call":
        press()

@pytest.hookimpl(trylast=True)
def pytest_keyboard_interrupt():
    press()

@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish():
    press()
    return (yield)

Campaign.cancel = pressed_before(Campaign.cancel)
Results.finish = pressed_before(Results.finish)
"""


def pressed(fleet, presses, *more):
    """A run in which Ctrl-C is pressed so: it ends with a report that accepts nobody."""
    (fleet.parent / "presses.py").write_text(presses)
    command = ["--inventory", "hosts.yaml", "--run-dir", "run", "-p", "presses", *WIDTH, *more]
    done = run_pytest(fleet.parent, command, PYTHONPATH=str(fleet.parent))
    assert done.exit_code == 2, done.stdout + done.stderr
    report = json.loads((fleet.parent / "run" / "report.json").read_text())
    assert report["run"]["interrupted"] is True
    assert [node["verdict"] for node in report["nodes"]] == ["incomplete"] * 3
    assert (fleet.parent / "run" / "report.html").exists()
    return PytestOutcome(done.exit_code, done.stdout, done.stderr, fleet.parent / "run")


def test_ctrl_c_pressed_again_and_again_keeps_the_report(fleet):
    judged = pressed(fleet, PRESSES).verdicts("pcie.link_width")
    assert judged == dict.fromkeys(("gpu0001", "gpu0002", "gpu0003"), "pass")  # before the first press


# Ctrl-C may come at an instruction that belongs to no line: pytest's own words about the place fail on such.
PRESSED_NOWHERE = """
import pytest
from nodegate.run.judging import Judging

def pressed(*arguments):
    raise KeyboardInterrupt

pressed.__code__ = pressed.__code__.replace(co_linetable=b"")
Judging.judge_node = pressed
"""


@pytest.mark.parametrize("more", [[], ["--full-trace"]])
def test_ctrl_c_at_a_place_without_a_line_keeps_the_report(fleet, more):
    done = pressed(fleet, PRESSED_NOWHERE, *more)
    assert "run.py:" in done.stdout  # the place from where it was called
    assert "Traceback (most recent" not in done.stdout + done.stderr


def test_ctrl_c_does_not_wait_for_a_node_that_says_nothing(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        says_nothing = f"ansible_host: 127.0.0.1, ansible_port: {silent.getsockname()[1]}, ansible_ssh_timeout: 600"
        (tmp_path / "hosts.yaml").write_text(f"all: {{hosts: {{n1: {{{says_nothing}}}}}}}\n")
        running = begin(tmp_path)
        assert wait_until((tmp_path / "run" / "evidence" / ".measuring").exists, limit_s=60)
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[0]
    assert running.returncode == 2, said


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_resume_measures_again_what_was_an_error(fleet, more):
    file = fleet.parent / "recordings" / "gpu0002" / "facts.json"
    hidden = file.rename(file.with_name("hidden"))
    first = run_pytest(fleet.parent, ["--inventory", "hosts.yaml", "--run-dir", "first", *WIDTH])
    assert first.exit_code == 1
    hidden.rename(file)
    again = run_pytest(fleet.parent, ["--resume", "first", *WIDTH, *more])
    assert again.exit_code == 0, again.stdout


def test_resume_says_which_nodes_are_new_and_which_are_left_out(fleet, earlier):
    text = fleet.read_text().replace("    gpu0003:\n", "    gpu0009:\n")
    fleet.write_text(text)
    shutil.copytree(fleet.parent / "recordings" / "gpu0003", fleet.parent / "recordings" / "gpu0009")
    outcome = run_pytest(fleet.parent, ["--inventory", "hosts.yaml", "--resume", "first", "-k", "link_width"])
    assert "left out, although part of the run in first/run.json: gpu0003" in outcome.stdout
    assert "new, not part of the run in first/run.json: gpu0009" in outcome.stdout
    found = PytestOutcome(outcome.exit_code, "", "", earlier).verdicts("pcie.link_width")
    assert set(found) == {"gpu0001", "gpu0002", "gpu0009"}


@pytest.mark.parametrize(
    ("again", "pairs", "burn_s", "tools"),
    [([], "all", 90.0, "tools"), (["--pairs", "few", "--burn", "2m", "--tools", "others"], "few", 120.0, "others")],
)
def test_resume_asks_for_the_same_unless_told(fleet, again, pairs, burn_s, tools):
    for folder in ("tools", "others"):
        (fleet.parent / folder).mkdir()
        (fleet.parent / folder / "ib_write_bw").write_text("#!/bin/sh\n")
        (fleet.parent / folder / "ib_write_bw").chmod(0o755)
    first = ["--pairs", "all", "--burn", "90s", "--tools", "tools", "--run-dir", "first"]
    assert run_pytest(fleet.parent, ["--inventory", "hosts.yaml", *first, *WIDTH]).exit_code == 0
    outcome = run_pytest(fleet.parent, ["--resume", "first", *WIDTH, *again])
    assert outcome.exit_code == 0, outcome.stdout
    resumed = prepare(Settings(resume=fleet.parent / "first"))
    durations = resumed.plan((), judged_here=True).durations
    assert (durations.rounds is None, durations.burn_s) == (pairs == "all", burn_s)
    assert resumed.settings.tools == fleet.parent / tools


def test_resume_of_a_run_from_stdin_asks_for_the_inventory(earlier):
    run = json.loads((earlier / "run.json").read_text())
    run["asked"]["inventory"] = ["-"]
    (earlier / "run.json").write_text(json.dumps(run))
    is_one_message(run_pytest(earlier.parent, ["--resume", "first"]), "add --inventory")
