"""The reason that Slurm is told is clean, short and starts with the part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegate.hook.reason import reason


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("unfit: GPU 3 (0000:43:00.0): lost", "nodegate: GPU 3 (0000:43:00.0): lost"),
        ("could not tell: /etc/x.yaml:2: no YAML", "nodegate: could not tell: /etc/x.yaml:2: no YAML"),
        ("unfit: a \"b\" 'c'\nstate=resume", "nodegate: a ?b? ?c? state?resume"),
        ("unfit: x [root@2026-11-21T17:47:01]", "nodegate: x (root@2026-11-21T17:47:01)"),
        ("unfit: " + "x" * 200, "nodegate: " + "x" * 117 + "..."),
    ],
)
def test_a_reason(line: str, told: str) -> None:
    assert reason(line) == told


@given(st.text())
def test_whatever_a_node_says_it_is_one_clean_line(line: str) -> None:
    told = reason(line)
    assert told.startswith("nodegate: ")
    assert len(told) <= 130
    assert told.isascii()
    assert told.isprintable()
    assert not set("\"'$`;|&<>[]\\=") & set(told)
