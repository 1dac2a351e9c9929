"""A report comes back from its run folder as it went."""

import dataclasses
import json
from pathlib import Path

import pytest
from support.sample_report import fleet

from nodegate.errors import UsageError
from nodegate.records.results import RESULTS, write_all
from nodegate.report.json_file import load
from nodegate.report.model import worst_first
from nodegate.report.render import render


def test_a_report_comes_back_as_it_went(tmp_path: Path) -> None:
    report = fleet(16)
    render(report, tmp_path)
    assert load(tmp_path) == dataclasses.replace(report, nodes=tuple(worst_first(report.nodes)))


@pytest.mark.parametrize(
    ("keys", "value", "where"),
    [
        (("schema",), "nodegate.report/9", ""),
        (("nodes", 0, "gpus"), "8", "$.nodes[0].gpus"),
        (("nodes", 0, "verdict"), "good", "$.nodes[0].verdict"),
        (("nodes", 0, "claims"), [{"claim": "links", "state": "proven"}], "as nodegate writes it"),
        (("results_sha256",), None, "$.results_sha256"),
        (("causes", 0, "more"), 1, "as nodegate writes it"),
        (("causes", 0, "nodes"), [5], "$.causes[0].nodes[0]"),
    ],
)
def test_what_no_longer_fits_is_named(tmp_path: Path, keys: tuple[str | int, ...], value: object, where: str) -> None:
    render(fleet(8), tmp_path)
    path = tmp_path / "report.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"{path}: not a report of schema nodegate.report/4")
    assert where in str(caught.value)


def test_results_that_are_not_those_of_the_report_are_refused(tmp_path: Path) -> None:
    report = fleet(2)
    render(report, tmp_path)
    write_all((node.records[1:] for node in report.nodes), tmp_path)
    with pytest.raises(UsageError, match=r"results.jsonl.gz: does not belong to this report.json - continue"):
        load(tmp_path)
    (tmp_path / RESULTS).unlink()
    with pytest.raises(UsageError, match=r"results.jsonl.gz: cannot be read"):
        load(tmp_path)


def test_results_that_were_cut_are_said_to_be(tmp_path: Path) -> None:
    render(fleet(2), tmp_path)
    whole = (tmp_path / RESULTS).read_bytes()
    (tmp_path / RESULTS).write_bytes(whole[:-9])
    with pytest.raises(UsageError, match=r"results.jsonl.gz: is cut off - continue the run"):
        load(tmp_path)


@pytest.mark.parametrize("schema", ["nodegate.report/2", "nodegate.report/3"])
def test_a_report_of_an_older_form_is_refused_with_the_way_out(tmp_path: Path, schema: str) -> None:
    (tmp_path / "report.json").write_text(f'{{"schema":"{schema}"}}', encoding="utf-8")
    with pytest.raises(UsageError, match=r"judge its evidence again \(pytest --replay"):
        load(tmp_path)


def test_a_run_without_its_report_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name the folder of a finished run"):
        load(tmp_path)
