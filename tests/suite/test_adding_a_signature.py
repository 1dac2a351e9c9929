"""docs/guide/adding-a-signature.md can be followed: its row fits its line; its columns are those of the table."""

import re

import pytest
from support.pages import Page

from nodegate.kernel_log.incidents import device_of
from nodegate.knowledge import tables
from nodegate.knowledge.tables import lines, rows
from nodegate.node_side.probe.kernel_lines import kind_of
from nodegate.records.verdict import Verdict

TABLE = "kernel_lines.csv"
PAGE = Page("adding-a-signature.md")


@pytest.fixture
def rules(monkeypatch):
    written = tables.text(TABLE)
    monkeypatch.setattr(
        tables, "text", lambda name: f"{written.rstrip()}\n{PAGE.block('csv')}\n" if name == TABLE else ""
    )
    return tuple(lines.__wrapped__())


def test_the_columns_of_the_page_are_those_of_the_table():
    named = [
        name for row in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE.text, re.MULTILINE) for name in row.split(", ")
    ]
    assert [name.strip("`") for name in named if "/" not in name] == list(rows(TABLE)[0])


def test_the_subjects_of_the_page_are_those_of_the_table():
    (row,) = [line for line in PAGE.text.splitlines() if line.startswith("| `subject` |")]
    assert set(re.findall(r"`(\w+)`", row)) - {"subject"} == {rule.subject for rule in lines()}


def test_the_row_is_the_first_that_fits_its_line(rules):
    row = rules[-1]
    assert len(rules) == len(lines()) + 1
    assert next(rule.id for rule in rules if rule.pattern.search(row.example)) == row.id == "nodev_link_dead"
    assert (row.delivery, row.bootcheck) == (Verdict.FAIL, Verdict.WARN)
    assert device_of(row, row.example) == "0000:3b:00.0"
    assert row.may_fit(row.example)


def test_a_node_sends_such_a_line(rules):
    assert kind_of(rules[-1].example)


def test_the_question_of_the_page_is_answered(capsys):
    exec(PAGE.block("python"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out.startswith("nvme_down: ")
