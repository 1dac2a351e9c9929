"""A report comes back from report.json as it went."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support.sample_report import fleet

from nodegate.errors import UsageError
from nodegate.report.jsonl import to_json
from nodegate.report.model import Report, worst_first
from nodegate.report.reader import load
from nodegate.report.render import render


def in_order(report: Report) -> Report:
    """The report with its nodes worst first; healthy findings in any order, and no time for what takes none."""
    nodes = [
        dataclasses.replace(
            node,
            records=tuple(
                dataclasses.replace(record, findings=tuple(sorted(record.findings, key=repr)), duration_s=0.0)
                for record in node.records
            ),
        )
        for node in worst_first(report.nodes)
    ]
    return dataclasses.replace(report, nodes=tuple(nodes))


def test_a_report_comes_back_as_it_went(tmp_path: Path) -> None:
    report = fleet(16)
    render(report, tmp_path)
    assert in_order(load(tmp_path / "report.json")) == in_order(report)


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
        (("schema",), "nodegate.report/9", "not a report of schema nodegate.report/3"),
        (("nodes", 0, "gpus"), "8", "`gpus` is missing or not a whole number"),
        (("run", "started_epoch_s"), "noon", "`started_epoch_s` is missing or not a number"),
        (("run", "interrupted"), 1, "`interrupted` is missing or not true or false"),
        (("nodes", 0, "verdict"), "good", "'good' is not a verdict of a node"),
        (("nodes", 0, "serials"), {"GPU 0": 5}, "`GPU 0` is missing or not text"),
        (("nodes", 0, "identity"), [["driver"]], "a row of `identity` is not a pair of texts"),
        (("nodes", 0, "claims"), [{"claim": "links", "state": "proven"}], "`links` is missing or not a list"),
        (("details", "tables_sha256"), None, "`tables_sha256` is missing or not text"),
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


@pytest.mark.parametrize("name", ["results.jsonl", "results.tables.jsonl"])
def test_results_that_are_not_those_of_the_report_are_refused(tmp_path: Path, name: str) -> None:
    render(fleet(2), tmp_path)
    kept = (tmp_path / name).read_text(encoding="utf-8")
    (tmp_path / name).write_text(kept.replace('"lanes"', '"roads"').replace('"node":"gpu002"', '"node":"gpu001"'))
    with pytest.raises(UsageError, match=r"results.jsonl: is not the one that report.json was made from - continue"):
        load(tmp_path / "report.json")
    (tmp_path / name).unlink()
    with pytest.raises(UsageError, match=f"{name}: cannot be read"):
        load(tmp_path / "report.json")


def test_a_report_of_the_form_before_is_read_with_the_results_in_it(tmp_path: Path) -> None:
    report = fleet(4)
    render(report, tmp_path)
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    del document["details"]
    document |= {
        "schema": "nodegate.report/2",
        "results": [to_json(each) for node in report.nodes for each in node.records],
    }
    for name in ("results.jsonl", "results.tables.jsonl"):
        (tmp_path / name).unlink()
    (tmp_path / "report.json").write_text(json.dumps(document), encoding="utf-8")
    before = load(tmp_path / "report.json")
    assert before == dataclasses.replace(report, nodes=tuple(worst_first(report.nodes)))
    document["results"][0]["verdict"] = "good"
    (tmp_path / "report.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UsageError, match="'good' is not a verdict"):
        load(tmp_path / "report.json")


def test_a_report_of_an_older_release_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"schema": "nodegate.report/1"}', encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load(path)
    assert "nodegate 0.1 wrote it and can read it; or judge its evidence again: pytest --replay" in str(caught.value)


def test_a_run_without_its_report_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name the folder of a run that came to its end"):
        load(tmp_path / "report.json")
