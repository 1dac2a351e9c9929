"""Assess: which comparison decides on a number, in which words, and what is never a pass."""

from collections.abc import Sequence

import pytest
from support.measured import ALL_REDUCE, baseline, group, margins, metric, peers
from support.measured import others as like

from nodegate.baseline.baseline import Baseline
from nodegate.errors import CannotMeasure, NotJudged, UsageError
from nodegate.numbers import metric_findings
from nodegate.numbers.against_others import Reference
from nodegate.numbers.assess import Assessment, assess
from nodegate.numbers.assessments import assessments, right
from nodegate.numbers.derived import of_platform
from nodegate.numbers.margins import Margins
from nodegate.numbers.peers import NoPeers, Peers
from nodegate.numbers.pool import PeerGroup
from nodegate.numbers.suspects import suspects
from nodegate.records import part
from nodegate.records.finding import AT_LEAST, Limit, LimitKind
from nodegate.records.verdict import Verdict
from nodegate.verdicts import Verdicts

PASS, WARN, FAIL, ERROR, NOT_JUDGED = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.NOT_JUDGED
MARGINS = margins()
NOBODY = NoPeers("only 1 node of platform hgx-h100-8 measured it in the same way (8 are needed to compare)")
ENTRY = f"""
  {ALL_REDUCE}:
    value: 480
    unit: GB/s
    source: learned
    direction: at least
    tolerance: 0.05
    peak: 900
    peak_source: data sheet
    parameters: {{nccl: "2.27.3", size_bytes: 8589934592}}
"""
PLAIN = f"  {ALL_REDUCE}: {{value: 480, unit: GB/s, source: learned, direction: at least, tolerance: 0.05}}\n"
LIKE_480 = like(480.0, 0.004)


def told(
    *values: float,
    entry: str = "",
    others: PeerGroup | NoPeers = NOBODY,
    inside: Reference | None = None,
    **changes: str,
) -> Assessment:
    limits, measured = baseline(entry), metric(*values, **changes)
    physics = of_platform(measured, limits)
    stored = limits.entry(measured.name)
    return assess(measured, stored, others, MARGINS, physics=physics, inside=inside)


def sentence(found: Assessment, **changes: str) -> str:
    """What people read of it, behind the part."""
    finding = metric_findings.finding_of(metric(found.value, **changes), found, remedy="")
    return finding.message.removeprefix(f"{finding.part.label}: ")


class TestBaseline:
    def test_a_value_above_the_limit_passes(self):
        found = told(470, entry=ENTRY)
        assert (found.verdict, found.comparison) == (PASS, "baseline")
        assert sentence(found) == "bus bandwidth 470 GB/s"
        assert found.limit == Limit(
            456.0, "GB/s", f"5 % below 480 GB/s, h100.yaml {ALL_REDUCE}: learned", AT_LEAST, LimitKind.BASELINE
        )

    def test_one_below_fails_and_the_limit_is_named(self):
        found = told(455, entry=ENTRY)
        assert (found.verdict, found.comparison) == (FAIL, "baseline")
        assert sentence(found) == (
            f"bus bandwidth 455 GB/s, expected at least 456 GB/s (5 % below 480 GB/s, h100.yaml {ALL_REDUCE}: learned)"
        )
        assert found.share == pytest.approx(455 / 456)

    def test_a_floor_stands_whatever_the_tolerance(self):
        entry = PLAIN.replace("tolerance: 0.05", "tolerance: 0.5, floor: 460")
        assert told(455, entry=entry).verdict is FAIL

    def test_at_most(self):
        entry = "  rdma.write_latency_us: {value: 2, unit: µs, source: s, direction: at most, tolerance: 0.5}\n"
        latency = {"name": "rdma.write_latency_us", "unit": "µs", "better": "lower"}
        assert told(2.9, entry=entry, **latency).verdict is PASS
        found = told(3.1, entry=entry, **latency)
        assert sentence(found, **latency).startswith(
            "RDMA write latency 3.1 µs, expected at most 3 µs (50 % above 2 µs, h100.yaml"
        )
        assert found.share is None

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"nccl": "2.21.5"}, "stored for nccl 2.27.3, measured with 2.21.5"),
            ({"size_bytes": "1073741824"}, "stored for size_bytes 8589934592, measured with 1073741824"),
        ],
    )
    def test_a_value_measured_otherwise_is_not_judged_by_it(self, changes: dict[str, str], said: str):
        found = told(100, entry=ENTRY, **changes)
        assert found.verdict is NOT_JUDGED
        assert sentence(found) == (
            f"bus bandwidth 100 GB/s; the baseline is {said}, and {NOBODY.reason} - {metric_findings.ADD_A_LIMIT}"
        )

    def test_nor_silently_when_the_fleet_passes_it(self):
        found = told(480, entry=ENTRY, others=LIKE_480, nccl="2.21.5")
        assert found.verdict is PASS
        assert sentence(found) == (
            "bus bandwidth 480 GB/s; median 480 GB/s of 127 other nodes; "
            "the baseline is stored for nccl 2.27.3, measured with 2.21.5"
        )

    def test_the_inventory_may_set_the_limit(self):
        limit = Limit(490, "GB/s", "inventory hosts.yaml:7")
        found = assess(metric(480), right(baseline(ENTRY, {ALL_REDUCE: limit}), ALL_REDUCE), NOBODY, MARGINS)
        assert sentence(found) == "bus bandwidth 480 GB/s, expected at least 490 GB/s (inventory hosts.yaml:7)"
        assert found.verdict is FAIL

    def test_another_unit_is_never_compared(self):
        entry = "  site.copy: {value: 480000, unit: MB/s, source: s}\n"
        found = told(480, entry=entry, name="site.copy")
        assert found.verdict is ERROR
        assert sentence(found, name="site.copy").startswith(
            "could not read copy: measured in GB/s, and the baseline is in MB/s (h100.yaml site.copy: s) - "
        )

    def test_a_baseline_far_below_what_is_measured_proves_nothing(self):
        found = told(800, entry=PLAIN)
        assert (found.verdict, found.comparison) == (WARN, "baseline")
        assert sentence(found).startswith("bus bandwidth 800 GB/s, expected at least 456 GB/s (")
        assert sentence(found).endswith("; a limit so far below what is measured proves nothing")

    def test_unless_the_fleet_can_tell(self):
        others = like(801.0, 0.002, nodes=20)
        assert told(800, entry=PLAIN, others=others).verdict is PASS


class TestPhysics:
    def test_more_than_the_peak_is_not_believed(self):
        found = told(950, entry=ENTRY)
        assert (found.verdict, found.comparison) == (ERROR, "physics")
        assert sentence(found) == (
            "could not read bus bandwidth: 950 GB/s is more than the 900 GB/s that are possible "
            f"(peak of h100.yaml {ALL_REDUCE}: data sheet): not believed - look at the evidence file and at the "
            "baseline; one of the two is wrong"
        )
        assert found.code == "more than possible"

    def test_the_peak_holds_under_other_conditions_too(self):
        assert told(950, entry=ENTRY, others=LIKE_480, nccl="2.21.5").comparison == "physics"

    def test_an_impossible_attempt_does_not_save_a_slow_node(self):
        found = told(430, 950, 431, entry=ENTRY)
        assert (found.verdict, found.value) == (FAIL, 431)

    def test_nor_is_it_forgotten_on_a_good_one(self):
        found = told(480, 950, 481, entry=ENTRY)
        assert (found.verdict, found.comparison, found.value) == (WARN, "physics", 481)
        assert sentence(found) == (
            "bus bandwidth 481 GB/s; another attempt gave too much: 950 GB/s is more than the 900 GB/s that are "
            f"possible (peak of h100.yaml {ALL_REDUCE}: data sheet)"
        )

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
    def test_what_can_be_no_measurement_is_an_error(self, value: float):
        found = told(480.0, value, entry=ENTRY, others=LIKE_480)
        assert found.verdict is ERROR
        assert sentence(found).startswith("could not read bus bandwidth: 480, ")
        assert "GB/s cannot be a measurement - " in sentence(found)


class TestUnits:
    @pytest.mark.parametrize("value", [0.47, 480_000.0, 500_000.0])
    def test_a_value_off_by_1000_is_an_error(self, value: float):
        found = told(value, entry=ENTRY)
        assert (found.verdict, found.comparison) == (ERROR, "unit")
        assert f"the baseline's 480 GB/s (5 % below 480 GB/s, h100.yaml {ALL_REDUCE}: learned)" in found.note
        assert found.note.endswith(": one of the two is in the wrong unit")
        assert found.code == "wrong unit"

    def test_a_broken_node_is_no_wrong_unit(self):
        assert told(0.47, entry=ENTRY, others=LIKE_480).verdict is FAIL, "others are right"
        assert told(12.0, entry=ENTRY).verdict is FAIL
        assert told(0.0, entry=ENTRY).verdict is FAIL


class TestFleet:
    def test_5_percent_below_the_others_fails(self):
        found = told(456, others=LIKE_480)
        assert (found.verdict, found.comparison) == (FAIL, "fleet")
        assert sentence(found) == (
            "bus bandwidth 456 GB/s, expected at least 468 GB/s (the other nodes); "
            "5.0 % below the median 480 GB/s of 127 other nodes"
        )
        assert found.limit == Limit(468.0, "GB/s", "the other nodes", AT_LEAST, LimitKind.FLEET)
        assert found.share == pytest.approx(456 / 480)

    @pytest.mark.parametrize(
        ("value", "others"),
        [
            (470.4, like(480.0, 0.0)),  # 2 % below is within the floor, however tight the fleet
            (456, like(480.0, 0.03)),  # a wide fleet does so too
            (520, LIKE_480),  # faster than the others
        ],
    )
    def test_what_is_no_fault(self, value: float, others: PeerGroup):
        assert told(value, others=others).verdict is PASS

    def test_the_slot_is_named(self):
        found = told(456, others=like(480.0, device="GPU 3"), device="GPU 3")
        assert found.note.endswith("of 127 other nodes, GPU 3 of each")

    def test_both_baseline_and_fleet_are_named_when_both_trip(self):
        found = told(430, entry=PLAIN, others=LIKE_480)
        assert found.comparison == "baseline"
        assert sentence(found).startswith("bus bandwidth 430 GB/s, expected at least 456 GB/s (5 % below 480 GB/s, ")
        assert sentence(found).endswith("; 10.4 % below the median 480 GB/s of 127 other nodes")

    def test_good_by_the_baseline_does_not_excuse_being_slower_than_the_others(self):
        assert told(470, entry=PLAIN, others=like(500.0)).comparison == "fleet"

    def test_a_high_latency_has_a_wider_floor(self):
        latency = {"name": "rdma.write_latency_us", "unit": "µs", "better": "lower"}
        others = like(2.0, 0.015)
        assert told(2.4, others=others, **latency).verdict is PASS
        assert sentence(told(2.6, others=others, **latency), **latency) == (
            "RDMA write latency 2.6 µs, expected at most 2.5 µs (the other nodes); "
            "30.0 % above the median 2 µs of 127 other nodes"
        )

    def test_heat_is_a_hint_and_is_compared_in_degrees(self):
        heat = {"name": "burn.temperature_c", "unit": "°C", "better": "lower"}
        others = like(60.0, 0.025)
        assert told(67, others=others, **heat).verdict is PASS
        found = told(75, others=others, **heat)
        assert found.verdict is WARN
        assert sentence(found, **heat) == (
            "temperature under load 75 °C, expected at most 68 °C (the other nodes); "
            "15 °C above the median 60 °C of 127 other nodes"
        )

    def test_a_slow_majority_is_warned_of(self):
        judged = peers(*[430.0] * 5, *[480.0] * 3)
        found = told(430, others=group(judged.group("gpu001", metric(430), MARGINS)))
        assert (found.verdict, found.comparison) == (WARN, "fleet")
        assert found.note == (
            "one of 5 slow nodes at about 430 GB/s, while 3 reach about 480 GB/s: the median hides them"
        )
        assert told(480, others=group(judged.group("gpu008", metric(480), MARGINS))).verdict is PASS

    def test_a_slow_third_fails_although_it_widens_the_spread(self):
        values = [456.0 + at / 10 for at in range(30)] + [478.0 + at / 10 for at in range(60)]
        judged = peers(*values)
        found = told(457, others=group(judged.group("gpu011", metric(457), MARGINS)))
        assert (found.verdict, found.comparison) == (FAIL, "fleet")
        assert told(480, others=group(judged.group("gpu050", metric(480), MARGINS))).verdict is PASS

    def test_a_small_deviation_that_is_no_chance_is_warned_of(self):
        """A node 2.4 % slower than all others holds up every job that it is in (BLOOM, 2022)."""
        found = told(468.5, others=like(480.0, 0.003))
        assert (found.verdict, found.comparison) == (WARN, "fleet")
        assert found.note == "2.4 % below the median 480 GB/s of 127 other nodes: little, but beyond chance"
        assert told(476, others=like(480.0, 0.0005)).verdict is PASS, "0.8 % is not worth a word"

    def test_what_one_good_value_in_a_large_fleet_may_be_is_warned_of(self):
        found = told(452, others=like(480.0, 0.014))
        assert (found.verdict, found.comparison) == (WARN, "fleet")
        assert found.note.endswith("of 127 other nodes, which their spread may explain")


class TestTheNodeItself:
    def test_one_gpu_slower_than_its_neighbours_where_there_is_no_fleet(self):
        others = Reference(700.0, 7, "other GPUs of this node")
        found = told(650, inside=others, device="GPU 3")
        assert (found.verdict, found.comparison) == (FAIL, "inside")
        assert sentence(found, device="GPU 3", name="burn.bf16_tflops") == (
            "bf16 rate 650 GB/s, expected at least 665 GB/s (the rest of this node); "
            "7.1 % below the median 700 GB/s of 7 other GPUs of this node"
        )

    def test_a_slot_that_is_so_on_every_node_is_no_fault(self):
        others = Reference(520.0, 7, "other GPUs of this node")
        assert told(480, others=LIKE_480, inside=others).verdict is PASS

    def test_being_like_its_neighbours_proves_no_health(self):
        found = told(480, inside=Reference(480.0, 7, "others"))
        assert found.verdict is NOT_JUDGED
        assert found.note == f"no limit {ALL_REDUCE}, and {NOBODY.reason}"
        assert found.limit is None


class TestLooks:
    def test_a_disturbed_look_is_forgiven(self):
        found = told(430, 481, 479, entry=PLAIN, others=LIKE_480)
        assert (found.verdict, found.value) == (PASS, 480.0)

    def test_a_node_that_is_good_only_once_is_judged_by_most_of_its_looks(self):
        found = told(430, 481, 431, entry=PLAIN, others=LIKE_480)
        assert (found.verdict, found.comparison, found.value) == (FAIL, "fleet", 456.0)

    def test_a_slow_node_is_slow_every_time(self):
        assert told(430, 433, 431, entry=PLAIN).verdict is FAIL

    @pytest.mark.parametrize(("low", "verdict"), [(0, PASS), (1, PASS), (2, PASS), (3, WARN), (4, FAIL)])
    def test_low_looks_are_counted_however_good_the_others_are(self, low: int, verdict: Verdict):
        others = like(480.0, 0.2)  # far apart: nothing but the count speaks
        found = told(*[250.0] * low, *[480.0] * (9 - low), others=others)
        assert found.verdict is verdict
        if low > 2:
            assert found.code == "unsteady"
            assert f"{low} of 9 looks are low, down to 250 GB/s, more than disturbances explain" in found.note

    def test_in_a_fleet_that_is_disturbed_more_they_need_to_be_more(self):
        others = like(480.0, 0.2, disturbed=0.1)
        assert told(*[250.0] * 4, *[480.0] * 5, others=others).verdict is not FAIL


class TestTheRule:
    def judge(self, *metrics: object, entry: str = "", fleet: Peers | None = None) -> Verdicts:
        verdicts = Verdicts()
        judged = fleet or peers(*[480.0] * 8)
        metric_findings.judge(
            verdicts, metrics, baseline=baseline(entry), peers=judged.of_node("gpu001"), remedy="look"
        )  # type: ignore[arg-type]
        return verdicts

    def test_a_finding_for_each_metric_with_value_unit_limit_and_source(self):
        finding = self.judge(metric(430, device="GPU 3"), entry=PLAIN, fleet=Peers.of({})).findings[0]
        assert (finding.part, finding.verdict) == (part.gpu(3), FAIL)
        assert (finding.metric, finding.observed, finding.unit) == (ALL_REDUCE, 430, "GB/s")
        source = f"5 % below 480 GB/s, h100.yaml {ALL_REDUCE}: learned"
        assert finding.limit == Limit(456.0, "GB/s", source, AT_LEAST, LimitKind.BASELINE)
        assert finding.message.startswith("GPU 3: all_reduce 430 GB/s, expected at least 456 GB/s (")
        assert finding.message.endswith(" - look")

    def test_nothing_measured_is_an_error(self):
        with pytest.raises(CannotMeasure, match="no number was measured"):
            self.judge()

    def test_without_the_margins_nothing_is_judged(self):
        bare = Baseline("hgx-h100-8", "", "", "", "")
        with pytest.raises(NotJudged, match=r"no limit measured\.peers_min"):
            list(assessments([metric(480)], baseline=bare, peers=peers(480).of_node("gpu001")))

    @pytest.mark.parametrize(
        ("value", "wrong_by"),
        [
            (0, "must be a number above 0"),
            (-1, "must be a number above 0"),
            ("two", "is text, not a number"),
            (True, "is true or false, not a number"),
        ],
    )
    def test_a_margin_is_a_positive_number(self, value: object, wrong_by: str):
        wrong = {"measured.fleet_z": Limit(value, "", "inventory hosts.yaml:3")}
        with pytest.raises(UsageError, match=rf"measured\.fleet_z {wrong_by}"):
            Margins.of(baseline("", wrong))

    def test_siblings_are_those_under_the_same_conditions(self):
        gpus = [metric(700, device=f"GPU {at}") for at in range(4)] + [metric(400, device="GPU 4", nccl="2.21.5")]
        verdicts = self.judge(*gpus, fleet=Peers.of({}))
        assert [each.verdict for each in verdicts.findings] == [NOT_JUDGED] * 5

    def test_one_slow_gpu_of_a_node_without_a_fleet_is_named(self):
        gpus = [metric(700 if at != 3 else 600, device=f"GPU {at}") for at in range(8)]
        found = [each for each in self.judge(*gpus, fleet=Peers.of({})).findings if each.verdict is FAIL]
        assert [each.part for each in found] == [part.gpu(3)]


class TestSuspects:
    @pytest.mark.parametrize("slow", [[3], range(6)], ids=["one", "a majority"])
    def test_those_that_would_not_pass(self, slow: Sequence[int]):
        nodes = {f"gpu{at:03}": ("hgx-h100-8", [metric(430.0 if at in slow else 480.0)]) for at in range(9)}
        assert set(suspects(nodes, dict.fromkeys(nodes, baseline()))) == {f"gpu{at:03}" for at in slow}

    def test_not_those_that_another_measurement_could_not_judge_either(self):
        nodes = {"gpu001": ("hgx-h100-8", [metric(480)]), "gpu002": ("hgx-h100-8", [metric(0.48)])}
        assert set(suspects(nodes, {"gpu001": baseline(), "gpu002": baseline(ENTRY)})) == set()

    @pytest.mark.parametrize(("others", "found"), [([metric(480)], {"gpu002"}), ([], set())])
    def test_a_node_that_gave_no_number_where_others_did(self, others: list[object], found: set[str]):
        nodes = {"gpu001": ("hgx-h100-8", others), "gpu002": ("hgx-h100-8", [])}
        assert set(suspects(nodes, dict.fromkeys(nodes, baseline()))) == found

    def test_nor_those_whose_baseline_lacks_the_margins(self):
        nodes = {"gpu001": ("hgx-h100-8", [metric(480)])}
        assert set(suspects(nodes, {"gpu001": Baseline("hgx-h100-8", "", "", "", "")})) == set()
