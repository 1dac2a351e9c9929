"""Findings in words of their own: a yes or no, a reading that the part does not have, a count with its noun."""

import pytest

from nodegate.records import part
from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict
from nodegate.unknown import Known, Unknown, Why
from nodegate.verdicts import Verdicts

GPU = part.gpu(3)
ABSENT = Unknown(Why.NOT_SUPPORTED, "NVML 3")


@pytest.mark.parametrize(
    ("observed", "expected", "verdict", "brief"),
    [
        (True, True, Verdict.PASS, "responds"),
        (False, True, Verdict.FAIL, "does not respond"),
        (False, False, Verdict.PASS, "responds"),
        (True, False, Verdict.FAIL, "does not respond"),
        (ABSENT, True, Verdict.SKIP, "does not report answer"),
        (Unknown(Why.FAILED, "EIO"), True, Verdict.ERROR, "could not read answer: failed: EIO"),
    ],
)
def test_a_yes_or_no_has_its_own_words(observed: Known[bool], *, expected: bool, verdict: Verdict, brief: str) -> None:
    verdicts = Verdicts()
    verdicts.holds(
        part=GPU,
        quantity="answer",
        observed=observed,
        expected=expected,
        good="responds",
        bad="does not respond",
        action="look",
        absent=Verdict.SKIP,
    )
    (finding,) = verdicts.findings
    assert finding.verdict is verdict
    assert finding.brief.startswith(brief)


def test_a_limit_that_the_part_does_not_have_is_absent_too() -> None:
    verdicts = Verdicts()
    verdicts.at_least(part=GPU, quantity="SM clock", observed=1200, limit=ABSENT, action="look", absent=Verdict.SKIP)
    assert verdicts.verdict is Verdict.SKIP


@pytest.mark.parametrize(
    ("count", "most", "quantity", "unit", "brief"),
    [
        (1, 1, "memory banks without a spare row", "banks", "1 memory bank without a spare row"),
        (1, 1, "NVSwitches on PCIe", "switches", "1 NVSwitch on PCIe"),
        (8, 8, "GPUs on PCIe", "GPUs", "8 GPUs on PCIe"),
        (0, 0, "uncorrectable errors since driver load", "errors", "0 uncorrectable errors since driver load"),
        (3, 0, "remapped rows", "rows", "3 remapped rows, expected at most 0 rows"),
        (3, 0, "active NVLinks", "links", "3 active NVLinks, expected at most 0 links"),
        (3, 0, "link width", "lanes", "link width 3 lanes, expected at most 0 lanes"),
        (3, 0, "time slowed by heat", "s", "time slowed by heat 3 s, expected at most 0 s"),
        (3, 0, "power draw", "W", "power draw 3 W, expected at most 0 W"),
    ],
)
def test_a_count_stands_before_its_noun(count: int, most: int, quantity: str, unit: str, brief: str) -> None:
    verdicts = Verdicts()
    verdicts.at_most(part=GPU, quantity=quantity, observed=count, limit=Limit(most, unit, "none"), action="look")
    assert verdicts.findings[0].brief == brief
