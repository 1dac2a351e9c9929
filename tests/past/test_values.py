"""A node's own past: what it measured when it was accepted, under equal conditions; the first and the newest runs."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
import threading
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.burning import burnt
from support.remembered import BEGIN_S, DAY_S, keep, past_of, placed

from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.judge.waivers import Waivers
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.past.difference import changes
from nodegate.past.event import ACCEPT_AGAIN
from nodegate.past.record import FleetRecord
from nodegate.past.series import FIRST, NEWEST, key_of
from nodegate.past.tell import tell
from nodegate.profile import Profile
from nodegate.run.gate import Gate
from nodegate.run.judging import Judging

if TYPE_CHECKING:
    pass

BUSBW = Metric("nccl.all_reduce_gb_per_s", (478.0,), "GB/s", conditions={"nccl": "2.27.3", "size_bytes": "8589934592"})
GPU = Metric("burn.bf16_tflops", (745.0,), "TFLOPS", "GPU 3")


def keep_nights(record, nights, measured=BUSBW, fleet=("gpu01",), *, sound=True):
    """In each night a value of its own, so that one can tell which are left."""
    for night in nights:
        value = replace(measured, values=(400.0 + night,))
        keep(record, f"night {night}", float(night), {node: [value] for node in fleet}, sound=sound)


def steps_to_read(record, monkeypatch):
    """How many tens of steps the database takes to read a node."""
    connect, steps = sqlite3.connect, []

    def counting(*arguments, **named):
        base = connect(*arguments, **named)  # type: ignore[arg-type]
        base.set_progress_handler(lambda: steps.append(1), 10)
        return base

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", counting)
        past_of(record, "gpu01", 1e9)
    return len(steps)


def accept_again(record, at, monkeypatch, *nodes):
    with monkeypatch.context() as patched:
        patched.setattr("time.time", lambda: at)
        tell(record.file, ACCEPT_AGAIN, nodes or ["gpu01"], "new cold plates")


@pytest.fixture
def record(tmp_path):
    return FleetRecord(tmp_path / "reports" / "fleet.sqlite")


def test_a_node_without_a_past_has_none_and_no_file_is_made(record):
    record.check()
    assert past_of(record, "gpu01", 100.0) == {}
    assert not record.file.exists()


def test_values_of_runs_before_come_back_oldest_first_under_the_key_of_their_metric(record):
    for _ in range(2):  # keeping a run twice keeps it once
        keep(record, "monday", 1.0, {"gpu01": [BUSBW]})
    keep(record, "tuesday", 2.0, {"gpu01": [replace(BUSBW, values=(481.0, 482.0))], "gpu02": [BUSBW]})
    assert past_of(record, "gpu01", 3.0) == {key_of(BUSBW): [478.0, 482.0]}
    assert past_of(record, "gpu01", 2.0) == {key_of(BUSBW): [478.0]}  # tuesday's, judged again
    assert key_of(replace(BUSBW, conditions={**BUSBW.conditions, "nccl": "2.28.1"})) != key_of(BUSBW)


def test_bad_nights_do_not_become_normal_and_push_no_good_one_out(record):
    keep_nights(record, range(5))
    keep_nights(record, range(5, 15), replace(BUSBW, values=(200.0,)), sound=False)
    assert past_of(record, "gpu01", 1e9) == {key_of(BUSBW): [400.0, 401.0, 402.0, 403.0, 404.0]}
    keep_nights(record, range(FIRST + NEWEST))
    keep_nights(record, range(100, 300), sound=False)
    assert len(past_of(record, "gpu01", 1e9)[key_of(BUSBW)]) == FIRST + NEWEST


def test_a_run_that_only_judges_again_keeps_nothing(record):
    keep_nights(FleetRecord(record.file, keeps=False), range(1))
    assert not record.file.exists()
    keep_nights(record, range(1))
    before = record.file.read_bytes()
    again = FleetRecord(record.file, keeps=False)
    again.check()
    keep_nights(again, range(1, 2))
    assert record.file.read_bytes() == before


def test_a_burn_of_another_length_is_another_key(record):
    of_a_minute = burnt(Machine.hgx_h100()).metrics
    assert {each.over_runs["seconds"] for each in of_a_minute} == {"60"}

    def longer(found):
        for phase in found["phases"]:
            phase["seconds"] *= 10

    keep(record, "monday", 1.0, {"gpu01": of_a_minute})
    earlier = past_of(record, "gpu01", 3.0, *{each.device for each in of_a_minute})
    assert all(key_of(each) in earlier for each in burnt(Machine.hgx_h100()).metrics)
    assert not any(key_of(each) in earlier for each in burnt(Machine.hgx_h100(), longer).metrics)


def test_nodes_and_baselines_see_no_difference_in_the_length_of_a_burn():
    (first, *_) = burnt(Machine.hgx_h100()).metrics
    assert "seconds" not in first.conditions
    assert replace(first, over_runs={"seconds": "600"}).key == first.key


def test_the_first_values_and_the_newest_are_kept_and_of_what_lies_between_a_median(record):
    runs = 4 * (FIRST + NEWEST)
    keep_nights(record, range(runs))
    values = past_of(record, "gpu01", 1e9)[key_of(BUSBW)]
    assert values == [400.0 + night for night in (*range(FIRST), *range(runs - NEWEST, runs))]
    with contextlib.closing(sqlite3.connect(record.file)) as base:
        (stored,) = base.execute("select count(*) from numbers").fetchone()
    assert stored <= FIRST + 2 * NEWEST + 16


def test_each_month_keeps_its_median(record):
    """190 nights: of what lies between the first and the newest values one is left of each month that is over."""
    for night in range(190):
        value = replace(BUSBW, values=(500.0 - night % 30,))
        keep(record, f"night {night}", BEGIN_S + DAY_S * night, {"gpu01": [value]})
    with contextlib.closing(sqlite3.connect(record.file)) as base:
        asked = "select started_epoch_s from numbers join runs on runs.id = run order by 1"
        nights = [round((at - BEGIN_S) / DAY_S) for (at,) in base.execute(asked)]
    between = [night for night in nights if FIRST <= night < 190 - NEWEST - 31]
    months = [dt.datetime.fromtimestamp(BEGIN_S + DAY_S * night, dt.timezone.utc).month for night in between]
    assert months == [10, 11, 12, 1]


def test_a_number_that_is_new_keeps_its_own_first_values(record):
    keep_nights(record, range(100))
    newer = replace(BUSBW, conditions={**BUSBW.conditions, "nccl": "2.28.1"})
    keep_nights(record, range(100, 200), newer)
    assert past_of(record, "gpu01", 1e9)[key_of(newer)][:FIRST] == [500.0 + night for night in range(FIRST)]
    assert past_of(record, "gpu01", 1e9)[key_of(BUSBW)][:FIRST] == [400.0 + night for night in range(FIRST)]


def test_accepted_again_a_node_has_no_past_before_that(record, monkeypatch):
    keep_nights(record, range(10))
    accept_again(record, 9.5, monkeypatch)
    assert past_of(record, "gpu01", 10.0) == {}
    assert past_of(record, "gpu01", 5.0) == {key_of(BUSBW): [400.0, 401.0, 402.0, 403.0, 404.0]}  # as it counted then
    keep_nights(record, range(10, 12))
    assert past_of(record, "gpu01", 1e9) == {key_of(BUSBW): [410.0, 411.0]}


def test_the_first_values_since_then_are_kept_too(record, monkeypatch):
    parts = {"gpu01": placed(chassis="CZ1234")}
    for night in (*range(100), *range(100, 300)):
        if night == 100:
            accept_again(record, 99.5, monkeypatch)
        keep(record, f"night {night}", float(night), {"gpu01": [replace(BUSBW, values=(400.0 + night,))]}, parts=parts)
    values = past_of(record, "gpu01", 1e9, parts=parts["gpu01"])[key_of(BUSBW)]
    assert values == [400.0 + night for night in (*range(100, 100 + FIRST), *range(300 - NEWEST, 300))]


def test_an_unknown_node_cannot_be_accepted_again(record, monkeypatch):
    with pytest.raises(UsageError, match="there is no record yet"):
        accept_again(record, 1.0, monkeypatch, "gpu09")
    assert not record.file.exists()
    keep_nights(record, range(1))
    with pytest.raises(UsageError, match="the record knows nothing of"):
        accept_again(record, 1.0, monkeypatch, "gpu01", "gpu09")
    assert past_of(record, "gpu01", 10.0) != {}


def test_reading_a_node_does_not_cost_more_with_every_run(record, monkeypatch):
    fleet = [f"gpu{number:02}" for number in range(20)]
    keep_nights(record, range(100), fleet=fleet)
    before = steps_to_read(record, monkeypatch)
    keep_nights(record, range(100, 300), fleet=fleet)
    assert before > 20
    assert steps_to_read(record, monkeypatch) <= 1.5 * before + 200  # a run is a line of a small table


def test_a_node_is_read_once_in_a_run(record, monkeypatch):
    keep_nights(record, range(3))
    today = dt.date(2026, 11, 23)
    judging = Judging({"gpu01": Node("gpu01")}, Profile.NIGHTLY, Baselines.read(), Waivers((), today), past=record)
    monkeypatch.setattr(judging.view, "metrics", lambda _node: (BUSBW,))
    earlier = judging.view.earlier("gpu01")
    record.file.unlink()
    assert judging.view.earlier("gpu01") is earlier
    assert list(earlier(BUSBW)) == [400.0, 401.0, 402.0]


def test_another_look_reads_nothing_yet_to_be_measured(record, monkeypatch):
    """What was not there would not be there afterwards either: a context reads once."""
    keep_nights(record, range(3))
    judging = Judging({"gpu01": Node("gpu01")}, Profile.NIGHTLY, Baselines.read(), Waivers(()), past=record)
    monkeypatch.setattr(judging.view, "metrics", lambda _node: pytest.fail("read"))
    Gate(judging).suspects({"gpu01": (BUSBW,)}, {}, alone=False)
    assert list(judging.view.earlier("gpu01", (BUSBW,))(BUSBW)) == [400.0, 401.0, 402.0]


def test_two_runs_that_end_together_both_keep_their_values(record):
    fleet = {f"gpu{number:04}": [BUSBW] for number in range(200)}
    threads = [threading.Thread(target=keep, args=(record, f"run {number}", 1.0, fleet)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(past_of(record, "gpu0199", 2.0)[key_of(BUSBW)]) == 4


def test_a_reader_does_not_wait_for_a_writer(record):
    keep_nights(record, range(2))
    with contextlib.closing(sqlite3.connect(record.file, isolation_level=None)) as other:
        other.execute("begin immediate")
        other.execute("delete from numbers")
        assert past_of(record, "gpu01", 1e9) == {key_of(BUSBW): [400.0, 401.0]}


# Where a number changed its level: a step is found, noise, a disturbed run and what is small are not


STEADY = [480.0, 482.0, 479.0, 481.0, 480.0, 478.0, 481.0, 480.0]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        pytest.param(STEADY, [], id="noise"),
        pytest.param([*STEADY, *(each - 40 for each in STEADY)], [8], id="a step"),
        pytest.param([*STEADY, *(each - 40 for each in STEADY), *STEADY], [8, 16], id="there and back"),
        pytest.param([*STEADY, 300.0, *STEADY], [], id="one disturbed run"),
        pytest.param([*STEADY, 440.0], [], id="the last run alone"),
        pytest.param([*STEADY, 440.0, 441.0], [8], id="the last two runs"),
        pytest.param([*STEADY, 480.0, 400.0], [], id="one of the last two runs"),
        pytest.param([*STEADY, *(each - 5 for each in STEADY)], [], id="a step below what is worth a word"),
        pytest.param([480.0] * 5 + [440.0] * 3, [5], id="values without any noise"),
        pytest.param([480.0], [], id="one run"),
    ],
)
def test_changes(values, found):
    assert list(changes(values, 12.0, 5.5)) == found


def test_what_does_not_change_is_left_alone():
    drawn = Random(3)  # noqa: S311
    for _ in range(300):
        values = [480 * drawn.gauss(1, 0.02) for _ in range(60)]
        assert list(changes(values, 12.0, 5.5)) == []
