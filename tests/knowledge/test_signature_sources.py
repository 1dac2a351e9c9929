"""Where the lines of jobs' and kernels' logs were seen: each row is to have a source, and no fewer have one."""

import re

import pytest

from nodegate.knowledge.tables import rows

MOST_WITHOUT = {"signatures.csv": 90, "kernel_lines.csv": 4}  # lower it with each source that is added
FORMS = re.compile(  # a page, a file of a commit or of a release, our own choice
    r"https://\S+|[\w.-]+/[\w.-]+@[0-9a-f]{7,40} [\w./-]+(?::[0-9]+)?|[a-z][\w-]+ [\w.-]+: [\w./-]+|choice: \S.{20,}"
)


@pytest.mark.parametrize("table", MOST_WITHOUT)
def test_a_source_has_one_of_the_forms(table: str) -> None:
    assert [row["id"] for row in rows(table) if row["source"] and not FORMS.fullmatch(row["source"])] == []


@pytest.mark.parametrize("table", MOST_WITHOUT)
def test_the_rows_without_a_source_become_fewer(table: str) -> None:
    without = sorted(row["id"] for row in rows(table) if not row["source"])
    assert len(without) <= MOST_WITHOUT[table], f"new rows need a source: {without}"
