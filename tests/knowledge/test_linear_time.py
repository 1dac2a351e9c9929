"""No line is slow to read: the time grows with its length, never with the square of it.

A line of a log comes from anybody who may run a job. Each pattern is given long lines that nearly fit it.
"""

import re

import pytest

from fuzz.growth import MOST_GROWTH, cpu_s, growth
from nodegate.knowledge import nvlink5, xid_lines
from nodegate.knowledge.signatures import LINE_LIMIT, find, signatures
from nodegate.knowledge.words import Side
from nodegate.probe.kernel_log import parse_line
from nodegate.unknown import Unknown, Why

CHARACTERS = LINE_LIMIT  # no more of a line is searched; the square of it takes a second, its length a millisecond
QUICK_S = 0.002
MEGABYTE = 1 << 20

PATTERNS = {each.id: (each.pattern, each.example) for each in signatures()}
PATTERNS |= {
    name: (getattr(xid_lines, name), "NVRM: Xid (PCI:0000:9b:00 GPU-I:05): 94, pid=1, name=x, Contained")
    for name in ("XID", "LOST", "LOST_SAID")
}
FILLERS = ("a", "0", " ", "/", ":", ",", "(", "é")


def near_misses(example):
    """Lines of any length that begin like the example again and again, and never end like it."""
    parts = {example[: len(example) // part] for part in (1, 2, 4)}
    starts = parts | {example[:12], example.split(" ", maxsplit=1)[0] + " "}
    half = example[: len(example) // 2]
    repeated = [repeating(start[:-1] if start == example else start) for start in starts if len(start) > 1]
    return repeated + [repeating(filler, after=half) for filler in FILLERS]


def repeating(piece, after=""):
    return lambda characters: (after + piece * (characters // len(piece) + 1))[:characters]


# Every Xid has one pattern, and every SXid another: one of each stands for all.
ONCE = {pattern.pattern: name for name, (pattern, _) in reversed(PATTERNS.items())}


def grows_too_fast(pattern, example):
    return any(growth(pattern.search, make, CHARACTERS, QUICK_S) > MOST_GROWTH for make in near_misses(example))


@pytest.mark.long
def test_the_time_of_a_pattern_grows_with_the_line(subtests):
    for name in sorted(ONCE.values()):
        with subtests.test(name):
            assert not grows_too_fast(*PATTERNS[name])


@pytest.mark.parametrize(("pattern", "example"), [("a+b", "ab"), (r"Rank \d+ of .* failed", "Rank 3 of 8 failed")])
def test_a_pattern_that_grows_with_the_square_would_be_found(pattern, example):
    assert grows_too_fast(re.compile(pattern), example)


@pytest.mark.parametrize("side", Side)
def test_a_line_longer_than_what_is_searched_costs_no_more_than_its_length(side):
    examples = {each.pattern.pattern: each.example for each in signatures() if each.side is side}
    for example in list(examples.values())[::20]:
        for make in near_misses(example)[:3]:
            assert growth(lambda line: find(line, side), make, 8 * LINE_LIMIT, QUICK_S) <= MOST_GROWTH


def test_what_stands_beyond_the_limit_of_a_line_is_not_looked_at():
    error = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    assert find("x" * (LINE_LIMIT - len(error)) + error, Side.USER) is not None
    assert find("x" * LINE_LIMIT + error, Side.USER) is None


@pytest.mark.parametrize("start", ["NETIR ", "A_" * 30, "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x"])
def test_the_decoding_of_nvlink_5_is_bounded(start):
    assert cpu_s(nvlink5.parse, start + "A" * MEGABYTE) < 0.5  # a thousandth of it is usual


def test_a_kernel_line_of_a_megabyte_is_cut():
    line = parse_line("NVRM: Xid " * 100_000, now_epoch_s=0.0, boot_epoch_s=Unknown(Why.MISSING, ""))
    assert len(line.text) < 3000
