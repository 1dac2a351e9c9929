"""A history that is locked, damaged or edited: one wait, one note, and the verdicts of a run without a past."""

import contextlib
import datetime as dt
import random
import sqlite3
import time
from pathlib import Path

import pytest

from nodegate import cli, history
from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.history import Again, History
from nodegate.judge.waivers import Waivers
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.run import results
from nodegate.run.judging import Judging

WAIT_S = 0.4
FLEET = tuple(f"gpu{number:03}" for number in range(40))
METRICS = tuple(Metric("burn.bf16_tflops", (745.0,), "TFLOPS", f"GPU {gpu}", {"dtype": "bf16"}) for gpu in range(8))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What forty nodes measured in three runs; one of them was accepted again."""
    monkeypatch.setattr(history, "WAIT_S", WAIT_S)
    file = tmp_path / "history.sqlite"
    for run in range(3):
        History(file).keep(f"run {run}", float(run), dict.fromkeys(FLEET, METRICS).items())
    History(file).accept_again(["gpu000"], 0.5, "power cap")
    return file


def judging(past: History) -> Judging:
    nodes = {name: Node(name) for name in FLEET}
    return Judging(nodes, Profile.NIGHTLY, Baselines.read(), Waivers((), dt.date(2026, 11, 23)), history=past)


def told(run: Judging) -> list[str]:
    return [note for note in results._notes(run) if "history" in note]


@contextlib.contextmanager
def held(file: Path):
    """Nobody else can read it, as while VACUUM runs."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("begin exclusive")
        yield


def spoil_a_page(file: Path) -> None:
    """The page of a table that the check before a run does not read."""
    with contextlib.closing(sqlite3.connect(file)) as index:
        (page,) = index.execute("select rootpage from sqlite_master where name = 'kept'").fetchone()
        (size,) = index.execute("pragma page_size").fetchone()
    raw = bytearray(file.read_bytes())
    raw[(page - 1) * size : page * size] = b"\xff" * size
    file.write_bytes(raw)


def test_a_lock_during_a_run_is_one_wait_and_one_note(file: Path) -> None:
    run = judging(History(file))
    with held(file):
        begun = time.monotonic()
        assert all(run.view.earlier(node)(METRICS[0]) == () for node in FLEET)
        with pytest.raises(UsageError, match="locked"):
            run.history.keep("run 3", 3.0, {"gpu001": METRICS}.items())
        assert time.monotonic() - begun < 3 * WAIT_S
    (note,) = told(run)
    assert "database is locked" in note
    assert "no node was compared with its earlier runs" in note


def test_a_lock_before_a_run_does_not_end_it(file: Path) -> None:
    run = judging(History(file))
    with held(file):
        run.history.check()
    assert run.view.earlier("gpu001")(METRICS[0]) == ()
    assert len(told(run)) == 1


def test_a_damaged_page_is_a_note(file: Path) -> None:
    spoil_a_page(file)
    run = judging(History(file))
    run.history.check()
    assert all(run.view.earlier(node)(METRICS[0]) == () for node in FLEET)
    assert len(told(run)) == 1


def test_a_history_that_is_sound_is_no_note(file: Path) -> None:
    run = judging(History(file))
    assert list(run.view.earlier("gpu001")(METRICS[0])) == [745.0] * 3
    assert not told(run)


@pytest.mark.parametrize("seed", range(60))
def test_any_damage_is_a_refusal_before_the_run_or_a_note(file: Path, seed: int) -> None:
    chance, raw = random.Random(seed), bytearray(file.read_bytes())  # noqa: S311
    for _ in range(chance.choice((1, 20, 400))):
        raw[chance.randrange(100, len(raw))] = chance.randrange(256)
    file.write_bytes(raw)
    past = History(file)
    with contextlib.suppress(UsageError):
        past.check()
        for node in FLEET:
            past.known(node, 10.0)
    assert_no_fault(file)


def assert_no_fault(file: Path) -> None:
    assert cli.main(["history", "gpu[000-003]", "--history", str(file)]) in (0, 2)


ODD = ("", "x", "[]", '"a"', "{", b"\xff\xfe", -1, 7, 1e300, float("inf"), "9" * 400, "\x1b[31m", "[" * 100_000)
COLUMNS = (
    *(("series", each) for each in ("node", "device", "metric", "conditions", "unit", "serial")),
    *(("kept", each) for each in ("series", "started_epoch_s", "run", "value")),
    *(("accepted", each) for each in ("node", "epoch_s", "reason")),
    *(("run", each) for each in ("name", "started_epoch_s")),
)


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_an_odd_value_in_any_column_ends_nothing(
    file: Path, table: str, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in ODD:
        with contextlib.closing(sqlite3.connect(file)) as index, index:
            first = f"select {column} from {table} limit 1"  # noqa: S608 - names of this test
            index.execute(f"update or ignore {table} set {column} = ? where {column} = ({first})", (value,))  # noqa: S608
        past = History(file)
        for node in FLEET[:3]:
            past.known(node, 10.0)
        assert_no_fault(file)
        assert "nodegate failed" not in capsys.readouterr().err


def test_an_odd_time_of_acceptance_is_left_out(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as index, index:
        index.execute("insert into accepted values ('gpu000', 1e300, 'far'), ('gpu000', 2, x'ff')")
    assert History(file).accepted_again("gpu000") == (Again(0.5, "power cap"),)
