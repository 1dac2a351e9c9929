"""`nodegate.open_run` and the workbook of a run: a run, one that was killed, and what nodegate did not write."""

# ruff: noqa: PD011 - `values` is a table of ours

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import openpyxl
import pandas as pd
import pytest
from support.api_names import TABLES
from support.recorded import run_pytest

import nodegate
from nodegate import cli
from nodegate.errors import UsageError
from nodegate.measure.registry import measurement
from nodegate.metric import Metric
from nodegate.records import part
from nodegate.records.finding import Finding, Record
from nodegate.records.manifest import Manifest
from nodegate.records.results import read
from nodegate.records.run_folder import RunFolder
from nodegate.records.verdict import Verdict
from nodegate.report import xlsx_file
from nodegate.report.looks import Looks

ROOT = Path(__file__).parents[2]
LOADED = ["hgx01", "hgx02", "hgx03"]  # healthy; GPU 2 is slow; GPU 3 is lost
SLOW, SERIAL = ("hgx02", "GPU 2"), "1650002000002"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    where = tmp_path_factory.mktemp("site")
    demo = ["--inventory", str(ROOT / "inventory" / "demo.yaml"), "--nodes", ",".join(LOADED)]
    outcome = run_pytest(where, [str(ROOT / "checks"), *demo, "-p", "no:cacheprovider", "--history", "h.sqlite"])
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    return where


@pytest.fixture(scope="module")
def folder(site):
    return (site / "reports" / "latest").resolve()


@pytest.fixture
def copy(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def block(page, word):
    text = (ROOT / "docs" / "guide" / page).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (found,) = (each for each in blocks if word in each)
    return str(found)


def said_by(code, where):
    command = [sys.executable, "-c", f"import nodegate, pandas\n{code}"]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_lines_say_which_gpus_are_below_700_tflops(site):
    code = block("api.md", "open_run")
    assert code.count("\n") == 3
    rows = [line.split() for line in said_by(code, site).splitlines()[1:]]
    assert [(row[1], " ".join(row[2:4]), row[4]) for row in rows] == [(*SLOW, SERIAL)]
    assert float(rows[0][5]) < 700


def test_the_results_are_read_with_pandas_alone(folder):
    said = said_by(block("running.md", "read_json"), folder)
    assert SLOW[0] in said


def test_every_table_has_its_columns_and_types(folder):
    run = nodegate.open_run(str(folder))
    assert run.ended
    for name, columns in TABLES.items():
        frame = getattr(run, name)
        assert len(frame) > 0
        assert {column: str(kind) for column, kind in frame.dtypes.items()} == columns
        assert getattr(run, name) is frame


def test_nodes_and_causes_are_those_of_the_report(folder):
    run, report = nodegate.open_run(folder), json.loads((folder / "report.json").read_text())
    nodes = {row["node"]: row for row in report["nodes"]}
    assert list(run.nodes.node) == list(nodes)
    for row in run.nodes.itertuples():
        known = nodes[row.node]
        assert all(getattr(row, name) == known[name] for name in ("verdict", "platform", "rack", "gpus", "serials"))
        assert row.fail == known["checks"]["fail"] if "fail" in known["checks"] else row.fail == 0
        left = [each["claim"] for each in known["claims"] if each["state"] == "not-proven"]
        assert sorted(row.not_proven) == sorted(left)
    kept = ["id", "place", "class", "severity", "verdict", "condition", "message", "action", "waiver", "follows"]
    assert run.causes[kept].to_dict("records") == [{name: each[name] for name in kept} for each in report["causes"]]
    assert [list(names) for names in run.causes.nodes] == [each["nodes"] for each in report["causes"]]


def test_every_finding_is_there_and_every_number_of_every_part(folder):
    run, records = nodegate.open_run(folder), read(folder)
    findings = [finding for record in records for finding in record.findings]
    assert sorted(run.findings.message) == sorted(finding.message for finding in findings)
    assert run.findings.also.map(len).sum() == sum(len(finding.also) for finding in findings)
    measured = [(part.short, each.metric, each.observed) for each in findings if each.metric for part in each.parts]
    values = run.values[run.values.metric != ""]
    assert sorted(zip(values.part, values.metric, values.value, strict=True)) == sorted(measured)
    widths = run.values[(run.values.quantity == "link width") & (run.values.node == "hgx01")]
    assert set(widths.unit) == {"lanes"}
    assert len(widths[widths.part.str.startswith("GPU")]) == 8


def test_a_number_that_two_checks_judge_is_there_once(folder):
    values = nodegate.open_run(folder).values
    rates = values[values.metric == "burn.bf16_tflops"]
    alike = values[(values.quantity == "bf16 rate") & (values.part != "node")]
    assert len(alike) == len(rates) == 16  # of a node with a lost GPU nothing is burned


def test_a_look_is_the_one_that_gave_the_number_and_a_mean_of_several_has_none(folder):
    values = nodegate.open_run(folder).values
    assert set(values[values.node == "hgx01"].look) == {1}
    assert set(values[values.look.isna()].node) == {"hgx02"}
    of_slow = values[(values.node == "hgx02") & (values.metric == "burn.bf16_tflops")].set_index("part")
    attempts = json.loads((folder / "evidence" / "hgx02" / "burn.json").read_text())["document"]["attempts"]
    assert len(attempts) == 3
    seen = [round(_rate(attempt, 2), 3) for attempt in attempts]
    assert of_slow.value["GPU 2"] == pytest.approx(fmean(sorted(seen)[1:]))
    assert pd.isna(of_slow.look["GPU 2"])


def _rate(attempt, gpu):
    found = measurement("burn").of_document({"attempts": [attempt]}).metrics
    (rate,) = (each.best for each in found if (each.name, each.device) == ("burn.bf16_tflops", f"GPU {gpu}"))
    return rate


@pytest.mark.parametrize(("observed", "look"), [(0.333333, 2), (0.5, 1), (0.416667, None)])
def test_a_look_is_found_by_its_value(monkeypatch, observed, look):
    seen = Metric("burn.bf16_tflops", (0.5, 1 / 3, 0.5), "TFLOPS", "GPU 0")
    monkeypatch.setattr(Looks, "_metrics", lambda _looks, name: (seen,) if name == "burn" else ())
    finding = Finding(part.gpu(0), Verdict.PASS, observed=observed, unit="TFLOPS", metric=seen.name)
    record = Record("n1", "burn.throughput", Verdict.PASS, (finding,), evidence=("evidence/n1/burn.json",))
    assert Looks(RunFolder(Path("none"))).of(record, finding) == look


def test_without_its_evidence_a_look_is_unknown(copy):
    whole = nodegate.open_run(copy).values
    shutil.rmtree(copy / "evidence" / "hgx01")
    burn = copy / "evidence" / "hgx02" / "burn.json"
    burn.write_bytes(burn.read_bytes().replace(b'"started_epoch_s"', b' "started_epoch_s"', 1))
    values = nodegate.open_run(copy).values
    is_gone = (whole.metric != "") & ((whole.node == "hgx01") | (whole.check.str.startswith("burn.")))
    assert list(values.look.isna()) == list(is_gone)
    pd.testing.assert_frame_equal(values.drop(columns="look"), whole.drop(columns="look"))


def test_of_a_run_that_was_killed_there_is_what_was_judged(copy):
    whole = nodegate.open_run(copy)
    (copy / "report.json").unlink()
    results = copy / "results.jsonl.gz"
    results.write_bytes(results.read_bytes()[:-100])  # in the middle of its last node
    with pytest.warns(UserWarning, match="did not come to its end"):
        run = nodegate.open_run(copy)
    assert not run.ended
    assert len(set(run.findings.node)) == 2
    kept = whole.findings[whole.findings.node.isin(set(run.findings.node))]
    assert sorted(run.findings.message) == sorted(kept.message)
    assert len(run.values) == whole.values.node.isin(set(run.values.node)).sum()
    for table in ("nodes", "causes"):
        with pytest.raises(UsageError, match=r"there is no report\.json.*--resume"):
            getattr(run, table)


def test_a_run_without_load_has_values_too(tmp_path):
    demo = ["--inventory", str(ROOT / "inventory" / "demo.yaml"), "--nodes", "hgx01", "-k", "link_width"]
    outcome = run_pytest(tmp_path, [str(ROOT / "checks"), *demo, "--passive", "-p", "no:cacheprovider"])
    run = nodegate.open_run(outcome.folder)
    assert set(run.values.quantity) == {"link width"}
    assert set(run.values.look) == {1}
    assert list(run.nodes.node) == ["hgx01"]
    assert {column: str(kind) for column, kind in run.causes.dtypes.items()} == TABLES["causes"]


def _twice(text):
    return text.replace(b'"verdict":"fail"', b'"verdict":"fail","verdict":"pass"', 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "report.json").write_text("{}"), r"report\.json: not a report"),
        (lambda folder: _changed(folder, _twice), r"results\.jsonl\.gz.*does not belong to this report\.json"),
        (shutil.rmtree, r"report\.json: cannot be read.*name the folder of a finished run"),
    ],
)
def test_what_nodegate_did_not_write_is_refused(copy, change, said):
    change(copy)
    with pytest.raises(UsageError, match=said):
        nodegate.open_run(copy)


def test_what_nodegate_did_not_write_is_refused_of_a_killed_run_too(copy):
    (copy / "report.json").unlink()
    _changed(copy, _twice)
    said = r"results\.jsonl\.gz:\d+: .*--replay"
    with pytest.warns(UserWarning, match="did not"), pytest.raises(UsageError, match=said):
        nodegate.open_run(copy)


def _changed(folder, change):
    results = folder / "results.jsonl.gz"
    results.write_bytes(gzip.compress(change(gzip.decompress(results.read_bytes()))))


# The workbook of a run: its sheets say what the run's own tables say, and nothing in it is run by Excel


def sheet(book, name):
    head, *rows = book[name].iter_rows(values_only=True)
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_the_sheets_are_the_tables_of_the_run(copy):
    file = copy.parent / "run.xlsx"
    assert cli.main(["report", str(copy), "--xlsx", str(file)]) == 0
    book, own = openpyxl.load_workbook(file), nodegate.open_run(copy)
    nodes = {row["node"]: row["verdict"] for row in sheet(book, "nodes")}
    assert nodes == dict(zip(own.nodes["node"], own.nodes["verdict"], strict=True))
    assert [row["what"] for row in sheet(book, "causes")] == own.causes["message"].to_list()
    assert len([row for row in sheet(book, "findings") if row["device"]]) == len(own.findings)
    numbers = {row["value"] for row in sheet(book, "findings") if isinstance(row["value"], float)}
    assert len(numbers & set(own.values["value"])) > 0
    refuted = {row["claim"]: row["refuted on"] for row in sheet(book, "criteria")}
    assert refuted == {claim: sum(claim in each for each in own.nodes["refuted"]) for claim in refuted}
    assert [(row["sha256"], row["file"]) for row in sheet(book, "manifest")][1:] == Manifest(copy).lines()


def test_text_is_no_formula_and_no_link(tmp_path):
    file = tmp_path / "run.xlsx"
    hostile = [("text",), ("=HYPERLINK(1)",), ("https://x.example",), ("\x1b[2J" + "x" * 40_000,), (float("nan"),)]
    with xlsx_file.workbook(file) as book:
        xlsx_file._sheet(book, "t", hostile)
    cells = [row[0] for row in openpyxl.load_workbook(file)["t"].iter_rows(min_row=2)]
    assert [cell.data_type for cell in cells[:3]] == ["s", "s", "s"]
    assert not any(cell.hyperlink for cell in cells)


def test_without_the_extra_it_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    assert cli.main(["report", str(tmp_path), "--xlsx", str(tmp_path / "a.xlsx")]) == cli.CANNOT_TELL
    assert "pip install 'nodegate[xlsx]'" in capsys.readouterr().err
