"""`nodegate explain`: each word that a message uses is found, from what is installed."""

import re

import pytest

from nodegate import cli, suite
from nodegate.files.paths import DOCS, suite_folder


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("pcie.link_width", ["(check, bootcheck)", "uses every lane", "proves: links"]),
        ("PCIE.link_width", ["(check, bootcheck)"]),
        ("rdma.rate_gbps", ["reference/limit-keys"]),
        ("counts", ["As many GPUs", "has to pass"]),
        ("nodegate_gaps", ["who signs for that"]),
        ("--burn", ["with a unit"]),
        ("xid 79", ["Xid 79", "off the bus", "power-cycle"]),
        ("Xid79", ["Xid 79"]),
        ("class A", ["against acceptance"]),
        ("refuted", ["of a claim"]),
        ("policies", ["# Policies"]),
    ],
)
def test_a_word_is_explained(word, said, capsys):
    assert cli.main(["explain", "--", word]) == 0
    answer = capsys.readouterr().out
    assert all(text in answer for text in said), answer


def test_an_unknown_word_names_its_neighbours(capsys):
    assert cli.main(["explain", "pcie.link_widht"]) == cli.CANNOT_TELL
    assert "near: pcie.link_width" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["xid 9999", "../../etc/passwd", "node.", "a" * 5000])
def test_what_nothing_is_called(word, capsys):
    assert cli.main(["explain", word]) == cli.CANNOT_TELL
    assert capsys.readouterr().err.startswith("nodegate: nothing is called")


@pytest.mark.long
def test_each_verdict_check_and_page_that_a_message_names_is_known(capsys):
    named = {
        match
        for folder in ("src/nodegate", "checks")
        for file in (suite_folder(DOCS).parent / folder).rglob("*.py")
        for match in re.findall(r"nodegate explain ([a-z-]+)", file.read_text("utf-8"))
    }
    assert len(named) >= 4
    for word in (*named, *(check.id for check in suite.checks())):
        assert cli.main(["explain", word]) == 0, word


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("docter", "did you mean doctor?"),
        ("hosts.yaml", "nodegate test --inventory hosts.yaml"),
        ("frobnicate", "nodegate --help lists the commands"),
    ],
)
def test_a_word_that_names_no_command(typed, hint, capsys):
    assert cli.main([typed]) == cli.CANNOT_TELL
    assert hint in capsys.readouterr().err
