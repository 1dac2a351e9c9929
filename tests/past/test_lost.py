"""A record that is locked, damaged, newer, edited or whose writer is killed: one note, and verdicts without a past."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import random
import re
import sqlite3
import subprocess
import sys
import time

import pytest
from support.remembered import keep

from nodegate import cli
from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.judge.waivers import Waivers
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.past import database, tables
from nodegate.past.event import ACCEPT_AGAIN
from nodegate.past.keys import Keys
from nodegate.past.record import FleetRecord
from nodegate.past.tell import tell
from nodegate.profile import Profile
from nodegate.run import results
from nodegate.run.judging import Judging

WAIT_S = 0.4
FLEET = tuple(f"gpu{number:03}" for number in range(40))
METRICS = tuple(Metric("burn.bf16_tflops", (745.0,), "TFLOPS", f"GPU {gpu}", {"dtype": "bf16"}) for gpu in range(8))
DEVICES = tuple(each.device for each in METRICS)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """What forty nodes measured in three runs; one of them was accepted again."""
    monkeypatch.setattr(database, "WAIT_S", WAIT_S)
    file = tmp_path / "fleet.sqlite"
    for run in range(3):
        keep(FleetRecord(file), f"run {run}", float(run), dict.fromkeys(FLEET, METRICS), traits={"kernel": "6.8"})
    with monkeypatch.context() as patched:
        patched.setattr("time.time", lambda: 0.5)
        tell(file, ACCEPT_AGAIN, ["gpu000"], "power cap")
    return file


def judging(past, monkeypatch):
    nodes = {name: Node(name) for name in FLEET}
    run = Judging(nodes, Profile.NIGHTLY, Baselines.read(), Waivers((), dt.date(2026, 11, 23)), past=past)
    monkeypatch.setattr(run.view, "metrics", lambda _node: METRICS)
    return run


def told(run):
    return [note for note in results._notes(run) if "record" in note]


@contextlib.contextmanager
def held(file):
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("pragma locking_mode = exclusive")
        other.execute("begin exclusive")
        other.execute("create table if not exists mark (x)")
        yield


def spoil_a_page(file):
    """The page of a table that the check before a run does not read."""
    with contextlib.closing(sqlite3.connect(file)) as index:
        (page,) = index.execute("select rootpage from sqlite_master where name = 'numbers'").fetchone()
        (size,) = index.execute("pragma page_size").fetchone()
    raw = bytearray(file.read_bytes())
    raw[(page - 1) * size : page * size] = b"\xff" * size
    file.write_bytes(raw)


def test_a_lock_during_a_run_is_one_wait_and_one_note(file, monkeypatch):
    run = judging(FleetRecord(file), monkeypatch)
    with held(file):
        begun = time.monotonic()
        assert all(run.view.earlier(node)(METRICS[0]) == () for node in FLEET)
        with pytest.raises(UsageError, match="locked"):
            keep(run.past, "run 3", 3.0, {"gpu001": METRICS})
        assert time.monotonic() - begun < 3 * WAIT_S
    (note,) = told(run)
    assert "database is locked" in note
    assert "no node was compared with its earlier runs" in note


def newer(file):
    with contextlib.closing(sqlite3.connect(file)) as base:
        base.execute(f"pragma user_version = {tables.VERSION + 1}")


def cut(file):
    file.write_bytes(file.read_bytes()[:5000])


def no_database(file):
    file.write_bytes(b"no database at all, but long enough to be taken for one" * 40)


def another_form(file):
    with contextlib.closing(sqlite3.connect(file)) as base:
        base.execute("drop table numbers")


@pytest.mark.parametrize("harm", [spoil_a_page, newer, cut, no_database, another_form])
def test_an_unusable_record_is_one_note(file, harm, monkeypatch):
    harm(file)
    before = file.read_bytes()
    run = judging(FleetRecord(file), monkeypatch)
    run.past.check()
    assert all(run.view.earlier(node)(METRICS[0]) == () for node in FLEET)
    assert len(told(run)) == 1
    with pytest.raises(UsageError, match=r"fleet\.sqlite: the record cannot be used"):
        keep(run.past, "run 3", 3.0, {"gpu001": METRICS})
    assert harm is spoil_a_page or file.read_bytes() == before


def test_a_lock_before_a_run_does_not_end_it(file, monkeypatch):
    run = judging(FleetRecord(file), monkeypatch)
    with held(file):
        run.past.check()
    assert run.view.earlier("gpu001")(METRICS[0]) == ()
    assert len(told(run)) == 1


def test_a_record_that_is_sound_is_no_note(file, monkeypatch):
    run = judging(FleetRecord(file), monkeypatch)
    assert list(run.view.earlier("gpu001")(METRICS[0])) == [745.0] * 3
    assert not told(run)


def test_a_database_of_something_else_is_left_alone(tmp_path):
    file = tmp_path / "fleet.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as base, base:
        base.execute("create table customers (name text)")
    before = file.read_bytes()
    with pytest.raises(UsageError, match=r"the record cannot be used: it holds other tables \(customers\)"):
        FleetRecord(file).check()
    assert file.read_bytes() == before


@pytest.mark.parametrize("seed", range(12))
def test_any_damage_is_a_refusal_before_the_run_or_a_note(file, seed):
    chance, raw = random.Random(seed), bytearray(file.read_bytes())  # noqa: S311
    for _ in range(chance.choice((1, 20, 400))):
        raw[chance.randrange(100, len(raw))] = chance.randrange(256)
    file.write_bytes(raw)
    past = FleetRecord(file)
    with contextlib.suppress(UsageError):
        past.check()
        for node in FLEET:
            past.known(Keys(node), DEVICES, 10.0)
        keep(past, "run 9", 9.0, {"gpu001": METRICS})
    assert_no_fault(file)


def assert_no_fault(file):
    assert cli.main(["history", "gpu[000-003]", "--record", str(file)]) in (0, 2)


ODD = ("", "[]", "{", b"\xff\xfe", -1, float("inf"), "9" * 400, "\x1b[31m", "[" * 100_000)
COLUMNS = [
    (table, column)
    for statement in tables.TABLES
    for table, columns in re.findall(r"create table (\w+) \((.*)\)", statement, re.DOTALL)
    for column in re.findall(r"(?:^|,)\s*(\w+) (?:text|real|integer)", columns)
    if table != "texts" and column != "id"
]


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_an_odd_value_in_any_column_ends_nothing(file, table, column, capsys):
    for value in ODD:
        with contextlib.closing(sqlite3.connect(file)) as index, index:
            first = f"select {column} from {table} limit 1"  # noqa: S608 - names of this test
            index.execute(f"update or ignore {table} set {column} = ? where {column} = ({first})", (value,))  # noqa: S608
        past = FleetRecord(file)
        for node in FLEET[:3]:
            past.known(Keys(node), DEVICES, 10.0)
        assert_no_fault(file)
        assert "nodegate failed" not in capsys.readouterr().err


# A run that is killed (SIGKILL) at any moment: each run is in the record with all its nodes, or not


KILLS, NODES, NUMBERS = 8, 20, 50
KEEPING = f"""
import sys
from pathlib import Path
from support.remembered import keep
from nodegate.metric import Metric
from nodegate.past.record import FleetRecord
file, begin = Path(sys.argv[1]), int(sys.argv[2])
metrics = [Metric(f"bench.quantity{{at}}", (1.0,), "GB/s") for at in range({NUMBERS})]
for run in range(begin, begin + 1000):
    keep(FleetRecord(file), f"run {{run}}", float(run), {{f"gpu{{at:02}}": metrics for at in range({NODES})}})
    print(run, flush=True)
"""


def kept_until_killed(file, begin, seconds):
    """The runs that were told to be kept before the process was killed, some time after the first."""
    command = [sys.executable, "-c", KEEPING, str(file), str(begin)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        time.sleep(seconds)
        running.kill()
        return [int(line) for line in (first, *running.stdout) if line.endswith("\n")]


def test_what_was_kept_is_there_and_nothing_is_half_there(tmp_path):
    chance, file = random.Random(7), tmp_path / "fleet.sqlite"  # noqa: S311
    told: list[int] = []
    for kill in range(KILLS):
        told += kept_until_killed(file, 1000 * kill, chance.random() * 0.3)
    assert len(told) >= KILLS
    with contextlib.closing(sqlite3.connect(file)) as base:
        assert base.execute("pragma integrity_check").fetchall() == [("ok",)]
        names = {name for (name,) in base.execute("select name from runs")}
        nodes = base.execute("select count(*) from decisions group by run").fetchall()
        numbers = base.execute("select run, count(*) from numbers group by run").fetchall()
    assert names >= {f"run {run}" for run in told}
    assert set(nodes) == {(NODES,)}
    assert {count for _, count in numbers} <= {NODES * NUMBERS}
    keep(FleetRecord(file), "after", 1e6, {"gpu00": [Metric("bench.quantity0", (1.0,), "GB/s")]})
