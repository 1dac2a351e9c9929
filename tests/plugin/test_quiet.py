"""A run is quiet: the answer comes last, and pytest's own output only where it was asked for."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from fleet.machine import Machine
from support import warm
from support.recorded import PytestOutcome, run_pytest, write_fleet

from lab.processes import wait_until
from nodegate.files.paths import CHECKS, INVENTORY, suite_folder

GOLDEN = Path(__file__).parents[1] / "golden" / "demo" / "terminal.txt"
DOTS = re.compile(r"^[.FExXs]{2,}|\[ *\d+%\]", re.MULTILINE)
TOTALS = re.compile(r"\b\d+ (passed|failed|skipped|errors?|xfailed)\b.* in \d")
THEIRS = """
def test_good():
    assert True

def test_bad():
    answer = 41
    assert answer == 42
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Three nodes, of which gpu0002 has a narrow link; beside them a test of the user's own."""
    machines = [Machine.hgx_h100(f"gpu{number:04}", number) for number in (1, 2, 3)]
    machines[1].set_link(machines[1].gpu_address(5), width=2)
    inventory = write_fleet(tmp_path_factory.mktemp("fleet"), machines)
    (inventory.parent / "test_theirs.py").write_text(THEIRS)
    return inventory


def run(fleet, *arguments, **environment):
    command = ["--inventory", "hosts.yaml", "--passive", "-p", "no:cacheprovider", *arguments]
    return run_pytest(fleet.parent, command, **{"COLUMNS": "120", **environment})


@pytest.fixture(scope="module")
def quiet(fleet):
    return run(fleet)


def answer(said):
    lines = said.splitlines()
    first = next(number for number, line in enumerate(lines) if re.match(r"\d+ \S+.* of \d+ nodes?\b", line))
    return [line for line in lines[first:] if not line.startswith(("report: ", "details: "))]


def test_a_quiet_run_says_the_answer_and_nothing_of_pytests(quiet):
    said = quiet.stdout
    assert quiet.exit_code == 1
    assert said.startswith("nodegate ")
    assert not DOTS.search(said)
    assert not TOTALS.search(said)
    heads = ("short test summary", "FAILURES", "ERRORS", "test session starts", "collected", "rootdir")
    assert not [words for words in ("Traceback", *heads) if words in said]


def test_the_answer_comes_last(quiet):
    lines = quiet.stdout.splitlines()
    assert answer(quiet.stdout)[0].startswith("1 rejected, 2 incomplete of 3 nodes (0 of 24 GPUs accepted)")
    assert "rejected: gpu0002" in lines
    assert [line for line in lines if re.match(r"  slow +gpu0002 +GPU 5 S/N \S+ +PCIe x2 of x16", line)]
    assert lines[-2].startswith("report: ")
    assert lines[-1].startswith("details: nodegate show gpu0002 --run ")
    assert max(map(len, answer(quiet.stdout))) <= 120


@pytest.mark.parametrize(
    ("option", "words"),
    [("-v", "::test_link_width[gpu0002] FAILED"), ("-rA", "FAILED "), ("--tb=short", "= FAILURES =")],
)
def test_pytests_own_output_comes_back(fleet, quiet, option, words):
    outcome = run(fleet, option, "-k", "link_width")
    assert "test session starts" in outcome.stdout
    assert words in outcome.stdout
    assert TOTALS.search(outcome.stdout)
    assert answer(outcome.stdout)[2] == answer(quiet.stdout)[2] == "rejected: gpu0002"


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_a_users_own_tests_keep_pytests_output(fleet, more):
    outcome = run(fleet, "test_theirs.py", str(suite_folder(CHECKS)), "-k", "link_width or theirs", *more)
    said = outcome.stdout
    assert outcome.exit_code == 1
    assert "assert 41 == 42" in said
    assert re.search(r"^FAILED \S*::test_bad - ", said, re.MULTILINE)
    assert TOTALS.search(said)
    assert "test_link_width" not in said, "our items have their place in the answer alone"
    assert answer(said)[0].startswith("1 rejected, 2 incomplete of 3 nodes")


def test_n_gives_the_same_answer(fleet, quiet):
    spread = run(fleet, "-n", "2")
    assert answer(spread.stdout) == answer(quiet.stdout)
    assert not DOTS.search(spread.stdout)
    assert not TOTALS.search(spread.stdout)


def test_colours_are_for_a_terminal_only(fleet, quiet):
    coloured = run(fleet, "--color=yes", "-k", "link_width", PY_COLORS="").stdout
    assert re.search(r"\x1b\[31m1 rejected, 2 incomplete", coloured)
    assert "\x1b" not in quiet.stdout


def test_a_site_file_among_the_checks_stays_quiet(tmp_path):
    fleet = write_fleet(tmp_path, [Machine.hgx_h100("gpu0001", 1)])
    (tmp_path / "checks").mkdir()
    body = "from nodegate.records import part\ndef test_own(host, verdicts):\n    '''It holds.'''\n"
    body += "    verdicts.passed(part=part.NODE, text='holds')\n"
    (tmp_path / "checks" / "test_site.py").write_text(body)
    said = run(fleet, "-k", "test_own").stdout
    assert "1 incomplete of 1 node" in said, said
    assert "test session starts" not in said
    assert not TOTALS.search(said)


def test_ctrl_c_still_gives_the_answer_and_how_to_continue(fleet, tmp_path):
    """The second node is being judged when the operator ends the run."""
    checks = tmp_path / "checks"
    checks.mkdir()
    here = tmp_path / "here"
    body = "import pathlib, time\ndef test_slow(host, verdicts):\n    '''It takes its time.'''\n    "
    body += f"pathlib.Path({str(here)!r}).touch()\n    time.sleep(60)\n"
    (checks / "test_site.py").write_text(body)
    command = [sys.executable, "-m", "pytest", "--inventory", "hosts.yaml", "-k", "test_slow", str(checks)]
    command += ["--run-dir", str(tmp_path / "run"), "-p", "no:cacheprovider"]
    environment = {**os.environ, "PY_COLORS": "0", "COLUMNS": "200"}
    with warm.Popen(command, cwd=fleet.parent, env=environment, stdout=warm.PIPE, text=True) as running:
        assert wait_until(here.exists, 60)
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=60)
    assert running.returncode == 2
    assert f"continue with: pytest --resume {tmp_path / 'run'}" in said
    assert "3 incomplete of 3 nodes" in said
    assert said.splitlines()[-1].startswith(("report: ", "details: "))


@pytest.mark.long
def test_the_demo_fits_on_two_screens_and_nothing_is_cut_off(tmp_path):
    """Word for word; to accept new words read the difference, then write them with NODEGATE_WRITE_GOLDEN=1."""
    demo = suite_folder(INVENTORY) / "demo.yaml"
    command = ["--inventory", str(demo), "--run-dir", "run", "--history", "h.sqlite", "-p", "no:cacheprovider"]
    said = run_pytest(tmp_path, command, timeout_s=280, cold=True, COLUMNS="").stdout  # a log
    lines = [line.replace(str(demo), "inventory/demo.yaml") for line in said.splitlines()]
    lines = [re.sub(r"manifest: [0-9a-f]{16}$", "manifest: SHA256", line) for line in lines]
    told = "\n".join(re.sub(r"^nodegate \S+:", "nodegate VERSION:", line) for line in lines) + "\n"
    assert len(lines) <= 72
    assert max(map(len, lines)) <= 120
    assert not [line for line in lines if line.endswith("...")]
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        GOLDEN.write_text(told, encoding="utf-8")
    assert told == GOLDEN.read_text(encoding="utf-8")
    for record in PytestOutcome(0, "", "", tmp_path / "run").records:
        assert record.verdict != "fail" or f"  {record.node} " in told, record.node
