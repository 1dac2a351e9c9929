"""What is wrong, worst first, with equal findings of many nodes in one row."""

from __future__ import annotations

import dataclasses

from support import sample_report
from support.sample_report import errored, fleet, passed, skipped

from nodegate.finding import Finding, Record
from nodegate.report import wording
from nodegate.report.model import CheckInfo, NodeReport, Report
from nodegate.report.problems import NO_RESULT, not_judged, problems, remark, sentence, waived
from nodegate.report.stats import measurements
from nodegate.verdict import NodeVerdict, Verdict


def width(node: str, lanes: int, device: str = "GPU 3", remedy: str = "reseat the riser") -> Record:
    said = f"{device}: link width {lanes} lanes, expected at least 16 lanes (its own maximum) - {remedy}"
    found = Finding(device, Verdict.FAIL, said, "link width", lanes, "lanes", 16, "its own maximum", remedy)
    return Record(node, "pcie.link_width", Verdict.FAIL, said, (found,), ("F05",))


def report(*nodes: tuple[str, tuple[Record, ...]], verdict: NodeVerdict = NodeVerdict.REJECTED) -> Report:
    reports = (
        NodeReport(name, verdict, rack=f"r{index}", records=records) for index, (name, records) in enumerate(nodes)
    )
    return Report(sample_report.run(), tuple(reports))


def test_a_line_falls_into_observed_expected_and_action() -> None:
    said = sentence(width("gpu001", 8).findings[0])
    assert (said.observed, said.expected, said.action) == (
        "link width 8 lanes",
        "at least 16 lanes (its own maximum)",
        "reseat the riser",
    )


def test_a_pass_tells_its_limit_and_source() -> None:
    found = Finding("GPU 0", Verdict.PASS, "GPU 0: busbw 478 GB/s", "busbw", 478.0, "GB/s", 450, "hgx-h100.yaml")
    assert sentence(found).expected == "450 GB/s (hgx-h100.yaml)"


def test_a_line_that_tells_its_limit_in_its_own_words_is_not_told_twice() -> None:
    text = "ibs5: link down 5 times, at most 2 may be chance (common.yaml)"
    said = sentence(Finding("ibs5", Verdict.FAIL, text, "link downs", 5, "", 2, "common.yaml"))
    assert (said.observed, said.expected) == ("link down 5 times, at most 2 may be chance (common.yaml)", "")


def test_the_same_fault_on_many_nodes_is_one_row_with_the_range_of_its_values() -> None:
    [row] = problems(report(("gpu001", (width("gpu001", 8),)), ("gpu002", (width("gpu002", 2, "GPU 5"),))))
    assert row.nodes == ("gpu001", "gpu002")
    assert row.racks == ("r0", "r1")
    assert row.subjects == ("GPU 3", "GPU 5")
    assert row.observed == "link width 2 to 8 lanes"
    assert row.expected == "at least 16 lanes (its own maximum)"


def test_numbers_of_one_metric_that_are_told_in_other_words_are_other_rows() -> None:
    def held(node: str, by: str) -> Record:
        said = f"GPU 3: clock held down by {by} 100 % of the time - check the node"
        found = Finding("GPU 3", Verdict.FAIL, said, "clock event reasons", 100, "%", action="check the node")
        return Record(node, "burn.clock_reasons", Verdict.FAIL, said, (found,), ("F08",))

    rows = problems(report(("gpu001", (held("gpu001", "heat"),)), ("gpu002", (held("gpu002", "power brake"),))))
    assert [row.observed for row in rows] == [
        "clock held down by heat 100 % of the time",
        "clock held down by power brake 100 % of the time",
    ]


def test_another_remedy_is_another_row() -> None:
    other = width("gpu002", 8, remedy="replace the board")
    assert len(problems(report(("gpu001", (width("gpu001", 8),)), ("gpu002", (other,))))) == 2


def test_checks_that_say_the_same_share_a_row() -> None:
    rows = problems(report(("gpu001", (errored("gpu001", "nccl.alltoall"), errored("gpu001", "nccl.all_reduce")))))
    assert [row.checks for row in rows] == [("nccl.all_reduce", "nccl.alltoall")]
    assert rows[0].observed == "all_reduce_perf is not on the node"
    assert rows[0].action.startswith("install nccl-tests")


def test_failures_then_lost_nodes_then_errors_then_warnings() -> None:
    assert [row.verdict for row in problems(fleet(128))] == ["fail", "fail", "unreachable", "error", "warn"]


def test_a_waived_failure_is_no_problem_but_stands_among_the_waivers() -> None:
    held = dataclasses.replace(width("gpu001", 8), waiver="riser on order (owner Weiss, expires 2026-12-15)")
    made = report(("gpu001", (held,)), verdict=NodeVerdict.WAIVED)
    assert problems(made) == []
    [row] = waived(made)
    assert (row.waiver, row.check, row.observed, row.nodes) == (
        held.waiver,
        held.check,
        "link width 8 lanes",
        ("gpu001",),
    )


def test_why_a_waiver_does_not_hold_is_told() -> None:
    record = width("gpu001", 8)
    late = dataclasses.replace(record, message=f"{record.message} (and 2 more) (waiver expired on 2026-11-01: riser)")
    assert remark(late) == "waiver expired on 2026-11-01: riser"
    [row] = problems(report(("gpu001", (late,))))
    assert row.observed == "link width 8 lanes (waiver expired on 2026-11-01: riser)"


def test_the_nodes_own_name_is_no_device() -> None:
    text = "gpu001: no python3 - install it"
    ended = Finding("gpu001", Verdict.ERROR, text, action="install it")
    [row] = problems(report(("gpu001", (Record("gpu001", "a.b", Verdict.ERROR, text, (ended,)),))))
    assert (row.subjects, row.observed, row.action) == ((), "no python3", "install it")


def test_skips_are_folded_by_their_reason() -> None:
    why = "no second node"
    nodes = [(name, (skipped(name, "fabric.bw", why), skipped(name, "fabric.lat", why))) for name in ("a1", "a2")]
    [gap] = not_judged(report(*nodes, verdict=NodeVerdict.NOT_JUDGED))
    assert (gap.reason, gap.checks, gap.nodes) == (why, ("fabric.bw", "fabric.lat"), ("a1", "a2"))


def test_skips_of_devices_are_told_without_the_devices() -> None:
    def unsupported(node: str) -> Record:
        text = f"GPU 0 (serial {node}): MIG is not told here"
        found = [
            Finding(f"GPU {k} (serial {node})", Verdict.SKIP, f"GPU {k} (serial {node}): MIG is not told here")
            for k in "01"
        ]
        return Record(node, "gpu.mig", Verdict.SKIP, f"{text} (and 1 more)", tuple(found))

    [gap] = not_judged(report(*((name, (unsupported(name),)) for name in ("a1", "a2")), verdict=NodeVerdict.NOT_JUDGED))
    assert (gap.reason, gap.nodes) == ("MIG is not told here", ("a1", "a2"))


def test_a_check_without_a_result_is_a_gap_not_a_pass() -> None:
    made = dataclasses.replace(
        report(("a1", (passed("a1", "gpu.count"),)), verdict=NodeVerdict.INCOMPLETE),
        checks={"gpu.count": CheckInfo("x"), "gpu.mig": CheckInfo("y")},
    )
    [gap] = not_judged(made)
    assert (gap.reason, gap.checks, gap.nodes) == (NO_RESULT, ("gpu.mig",), ("a1",))


def test_true_and_nan_are_no_measurements() -> None:
    found = [
        Finding("x", Verdict.PASS, "", "m", value, "") for value in (True, float("nan"), float("inf"), "5", None, 7)
    ]
    made = report(("a1", (Record("a1", "c.d", Verdict.PASS, "", tuple(found)),)))
    [row] = measurements(made.nodes)
    assert row.values == (7.0,)


def test_headlines() -> None:
    assert wording.headline(fleet(16)) == "10 of 16 nodes accepted"
    assert wording.headline(Report(sample_report.run())) == "No node was judged"
    one = Report(sample_report.run(), (NodeReport("a", NodeVerdict.ACCEPTED),))
    assert wording.headline(one) == "The node is accepted"
    assert wording.sentences(fleet(16))[0] == (
        "Not accepted: 3 rejected; 2 incomplete, because something could not be measured; 1 out of reach."
    )


def test_no_share_is_rounded_up_to_all_or_down_to_none() -> None:
    assert [wording.percent(*pair) for pair in ((1249, 1250), (1250, 1250), (1, 5000), (0, 5), (0, 0))] == [
        "99.9 %",
        "100.0 %",
        "0.1 %",
        "0.0 %",
        "-",
    ]
