"""Rounds: what another round says of a serial number counts, what it does not read stays as it was."""

import pytest
from certificate.conftest import IN, OUT
from support import sample_report

from nodegate.certificate.page import page
from nodegate.certificate.register import register
from nodegate.certificate.rounds import Round, RoundNode, Rounds, earlier, in_two_nodes, kept, newest, standings
from nodegate.records.run import Contract, NodeReport
from nodegate.records.verdict import NodeVerdict
from nodegate.report.json_file import load
from nodegate.report.model import Report

GOOD, BAD = NodeVerdict.ACCEPTED, NodeVerdict.REJECTED


def rounds(*each):
    return [
        Round(f"run{at}", float(at), "ab" * 32, tuple(RoundNode(name, *found) for name, found in nodes.items()))
        for at, nodes in enumerate(each, 1)
    ]


FIRST = {"a": (BAD, {"GPU 0": "S-100", "GPU 1": "S-101"}), "b": (GOOD, {"GPU 0": "S-200"})}


SWAPPED = {"S-100": ("a", 2, "", BAD), "S-900": ("a", 0, "", GOOD), "S-101": ("a", 0, "", GOOD)}
EXCHANGED = {"S-100": ("b", 0, "a", GOOD), "S-200": ("a", 0, "b", GOOD)}


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"a": (GOOD, {"GPU 0": "S-900", "GPU 1": "S-101"})}, SWAPPED),
        ({"a": (GOOD, {"GPU 1": "S-101"})}, {"S-100": ("a", 0, "", BAD)}),  # not read
        ({"a": (GOOD, {"GPU 0": "S-200"}), "b": (GOOD, {"GPU 0": "S-100"})}, EXCHANGED),
        ({"b": (BAD, {"GPU 0": "S-200"})}, {"S-200": ("b", 0, "", BAD), "S-100": ("a", 0, "", BAD)}),
        ({"a": (NodeVerdict.UNREACHABLE, {})}, {"S-100": ("a", 0, "", BAD)}),
    ],
)
def test_where_a_serial_number_stands(second: dict, told: dict) -> None:  # type: ignore[type-arg]
    found = {each.serial: each for each in standings(rounds(FIRST, second))}
    assert {name: (found[name].node, found[name].out, found[name].was, found[name].verdict) for name in told} == told


def test_the_newest_verdict_counts_and_an_unreachable_node_is_not_accepted():
    every = rounds(FIRST, {"a": (GOOD, {"GPU 0": "S-900"})}, {"b": (NodeVerdict.UNREACHABLE, {})})
    found = {node.node: (at, node.verdict) for at, node in newest(every)}
    assert found == {"a": (2, GOOD), "b": (3, NodeVerdict.UNREACHABLE)}
    told = [(each.node, each.is_accepted, each.cells[:1]) for each in register(every)]
    assert told == [("a", True, ("round 2",)), ("b", False, ())]


def test_a_serial_number_in_two_nodes_is_named():
    assert in_two_nodes(rounds(FIRST, {"c": (GOOD, {"GPU 3": "S-200"})})) == [("S-200", ("c", "b"))]
    assert in_two_nodes(rounds(FIRST)) == []


@pytest.mark.long
def test_a_second_round_names_the_replaced_board(delivery):
    before, now = kept(delivery.second), load(delivery.second)
    assert [each.run for each in before.rounds] == ["run1"]
    assert kept(delivery.first) == Rounds()
    text = (delivery.second / "certificate.html").read_text("utf-8")
    for serial, said in ((OUT, "out since round 2"), (IN, "in since round 2")):
        assert f'<tr><td class="mono">{serial}</td><td>hgx10 GPU 2</td><td>{said}; rejected</td></tr>' in text
    assert earlier(delivery.record, now.run) == before
    other = Contract(contract={"number": "K-18"}, lot=now.run.contract.lot)
    assert earlier(delivery.record, sample_report.run(started_epoch_s=2e9, contract=other)) == Rounds()


def test_a_round_that_is_gone_or_changed_is_named(delivery, tmp_path):
    hidden = delivery.first.rename(tmp_path / "away")
    try:
        assert earlier(delivery.record, load(delivery.second).run) == Rounds(notes=("run1",))
    finally:
        hidden.rename(delivery.first)


def test_a_part_says_so_and_accepts_nothing_and_texts_of_nodes_stay_text():
    run = sample_report.run(selection="-k burn")
    nodes = (NodeReport("gpu1", GOOD), NodeReport("<b>|", BAD, serials={"GPU 0": "</p>[1/9 x"}))
    for lang, said in (("en", "No acceptance"), ("zh", "不构成验收")):
        text = page(Report(run, nodes), [], Rounds(), lang)
        assert text.index(said) < text.index("<h2>")
        assert "[result: no acceptance]" in text
        assert "gpu1" not in text[text.rindex("<h2>") - 2000 :]
        assert "<b>" not in text
        assert "<span>[1/1 <strong>&lt;b&gt;/</strong></span>" in text
        assert "GPU 0 &lt;/p&gt;(1/9 x" in text
