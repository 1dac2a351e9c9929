"""The reason that Slurm is told is clean, short and starts with the part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_findings import finding, record

from nodegate.hook.slurm import reason
from nodegate.records import part
from nodegate.run.bootcheck import outcome_of


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("unfit: GPU 3 (0000:43:00.0): lost", "nodegate: GPU 3 (0000:43:00.0): lost"),
        ("could not tell: /etc/x.yaml:2: no YAML", "nodegate: could not tell: /etc/x.yaml:2: no YAML"),
        ("unfit: a \"b\" 'c'\nstate=resume", "nodegate: a b c state?resume"),
        ("unfit: x [root@2026-11-21T17:47:01]", "nodegate: x (root@2026-11-21T17:47:01)"),
        ("unfit: GPU 3: 89 °C under load; the driver's", "nodegate: GPU 3: 89 C under load, the drivers"),
        ("unfit: " + "x" * 200, "nodegate: " + "x" * 117 + "..."),
    ],
)
def test_a_reason(line, told):
    assert reason(line) == told


@given(st.text())
def test_whatever_a_node_says_it_is_one_clean_line(line):
    told = reason(line)
    assert told.startswith("nodegate: ")
    assert len(told) <= 130
    assert told.isascii()
    assert told.isprintable()
    assert not set("\"'$`;|&<>[]\\=") & set(told)


def test_the_part_of_the_worst_cause_comes_first():
    """Also where a milder finding stands before it in the records."""
    drift = record("software.driver", finding("fail", part.software("driver"), "is 550.90.07, not 550.127.08"))
    lost = record("gpu.lost", finding("fail", part.gpu(3, serial="1650003000003"), "does not respond on PCIe"))
    told = reason(outcome_of((drift, lost)).line)
    assert told.startswith("nodegate: GPU 3 S/N 1650003000003: ")
    assert told.endswith("(+1 more)")
