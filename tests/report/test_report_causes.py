"""The findings of a report: one row a cause, worst first, with what follows from it, and what was not judged."""

import dataclasses
import re

import pytest
from support import sample_report
from support.sample_report import fleet, gpu, passed, skipped, unjudged

from nodegate.records import part
from nodegate.records.finding import AT_LEAST, Finding, Limit, Record
from nodegate.records.run import CheckInfo, NodeReport
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report import html
from nodegate.report import wording as words
from nodegate.report.cause_rows import MOST_DETAILS, MOST_PARTS, cause_rows
from nodegate.report.model import Report
from nodegate.report.not_judged import NO_LIMIT, NO_RESULT, not_applicable, not_judged, unjudged_checks, waived
from nodegate.report.stats import measurements

LOST = "no longer answers on PCIe"


def width(node, lanes, index=3):
    limit = Limit(16, "lanes", "its own maximum", AT_LEAST)
    found = Finding(gpu(index, node), Verdict.FAIL, "link width", lanes, "lanes", limit, action="reseat the riser")
    return Record(node, "pcie.link_width", Verdict.FAIL, (found,), ("F05",))


def lost(node, index=3, blocked=2):
    gone = Finding(gpu(index, node), Verdict.FAIL, text=LOST, action="power-cycle the node")
    block = Finding(gpu(index, node), Verdict.ERROR, text="GPU lost", action="fix that first", blocked_by="gpu.lost")
    errors = (Record(node, f"ecc.check{place}", Verdict.ERROR, (block,)) for place in range(blocked))
    return (Record(node, "gpu.lost", Verdict.FAIL, (gone,), ("F02",)), *errors)


def report(*nodes, verdict=NodeVerdict.REJECTED):
    racked = enumerate(nodes)
    reports = (NodeReport(name, verdict, "hgx", f"r{at}", records=records, gpus=8) for at, (name, records) in racked)
    return Report(sample_report.run(), tuple(reports), checks={"gpu.lost": CheckInfo("x", ("F02",))})


def rows(*nodes):
    return cause_rows(report(*nodes))


# ---- one row a cause -------------------------------------------------------------------------------------------------


def test_a_lost_gpu_is_one_row_with_what_follows_from_it():
    [row] = rows(("gpu001", lost("gpu001", blocked=70)))
    assert (row.severity, row.nodes, row.racks, row.part) == ("lost", ("gpu001",), ("r0",), "GPU 3 S/N 1600000001003")
    assert row.what
    assert row.action
    assert row.follow_count == 70
    assert row.anchor == "1600000001003/gpu_lost"
    assert row.modes == ("F02",)
    [follows] = row.follows  # 70 checks that say the same share a line
    assert (len(follows.checks), follows.count, follows.said) == (70, 70, "GPU lost")


def test_the_source_of_the_limit_is_told_below_the_row():
    [row] = rows(("gpu001", (width("gpu001", 8),)))
    [shown] = row.shows
    assert (shown.checks, shown.parts, shown.source) == (("pcie.link_width",), "GPU 3", "its own maximum")
    assert "link width 8 lanes, expected at least 16 lanes" in shown.said
    assert "its own maximum" not in row.what


def test_the_rows_stand_from_the_worst_severity_to_the_least():
    found = cause_rows(fleet(16))  # the third is not reachable
    assert [row.severity for row in found] == ["unusable"] * 3 + ["slow", "degraded", "not measured", "slow"]
    assert [bool(row.waiver) for row in found] == [False] * 6 + [True]


def test_wrong_data_stands_above_a_lost_gpu_on_more_nodes():
    wrong = Finding(gpu(4, "gpu009"), Verdict.FAIL, text="3 wrong results in bf16", action="replace the board (RMA)")
    made = [(name, lost(name)) for name in ("gpu001", "gpu002", "gpu003")]
    found = rows(*made, ("gpu009", (Record("gpu009", "burn.results", Verdict.FAIL, (wrong,)),)))
    assert [row.severity for row in found] == ["wrong data", "lost"]


def test_the_same_cause_on_many_nodes_is_one_row_that_names_each_part_with_its_serial():
    names = [f"gpu{number:03d}" for number in range(1, 5)]
    [row] = rows(*((name, lost(name, index=number)) for number, name in enumerate(names)))
    assert row.nodes == tuple(names)
    assert row.part == "a GPU"
    assert row.parts == tuple(f"{name} GPU {at} S/N 16{at + 1:08d}{at:03d}" for at, name in enumerate(names))


def test_what_crowds_in_one_rack_is_told_as_the_racks():
    nodes = [NodeReport(f"gpu{n:03d}", NodeVerdict.REJECTED, rack=f"r{n // 8}", records=()) for n in range(64)]
    sick = [dataclasses.replace(node, records=lost(node.node)) if node.rack == "r7" else node for node in nodes]
    [row] = cause_rows(Report(sample_report.run(), tuple(sick)))
    assert (row.place, len(row.nodes)) == ("r7", 8)


def test_every_bad_finding_is_in_exactly_one_row():
    made = fleet(32)
    findings = [each for node in made.nodes for record in node.records for each in record.findings]
    bad = sum(each.verdict not in (Verdict.PASS, Verdict.SKIP) for each in findings)
    assert sum(detail.count for row in cause_rows(made) for detail in (*row.shows, *row.follows)) == bad


def test_two_causes_of_one_id_have_two_anchors():
    one = cause_rows(report(("gpu001", lost("gpu001"))))[0]
    made = report(("gpu001", lost("gpu001")))
    vars(made)["causes"] = (*made.causes, *made.causes)
    [first, second] = cause_rows(made)
    assert (first.anchor, second.anchor) == (one.anchor, f"{one.anchor}-2")


def test_an_anchor_holds_nothing_that_a_link_cannot():
    evil = Finding(part.nic('"><script> é'), Verdict.FAIL, text="x", action="y")
    [row] = rows(("gpu001", (Record("gpu001", "a.b", Verdict.FAIL, (evil,)),)))
    assert row.anchor == "gpu001/-script-/a.b"


def test_the_details_of_a_cause_are_bounded():
    limit = Limit(16, "lanes", "", AT_LEAST)
    found = tuple(Finding(gpu(3), Verdict.FAIL, f"width {at}", 8, "lanes", limit, action="seat") for at in range(100))
    [row] = rows(("gpu001", (Record("gpu001", "a.b", Verdict.FAIL, found),)))
    assert (len(row.shows), row.left_out) == (MOST_DETAILS, 100 - MOST_DETAILS)
    names = [f"gpu{number:03d}" for number in range(200)]
    [row] = rows(*((name, lost(name, index=int(name[3:]) % 8)) for name in names))
    assert (len(row.parts), row.parts[-1]) == (MOST_PARTS + 1, f"{200 - MOST_PARTS} more in findings.csv")


def test_a_node_out_of_reach_says_what_to_do_also_where_no_check_spoke_of_it():
    [row] = [row for row in cause_rows(fleet(16)) if row.nodes == ("gpu010",)]
    assert row.what == "connection timed out after 15 s"
    assert row.action == "power on the node or repair its management network"
    silent = NodeReport("gpu001", NodeVerdict.UNREACHABLE, unreachable="connection refused")
    [row] = cause_rows(Report(sample_report.run(), (silent,)))
    assert row.what == "connection refused"
    assert "nodegate doctor" in row.action


# ---- waived ----------------------------------------------------------------------------------------------------------


def test_a_waived_failure_stands_last_and_among_the_waivers():
    held = dataclasses.replace(width("gpu001", 8), waiver="riser on order (owner Weiss, expires 2026-12-15)")
    made = report(("gpu001", (held,)), verdict=NodeVerdict.WAIVED)
    assert [row.waiver for row in cause_rows(made)] == [held.waiver]
    [row] = waived(made)
    found = "GPU 3: link width 8 lanes, expected at least 16 lanes"
    assert (row.waiver, row.check, row.found, row.nodes) == (held.waiver, held.check, found, ("gpu001",))


# ---- not judged ------------------------------------------------------------------------------------------------------


def test_what_has_no_limit_is_folded_over_nodes_though_values_differ():
    names = ("gpu001", "gpu002", "gpu010")
    made = report(*((name, (unjudged(name, "burn.throughput", value=float(n)),)) for n, name in enumerate(names)))
    [gap] = [gap for gap in not_judged(made) if gap.reason != NO_RESULT]
    assert (gap.checks, gap.nodes) == (("burn.throughput",), names)
    assert (gap.reason, gap.keys) == (NO_LIMIT, ("burn.fp64_tflops",))
    assert unjudged_checks(made) == (("burn.throughput",), names)
    assert not_applicable(made) == []


def test_a_part_that_was_not_judged_counts_though_another_part_failed():
    record = unjudged("gpu001", "burn.throughput")
    bad = dataclasses.replace(record.findings[0], verdict=Verdict.FAIL, note="", action="replace it")
    made = report(("gpu001", (dataclasses.replace(record, verdict=Verdict.FAIL, findings=(*record.findings, bad)),)))
    assert unjudged_checks(made) == (("burn.throughput",), ("gpu001",))


def test_what_does_not_apply_is_told_apart_from_what_was_not_judged():
    why = "no second node"
    nodes = [(name, (skipped(name, "fabric.bw", why), skipped(name, "fabric.lat", why))) for name in ("a1", "a2")]
    made = report(*nodes, verdict=NodeVerdict.NOT_JUDGED)
    [gap] = not_applicable(made)
    assert (gap.reason, gap.checks, gap.nodes) == (why, ("fabric.bw", "fabric.lat"), ("a1", "a2"))
    assert [gap.reason for gap in not_judged(made)] == [NO_RESULT]  # of gpu.lost, which left no record


def test_a_check_without_a_result_is_a_gap_not_a_pass():
    one = report(("a1", (passed("a1", "gpu.count"),)), verdict=NodeVerdict.INCOMPLETE)
    made = dataclasses.replace(one, checks={"gpu.count": CheckInfo("x"), "gpu.mig": CheckInfo("y")})
    [gap] = not_judged(made)
    assert (gap.reason, gap.checks, gap.nodes) == (NO_RESULT, ("gpu.mig",), ("a1",))


# ---- statistics ------------------------------------------------------------------------------------------------------


def rate(node, value, index=0, also=0, low=100.0):
    others = tuple(gpu(index + place, node) for place in range(1, also + 1))
    limit = Limit(low, "GB/s", "x.yaml", AT_LEAST)
    found = Finding(gpu(index, node), Verdict.PASS, "copy", value, "GB/s", limit, metric="memory.x", also=others)
    return Record(node, "copies.x", Verdict.PASS, (found,))


def test_platforms_are_never_in_one_statistic():
    one = NodeReport("gpu001", NodeVerdict.ACCEPTED, "hgx-h100-8", records=(rate("gpu001", 400.0, low=380.0),))
    other = NodeReport("gpu002", NodeVerdict.ACCEPTED, "l40s", records=(rate("gpu002", 195.0),))
    found = [(row.platform, row.lowest, row.limit) for row in measurements((one, other))]
    assert found == [("hgx-h100-8", 400.0, 380.0), ("l40s", 195.0, 100.0)]


def test_each_part_counts_though_equal_ones_are_one_finding():
    [row] = measurements(report(("gpu001", (rate("gpu001", 50.0, also=7),)), ("gpu002", (rate("gpu002", 60.0),))).nodes)
    assert tuple(row.values) == (50.0,) * 8 + (60.0,)
    assert row.median == 50.0
    assert (row.lowest_at, row.highest_at) == ("gpu001 GPU 0 + 7 more", "gpu002 GPU 0")


def test_pairs_of_one_metric_are_one_statistic():
    about = {"unit": "GB/s", "metric": "memory.peer"}
    pairs = [Finding(gpu(at), Verdict.PASS, f"peer GPU {at} to GPU 7", 375.0 + at, **about) for at in range(3)]
    [row] = measurements(report(("gpu001", (Record("gpu001", "copies.peer", Verdict.PASS, tuple(pairs)),))).nodes)
    assert (row.quantity, row.metric, len(row.values)) == ("peer", "memory.peer", 3)


def test_readings_that_failed_for_one_reason_share_a_line():
    found = tuple(
        Finding(gpu(index), Verdict.ERROR, quantity, text="cuInit: 802", action="see the evidence")
        for index in range(2)
        for quantity in ("SM clock", "power")
    )
    [row] = rows(("gpu001", (Record("gpu001", "burn.clock", Verdict.ERROR, found),)))
    [shown] = row.shows
    assert (shown.said, shown.parts, shown.count) == ("could not read 2 values: cuInit: 802", "GPU 0 + 1 more", 4)


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), "5", None])
def test_true_and_nan_are_no_measurements(value):
    found = [Finding(gpu(0), Verdict.PASS, "m", each) for each in (value, 7)]  # type: ignore[arg-type]
    made = report(("a1", (Record("a1", "c.d", Verdict.PASS, tuple(found)),)))
    [row] = measurements(made.nodes)
    assert tuple(row.values) == (7.0,)


# ---- words -----------------------------------------------------------------------------------------------------------


def test_headlines():
    assert words.headline(fleet(16)) == "10 of 16 nodes accepted"
    assert words.headline(Report(sample_report.run())) == "No node was judged"
    one = Report(sample_report.run(), (NodeReport("a", NodeVerdict.ACCEPTED),))
    assert words.headline(one) == "The node is accepted"


def test_the_first_sentences_say_how_many_gpus_nodes_causes_and_unjudged_checks():
    assert words.sentences(fleet(16)) == [
        "80 of 120 GPUs accepted (of 15 of 16 nodes; the others are not counted).",
        "Not accepted: 3 rejected; 2 incomplete: something could not be measured, or a claim is not proven; 1 not reachable.",  # noqa: E501
        "6 causes to work on, worst first below.",
        "1 of the accepted holds waivers.",
    ]
    assert "1 cause to work on, worst first below." in words.sentences(report(("gpu001", lost("gpu001"))))
    made = report(("gpu001", (passed("gpu001", "gpu.count"), unjudged("gpu001", "burn.throughput"))))
    assert words.sentences(made)[-1] == "1 check was not judged on 1 node: there is no limit."


def test_no_share_is_rounded_up_to_all_or_down_to_none():
    pairs = ((1249, 1250), (1250, 1250), (1, 5000), (0, 5), (0, 0))
    assert [words.percent(*pair) for pair in pairs] == ["99.9 %", "100.0 %", "0.1 %", "0.0 %", "-"]


@pytest.mark.parametrize(("profile", "signs"), [("delivery", True), ("nightly", False), ("bootcheck", False)])
def test_only_a_delivery_has_signatures_and_accepts(profile, signs):
    of_night = fleet(16)
    page = html.page(dataclasses.replace(of_night, run=dataclasses.replace(of_night.run, profile=profile)), {})
    assert ('class="sign"' in page) is signs
    assert bool(re.search(r"<h1>[^<]* accepted", page)) is signs
