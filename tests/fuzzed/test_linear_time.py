"""The time of a reader grows with its input and not with the square of it: only ratios of processor time are judged."""

import re

import pytest

from fuzz.growth import MOST_GROWTH, growth
from fuzz.linear import shapes
from fuzz.table import every_target

TARGETS = every_target()
KILOBYTE, MEGABYTE = 1000, 1_000_000
# What stands in one long line: nothing that is known, and the beginnings of what is.
LINES = {
    "letters": b"a",
    "spaces": b" ",
    "no text": b"\0\xff",
    "iterations": b" iteration 1/ 5 | elapsed time per iteration (ms): ",
    "Xids": b"NVRM: Xid (PCI:0000:9b:00): 79, pid=",
    "errors": b"RuntimeError: CUDA error: NCCL WARN [Rank 1] ",
}
LOGS = ("triage.job_logs", "triage.kernel_logs", "knowledge.lines", "watch.log", "watch.lines")
PROGRAMS = ("tools.", "probe.")
TEXTS = [name for name, target in TARGETS.items() if target.form == "text" and name.startswith(PROGRAMS)]


def line_of(piece):
    return lambda size: (piece * (size // len(piece) + 1))[:size]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in TARGETS if name != "watch.own_pattern"])  # it is ended by the clock
def test_long_lines_and_near_misses(name):
    target = TARGETS[name]
    grown = {shape.name: growth(target.read, shape.make, 200 * KILOBYTE) for shape in shapes(target, most=12)}
    assert {shape: times for shape, times in grown.items() if times > MOST_GROWTH} == {}


@pytest.mark.long
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", LOGS)
def test_one_long_line_in_a_log(name, line):
    size = 10 if line == "errors" else 2
    assert growth(TARGETS[name].read, line_of(LINES[line]), size * MEGABYTE) <= MOST_GROWTH


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in LOGS])
def test_one_line_of_10_mb_from_a_tool(name):
    seed = max(TARGETS[name].seeds(), key=len)
    longest = max(seed.split(b"\n"), key=len)[:200] or b"a"
    assert growth(TARGETS[name].read, line_of(longest), 10 * MEGABYTE) <= MOST_GROWTH


def test_a_reader_that_takes_the_square_would_be_found():
    pattern = re.compile(rb"a+b")
    # a machine that slows down in between may hide it once
    assert any(growth(pattern.search, line_of(b"a"), 32 * KILOBYTE) > MOST_GROWTH for _ in range(3))
