"""Learning a baseline: what the good nodes of a run teach, what is refused, and that the file reads back."""

from random import Random

import pytest
from support.measured import ALL_REDUCE, CONDITIONS, margins, metric

from nodegate.baseline import baseline_file
from nodegate.baseline.entry import Entry
from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.learn.learn import LearnedFrom, learn
from nodegate.metric import Metric

PLATFORM = "hgx-h100-8"
ABOUT = {"driver version": "580.105.08", "GPU VBIOS": "96.00.61.00.01", "BIOS version": "2.1"}
WIDE = [460.0, 465.0, 470.0, 475.0, 480.0, 485.0, 490.0, 495.0, 500.0]
TEN = [478.0, 479.0, 479.5, 480.0, 480.0, 480.5, 481.0, 481.0, 482.0, 483.0]


def nodes(*values, **changes):
    return {
        f"gpu{at:03}": LearnedFrom(PLATFORM, [metric(value, **changes)], ABOUT) for at, value in enumerate(values, 1)
    }


def learned(good, known=None):
    one = learn(
        good, {PLATFORM: margins()}, run="20261121T081500Z-delivery", date="2026-11-21", known={PLATFORM: known or {}}
    )
    assert len(one) == 1
    return one[0]


def read_back(found):
    return dict(baseline_file.parse(strict_yaml.load(found.text, "learned.yaml")).limits)


class TestWhatIsLearned:
    def test_the_median_with_direction_unit_conditions_and_source(self):
        entry = read_back(learned(nodes(*TEN)))[ALL_REDUCE]
        assert (entry.value, entry.unit, entry.direction, entry.tolerance) == (480.25, "GB/s", "at least", 0.025)
        assert entry.parameters == CONDITIONS
        assert (entry.spread, entry.looks) == (pytest.approx(0.0023, abs=1e-4), 1)
        assert entry.source == (
            "learned from run 20261121T081500Z-delivery, 2026-11-21: median of 10 values of 10 nodes, MAD 0.75 GB/s"
        )
        assert entry.note == "driver version 580.105.08, GPU VBIOS 96.00.61.00.01"

    def test_a_wide_spread_widens_the_tolerance_and_a_limit_that_finds_little_is_called_lax(self):
        found = learned(nodes(*WIDE))
        assert found.entries[0].tolerance == pytest.approx(0.109, abs=0.001)
        said = f"{ALL_REDUCE}: a lax limit: the values differ so much that only what is 16 % slower is found"
        assert said in found.remarks

    def test_lower_is_better_for_a_latency(self):
        entry = learned(nodes(*[2.0, 2.1, 1.9] * 3, name="rdma.write_latency_us", unit="µs", better="lower")).entries[0]
        assert (entry.value, entry.direction, entry.tolerance) == (2, "at most", 0.26)

    def test_all_devices_of_a_node_teach_one_limit(self):
        good = {
            f"gpu{at:03}": LearnedFrom(PLATFORM, [metric(700 + slot, device=f"GPU {slot}") for slot in range(8)])
            for at in range(9)
        }
        assert "median of 72 values of 9 nodes" in learned(good).entries[0].source

    def test_the_best_attempt_of_a_node_counts(self):
        good = nodes(*TEN) | {"gpu011": LearnedFrom(PLATFORM, [metric(430, 481, 480)])}
        assert "median of 11 values of 11 nodes" in learned(good).entries[0].source

    def test_what_physics_allows_goes_on_holding(self):
        peak = Entry(ALL_REDUCE, 450, "GB/s", "s", direction="at least", peak=900)
        assert read_back(learned(nodes(*TEN), {ALL_REDUCE: peak}))[ALL_REDUCE].peak == 900

    def test_several_data_types_are_variants_of_one_key(self):
        both = [metric(700, dtype="bf16"), metric(1300, dtype="fp8")]
        entry = read_back(learned({f"gpu{at}": LearnedFrom(PLATFORM, both) for at in range(9)}))[ALL_REDUCE]
        assert [(each.value, each.parameters["dtype"]) for each in entry.variants] == [(700, "bf16"), (1300, "fp8")]

    def test_each_platform_has_a_file_of_its_own(self):
        good = nodes(*TEN) | {f"h200-{at}": LearnedFrom("hgx-h200-8", [metric(490)]) for at in range(9)}
        found = learn(good, {PLATFORM: margins(), "hgx-h200-8": margins()}, run="r", date="d")
        assert [(each.platform, each.nodes) for each in found] == [("hgx-h100-8", 10), ("hgx-h200-8", 9)]

    @pytest.mark.parametrize(
        "odd", ['a "quoted" \\ word', "line\nbreak: {x: 1}", "\x1b[31mred", "\u202edeus", "# no comment"]
    )
    def test_a_nodes_own_words_cannot_change_the_file(self, odd):
        good = {
            f"gpu{at}": LearnedFrom(PLATFORM, [metric(480, driver=odd)], {"driver version": odd}) for at in range(9)
        }
        assert read_back(learned(good)).keys() == {ALL_REDUCE}

    @pytest.mark.parametrize("value", [0.000123456, 1.5, 12345678.9, 1e9])
    def test_small_and_large_numbers_read_back_as_numbers(self, value):
        entry = read_back(learned(nodes(*[value] * 9)))[ALL_REDUCE]
        assert entry.value == pytest.approx(value, rel=1e-4)


class TestWhoTeaches:
    def test_outliers_are_left_out_and_said(self):
        found = learned(nodes(*TEN, 430.0, 530.0))
        assert found.entries[0].value == 480.25
        assert found.remarks[1] == (
            f"{ALL_REDUCE}: outliers left out of the median 480.2 GB/s: gpu011 (430), gpu012 (530)"
        )
        assert f"# {found.remarks[1]}" in found.text

    def test_a_fleet_in_two_parts_teaches_nothing(self):
        """The mean of five nodes at 430 and three at 480 would pass all of them."""
        good = {
            name: LearnedFrom(PLATFORM, [*node.metrics, metric(390, name="rdma.write_gbps", unit="Gb/s")])
            for name, node in nodes(*[430.0] * 5, *[480.0] * 3).items()
        }
        found = learned(good)
        assert [entry.key for entry in found.entries] == ["rdma.write_gbps"]
        assert found.remarks[1] == (
            f"{ALL_REDUCE} left out: 5 nodes about 430 GB/s, 3 about 480 GB/s: find out first which are right"
        )

    @pytest.mark.parametrize("count", [4, 8])
    def test_nodes_that_look_like_two_halves_teach_nothing(self, count):
        """5 % apart, where single chips differ by 1.5 %, or looks by 1 %."""
        shares, drawn = [0.95] * (count // 2) + [1.0] * (count // 2), Random(1)  # noqa: S311
        by_looks = {
            f"gpu{at}": LearnedFrom(PLATFORM, [metric(*(480 * share * drawn.gauss(1, 0.01) for _ in range(9)))])
            for at, share in enumerate(shares)
        }
        for good in (of_eight(shares, 0.015), by_looks):
            with pytest.raises(UsageError, match="find out first which are right"):
                learned(good)

    def test_a_value_above_the_peak_teaches_nothing(self):
        peak = Entry(ALL_REDUCE, 400, "GB/s", "s", peak=450)
        with pytest.raises(UsageError, match=r"480\.2 GB/s is more than physics allows"):
            learned(nodes(*TEN), {ALL_REDUCE: peak})

    def test_heat_is_no_measure(self):
        with pytest.raises(UsageError, match=r"nothing to learn.*burn\.temperature_c left out: it explains"):
            learned(nodes(*[60.0] * 9, name="burn.temperature_c", unit="°C", better="lower"))

    def test_software_that_differs_is_said(self):
        good = nodes(*TEN)
        good["gpu001"] = LearnedFrom(PLATFORM, good["gpu001"].metrics, {**ABOUT, "driver version": "550.54.15"})
        assert learned(good).entries[0].note.startswith("driver version 550.54.15 (1) or 580.105.08 (9), ")


def of_eight(shares, noise, seed=3):
    """Nodes with eight GPUs each, that reach these shares of 480 with this noise."""
    drawn = Random(seed)  # noqa: S311
    return {
        f"gpu{at:03}": LearnedFrom(
            PLATFORM, [metric(480 * share * drawn.gauss(1, noise), device=f"GPU {slot}") for slot in range(8)]
        )
        for at, share in enumerate(shares)
    }


class TestWhatALimitFinds:
    def test_it_is_said_for_each_number_and_what_is_never_found(self):
        remarks = learned(nodes(*TEN)).remarks
        assert remarks[-2:] == (
            f"how much slower a device has to be to be found in 95 of 100 runs: {ALL_REDUCE} 2.9 %",
            "what is slow on all of these nodes alike (a batch, a firmware, a setting) is taken for good",
        )

    def test_few_nodes_teach_with_a_warning_for_one_that_is_slow_moves_the_limit(self):
        remarks = learned(nodes(480, 481, 482)).remarks
        assert "fewer than 8 nodes: a slow one among them may be undetected" in remarks
        assert remarks[-1].endswith("; of 3 nodes even one that is slow moves it")

    def test_one_that_would_find_nothing_is_left_out(self):
        with pytest.raises(UsageError, match="left out: its values spread by 22 %"):
            learned(nodes(440, 450, 460, 470, 480, 490, 500, 510, 520))

    @pytest.mark.parametrize("slow", [0.3, 0.4, 0.5])
    def test_a_part_of_slow_nodes_within_the_noise_of_single_devices_is_told(self, slow):
        """Two parts that overlap: no single device shows them, the eight of a node do."""
        share = [0.95 if at < 64 * slow else 1.0 for at in range(64)]
        remarks = " ".join(of_learned(share, 0.03))
        assert "more than their devices explain: some may be slow" in remarks or "find out first which" in remarks

    @pytest.mark.parametrize("noise", [0.005, 0.01, 0.03])
    def test_good_nodes_are_not_suspected(self, noise):
        for seed in range(4):
            assert "explain" not in " ".join(of_learned([1.0] * 64, noise, seed))


def of_learned(shares, noise, seed=3):
    """The remarks on what such nodes teach; if their number is refused, why."""
    try:
        return learned(of_eight(shares, noise, seed)).remarks
    except UsageError as said:
        return (said.message,)


class TestWhatWasLearnedBefore:
    def test_the_best_value_ever_learned_goes_on(self):
        before = read_back(learned(nodes(*TEN)))
        again = read_back(learned(nodes(*[value * 0.99 for value in TEN]), before))
        assert (again[ALL_REDUCE].value, again[ALL_REDUCE].best_value) == (475.45, 480.25)

    def test_a_fleet_that_ages_is_told_although_each_time_is_only_a_little_slower(self):
        known: dict[str, Entry] = {}
        said = []
        for cycle in range(6):
            found = learned(nodes(*[value * 0.99**cycle for value in TEN]), known)
            said.append(any("the best of the baselines before" in each for each in found.remarks))
            known = read_back(found)
        assert said == [False, False, False, True, True, True]

    def test_with_the_peak_beside_it(self):
        before = Entry(ALL_REDUCE, 500, "GB/s", "last year", direction="at least", tolerance=0.05, peak=900)
        assert (
            f"{ALL_REDUCE}: 480.2 GB/s is 4.0 % below 500 GB/s, 53 % of the peak, the best of the baselines before "
            f"( {ALL_REDUCE}: last year): find out why, or keep that one"
        ) in learned(nodes(*TEN), {ALL_REDUCE: before}).remarks

    def test_a_limit_that_became_lax_is_told_although_the_value_did_not_change(self):
        before = Entry(ALL_REDUCE, 480, "GB/s", "last year", direction="at least", tolerance=0.025)
        remarks = learned(nodes(*WIDE), {ALL_REDUCE: before}).remarks
        assert any("below that of the baseline before" in each and each.endswith("was stricter") for each in remarks)

    def test_other_conditions_are_another_number(self):
        other = Entry(ALL_REDUCE, 900, "GB/s", "s", direction="at least", parameters={**CONDITIONS, "nccl": "2.21.5"})
        found = learned(nodes(*TEN), {ALL_REDUCE: other})
        assert not any("before" in each for each in found.remarks)
        assert found.entries[0].best_value == 480.25


class TestWhatIsRefused:
    def test_two_nccl_versions(self):
        good = nodes(*TEN[:5]) | {f"old{at}": LearnedFrom(PLATFORM, [metric(470.0, nccl="2.21.5")]) for at in range(4)}
        with pytest.raises(UsageError) as said:
            learned(good)
        assert said.value.message == (
            f"{ALL_REDUCE} was not measured under equal conditions: nccl 2.27.3 on gpu001, gpu002, "
            f"gpu003 and 2 more and "
            "2.21.5 on old0, old1, old2 and 1 more"
        )

    def test_a_condition_that_some_do_not_tell(self):
        bare = Metric(ALL_REDUCE, (480.0,), "GB/s", conditions={k: v for k, v in CONDITIONS.items() if k != "nccl"})
        with pytest.raises(UsageError, match=r"not measured under equal conditions: nccl 2\.27\.3 on gpu001"):
            learned(nodes(*TEN[:5]) | {"odd": LearnedFrom(PLATFORM, [bare])})

    def test_a_node_that_lacks_one_of_several_variants_is_no_contradiction(self):
        both = [metric(700, dtype="bf16"), metric(1300, dtype="fp8")]
        good = {f"gpu{at}": LearnedFrom(PLATFORM, both[: 1 if at == 3 else 2]) for at in range(9)}
        assert len(learned(good).entries) == 2

    @pytest.mark.parametrize("good", [{}, {"a": LearnedFrom(PLATFORM, [])}, {"a": LearnedFrom("", [metric(1.0)])}])
    def test_nothing_to_learn_from(self, good):
        with pytest.raises(UsageError, match="no accepted node of a known platform was measured under load"):
            learned(good)

    def test_a_value_of_nothing(self):
        with pytest.raises(UsageError, match="no value above 0"):
            learned(nodes(*[0.0] * 9))
