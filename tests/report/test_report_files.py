"""The files of a run folder, each read back by somebody else's reader."""

import csv
import dataclasses
import gzip
import hashlib
import json
import xml.etree.ElementTree as ET

import pytest
from jsonschema import Draft202012Validator
from support import sample_report
from support.sample_report import fleet, gpu
from support.schemas import DOCS

from nodegate.errors import UsageError
from nodegate.records import part
from nodegate.records.claim import Shown, State
from nodegate.records.finding import AT_LEAST, Finding, Limit, LimitKind, Record
from nodegate.records.part import NODE
from nodegate.records.results import RESULTS, read, write_all
from nodegate.records.run import Drift, NodeReport
from nodegate.records.verdict import GOOD, NodeVerdict, Verdict
from nodegate.report.json_file import load
from nodegate.report.model import Report, worst_first
from nodegate.report.prometheus import measured
from nodegate.report.redact import GONE, redact
from nodegate.report.render import render

SCHEMA = json.loads((DOCS / "report.schema.json").read_text(encoding="utf-8"))

EVIL = '=HYPERLINK("http://evil") \x1b[31m \ud83d ]]> \ufffe <&"\' </failure>'
WRONG = Finding(part.nic("@NIC 0"), Verdict.FAIL, "model", "\u202e+SUM(A1)", text=EVIL, action="\tcmd|' /C calc'!A0")
RIGHT = Finding(part.gpu(1), Verdict.PASS, "margin", -5, "°C", Limit(-2, "°C"))
NASTY = Record("gpu001", "gpu.model", Verdict.FAIL, (WRONG, RIGHT))


def report_of(*records, verdict=NodeVerdict.REJECTED):
    return Report(sample_report.run(), (NodeReport("gpu001", verdict, records=records),))


@pytest.fixture(scope="module")
def small():
    return fleet(16)


@pytest.fixture
def folder(small, tmp_path):
    render(small, tmp_path, everything=True)
    return tmp_path


def document_of(folder):
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_the_folder_holds_these_files_and_nothing_else(small, tmp_path):
    render(small, tmp_path)
    plain = {"findings.csv", "junit.xml", "metrics.prom", "nodes.csv", "report.html", "report.json"}
    plain |= {"results.jsonl.gz"}
    assert {path.name for path in tmp_path.iterdir()} == plain
    assert (tmp_path / "metrics.prom").stat().st_mode & 0o444 == 0o444  # node_exporter runs as its own user
    render(small, tmp_path, everything=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before.keys() == plain | {"results.csv"}
    (tmp_path / "results.csv").write_text("old")
    render(small, tmp_path)  # a folder that has everything is kept so
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_that_fails_half_way_leaves_the_old_one(small, folder):
    before = (folder / "report.json").read_bytes()
    broken = dataclasses.replace(small, run=sample_report.run(versions={"python": object()}))
    with pytest.raises(TypeError):
        render(broken, folder)
    assert (folder / "report.json").read_bytes() == before
    assert not list(folder.glob(".*"))


# ---- report.json -----------------------------------------------------------------------------------------------------


def test_report_json_follows_its_schema_which_refuses_what_it_does_not_know(folder):
    Draft202012Validator.check_schema(SCHEMA)
    document = document_of(folder)
    Draft202012Validator(SCHEMA).validate(document)
    document["nodes"][0]["verdict"] = "fine"
    document["nodes"][0]["extra"] = 1
    assert len(list(Draft202012Validator(SCHEMA).iter_errors(document))) == 2


def test_report_json_names_each_node_with_its_verdict_and_what_failed(folder):
    nodes = {entry["node"]: entry for entry in document_of(folder)["nodes"]}
    verdicts = [entry["verdict"] for entry in nodes.values()]  # the worst first
    assert (len(nodes), verdicts[:3], verdicts[-1]) == (16, ["rejected"] * 3, "accepted")
    assert (nodes["gpu002"]["verdict"], nodes["gpu002"]["failed"]) == ("rejected", ["gpu.xid"])
    assert nodes["gpu004"]["verdict"] == "incomplete"
    assert nodes["gpu004"]["errors"] == ["nccl.all_reduce_nvls", "nccl.alltoall"]
    assert (nodes["gpu006"]["verdict"], nodes["gpu006"]["failed"]) == ("accepted-with-waivers", [])
    assert nodes["gpu006"]["waived"] == ["pcie.link_width"]
    assert nodes["gpu010"]["unreachable"].startswith("connection timed out")
    assert len(nodes["gpu001"]["serials"]) == 9


def test_fleet_statistics_name_who_is_lowest(small, tmp_path):
    render(small, tmp_path)
    [width] = [entry for entry in document_of(tmp_path)["fleet"] if entry["metric"] == "link width"]
    assert (width["lowest"], width["median"], width["highest"], width["unit"]) == (8, 16, 16, "lanes")
    assert width["lowest_at"] in ("gpu006 GPU 3 + 1 more", "gpu012 GPU 3 + 1 more")
    assert (width["count"], width["limit"], width["platform"]) == (15 * 8, 16, "hgx-h100-sxm5")


def test_the_fingerprint_is_of_the_results_alone(small, tmp_path):
    render(small, tmp_path / "a")
    render(dataclasses.replace(small, nodes=small.nodes[::-1], run=sample_report.run(id="other")), tmp_path / "b")
    assert document_of(tmp_path / "a")["results_sha256"] == document_of(tmp_path / "b")["results_sha256"]
    fewer = dataclasses.replace(small.nodes[0], records=small.nodes[0].records[1:])
    render(dataclasses.replace(small, nodes=(fewer, *small.nodes[1:])), tmp_path / "c")
    assert document_of(tmp_path / "a")["results_sha256"] != document_of(tmp_path / "c")["results_sha256"]


def test_the_page_shows_the_hash_that_sha256sum_gives(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    for name in ("report.json", "nodes.csv", "findings.csv", "results.csv"):
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() in page


def test_report_json_tells_the_causes_worst_first(folder):
    causes = document_of(folder)["causes"]
    assert [cause["severity"] for cause in causes][:4] == ["unusable", "unusable", "unusable", "slow"]
    narrow = causes[3]
    told = [narrow[key] for key in ("id", "node", "nodes", "class", "condition", "follows", "place")]
    assert told == ["1600000012003/pcie_narrow", "gpu012", ["gpu012"], "gpu", "pcie_narrow", 0, ""]
    label = "GPU 3 (0000:3d:00.0, S/N 1600000012003)"
    keys = ("kind", "name", "index", "pci", "serial", "label", "node")
    part_told = ("gpu", "GPU 3", 3, "0000:3d:00.0", "1600000012003", label, "gpu012")
    assert narrow["part"] == dict(zip(keys, part_told, strict=True))
    assert narrow["decisive"]["check"] == "pcie.link_width"
    assert narrow["action"]
    [listed] = narrow["findings"]
    [result] = [each for each in read(folder) if (each.node, each.check) == (listed["node"], listed["check"])]
    assert listed["parts"] in [finding.parts_in_words for finding in result.findings]


def test_a_cause_of_several_nodes_names_them_and_no_single_one(folder):
    [missing] = [cause for cause in document_of(folder)["causes"] if cause["condition"] == "no tool"]
    assert missing["node"] == ""
    assert missing["nodes"] == ["gpu004", "gpu016"]
    assert {entry["node"] for entry in missing["findings"]} == {"gpu004", "gpu016"}


# ---- results.csv -----------------------------------------------------------------------------------------------------


def rows(folder, name="results.csv"):
    encoding = "utf-8" if name == "results.csv" else "utf-8-sig"
    with (folder / name).open(encoding=encoding, newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_line_a_finding(small, folder):
    expected = sum(max(1, len(record.findings)) for node in small.nodes for record in node.records)
    table = rows(folder)
    assert len(table) == expected
    assert {row["node_verdict"] for row in table if row["node"] == "gpu010"} == {"unreachable"}


def test_csv_and_junit_have_a_lost_node_of_which_no_check_spoke(tmp_path):
    lost = NodeReport("gpu001", NodeVerdict.UNREACHABLE, unreachable="connection timed out after 15 s")
    render(Report(sample_report.run(), (lost,)), tmp_path, everything=True)
    assert rows(tmp_path, "findings.csv") == rows(tmp_path)
    [row] = rows(tmp_path)
    assert (row["verdict"], row["message"], row["cause"]) == ("unreachable", "connection timed out after 15 s", "")
    error = cases(tmp_path)["node", "judged[gpu001]"].find("error")
    assert error is not None
    assert "connection timed out" in error.get("message", "")


def test_csv_names_cause_value_unit_limit_and_source_of_each_bad_finding(folder):
    table = rows(folder)
    assert {row["cause"] for row in table if row["device_verdict"] in ("pass", "skip")} == {""}
    [row] = [row for row in table if row["node"] == "gpu012" and row["device_verdict"] == "fail"]
    assert [row[name] for name in ("cause", "device", "metric", "value", "unit", "limit", "limit_source")] == [
        *("1600000012003/pcie_narrow", "GPU 3 (0000:3d:00.0, S/N 1600000012003)", "link width", "8.0", "lanes", "16"),
        "baselines/hgx-h100-sxm5.yaml",
    ]


def test_no_cell_is_a_formula_and_numbers_stay_numbers(tmp_path):
    render(report_of(NASTY), tmp_path, everything=True)
    table = rows(tmp_path)
    for row in (*table, *rows(tmp_path, "nodes.csv"), *rows(tmp_path, "findings.csv")):
        for name, cell in row.items():
            assert name in ("value", "limit") or not cell.startswith(("=", "+", "-", "@", "\t", "\r")), (name, cell)
    assert table[0]["device"] == "'@NIC 0"
    assert table[0]["message"].startswith("'@NIC 0: =HYPERLINK")
    assert table[0]["value"].startswith("\\u202e")
    assert table[1]["value"] == "-5"


def test_text_is_no_formula_where_a_semicolon_separates_the_cells(tmp_path):
    wrong = Finding(NODE, Verdict.FAIL, text='a;=HYPERLINK("x"); +1;-2;b;c')
    render(report_of(Record("gpu001", "gpu.model", Verdict.FAIL, (wrong,))), tmp_path)
    [row] = rows(tmp_path, "findings.csv")
    assert row["message"] == """node: a;'=HYPERLINK("x"); '+1;'-2;b;c"""


# ---- findings.csv and nodes.csv --------------------------------------------------------------------------------------


def test_findings_csv_has_every_finding_that_is_not_good_and_no_other(folder):
    kept = [row for row in rows(folder) if row["device_verdict"] not in ("pass", "skip")]
    assert rows(folder, "findings.csv") == kept
    assert {row["device_verdict"] for row in kept} >= {"fail", "error"}


def test_nodes_csv_has_a_row_a_node_with_its_worst_cause(small, folder):
    table = {row["node"]: row for row in rows(folder, "nodes.csv")}
    assert list(table) == [entry["node"] for entry in document_of(folder)["nodes"]]
    narrow = table["gpu012"]
    told = [narrow[key] for key in ("verdict", "severity", "part", "fail", "waived", "failed_checks")]
    assert told == ["rejected", "slow", "GPU 3 (0000:3d:00.0, S/N 1600000012003)", "1", "0", "pcie.link_width"]
    assert narrow["action"]
    assert "S/N" not in narrow["serials"]
    assert "GPU 3 1600000012003" in narrow["serials"]
    assert (table["gpu006"]["waived"], table["gpu006"]["failed_checks"]) == ("1", "")
    assert table["gpu010"]["unreachable"].startswith("connection timed out")
    identity = dict(small.nodes[0].identity)
    assert {label: table["gpu001"][label] for label in identity} == identity
    assert identity


def test_the_tables_begin_with_the_mark_by_which_excel_knows_utf8(folder):
    for name in ("nodes.csv", "findings.csv"):
        assert (folder / name).read_bytes().startswith("\ufeffnode,".encode())


# ---- junit.xml -------------------------------------------------------------------------------------------------------


def cases(folder):
    root = ET.parse(folder / "junit.xml").getroot()  # noqa: S314 - our own file
    return {(case.get("classname", ""), case.get("name", "")): case for case in root.iter("testcase")}


def test_junit_has_a_case_per_node_and_check(small, folder):
    found = cases(folder)
    assert len(found) == sum(1 + len(node.records) for node in small.nodes)
    failure = found["gpu", "xid[gpu002]"].find("failure")
    assert failure is not None
    assert failure.get("message", "").startswith("GPU 5 (0000:3f:00.0, S/N 1600000002005): Xid 79")
    assert found["nccl", "alltoall[gpu004]"].find("error") is not None
    assert found["fabric", "read_bw[gpu001]"].find("skipped") is not None
    assert list(found["gpu", "count[gpu001]"]) == []


def test_junit_shows_a_waived_failure_as_skipped_with_its_waiver(folder):
    skipped = cases(folder)["pcie", "link_width[gpu006]"].find("skipped")
    assert skipped is not None
    assert skipped.get("message", "").startswith("waived: riser on order, PO 8841; owner R. Weiss; expires 2026-12-15")


def test_what_had_no_limit_is_not_judged_in_each_file(tmp_path):
    render(report_of(sample_report.unjudged("gpu001", "burn.throughput")), tmp_path)
    skipped = cases(tmp_path)["burn", "throughput[gpu001]"].find("skipped")
    assert skipped is not None
    assert skipped.get("message", "").startswith("not judged: GPU 2 (0000:3c:00.0, S/N 1600000001002): fp64 1.4 TFLOPS")
    assert "not-judged: GPU 2" in (skipped.text or "")
    assert {row["device_verdict"] for row in rows(tmp_path, "findings.csv")} == {"not-judged"}
    lines = (tmp_path / "metrics.prom").read_text(encoding="utf-8").splitlines()
    assert 'nodegate_check_verdict{node="gpu001",verdict="not-judged"} 1' in lines
    assert any('condition="not_judged",severity="not judged"' in line for line in lines)


def test_junit_leaves_out_what_passed_unless_it_is_asked_for(small, folder, tmp_path):
    render(small, tmp_path / "short")
    short, every = cases(tmp_path / "short"), cases(folder)
    assert {key: ET.tostring(case) for key, case in every.items() if list(case)} == {
        key: ET.tostring(case) for key, case in short.items() if list(case)
    }
    assert [key for key in short if not list(short[key])] == [
        ("node", f"judged[{node.node}]") for node in small.nodes if node.verdict in GOOD
    ]


def test_a_node_that_is_not_accepted_is_never_green_in_junit(tmp_path):
    passed = Record("gpu001", "gpu.count", Verdict.PASS, (Finding(NODE, Verdict.PASS, text="8 GPUs"),))
    for verdict, claims, element in (
        (NodeVerdict.ACCEPTED, (), ""),
        (NodeVerdict.INCOMPLETE, (Shown("compute", State.NOT_PROVEN, "no limit"),), "error"),
        (NodeVerdict.INCOMPLETE, (Shown("compute", State.NOT_PROVEN, "-k", left_out=True),), "skipped"),
        (NodeVerdict.REJECTED, (), "failure"),
        (NodeVerdict.NOT_JUDGED, (), "skipped"),
    ):
        node = NodeReport("gpu001", verdict, records=(passed,), claims=claims)
        render(Report(sample_report.run(), (node,)), tmp_path)
        [case] = cases(tmp_path).values()
        assert [each.tag for each in case] == [element] * bool(element)


def test_junit_is_read_by_a_junit_reader(folder):
    junitparser = pytest.importorskip("junitparser")
    suites = list(junitparser.JUnitXml.fromfile(str(folder / "junit.xml")))
    failures, errors = 2 + 1, 2 * 2 + len(sample_report.IDS)  # lost GPUs and a link; nccl-tests and one not reachable
    assert sum(suite.failures for suite in suites) == failures + 3  # and the verdicts of those nodes
    assert sum(suite.errors for suite in suites) == errors + 2 + 1


def test_junit_stays_xml_whatever_a_node_sends(tmp_path):
    render(report_of(NASTY), tmp_path)
    failure = cases(tmp_path)["gpu", "model[gpu001]"].find("failure")
    assert failure is not None
    assert (failure.text or "").endswith("]]>  <&\"' </failure> - \tcmd|' /C calc'!A0")
    assert "[31m" in failure.get("message", "")


# ---- metrics.prom ----------------------------------------------------------------------------------------------------


def test_prometheus_lines(folder):
    lines = (folder / "metrics.prom").read_text(encoding="utf-8").splitlines()
    assert 'nodegate_node_verdict{node="gpu002",verdict="rejected"} 1' in lines
    assert 'nodegate_check_verdict{node="gpu002",verdict="fail"} 1' in lines
    assert 'nodegate_check_verdict{node="gpu006",verdict="waived"} 1' in lines
    assert "nodegate_run_timestamp_seconds 1795252145.500" in lines
    assert sum(line.startswith("nodegate_node_verdict{") for line in lines) == 16
    assert 'nodegate_nodes{verdict="rejected"} 3' in lines
    assert 'nodegate_gpus{accepted="yes"} 80' in lines
    assert (
        'nodegate_cause{node="gpu012",part="GPU 3",serial="1600000012003",condition="pcie_narrow",severity="slow",'
        'class="gpu",waived="no"} 1'
    ) in lines
    assert sum(line.startswith("nodegate_cause{") and 'waived="no"' in line for line in lines) == 7  # a node and cause


def test_prometheus_has_each_series_once(tmp_path):
    render(report_of(*(sample_report.errored("gpu001", check) for check in ("a.b", "c.d")), NASTY), tmp_path)
    lines = (tmp_path / "metrics.prom").read_text(encoding="utf-8").splitlines()
    series = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")]
    assert len(series) == len(set(series))


def of_gpu(index, value, limit=600.0, verdict=Verdict.PASS):
    held_to = Limit(limit, "TFLOPS", "", AT_LEAST, LimitKind.FLEET)
    return Finding(part.gpu(index, serial=f"165{index}"), verdict, "bf16 rate", value, "TFLOPS", held_to, metric="b.t")


@pytest.mark.parametrize(("findings", "most", "told"), [
    ([of_gpu(0, 700.0), of_gpu(1, 690.0)], 2, {"GPU 0": (700.0, 600.0), "GPU 1": (690.0, 600.0)}),
    ([of_gpu(0, 700.0), of_gpu(1, 690.0)], 1, {"GPU 1": (690.0, 600.0)}),
    ([of_gpu(0, 620.0), of_gpu(1, 700.0, 690.0)], 1, {"GPU 1": (700.0, 690.0)}),
    ([of_gpu(0, 610.0), of_gpu(1, 640.0, verdict=Verdict.FAIL)], 1, {"GPU 1": (640.0, 600.0)}),
    ([of_gpu(0, 700.0), of_gpu(0, 650.0)], 9, {"GPU 0": (650.0, 600.0)}),
    ([of_gpu(0, 9000.0, verdict=Verdict.ERROR)], 9, {}),
    ([dataclasses.replace(of_gpu(0, 700.0), limit=None)], 9, {"GPU 0": (700.0, None)}),
    ([dataclasses.replace(of_gpu(0, 700.0), also=(part.gpu(7),))], 9,
     {"GPU 0": (700.0, 600.0), "GPU 7": (700.0, 600.0)}),
])  # fmt: skip
def test_measured_values_with_their_limits(findings, most, told, monkeypatch):
    """Of a fleet with too many values each node has the part that is nearest to its limit."""
    monkeypatch.setattr("nodegate.report.prometheus.MOST_PARTS", most)
    found = measured(report_of(Record("gpu001", "burn.throughput", Verdict.PASS, tuple(findings))))
    assert {each.part: (each.value, each.limit) for each in found} == told


def test_prometheus_labels_are_escaped(tmp_path):
    node = NodeReport('a"b\\c\nd', NodeVerdict.UNREACHABLE)
    render(Report(sample_report.run(), (node,)), tmp_path)
    text = (tmp_path / "metrics.prom").read_text(encoding="utf-8")
    assert '{node="a\\"b\\\\c\\nd",verdict="unreachable"} 1\n' in text


# ---- a report comes back from its run folder as it went --------------------------------------------------------------


def test_a_report_comes_back_as_it_went(tmp_path):
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
def test_what_no_longer_fits_is_named(tmp_path, keys, value, where):
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


def test_results_that_are_not_those_of_the_report_are_refused(tmp_path):
    report = fleet(2)
    render(report, tmp_path)
    write_all((node.records[1:] for node in report.nodes), tmp_path)
    with pytest.raises(UsageError, match=r"results.jsonl.gz: does not belong to this report.json - continue"):
        load(tmp_path)
    (tmp_path / RESULTS).write_bytes((tmp_path / RESULTS).read_bytes()[:-9])
    with pytest.raises(UsageError, match=r"results.jsonl.gz: is cut off - continue the run"):
        load(tmp_path)
    (tmp_path / RESULTS).unlink()
    with pytest.raises(UsageError, match=r"results.jsonl.gz: cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize("schema", ["nodegate.report/2", "nodegate.report/3"])
def test_a_report_of_an_older_form_is_refused_with_the_way_out(tmp_path, schema):
    (tmp_path / "report.json").write_text(f'{{"schema":"{schema}"}}', encoding="utf-8")
    with pytest.raises(UsageError, match=r"judge its evidence again \(pytest --replay"):
        load(tmp_path)


# ---- redacted it names no serial, address or person, and is still a report -------------------------------------------


SERIAL = "1654321012345"


def redacted_message(text):
    record = Record("gpu001", "a.b", Verdict.FAIL, (Finding(NODE, Verdict.FAIL, text=text),))
    serials = {"GPU 0": SERIAL, "chassis": "SN 77/12"}
    node = NodeReport("gpu001", NodeVerdict.REJECTED, serials=serials, records=(record,))
    [found] = redact(Report(sample_report.run(user="mia", host="deploy01"), (node,))).nodes
    return found.records[0].findings[0].text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"GPU 0 (0000:5d:00.0, serial {SERIAL}): lost", f"GPU 0 (0000:5d:00.0, serial {GONE}): lost"),
        (f"replace {SERIAL}.", f"replace {GONE}."),
        ("chassis SN 77/12 is open", f"chassis {GONE} is open"),
        ("no route to 10.20.0.7:22", f"no route to {GONE}:22"),
        ("fe80::1ff:fe23:4567:890a is down.", f"{GONE} is down."),
        ("mac 0c:42:a1:de:ad:01, guid 0x0c42a10300dead01", f"mac {GONE}, guid {GONE}"),
        ("node guid 0c42:a103:00de:ad01", f"node guid {GONE}"),
        ("GPU-12345678-1234-1234-1234-123456789abc", GONE),
        ("key of mia@deploy01 in /home/mia/.ssh/id_ed25519", f"key of {GONE}@{GONE} in /home/{GONE}/.ssh/id_ed25519"),
    ],
)
def test_what_names_a_machine_or_a_person_goes(text, expected):
    assert redacted_message(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "VBIOS 96.00.89.00.01, driver 550.90.07, firmware 28.39.1002",
        "GPU 3 (0000:5d:00.0) and 00000000:1A:00.0",
        "needs root: 12:30:45 load ~500 W, 9.5 °C",
        "link width 8 lanes, expected at least 16 lanes",
    ],
)
def test_what_was_measured_stays(text):
    assert redacted_message(text) == text


def test_no_serial_is_left_in_any_file(tmp_path):
    original = fleet(8)
    render(redact(original), tmp_path)
    raw = [path.read_bytes() for path in tmp_path.iterdir()]
    everything = b"".join(gzip.decompress(each) if each.startswith(b"\x1f\x8b") else each for each in raw).decode()
    for node in original.nodes:
        assert not [serial for serial in node.serials.values() if serial in everything]
    assert "mia" not in everything
    assert "deploy01" not in everything
    assert "gpu001" in everything


def test_nodes_named_by_address_are_numbered_everywhere():
    names = ("10.0.0.9", "10.0.0.10")
    found = Finding(part.host("link"), Verdict.FAIL, text="no answer from 10.0.0.9")
    records = [Record(name, "a.b", Verdict.FAIL, (found,), (), (f"evidence/{name}/facts.json",)) for name in names]
    nodes = tuple(NodeReport(each.node, NodeVerdict.REJECTED, records=(each,)) for each in records)
    drift = (Drift("p", "driver", "1", 1, 2, {"2": ("10.0.0.10",)}),)
    made = redact(Report(sample_report.run(), nodes, drift))
    assert [node.node for node in made.nodes] == ["node-0001", "node-0002"]
    assert [node.records[0].node for node in made.nodes] == ["node-0001", "node-0002"]
    assert made.nodes[1].records[0].findings[0].message == "link: no answer from node-0001"
    assert made.nodes[1].records[0].evidence == ("evidence/node-0002/facts.json",)
    assert made.drift[0].others == {"2": ("node-0002",)}


def test_parts_stay_told_apart_without_their_serials():
    """Serial numbers are what parts are known by: without them their places in the node still tell them apart."""
    found = tuple(
        Finding(dataclasses.replace(gpu(index), uuid=f"GPU-{index}"), Verdict.FAIL, code=code, action="replace it")
        for index, code in enumerate(("pending", "no spare rows"))
    )
    record = Record("gpu001", "ecc.rows", Verdict.FAIL, found)
    node = NodeReport("gpu001", NodeVerdict.REJECTED, records=(record,), serials={"x": SERIAL})
    original = Report(sample_report.run(), (node,))
    made = redact(original)
    assert len(made.causes) == len(original.causes) == 2
    assert [cause.part.label for cause in made.causes] == ["GPU 0 (0000:3a:00.0)", "GPU 1 (0000:3b:00.0)"]
    ids = [f"gpu001/0000:3{end}:00.0/ecc.rows/{code}" for end, code in (("a", "pending"), ("b", "no spare rows"))]
    assert [cause.id for cause in made.causes] == ids


def test_the_original_is_left_as_it_was_and_a_second_time_changes_nothing():
    original = fleet(8)
    copy = dataclasses.replace(original)
    once = redact(original)
    assert original == copy
    assert redact(once) == once


def test_a_long_hostile_text_costs_no_time():
    assert len(redacted_message("a:" * 200_000)) == 400_000
    assert redacted_message("a-" * 100_000 + "@").startswith("a-")
