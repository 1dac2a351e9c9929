"""What real runs leave in the record, and that a rebuild from their folders gives the same and loses nothing."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.recorded import run_pytest

import nodegate
from nodegate import cli
from nodegate.past import events
from nodegate.past.event import REPAIR

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "record.md").read_text("utf-8").partition("| table | columns |")[2]
_COLUMNS = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)
_QUESTIONS = """
select name, started_epoch_s, profile, manifest_sha256 from runs;
select runs.name, node, key, verdict, refuted, open
from decisions join runs on runs.id = run join parts on parts.id = part;
select runs.name, problems.node, cause, key, severity, verdict, texts.text from causes join runs on runs.id = run
join problems on problems.id = problem join parts on parts.id = problems.part join texts on texts.id = causes.text;
select kind, node, part, text from events;
select key, node, slot, from_epoch_s, to_epoch_s from places join parts on parts.id = part;
select key, name, value, from_epoch_s, to_epoch_s from traits join parts on parts.id = part;
select key, metric, conditions, unit, runs.name, value, sound from numbers join runs on runs.id = run
join sequences on sequences.id = series join parts on parts.id = sequences.part
join quantities on quantities.id = sequences.quantity
"""


def held(file):
    with contextlib.closing(sqlite3.connect(file)) as base:
        return [sorted(base.execute(asked)) for asked in _QUESTIONS.split(";")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Where hgx01 to hgx03 of the demo fleet (healthy; GPU 2 is slow; GPU 3 is lost) were tested and judged again."""
    where = tmp_path_factory.mktemp("site")
    demo = ["--inventory", str(ROOT / "inventory" / "demo.yaml"), "--nodes", "hgx[01-03]", "--run-dir", "reports/one"]
    for more in (demo, ["--replay", "reports/one", "--run-dir", "reports/two"]):
        outcome = run_pytest(where, [str(ROOT / "checks"), *more, "-p", "no:cacheprovider"])
        assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    return where / "reports"


@pytest.mark.long
def test_a_run_leaves_its_verdicts_causes_and_numbers(site):
    runs, decisions, causes, _, places, traits, numbers = held(site / "fleet.sqlite")
    assert [row[0] for row in runs] == ["one"]  # what is judged again is no run of its own
    nodes = json.loads((site / "one" / "report.json").read_bytes())["nodes"]
    assert [(row[1], row[3]) for row in decisions] == sorted((each["node"], each["verdict"]) for each in nodes)
    assert ("hgx03", "GPU 3") in {(row[1], row[2]) for row in places}
    assert any(row[1] == "hgx03" and row[2].endswith("/gpu_lost") and row[3].startswith("S/N ") for row in causes)
    assert {"driver version", "GPU serials", "rack"} <= {row[1] for row in traits}
    assert {(row[0], row[6]) for row in numbers if row[1] == "burn.bf16_tflops"}
    sound = {row[6] for row in numbers if row[0].startswith("S/N 1650002")}
    assert sound == {0}


def test_a_rebuild_gives_the_same(site, tmp_path, capsys):
    rebuilt = tmp_path / "fleet.sqlite"
    assert cli.main(["record", "rebuild", str(site / "one"), str(site / "two"), "--record", str(rebuilt)]) == 0
    assert "1 run and 0 events added" in capsys.readouterr().out
    assert held(rebuilt) == held(site / "fleet.sqlite")


def test_a_rebuild_loses_nothing(site, tmp_path, capsys):
    reports = Path(shutil.copytree(site, tmp_path / "reports", symlinks=True))
    record = reports / "fleet.sqlite"
    assert cli.main(["repaired", "hgx03", "GPU 3 replaced", "--record", str(record)]) == 0
    before = held(record)
    shutil.rmtree(reports / "one")  # its folder is gone, the run stays
    (reports / "three").mkdir()
    (reports / "three" / "run.json").write_text("{}")
    assert cli.main(["record", "rebuild", "--record", str(record)]) == 0
    assert held(record) == before
    assert "three" in capsys.readouterr().err
    record.unlink()  # the record itself is gone: repairs come from events.jsonl
    with record.with_name(events.FILE).open("ab") as file:
        file.write(b'{"epoch_s":1.0,"kind":"rep')  # of a program that was killed
    assert cli.main(["record", "rebuild", "--record", str(record)]) == 0
    with contextlib.closing(sqlite3.connect(record)) as base:
        assert base.execute("select kind, node, text from events").fetchall() == [(REPAIR, "hgx03", "GPU 3 replaced")]
    assert "events.jsonl:1: not an event" in capsys.readouterr().err


def test_two_folders_need_no_record(site, capsys, tmp_path):
    command = ["diff", str(site / "one"), str(site / "two"), "--record", str(tmp_path / "none.sqlite")]
    assert cli.main(command) == 0
    assert "new: none" in capsys.readouterr().out
    assert not (tmp_path / "none.sqlite").exists()


def test_pandas_reads_it(site):
    record = nodegate.open_record(site / "fleet.sqlite")
    for name, columns in _COLUMNS.findall(PAGE):
        assert list(getattr(record, name).columns) == re.findall(r"`(\w+)`", columns)
    assert list(record.verdicts.sort_values("node").verdict) == ["accepted", "rejected", "rejected"]
    assert record.values.sound.any()
    assert not record.values.sound.all()
