"""No line is slow to read: the time grows with its length, never with the square of it.

A line of a log comes from anybody who may run a job. Each pattern is given long lines that nearly fit it.
"""

from __future__ import annotations

import re
import time

import pytest

from nodegate.knowledge import nvlink5, xid_lines
from nodegate.knowledge.signatures import LINE_LIMIT, Side, find, signatures
from nodegate.probe.kernel_line import parse_line
from nodegate.unknown import Unknown, Why

SHORT, LONG = 8_000, 128_000
# Sixteen times the length takes sixteen times as long, and 256 times when the time grows with the square.
AT_MOST_TIMES = 64
TOO_SHORT_TO_MEASURE_S = 0.004
MEGABYTE = 1 << 20
# Plain search of a string that is not there, over the same megabyte: what reading it costs at the least.
TIMES_A_PLAIN_SEARCH = 2000

PATTERNS = {each.id: (each.pattern, each.example) for each in signatures()}
PATTERNS |= {
    name: (getattr(xid_lines, name), "NVRM: Xid (PCI:0000:9b:00 GPU-I:05): 94, pid=1, name=x, Contained")
    for name in ("XID", "LOST", "LOST_SAID")
}
FILLERS = ("a", "0", " ", "/", ":", ",", "(", "é")


def near_misses(example: str, characters: int) -> list[str]:
    """Lines of that length that begin like the example again and again, and never end like it."""
    starts = {example[: len(example) // part] for part in (1, 2, 4)} | {
        example[:12],
        example.split(" ", maxsplit=1)[0] + " ",
    }
    cut = [start[:-1] if start == example else start for start in starts if len(start) > 1]
    repeated = [(start * (characters // len(start) + 1))[:characters] for start in cut]
    half = example[: len(example) // 2]
    return repeated + [half + filler * (characters - len(half)) for filler in FILLERS]


def seconds(pattern: re.Pattern[str], line: str) -> float:
    """The shortest of three tries."""
    tries = []
    for _ in range(3):
        start = time.process_time()
        pattern.search(line)
        tries.append(time.process_time() - start)
    return min(tries)


# Every Xid has one pattern, and every SXid another: one of each stands for all.
ONCE = {pattern.pattern: name for name, (pattern, _) in reversed(PATTERNS.items())}


def grows_too_fast(pattern: re.Pattern[str], example: str, characters: int = LONG) -> list[str]:
    """The beginnings of lines with which the pattern takes longer than in proportion to their length."""
    short_ones, long_ones = near_misses(example, characters * SHORT // LONG), near_misses(example, characters)
    pairs = zip(short_ones, long_ones, strict=True)
    return [
        short[:60]
        for short, long in pairs
        if (took := seconds(pattern, long)) > TOO_SHORT_TO_MEASURE_S
        and took > AT_MOST_TIMES * max(seconds(pattern, short), TOO_SHORT_TO_MEASURE_S / 16)
    ]


@pytest.mark.parametrize("name", sorted(ONCE.values()))
def test_the_time_of_a_pattern_grows_with_the_line(name: str) -> None:
    assert grows_too_fast(*PATTERNS[name]) == []


def test_a_pattern_that_grows_with_the_square_would_be_found() -> None:
    assert grows_too_fast(re.compile(r"a+b"), "ab", characters=16_000)


@pytest.mark.parametrize("side", Side)
def test_a_line_of_a_megabyte_costs_no_more_than_a_bounded_multiple_of_a_plain_search(side: Side) -> None:
    worst = 0.0
    plain = float("inf")
    for example in [each.example for each in signatures() if each.side is side][::7]:
        for line in near_misses(example, MEGABYTE)[:4]:
            start = time.process_time()
            assert "\x00 is nowhere \x00" not in line
            plain = min(plain, time.process_time() - start)
            start = time.process_time()
            find(line, side)
            worst = max(worst, time.process_time() - start)
    assert worst < TIMES_A_PLAIN_SEARCH * max(plain, 1e-4)


def test_what_stands_beyond_the_limit_of_a_line_is_not_looked_at() -> None:
    error = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    assert find("x" * (LINE_LIMIT - len(error)) + error, Side.USER) is not None
    assert find("x" * LINE_LIMIT + error, Side.USER) is None


@pytest.mark.parametrize("start", ["NETIR ", "A_" * 30, "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x"])
def test_the_decoding_of_nvlink_5_is_bounded(start: str) -> None:
    began = time.process_time()
    nvlink5.parse(start + "A" * MEGABYTE)
    assert time.process_time() - began < 0.5


def test_a_kernel_line_of_a_megabyte_is_cut() -> None:
    line = parse_line("NVRM: Xid " * 100_000, now_epoch_s=0.0, boot_epoch_s=Unknown(Why.MISSING, ""))
    assert len(line.text) < 3000
