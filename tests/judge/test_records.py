"""Verdicts and records: what `judge` makes of what a check says, and what a node is by all of its records."""

import operator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegate.claims.verdict import node_verdict
from nodegate.errors import CannotMeasure, NotApplicable, NotJudged
from nodegate.judge.judge import judge, record_of
from nodegate.records import part
from nodegate.records.finding import Finding, Limit, Record
from nodegate.records.verdict import NODE_ORDER, NodeVerdict, Verdict, worst
from nodegate.suite import Check
from nodegate.unknown import Unknown, Why, value_or
from nodegate.verdicts import NEXT_STEP_UNKNOWN, Verdicts

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
LANES = Limit(16, "lanes", "its own maximum")


def check(function, *asks_for):
    return Check("site.own", "It holds.", ("F33",), "bootcheck", asks_for or ("verdicts",), function, "It holds. (F33)")


def judged(function, *asks_for, facts=None):
    return judge(check(function, *asks_for), (facts or {}).__getitem__, "gpu01")


# One check


def test_a_record_names_node_check_and_failure_modes():
    record = judged(lambda verdicts: verdicts.passed(part=part.gpu(0), text="responds"))
    assert (record.node, record.check, record.failure_modes) == ("gpu01", "site.own", ("F33",))
    assert (record.verdict, record.message) == (PASS, "GPU 0: responds")
    assert record.waiver == ""


def test_the_headline_is_the_first_of_the_worst_and_counts_the_others():
    def several(verdicts):
        verdicts.passed(part=part.gpu(0), text="good")
        verdicts.found(WARN, part=part.gpu(1), text="warm", action="cool it")
        verdicts.found(FAIL, part=part.gpu(2), text="hot", action="stop")
        verdicts.unknown(part=part.gpu(3), quantity="heat", reason="no sensor")
        verdicts.found(FAIL, part=part.gpu(4), text="hot too", action="stop")

    record = judged(several)
    assert (record.verdict, record.message) == (FAIL, "GPU 2: hot - stop (and 1 more)")
    assert [finding.verdict for finding in record.findings] == [PASS, WARN, FAIL, ERROR, FAIL]


def test_a_check_that_finds_nothing_is_an_error():
    record = judged(lambda verdicts: None)
    message = "node: the check found nothing to judge - look at the evidence file"
    assert (record.verdict, record.message) == (ERROR, message)
    assert record.findings[0].action == "look at the evidence file"


# A check that does not run to its end


def refuse(fault):
    def end(verdicts):
        raise fault

    return end


@pytest.mark.parametrize(
    ("fault", "verdict", "message"),
    [
        (NotApplicable("no NVSwitch here"), SKIP, "no NVSwitch here"),
        (NotJudged("no limit gpu.count for platform x"), NOT_JUDGED, "no limit gpu.count for platform x"),
        (CannotMeasure("no GPU", next_step="look at PCIe"), ERROR, "no GPU - look at PCIe"),
    ],
)
def test_a_check_that_ends_early_says_why(fault, verdict, message):
    record = judged(refuse(fault))
    assert (record.verdict, record.message) == (verdict, f"node: {message}")


@pytest.mark.parametrize("fault", [ZeroDivisionError("by 0"), KeyError("x"), RecursionError(), TypeError("unknown")])
def test_a_fault_of_a_check_is_an_error_with_its_place(fault):
    record = judged(refuse(fault))
    assert record.verdict is ERROR
    kind = type(fault).__name__
    line = refuse.__code__.co_firstlineno + 2
    assert record.message == (
        f"node: the check itself failed ({kind}: {fault} at test_records.py:{line}) - "
        "report this as a bug in nodegate, with the node's evidence file"
    )


def test_ctrl_c_is_no_verdict():
    with pytest.raises(KeyboardInterrupt):
        judged(refuse(KeyboardInterrupt()))


@pytest.mark.parametrize("stop", [SystemExit(0), SystemExit(1)])
def test_a_check_cannot_end_the_run_or_answer_for_bootcheck(stop):
    """sys.exit(0) in a check would be the exit code "fit"."""
    assert judged(refuse(stop)).verdict is ERROR


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (CannotMeasure("no log", next_step="read it"), ERROR),
        (NotApplicable("alone"), SKIP),
        (NotJudged("alone"), NOT_JUDGED),
        (OSError("disk"), ERROR),
    ],
)
def test_a_fact_that_is_not_there_ends_the_check_before_it_begins(fault, verdict):
    called = []

    def resolve(name):
        raise fault

    record = judge(check(lambda gpus, verdicts: called.append(1), "gpus", "verdicts"), resolve, "gpu01")
    assert record.verdict is verdict
    assert called == []


@pytest.mark.parametrize(
    ("before", "fault", "verdict"),
    [
        (FAIL, CannotMeasure("x", next_step="y"), FAIL),
        (FAIL, NotJudged("x"), FAIL),
        (FAIL, ValueError("x"), FAIL),
        (PASS, ValueError("x"), ERROR),
        (WARN, CannotMeasure("x", next_step="y"), ERROR),
        (PASS, NotApplicable("x"), PASS),
        (PASS, NotJudged("x"), NOT_JUDGED),
    ],
)
def test_what_was_found_before_the_end_stays(before, fault, verdict):
    def half(verdicts):
        verdicts.found(before, part=part.gpu(0), text="seen", action="look")
        raise fault

    record = judged(half)
    assert record.verdict is verdict
    assert len(record.findings) == 2


def test_an_unknown_that_a_check_takes_for_true_is_a_fault_of_the_check():
    def careless(gpu, verdicts):
        verdicts.passed(part=part.gpu(0), text="good") if gpu else None

    record = judged(careless, "gpu", "verdicts", facts={"gpu": Unknown(Why.LOST, "GPU is lost")})
    assert record.verdict is ERROR
    assert "an unknown value was used as true or false: lost: GPU is lost" in record.message


# Healthy devices that say the same


def widths(*lanes):
    verdicts = Verdicts()
    for number, width in enumerate(lanes):
        verdicts.at_least(part=part.gpu(number), quantity="link width", observed=width, limit=LANES, action="reseat")
    return record_of(check(lambda verdicts: None), "gpu01", verdicts.findings)


def names(finding):
    return ", ".join(each.short for each in finding.parts)


def test_healthy_devices_that_say_the_same_are_one_finding():
    (finding,) = widths(16, 16, 16).findings
    assert finding.message == "3 alike: GPU 0, GPU 1, GPU 2: link width 16 lanes"
    assert (finding.observed, finding.unit, finding.limit.value) == (16, "lanes", 16)
    assert widths(16, 32).findings[0].message == "GPU 0: link width 16 lanes"


def test_other_values_and_what_is_wrong_stay_findings_of_their_own():
    record = widths(16, 8, 16, 8, 32, Unknown(Why.LOST))
    assert [names(finding) for finding in record.findings] == ["GPU 0, GPU 2", "GPU 1", "GPU 3", "GPU 4", "GPU 5"]
    assert [finding.verdict for finding in record.findings] == [PASS, FAIL, FAIL, PASS, ERROR]


@given(st.lists(st.sampled_from([8, 16, 32]), min_size=1, max_size=20))
def test_folding_loses_no_device(lanes):
    record = widths(*lanes)
    named = [name for finding in record.findings for name in names(finding).split(", ")]
    assert sorted(named) == sorted(f"GPU {number}" for number in range(len(lanes)))
    assert record.verdict is (FAIL if 8 in lanes else PASS)


# The node


def a_record(verdict, waiver=""):
    return Record("gpu01", "site.own", verdict, (Finding(part.NODE, verdict, text="said"),), waiver=waiver)


def expected(verdicts):
    """The contract in words: a fail rejects, an error leaves open, a skip alone is no success."""
    if FAIL in verdicts:
        return NodeVerdict.REJECTED
    if ERROR in verdicts:
        return NodeVerdict.INCOMPLETE
    return NodeVerdict.ACCEPTED if {PASS, WARN} & set(verdicts) else NodeVerdict.NOT_JUDGED


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4])
def test_every_combination_of_verdicts(size):
    for verdicts in product(Verdict, repeat=size):
        records = [a_record(verdict) for verdict in verdicts]
        assert node_verdict(records) is expected(verdicts), verdicts
        assert node_verdict(iter(records)) is expected(verdicts)
        assert node_verdict(records, reachable=False) is NodeVerdict.UNREACHABLE


@pytest.mark.parametrize("others", [*product(Verdict, repeat=1), *product(Verdict, repeat=2)])
def test_a_waived_fail_changes_accepted_to_accepted_with_waivers_and_nothing_else(others):
    records = [a_record(FAIL, waiver="riser on order (dc-ops, until 2099-01-01)"), *map(a_record, others)]
    plain = expected(others)
    waived = {NodeVerdict.ACCEPTED: NodeVerdict.WAIVED, NodeVerdict.NOT_JUDGED: NodeVerdict.WAIVED}
    assert node_verdict(records) is waived.get(plain, plain)
    assert node_verdict(reversed(records)) is waived.get(plain, plain)


def test_every_verdict_of_a_node_has_its_place_in_the_report():
    assert sorted(NODE_ORDER) == sorted(NodeVerdict)
    assert len(NODE_ORDER) == len(set(NODE_ORDER))


# Verdicts: the worst stays, an unknown reading is an error, and each message says what was seen and what is right


FROM_BEST = [SKIP, PASS, NOT_JUDGED, WARN, ERROR, FAIL]
X = part.host("x")
LOST = Unknown(Why.LOST, "NVML 15: GPU is lost")
VERDICTS = st.sampled_from(list(Verdict))


def only(verdicts):
    (finding,) = verdicts.findings
    return finding.verdict, finding.message


# The lattice


@given(st.lists(VERDICTS, min_size=1))
def test_the_worst_of_them_is_the_verdict_of_all(verdicts):
    assert worst(verdicts) is max(verdicts, key=FROM_BEST.index)
    assert set(FROM_BEST) == set(Verdict)


def test_of_nothing_the_worst_is_error():
    assert worst([]) is ERROR
    assert Verdicts().verdict is ERROR


@given(st.lists(VERDICTS, min_size=1))
def test_a_collector_says_the_worst_of_its_findings(given_verdicts):
    verdicts = Verdicts()
    for number, verdict in enumerate(given_verdicts):
        verdicts.found(verdict, part=part.gpu(number), text="seen", action="look")
    assert verdicts.verdict is worst(given_verdicts)
    assert len(verdicts.findings) == len(given_verdicts)


# Judging methods


def test_equal_says_what_was_seen_and_what_is_right():
    verdicts = Verdicts()
    right = {"expected": 16, "unit": "lanes", "source": "its own"}
    for width in (8, 16):
        verdicts.equal(part=part.gpu(3), quantity="link width", observed=width, action="z", **right)
    bad, good = verdicts.findings
    assert (bad.verdict, bad.message) == (FAIL, "GPU 3: link width 8 lanes, expected 16 lanes (its own) - z")
    assert (bad.quantity, bad.observed, bad.unit) == ("link width", 8, "lanes")
    assert (bad.limit, bad.action) == (Limit(16, "lanes", "its own"), "z")
    assert (good.verdict, good.message, good.action) == (PASS, "GPU 3: link width 16 lanes", "")


def test_at_least_and_at_most_with_a_milder_verdict():
    verdicts, rate, rows = Verdicts(), Limit(400, "Gb/s", "spec"), Limit(0, "rows", "")
    port = part.port(part.nic("mlx5_0"), 1)
    for observed in (399, 400, 401):
        verdicts.at_least(part=port, quantity="rate", observed=observed, limit=rate, action="replace")
    for observed in (0, 1):
        verdicts.at_most(part=X, quantity="remapped", observed=observed, limit=rows, action="ask", otherwise=WARN)
    assert [finding.verdict for finding in verdicts.findings] == [FAIL, PASS, PASS, PASS, WARN]
    first, *_, last = verdicts.findings
    assert first.message == "mlx5_0 port 1: rate 399 Gb/s, expected at least 400 Gb/s (spec) - replace"
    assert last.message == "x: remapped 1 rows, expected at most 0 rows - ask"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (2.5, "GT/s", "2.5 GT/s"),
        (0.1 + 0.2, "s", "0.3 s"),
        (71.849999, "W", "72 W"),
        (1e-7, "s", "1e-07 s"),
        ("on", "", "on"),
        (True, "", "yes"),
        (0.0, "", "0"),
        (19_999_999, "errors", "19999999 errors"),
    ],
)
def test_values_are_shown_with_their_unit_and_without_noise(value, unit, shown):
    verdicts = Verdicts()
    verdicts.equal(part=X, quantity="it is", observed=value, expected=value, unit=unit, action="")
    assert only(verdicts) == (PASS, f"x: it is {shown}")


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_at_least_and_at_most_agree_with_the_numbers(observed, limit):
    low, high = Verdicts(), Verdicts()
    low.at_least(part=X, quantity="y", observed=observed, limit=Limit(limit, "s", ""), action="z")
    high.at_most(part=X, quantity="y", observed=observed, limit=Limit(limit, "s", ""), action="z")
    assert (low.verdict is PASS) == (observed >= limit)
    assert (high.verdict is PASS) == (observed <= limit)


def test_not_a_number_never_passes():
    verdicts = Verdicts()
    nan = float("nan")
    verdicts.at_least(part=X, quantity="y", observed=nan, limit=Limit(1.0, "s", ""), action="z")
    verdicts.at_most(part=X, quantity="y", observed=nan, limit=Limit(1.0, "s", ""), action="z")
    verdicts.equal(part=X, quantity="y", observed=nan, expected=nan, action="z")
    assert {finding.verdict for finding in verdicts.findings} == {FAIL}


# The unknown


@pytest.mark.parametrize("why", list(Why))
@pytest.mark.parametrize("otherwise", [WARN, FAIL])
def test_an_unknown_reading_is_an_error_whatever_else_it_would_be(why, otherwise):
    verdicts, reading = Verdicts(), Unknown(why, "as it said")
    limit = Limit(1, "", "")
    verdicts.equal(part=X, quantity="y", observed=reading, expected=1, action="z", otherwise=otherwise)
    verdicts.at_least(part=X, quantity="y", observed=reading, limit=limit, action="z", otherwise=otherwise)
    verdicts.at_most(part=X, quantity="y", observed=reading, limit=limit, action="z", otherwise=otherwise)
    line = f"x: could not read y: {why.value}: as it said - {NEXT_STEP_UNKNOWN}"
    assert [(finding.verdict, finding.message) for finding in verdicts.findings] == [(ERROR, line)] * 3
    assert {finding.action for finding in verdicts.findings} == {NEXT_STEP_UNKNOWN}


@pytest.mark.parametrize(
    ("limit", "verdict", "line"),
    [
        (
            Unknown(Why.DENIED, "needs root"),
            ERROR,
            f"could not read the limit for y: denied: needs root - {NEXT_STEP_UNKNOWN}",
        ),
        (None, NOT_JUDGED, "y has no limit to be judged by - add a limit to a baseline"),
    ],
)
def test_an_unknown_limit_is_an_error_and_none_is_not_0(limit, verdict, line):
    verdicts = Verdicts()
    verdicts.equal(part=X, quantity="y", observed=0, expected=limit, action="z")
    verdicts.at_least(part=X, quantity="y", observed=7, limit=limit, action="z")
    verdicts.at_most(part=X, quantity="y", observed=7, limit=limit, action="z")
    assert [(finding.verdict, finding.message) for finding in verdicts.findings] == [(verdict, f"x: {line}")] * 3
    assert verdicts.verdict is verdict


def test_an_unknown_reading_is_an_error_beside_another_and_without_a_limit():
    verdicts = Verdicts()
    verdicts.equal(part=X, quantity="y", observed=LOST, expected=LOST, action="z")
    verdicts.at_most(part=X, quantity="y", observed=LOST, limit=None, action="z")
    assert [finding.verdict for finding in verdicts.findings] == [ERROR, ERROR]


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge, operator.add])
@pytest.mark.parametrize("pair", [(LOST, 1), (1, LOST), (LOST, LOST)])
def test_an_unknown_refuses_order_and_sums(compare, pair):
    with pytest.raises(TypeError):
        compare(*pair)


def test_an_unknown_reading_equals_nothing_that_is_known():
    assert all(other != LOST for other in (0, False, "", None, 1, True))


def test_an_unknown_says_why():
    assert str(LOST) == "lost: NVML 15: GPU is lost"
    assert str(Unknown(Why.TIMEOUT)) == "timeout"
    assert (value_or(LOST, 0), value_or(3, 0)) == (0, 3)


# The check's own words


# Words of their own: a yes or no, a reading that the part does not have, a count with its noun


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
def test_a_yes_or_no_has_its_own_words(observed, *, expected, verdict, brief):
    verdicts = Verdicts()
    own = {"good": "responds", "bad": "does not respond", "action": "look"}
    verdicts.holds(part=GPU, quantity="answer", observed=observed, expected=expected, absent=Verdict.SKIP, **own)
    (finding,) = verdicts.findings
    assert finding.verdict is verdict
    assert finding.brief.startswith(brief)


def test_a_limit_that_the_part_does_not_have_is_absent_too():
    verdicts = Verdicts()
    verdicts.at_least(part=GPU, quantity="SM clock", observed=1200, limit=ABSENT, action="look", absent=Verdict.SKIP)
    assert verdicts.verdict is Verdict.SKIP


@pytest.mark.parametrize(
    ("count", "most", "quantity", "unit", "brief"),
    [
        (1, 1, "memory banks without a spare row", "banks", "1 memory bank without a spare row"),
        (0, 0, "uncorrectable errors since driver load", "errors", "0 uncorrectable errors since driver load"),
        (3, 0, "remapped rows", "rows", "3 remapped rows, expected at most 0 rows"),
        (3, 0, "time slowed by heat", "s", "time slowed by heat 3 s, expected at most 0 s"),
        (3, 0, "power draw", "W", "power draw 3 W, expected at most 0 W"),
    ],
)
def test_a_count_stands_before_its_noun(count, most, quantity, unit, brief):
    verdicts = Verdicts()
    verdicts.at_most(part=GPU, quantity=quantity, observed=count, limit=Limit(most, unit, "none"), action="look")
    assert verdicts.findings[0].brief == brief
