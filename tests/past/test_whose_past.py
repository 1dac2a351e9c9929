"""Whose past is whose: of a board that moves or is replaced, of a renamed machine, and of an earlier release."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.remembered import keep, past_of, placed

from nodegate.metric import Metric
from nodegate.past import database, events
from nodegate.past.event import ACCEPT_AGAIN, BOOT, XID, Event
from nodegate.past.keys import Placed
from nodegate.past.questions import stays, whom
from nodegate.past.record import FleetRecord
from nodegate.past.series import key_of

if TYPE_CHECKING:
    pass

GPU = Metric("burn.bf16_tflops", (745.0,), "TFLOPS", "GPU 3")
NODE = Metric("nccl.all_reduce_gb_per_s", (478.0,), "GB/s")
ONE, OTHER = placed(chassis="CHASSIS-1", gpu3="1650001"), placed(chassis="CHASSIS-2", gpu3="1650002")
SWAPPED = placed(chassis="CHASSIS-1", gpu3="1650002"), placed(chassis="CHASSIS-2", gpu3="1650001")
REPLACED = placed(chassis="CHASSIS-1", gpu3="1650009")


@pytest.fixture
def record(tmp_path):
    record = FleetRecord(tmp_path / "fleet.sqlite")
    slower = replace(GPU, values=(731.0,))
    keep(record, "monday", 1.0, {"one": [GPU, NODE], "other": [slower, NODE]}, parts={"one": ONE, "other": OTHER})
    return record


@pytest.mark.parametrize(
    ("node", "parts", "of_gpu", "of_node"),
    [
        pytest.param("one", ONE, [745.0], [478.0], id="as it was"),
        pytest.param("one", SWAPPED[0], [731.0], [478.0], id="a board that moved keeps its past"),
        pytest.param("one", REPLACED, None, [478.0], id="a board that was replaced starts clean"),
        pytest.param("renamed", ONE, [745.0], [478.0], id="a renamed machine keeps its past"),
        pytest.param(
            "one", placed(chassis="CHASSIS-9", gpu3="1650009"), None, None, id="a new machine under that name"
        ),
        pytest.param("other", placed(chassis="CHASSIS-2"), None, [478.0], id="a board that is not known"),
    ],
)
def test_whose_past(record, node, parts, of_gpu, of_node):
    found = past_of(record, node, 10.0, "", "GPU 3", parts=parts)
    assert found == {key: value for key, value in ((key_of(GPU), of_gpu), (key_of(NODE), of_node)) if value}


def test_what_was_measured_before_the_board_was_known_counts_for_its_place(tmp_path):
    record = FleetRecord(tmp_path / "fleet.sqlite")
    keep(record, "monday", 1.0, {"one": [GPU]})
    keep(record, "tuesday", 2.0, {"one": [replace(GPU, values=(750.0,))]}, parts={"one": ONE})
    assert past_of(record, "one", 10.0, "GPU 3", parts=ONE) == {key_of(GPU): [745.0, 750.0]}
    assert past_of(record, "other", 10.0, "GPU 3", parts=OTHER) == {}


def test_a_board_that_is_lost_tells_its_uuid_alone_and_keeps_its_past(record):
    whole, lost = Placed("GPU 3", "1650001", "GPU-6e0a"), Placed("GPU 3", "GPU-6e0a", "GPU-6e0a")
    xid = Event(3.0, XID, "one", "S/N GPU-6e0a", "kernel log", "79")
    keep(record, "tuesday", 2.0, {"one": [GPU]}, parts={"one": (ONE[0], whole)})
    keep(record, "wednesday", 3.0, {"one": [NODE]}, parts={"one": (ONE[0], lost)}, events=[xid])
    with database.reading(record.file) as base:
        of_board = stays(base, whom(base, "1650001"))
        assert [(each.node, each.since_s, each.until_s) for each in of_board] == [("one", 1.0, 3.0)]
        assert base.execute("select part from events").fetchall() == [("S/N 1650001",)]
        assert base.execute("select count(*) from parts where key like '%6e0a%'").fetchone() == (0,)


def test_a_boot_is_one_whatever_the_clock_was_set_to(record):
    for at, when in enumerate((100.0, 100.4, 90_000.0)):
        boot = Event(when, BOOT, "one", "S/N 1", "kernel log", "id")
        keep(record, f"run {at}", at + 2.0, {"one": [NODE]}, events=[boot])
    with database.reading(record.file) as base:
        assert base.execute("select epoch_s from events").fetchall() == [(100.0,)]


def test_a_number_that_several_machines_report_tells_none_apart(tmp_path):
    record, twins = FleetRecord(tmp_path / "fleet.sqlite"), placed(chassis="SAME-1234")
    measured = {"one": [NODE], "other": [replace(NODE, values=(300.0,))]}
    keep(record, "monday", 1.0, measured, parts=dict.fromkeys(measured, twins), shared=frozenset({"SAME-1234"}))
    assert past_of(record, "one", 10.0) == {key_of(NODE): [478.0]}
    assert record.shared() == {"SAME-1234"}


@pytest.mark.parametrize("order", [(1, 2, 3), (1, 3, 2), (3, 2, 1)])
def test_where_a_board_was_in_whatever_order_runs_are_read(tmp_path, order):
    record = FleetRecord(tmp_path / "fleet.sqlite")
    nights = {1: (ONE, OTHER), 2: SWAPPED, 3: (ONE, OTHER)}
    for night in order:
        one, other = nights[night]
        keep(record, f"night {night}", float(night), {"one": [], "other": []}, parts={"one": one, "other": other})
    with database.reading(record.file) as base:
        found = [(each.node, each.since_s, each.until_s) for each in stays(base, whom(base, "1650001"))]
    assert [(node, since) for node, since, _ in found] == [("one", 1.0), ("other", 2.0), ("one", 3.0)]


# What history.sqlite of 0.2 and 0.3 holds is taken over once, from beside the record or in its own file


OLD = Metric("burn.bf16_tflops", (745.0,), "TFLOPS", "GPU 3", conditions={"dtype": "bf16"})
OF_0_3 = """
create table run (id integer primary key, name text not null unique, started_epoch_s real not null);
create table series (
  id integer primary key, node text not null, device text not null, metric text not null, conditions text not null,
  unit text not null, serial text not null default '', unique (node, device, metric, conditions, unit, serial));
create table kept (series integer not null, started_epoch_s real not null, run integer not null, value real not null,
  primary key (series, started_epoch_s, run)) without rowid;
create table accepted (node text not null, epoch_s real not null, reason text not null,
  primary key (node, epoch_s)) without rowid;
insert into run values (1, 'monday', 1.0), (2, 'tuesday', 2.0);
insert into series values (1, 'gpu01', 'GPU 3', 'burn.bf16_tflops', '{"dtype": "bf16"}', 'TFLOPS', '1650001'),
  (2, 'gpu02', 'GPU 3', 'burn.bf16_tflops', '{"dtype": "bf16"}', 'TFLOPS', '');
insert into kept values (1, 1.0, 1, 740.0), (1, 2.0, 2, 741.0), (2, 1.0, 1, 730.0), (2, 2.0, 2, 731.0);
insert into accepted values ('gpu02', 1.5, 'power cap');
"""


@pytest.fixture(params=["history.sqlite", "fleet.sqlite"])
def begun(tmp_path, request):
    """A record that begins with the history of an earlier release: beside it, or given by --history."""
    with contextlib.closing(sqlite3.connect(tmp_path / "history.sqlite")) as old:
        old.executescript(OF_0_3)
    return FleetRecord(tmp_path / request.param)


def test_values_and_accepting_again_are_taken_over(begun):
    begun.check()
    parts = placed(chassis="CHASSIS-1", gpu3="1650001")
    assert past_of(begun, "gpu01", 9.0, "GPU 3", parts=parts) == {key_of(OLD): [740.0, 741.0]}
    assert past_of(begun, "gpu01", 9.0, "GPU 3", parts=placed(gpu3="another")) == {}
    assert past_of(begun, "gpu02", 9.0, "GPU 3") == {key_of(OLD): [731.0]}
    (again,) = events.read(begun.file)
    assert (again.kind, again.node, again.text) == (ACCEPT_AGAIN, "gpu02", "power cap")


def test_it_happens_once(begun):
    begun.check()
    keep(begun, "wednesday", 3.0, {"gpu02": [OLD]})
    again = FleetRecord(begun.file)
    again.check()
    assert past_of(again, "gpu02", 9.0, "GPU 3") == {key_of(OLD): [731.0, 745.0]}
    assert len(list(events.read(begun.file))) == 1


def test_a_run_that_only_judges_again_takes_nothing_over(begun):
    before = {file.name: file.read_bytes() for file in begun.file.parent.iterdir()}
    judging_again = FleetRecord(begun.file, keeps=False)
    judging_again.check()
    assert bool(judging_again.lost) == begun.file.exists()
    assert {file.name: file.read_bytes() for file in begun.file.parent.iterdir()} == before
