"""`nodegate nightly` over recorded nodes: turns, the time that is over, kills, two nights at once, a full disk, age."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fleet.faults import stray_process
from fleet.machine import Machine
from support.recorded import write_fleet

from lab import clock
from lab.processes import wait_until
from nodegate.night.state import read, write

# A check of the site that ends when the test says so: what a night does meanwhile can be looked at.
WAITS = """
import time, pathlib, pytest
pytestmark = pytest.mark.tier("bootcheck")
def test_mine(host, verdicts):
    '''It ends.'''
    while not pathlib.Path("go").exists(): time.sleep(0.05)
    verdicts.passed(part=__import__('nodegate').part.NODE, text='holds')
"""


@pytest.fixture
def site(tmp_path):
    machines = [Machine.hgx_h100(f"gpu{number}", number) for number in range(1, 5)]
    stray_process(machines[3])
    write_fleet(tmp_path, machines)
    return tmp_path


@pytest.fixture
def waiting(site):
    """A site whose runs do not end before there is a file `go`."""
    (site / "checks").mkdir()
    (site / "checks" / "test_site.py").write_text(WAITS)
    return site


def command(*arguments):
    return [sys.executable, "-m", "nodegate.cli", "nightly", "--inventory", "hosts.yaml", *arguments]


def night(site, *arguments):
    done = subprocess.run(
        command(*arguments),
        cwd=site,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


@contextmanager
def going(site, *arguments):
    """A night that has come to its first check."""
    (site / "go").unlink(missing_ok=True)
    with subprocess.Popen(command(*arguments), cwd=site, stdout=subprocess.PIPE, text=True) as started:
        wait_until(lambda: bool(list(site.glob("reports/*-nightly/evidence/gpu1/facts.json*"))), 60)
        yield started


def folders(site):
    return sorted(site.glob("reports/*-nightly*"))


def nodes_of(folder):
    return sorted(each["name"] for each in json.loads((folder / "run.json").read_text())["nodes"])


@pytest.mark.long
def test_all_idle_nodes_accepted_is_0_and_who_is_busy_is_counted(site):
    code, said = night(site)
    assert code == 0, said
    assert "3 of 3 nodes accepted; 1 busy: reports/" in said
    assert (site / "reports/latest").resolve() == folders(site)[0].resolve()


@pytest.mark.long
def test_a_bad_node_is_1(site):
    record = site / "recordings/gpu1/facts.json"
    record.write_text(record.read_text().replace('"current_link_width": "16"', '"current_link_width": "8"'))
    code, said = night(site)
    assert (code, "2 of 3 nodes accepted" in said) == (1, True), said


@pytest.mark.long
def test_nodes_come_in_their_turn_round_after_round(site):
    assert night(site, "--nodes", "gpu2")[0] == 0
    code, said = night(site, "--most-nodes", "2")
    assert code == 0, said
    assert [nodes_of(each) for each in folders(site)[1:]] == [["gpu1", "gpu3"], ["gpu2", "gpu4"]]


@pytest.mark.long
def test_nobody_judged_is_not_a_good_night(site):
    code, said = night(site, "--nodes", "gpu4")
    assert (code, "no node was judged" in said) == (2, True), said


@pytest.mark.long
def test_two_nights_at_once(waiting):
    with going(waiting) as first:
        code, said = night(waiting)
        assert (code, said) == (75, f"another night runs (process {first.pid})\n")
        (waiting / "go").touch()
        assert first.wait(60) == 0
    assert night(waiting)[0] == 0


def test_a_night_whose_time_is_over_says_so_and_keeps_what_it_judged(waiting):
    code, said = night(waiting, "--within", "6s", "--most-nodes", "2")
    assert code == 2, said
    assert "cut short: its time was over" in said
    assert "the time of the night was over: 2 nodes not tested: gpu[3-4]" in said
    assert (folders(waiting)[0] / "report.json").is_file()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_night_that_is_asked_to_end_ends_its_run_in_good_order(waiting, how):
    with going(waiting) as night_of:
        night_of.send_signal(how)
        said = night_of.communicate(timeout=60)[0]
    assert (night_of.returncode, "cut short: it was asked to end" in said) == (2, True), said
    assert (folders(waiting)[0] / "report.json").is_file()


def kill(night_of):
    """The night and its run, as a machine that loses power."""
    children = Path(f"/proc/{night_of.pid}/task/{night_of.pid}/children").read_text().split()
    for pid in (night_of.pid, *map(int, children)):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.long
def test_a_night_that_was_killed_goes_on_with_its_own_run(waiting):
    with going(waiting) as killed:
        kill(killed)
    (waiting / "go").touch()
    code, said = night(waiting)
    assert code == 0, said
    assert f"goes on with {folders(waiting)[0].relative_to(waiting)}, which was killed" in said
    assert len(folders(waiting)) == 1


@pytest.mark.long
def test_a_night_that_was_killed_after_its_run_tests_no_node_twice(site):
    assert night(site, "--most-nodes", "2", "--within", "1h")[0] == 0
    first, second = folders(site)
    killed = str(second.relative_to(site))
    write(site / "reports", replace(read(site / "reports"), ended=False, folder=killed))
    code, said = night(site, "--most-nodes", "2", "--within", "1h")
    assert (code, folders(site)) == (0, [first, second]), said
    assert f"accepted; 1 busy: {killed}/report.html" in said


def test_a_night_that_was_killed_and_is_over_is_told_once(waiting):
    with going(waiting, "--within", "60s") as killed:
        kill(killed)
    (waiting / "go").touch()
    write(waiting / "reports", replace(read(waiting / "reports"), until_s=1.0))
    notice = f"program:/bin/sh -c 'cat >>{waiting}/told; echo >>{waiting}/told'"
    code, said = night(waiting, "--notice", notice)
    assert code == 0, said
    assert "was cut short" in said
    assert "did not come to its end" in (waiting / "told").read_text()
    assert "cut short" not in night(waiting)[1]


@pytest.mark.long
def test_a_run_that_outlives_its_killed_night_keeps_the_next_one_away(waiting):
    with going(waiting) as killed:
        killed.kill()
        killed.wait()
        assert night(waiting)[0] == 75
        (waiting / "go").touch()
        wait_until((folders(waiting)[0] / "report.json").is_file, 60)
    assert wait_for_code(lambda: night(waiting)[0], {0}) == 0


def wait_for_code(ask, wanted):
    end = time.monotonic() + 30
    while (code := ask()) not in wanted and time.monotonic() < end:
        time.sleep(0.5)
    return code


@pytest.mark.parametrize(
    ("inventory", "words"), [("nowhere.yaml", "nowhere.yaml"), ("-", "a night has no standard input")]
)
def test_a_night_that_cannot_be_done_is_2_and_told(site, inventory, words):
    notice = f"program:/bin/sh -c 'cat >>{site}/told'"
    done = subprocess.run(
        [sys.executable, "-m", "nodegate.cli", "nightly", "--inventory", inventory, "--notice", notice],
        cwd=site, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, words in done.stdout) == (2, True), done.stdout + done.stderr
    assert words in (site / "told").read_text()


@pytest.mark.long
def test_a_full_disk_is_2_and_told(site):
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    (site / "reports").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=120k", "tmpfs", str(site / "reports")]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        code, said = night(site, "--notice", f"program:/bin/sh -c 'cat >>{site}/told'")
    finally:
        subprocess.run(["umount", "-l", str(site / "reports")], check=True)
    assert code == 2, said
    assert "No space left on device" in said
    assert "No space left on device" in (site / "told").read_text()


@pytest.mark.long
def test_old_nights_go_and_acceptances_and_the_newest_run_stay(site):
    for _ in range(2):
        assert night(site, "--nodes", "gpu1")[0] == 0
    delivery = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--inventory",
        "hosts.yaml",
        "--nodes",
        "gpu1",
        "-k",
        "link_width",
    ]
    subprocess.run(delivery, cwd=site, capture_output=True, timeout=60, check=True)
    unknown = site / "reports" / "unknown-to-the-record-nightly"
    old, newer = folders(site)
    unknown.mkdir()
    (unknown / "run.json").write_text((old / "run.json").read_text().replace(old.name, unknown.name))
    (site / "reports/a-link").symlink_to(old)
    done = subprocess.run(
        command("--nodes", "gpu2", "--keep", "30d"), cwd=site, capture_output=True, text=True, timeout=120,
        check=False, env=clock.environment(40 * 86400), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "deleted: 2 run folders of nights" in done.stdout, done.stdout + done.stderr
    assert f"old and not deleted: {unknown.name}: the record does not have it" in done.stdout
    left = {each.name for each in site.glob("reports/2*")}
    assert not {old.name, newer.name} & left
    assert any(name.endswith("-delivery") for name in left)
