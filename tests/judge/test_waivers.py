"""Waivers: a fail that somebody answers for, until a date; never more than that."""

import datetime as dt
from dataclasses import replace

import pytest

from nodegate.errors import UsageError
from nodegate.judge.waivers import Waivers
from nodegate.records import part
from nodegate.records.finding import Finding, Record
from nodegate.records.verdict import Verdict

TODAY = dt.date(2026, 11, 21)
ONE = """
- node: gpu01
  check: pcie.link_width
  reason: riser on order
  owner: lee
  expires: 2026-12-01
"""


@pytest.fixture
def read(tmp_path):
    def read(text, today=TODAY):
        file = tmp_path / "w.yaml"
        file.write_text(text)
        return Waivers.read(file, today)

    return read


def failed(node="gpu01", *, check="pcie.link_width", parts=()):
    findings = tuple(Finding(each, Verdict.FAIL, text="x8") for each in parts or [part.gpu(3)])
    return Record(node, check, Verdict.FAIL, findings)


def test_a_waiver_in_force_covers_the_fail_and_the_verdict_stays(read):
    record = read(ONE).cover(failed())
    assert record.waiver == "riser on order (owner lee, expires 2026-12-01)"
    assert record.verdict is Verdict.FAIL


def test_it_holds_on_its_last_day_and_not_after(read):
    assert read(ONE, dt.date(2026, 12, 1)).cover(failed()).waiver
    late = read(ONE, dt.date(2026, 12, 2)).cover(failed())
    assert late.waiver == ""
    assert late.message == "GPU 3: x8 (waiver expired on 2026-12-01: riser on order, owner lee)"


@pytest.mark.parametrize("record", [failed("gpu02"), failed(check="pcie.link_speed")])
def test_it_is_for_its_node_and_check_only(read, record):
    assert read(ONE).cover(record) is record


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.WARN, Verdict.ERROR, Verdict.SKIP, Verdict.NOT_JUDGED])
def test_only_a_fail_is_waived(read, verdict):
    record = Record("gpu01", "pcie.link_width", verdict, (Finding(part.gpu(3), verdict, text="m"),))
    assert read(ONE).cover(record) is record


@pytest.mark.parametrize("pattern", ["gpu[01-16]", "gpu[01,03]", "gpu*", "gpu0?", "gpu[01]*", "gpu[0-9]?", "gpu[!2]*"])
def test_hostlists_and_patterns_name_nodes(read, pattern):
    waivers = read(ONE.replace("gpu01", f'"{pattern}"'))
    assert waivers.cover(failed()).waiver
    assert not waivers.cover(failed("cpu01")).waiver
    assert bool(waivers.cover(failed("gpu1")).waiver) is (pattern in ("gpu*", "gpu[01]*", "gpu[!2]*"))


@pytest.mark.parametrize("node", ["gpu[001-016]*", "gpu[10-12]?", "gpu[1,17]*", "gpu[!01-16]"])
def test_a_hostlist_within_a_pattern_is_refused_for_it_would_name_other_nodes(read, node):
    with pytest.raises(UsageError, match=r"w.yaml:2: .* is a hostlist and a pattern in one"):
        read(ONE.replace("gpu01", f'"{node}"'))


GPU_1 = part.gpu(1, address="0000:1b:00.0", serial="165")
OF_GPU_1 = ONE + "  subject: GPU 1\n"


@pytest.mark.parametrize(
    ("name", "of", "is_covered"),
    [
        *((name, GPU_1, True) for name in ("GPU 1", "'0000:1b:00.0'", "'165'", "GPU 1 (0000:1b:00.0, S/N 165)")),
        ("mlx5_0", part.port(part.nic("mlx5_0"), 1), True),
        ("GPU 1", part.gpu(10), False),
    ],
)
def test_a_waiver_for_one_device_covers_it_by_any_of_its_names(read, name, of, *, is_covered):
    assert bool(read(OF_GPU_1.replace("GPU 1", name)).cover(failed(parts=(of,))).waiver) is is_covered


def test_another_failed_device_keeps_the_fail_unless_it_is_waived_too(read):
    both = failed(parts=(part.gpu(1), part.gpu(2)))
    record = read(OF_GPU_1).cover(both)
    assert record.waiver == ""
    assert record.message.endswith("(no waiver covers GPU 2)")
    record = read(OF_GPU_1 + OF_GPU_1.replace("GPU 1", "GPU 2").replace("riser on order", "known seat")).cover(both)
    assert "riser on order" in record.waiver
    assert "known seat" in record.waiver


def test_what_could_not_be_judged_is_not_waived(read):
    record = failed()
    unknown = Finding(part.gpu(4), Verdict.ERROR, quantity="link width", text="timeout")
    both = replace(record, findings=(*record.findings, unknown))
    covered = read(ONE).cover(both)
    assert covered.waiver == ""
    assert "other parts could not be judged" in covered.message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\n", "w.yaml:1: a waiver file must be a list"),
        ("- gpu01\n", "w.yaml:1: a waiver is a mapping"),
        (ONE.replace("owner: lee", "owners: lee"), "w.yaml:5: 0: unknown key 'owners' - did you mean owner?"),
        (ONE.replace("  owner: lee\n", ""), "w.yaml:2: this waiver has no owner"),
        (ONE.replace("  reason: riser on order\n", ""), "this waiver has no reason"),
        (ONE.replace("  expires: 2026-12-01\n", ""), "this waiver has no expires"),
        (ONE.replace("2026-12-01", "soon"), "w.yaml:6: expires must be a day, not 'soon' - write it as 2026-12-31"),
        *(
            (ONE.replace("2026-12-01", day), "expires must be a day")
            for day in ("2026-13-01", "20261201", "2027-W01-1")
        ),
        (ONE.replace("lee", '""'), "w.yaml:5: owner must be some text, not ''"),
        (ONE.replace("node: gpu01", 'node: "gpu[1-"'), "w.yaml:2"),
    ],
)
def test_a_bad_file_is_an_error_with_its_line(read, text, complaint):
    with pytest.raises(UsageError) as problem:
        read(text)
    assert complaint in str(problem.value)


def test_an_empty_file_waives_nothing(read):
    assert read("").waivers == ()
    assert Waivers().cover(failed()).waiver == ""


def test_an_unknown_check_is_refused_with_its_near_match(read):
    with pytest.raises(
        UsageError, match=r"w\.yaml:2: a waiver for the unknown check 'pcie\.link_width' - did you mean"
    ):
        read(ONE).check(checks=["pcie.link_widths"], claims=[], nodes=["gpu01"])


def test_a_node_that_is_not_in_the_run_is_said(read):
    (line,) = read(ONE).check(checks=["pcie.link_width"], claims=[], nodes=["gpu02"])
    assert line.endswith("w.yaml:2: the waiver for gpu01 matches no node of this run")
    assert read(ONE).check(checks=["pcie.link_width"], claims=[], nodes=["gpu01"]) == ()
