"""A report comes back from report.json as it went."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support.sample_report import fleet

from nodegate.errors import UsageError
from nodegate.report.model import worst_first
from nodegate.report.reader import load
from nodegate.report.render import render


def test_a_report_comes_back_as_it_went(tmp_path: Path) -> None:
    report = fleet(16)
    render(report, tmp_path)
    assert load(tmp_path / "report.json") == dataclasses.replace(report, nodes=tuple(worst_first(report.nodes)))


def test_rendering_it_again_gives_the_same_files(tmp_path: Path) -> None:
    render(fleet(16), tmp_path / "first")
    first = load(tmp_path / "first" / "report.json")
    render(first, tmp_path / "second")
    render(load(tmp_path / "second" / "report.json"), tmp_path / "third")
    for path in (tmp_path / "second").iterdir():
        assert path.read_bytes() == (tmp_path / "third" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("schema",), "nodegate.report/9", "not a report of schema nodegate.report/2"),
        (("nodes", 0, "gpus"), "8", "`gpus` is missing or not a whole number"),
        (("run", "started_epoch_s"), "noon", "`started_epoch_s` is missing or not a number"),
        (("run", "interrupted"), 1, "`interrupted` is missing or not true or false"),
        (("nodes", 0, "verdict"), "good", "'good' is not a verdict of a node"),
        (("nodes", 0, "serials"), {"GPU 0": 5}, "`GPU 0` is missing or not text"),
        (("nodes", 0, "identity"), [["driver"]], "a row of `identity` is not a pair of texts"),
        (("results", 0), [], "`results` holds something that is not an object"),
        (("results", 0, "verdict"), "good", "'good' is not a verdict"),
        (("drift", 0, "count"), True, "`count` is missing or not a whole number"),
        (("drift", 0, "others"), {"1": "gpu001"}, "`1` is missing or not a list"),
    ],
)
def test_what_no_longer_fits_is_named(tmp_path: Path, keys: tuple, value: object, message: str) -> None:
    render(fleet(8), tmp_path)
    path = tmp_path / "report.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_report_of_an_older_release_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"schema": "nodegate.report/1"}', encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load(path)
    assert "nodegate 0.1 wrote it and can read it; or judge its evidence again: pytest --replay" in str(caught.value)


def test_a_run_without_its_report_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name the folder of a run that came to its end"):
        load(tmp_path / "report.json")
