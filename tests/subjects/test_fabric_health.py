"""The fabric health mask, bit by bit, as nvml.h lays it out."""

import pytest

from nodegate.records.verdict import Verdict
from nodegate.subjects.fabric import decode

HEALTHY = 426  # of a healthy H100


@pytest.mark.parametrize(
    ("shift", "width", "value", "verdict", "words"),
    [
        (0, 2, 1, Verdict.FAIL, "bandwidth is degraded"),
        (2, 2, 1, Verdict.WARN, "route recovery in progress"),
        (4, 2, 1, Verdict.FAIL, "route is unhealthy"),
        (6, 2, 1, Verdict.FAIL, "access timeout recovery pending"),
        (8, 4, 2, Verdict.FAIL, "configuration: system GUID is wrong"),
        (8, 4, 3, Verdict.FAIL, "configuration: chassis serial number is wrong"),
        (8, 4, 4, Verdict.FAIL, "configuration: no partition"),
        (8, 4, 5, Verdict.FAIL, "configuration: too few NVLinks"),
        (8, 4, 6, Verdict.FAIL, "configuration: GPU firmware does not fit"),
        (8, 4, 7, Verdict.FAIL, "configuration: invalid location"),
        (8, 4, 8, Verdict.FAIL, "configuration: GPU state is invalid"),
        (8, 4, 9, Verdict.ERROR, "configuration has the unknown value 9"),
        (12, 2, 2, Verdict.FAIL, "no partition assigned"),
        (14, 2, 2, Verdict.FAIL, "fabric manager disconnected"),
        (0, 2, 3, Verdict.ERROR, "bandwidth has the unknown value 3"),
    ],
)
def test_each_bad_field_is_named(shift: int, width: int, value: int, verdict: Verdict, words: str) -> None:
    mask = HEALTHY & ~(((1 << width) - 1) << shift) | value << shift
    (bad,) = decode(mask).wrong
    assert (bad.verdict, bad.text) == (verdict, words)


def test_several_bad_fields_are_all_named() -> None:
    assert [bad.text for bad in decode(0x91A9).wrong] == ["bandwidth is degraded", "fabric manager disconnected"]
