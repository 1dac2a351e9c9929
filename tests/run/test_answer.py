"""The answer of a run over many nodes, line by line."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import sample_report
from support.made_findings import finding, record

from nodegate.claims.verdict import node_verdict
from nodegate.records import part
from nodegate.records.finding import AT_LEAST, Limit
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NodeVerdict
from nodegate.report.model import Report
from nodegate.run import answer


def narrow():
    limit = Limit(16, "lanes", "the device", AT_LEAST)
    return finding("fail", part.gpu(3), quantity="link width", observed=2, unit="lanes", limit=limit)


def node(name, *records, gpus=8):
    mine = tuple(replace(each, node=name) for each in records)
    return NodeReport(name, node_verdict(mine), records=mine, gpus=gpus)


def good(name):
    return node(name, record("gpu.count", finding("pass")))


def report(*nodes):
    return Report(sample_report.run(), nodes)


def told(of, folder=Path("reports/x"), width=120):
    return [line.text for line in answer.lines(of, folder, width)]


def test_1250_nodes_that_fail_alike_are_a_few_lines():
    names = [f"gpu{number:04}" for number in range(1, 1251)]
    lines = told(report(*(node(name, record("pcie.link_width", narrow())) for name in names)))
    assert lines == [
        "1250 rejected of 1250 nodes (0 of 10000 GPUs accepted)",
        "rejected: gpu[0001-1250]",
        "  slow  1250 nodes  GPU 3  PCIe x2 of x16  power-cycle, else reseat board or riser",
        "details: nodegate show gpu0001 --run reports/x",
    ]


def each_in_its_own_way(count):
    """Nodes of which each has trouble that no other has."""
    numbers = range(1, count + 1)
    own = [
        record("site.own", finding("fail", text=f"trouble {number}", code=str(number), action=f"do {number}"))
        for number in numbers
    ]
    return report(*(node(f"gpu{number:04}", found) for number, found in zip(numbers, own, strict=True)))


def test_1250_nodes_that_fail_each_in_its_own_way_are_a_screenful():
    lines = told(each_in_its_own_way(1250))
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120
    left = 1250 - answer.MOST_CAUSES
    assert f"  {left} more causes in the report, also on gpu[" in "\n".join(lines)


@pytest.mark.parametrize("step", [1, 3])
def test_every_rejected_node_is_named_with_500_causes(step):
    """Also where the names do not fold into one range."""
    whole = each_in_its_own_way(500 * step)
    few = replace(whole, nodes=whole.nodes[::step])
    lines = told(few)
    first = lines.index(next(line for line in lines if line.startswith("rejected: ")))
    said = lines[first].removeprefix("rejected: ")
    for line in lines[first + 1 :]:
        if "trouble" in line:
            break
        said += line.strip()
    assert "..." not in said
    assert said.count(",") == (0 if step == 1 else 499)
    assert max(map(len, lines)) <= 120


def test_a_rejected_node_keeps_a_line_though_others_have_500_worse_causes():
    """The worst causes all stand on one node: the other rejected node has a line all the same."""
    lost = [finding("fail", part.gpu(number), text=f"lost {number}", code=f"c{number}") for number in range(500)]
    mild = record("software.driver", finding("fail", part.software("driver"), text="old"))
    lines = told(
        report(node("bad", *(record(f"gpu.lost{n}", each) for n, each in enumerate(lost))), node("mild", mild))
    )
    assert [line for line in lines if "  mild " in line]
    assert len(lines) <= 40


def test_nodes_that_were_not_reached_or_not_measured_are_named_too():
    lost = NodeReport("gpu03", NodeVerdict.UNREACHABLE, unreachable="connection timed out after 15 s")
    unread = node("gpu02", record("gpu.count", finding("error", text="NVML did not respond")))
    lines = told(report(good("gpu01"), unread, lost))
    assert lines[0] == "1 unreachable, 1 incomplete, 1 accepted of 3 nodes (8 of 16 GPUs accepted)"
    assert {"unreachable: gpu03", "incomplete: gpu02"} <= set(lines)


def test_what_is_not_judged_is_counted():
    unjudged = record("burn.fp64", finding("not-judged", quantity="fp64", observed=1.4, unit="TFLOPS"))
    lines = told(report(node("gpu01", record("gpu.count", finding("pass")), unjudged)))
    assert lines[0].endswith("; 1 check not judged")
    assert "1 check has nothing to judge by: burn.fp64" in lines[1]


def test_a_waived_cause_says_so():
    waived = replace(record("pcie.link_width", narrow()), waiver="riser on order; owner dc-ops; expires 2099-01-01")
    lines = told(report(node("gpu01", waived)))
    assert lines[0] == "1 accepted-with-waivers of 1 node (8 of 8 GPUs accepted)"
    assert "(waived)" in lines[1]


def test_a_run_that_was_ended_says_how_to_continue():
    ended = replace(sample_report.run(), interrupted=True)
    lines = told(Report(ended, (NodeReport("gpu1", NodeVerdict.INCOMPLETE),)))
    assert "the run ended before every check was judged; continue with: pytest --resume reports/x" in lines


def test_a_report_that_was_not_written_is_not_named(tmp_path):
    assert not [line for line in told(report(good("gpu01")), tmp_path) if line.startswith("report:")]
    (tmp_path / "report.html").touch()
    assert told(report(good("gpu01")), tmp_path)[-1] == f"report: {tmp_path / 'report.html'}"


def test_the_worst_is_red_and_what_is_accepted_is_green():
    bad = node("gpu01", record("pcie.link_width", narrow()))
    colours = {line.text.split()[1]: line.colour for line in answer.lines(report(bad), Path("x"), 120)}
    assert colours["rejected"] == "red"
    (line,) = answer.lines(report(good("gpu01"), good("gpu02")), Path("x"), 120)
    assert (line.text, line.colour) == ("2 accepted of 2 nodes (16 of 16 GPUs accepted)", "green")


@pytest.mark.parametrize("width", [80, 120, 160])
def test_nothing_is_cut_off_at_any_width(width):
    action = "drain the node; reseat board and riser, test the host's memory, then replace the board"
    text = "2 wrong words of 134217728 copied device to host: silent data corruption"
    own = record("site.own", finding("fail", text=text, code="own", action=action))
    lines = told(report(node("a-node-with-a-long-name.of.a.site.example.org", own)), width=width)
    assert max(len(line) for line in lines if not line.startswith("details: ")) <= width  # a command stays whole
    said = " ".join(" ".join(lines).split())
    assert text in said
    assert action in said
    assert "..." not in said
