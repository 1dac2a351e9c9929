"""Where the lines of a job's log were seen: each row of signatures.csv is to have a source, and no fewer have one."""

import re

from nodegate.knowledge.tables import rows

ROWS = [row["id"] for row in rows("signatures.csv")]
SOURCES = rows("signature_sources.csv")
MOST_WITHOUT = 111  # lower it with each source that is added
FORMS = re.compile(  # a page, a file, our own choice
    r"https://\S+|[\w.-]+/[\w.-]+@[0-9a-f]{7,40} [\w./-]+(?::[0-9]+)?|choice: \S.{20,}"
)


def test_a_source_is_a_page_or_a_file_of_a_commit_or_said_to_be_our_choice() -> None:
    assert [row for row in SOURCES if not FORMS.fullmatch(row["source"])] == []


def test_each_source_is_of_a_row_and_no_row_has_two() -> None:
    named = [row["id"] for row in SOURCES]
    assert set(named) <= set(ROWS)
    assert len(set(named)) == len(named)


def test_the_rows_without_a_source_become_fewer() -> None:
    without = set(ROWS) - {row["id"] for row in SOURCES}
    assert len(without) <= MOST_WITHOUT, f"new rows need a source: {sorted(without)}"
