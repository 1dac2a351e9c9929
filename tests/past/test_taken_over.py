"""What history.sqlite of 0.2 and 0.3 holds is taken over once, from beside the record or in its own file."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from support.remembered import keep, past_of, placed

from nodegate.metric import Metric
from nodegate.past import events
from nodegate.past.event import ACCEPT_AGAIN
from nodegate.past.record import FleetRecord
from nodegate.past.series import key_of

GPU = Metric("burn.bf16_tflops", (745.0,), "TFLOPS", "GPU 3", conditions={"dtype": "bf16"})
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
def record(tmp_path: Path, request: pytest.FixtureRequest) -> FleetRecord:
    """A record that begins with the history of an earlier release: beside it, or given by --history."""
    with contextlib.closing(sqlite3.connect(tmp_path / "history.sqlite")) as old:
        old.executescript(OF_0_3)
    return FleetRecord(tmp_path / request.param)


def test_values_and_accepting_again_are_taken_over(record: FleetRecord) -> None:
    record.check()
    parts = placed(chassis="CHASSIS-1", gpu3="1650001")
    assert past_of(record, "gpu01", 9.0, "GPU 3", parts=parts) == {key_of(GPU): [740.0, 741.0]}
    assert past_of(record, "gpu01", 9.0, "GPU 3", parts=placed(gpu3="another")) == {}
    assert past_of(record, "gpu02", 9.0, "GPU 3") == {key_of(GPU): [731.0]}
    (again,) = events.read(record.file)
    assert (again.kind, again.node, again.text) == (ACCEPT_AGAIN, "gpu02", "power cap")


def test_it_happens_once(record: FleetRecord) -> None:
    record.check()
    keep(record, "wednesday", 3.0, {"gpu02": [GPU]})
    again = FleetRecord(record.file)
    again.check()
    assert past_of(again, "gpu02", 9.0, "GPU 3") == {key_of(GPU): [731.0, 745.0]}
    assert len(list(events.read(record.file))) == 1


def test_a_run_that_only_judges_again_takes_nothing_over(record: FleetRecord) -> None:
    before = {file.name: file.read_bytes() for file in record.file.parent.iterdir()}
    judging_again = FleetRecord(record.file, keeps=False)
    judging_again.check()
    assert bool(judging_again.lost) == record.file.exists()
    assert {file.name: file.read_bytes() for file in record.file.parent.iterdir()} == before
