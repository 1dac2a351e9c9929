"""Where the lines of jobs' and kernels' logs were seen: each row has a source."""

import re

import pytest

from nodegate.knowledge.tables import rows

FORMS = re.compile(  # a page, a file of a commit or of a release, our own choice
    r"https://\S+|[\w.-]+/[\w.-]+@[0-9a-f]{7,40} [\w./-]+(?::[0-9]+)?|[a-z][\w-]+ [\w.-]+: [\w./-]+|choice: \S.{20,}"
)


@pytest.mark.parametrize("table", ["signatures.csv", "kernel_lines.csv", "fabric_lines.csv"])
def test_each_row_has_a_source_in_one_of_the_forms(table: str) -> None:
    assert [row["id"] for row in rows(table) if not FORMS.fullmatch(row["source"])] == []
