"""A number against the device's own past: what one run says, what is lost little by little, what is never forgotten."""

import pytest
from support.measured import baseline, margins, metric, peers
from support.measured import others as like

from nodegate.numbers import metric_findings
from nodegate.numbers.assess import Assessment, assess
from nodegate.numbers.assessments import assessments
from nodegate.numbers.own_past import Past, Pasts
from nodegate.numbers.peers import NoPeers, Peers
from nodegate.numbers.suspects import suspects
from nodegate.records.verdict import Verdict
from nodegate.verdicts import Verdicts

PASS, WARN, FAIL, NOT_JUDGED = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.NOT_JUDGED
MARGINS = margins()
NOBODY = NoPeers("nobody measured it in the same way")
LIMIT = "  nccl.all_reduce_gb_per_s: {value: 440, unit: GB/s, source: learned, direction: at least}\n"
QUIET, NOISY = 0.005, 0.03


def told(
    *values: float, past: list[float], noise: float = QUIET, proven_by: str = "", unit: str = "GB/s"
) -> Assessment:
    """What is said of these attempts; `proven_by` the fleet, a baseline, or nothing else."""
    measured = metric(*values, unit=unit, better="lower" if unit == "°C" else "higher")
    right = baseline(LIMIT).entry(measured.name) if proven_by == "baseline" else None
    others = like(480.0, 0.04) if proven_by == "fleet" else NOBODY
    return assess(measured, right, others, MARGINS, history=Past(past, noise, 100.0))


class TestOneRun:
    def test_being_like_its_past_proves_no_health(self):
        found = told(480, past=[480.0] * 20)
        assert (found.verdict, found.limit) == (NOT_JUDGED, None)

    @pytest.mark.parametrize(("runs", "verdict"), [(1, WARN), (2, WARN), (3, FAIL), (20, FAIL)])
    def test_where_nothing_else_judges_it_rejects_from_the_third_earlier_run_on(self, runs: int, verdict: Verdict):
        found = told(440, past=[480.0] * runs)
        assert (found.verdict, found.comparison) == (verdict, "history")

    def test_what_its_noise_explains_is_not_said_however_far_it_is(self):
        assert told(448, past=[480.0] * 8, noise=NOISY).verdict is NOT_JUDGED
        assert told(448, past=[480.0] * 8, noise=QUIET).verdict is FAIL

    def test_what_only_a_rare_run_of_that_noise_would_be_is_measured_again(self):
        found = told(430, past=[480.0] * 8, noise=NOISY)
        assert (found.verdict, found.again) == (NOT_JUDGED, True)

    def test_one_that_keeps_its_limit_is_warned_of(self):
        found = told(450, past=[480.0] * 3, proven_by="baseline")
        assert (found.verdict, found.comparison) == (WARN, "history")
        assert found.note == "6.2 % below the median 480 GB/s of 3 earlier runs of this node"
        assert found.limit is not None
        assert (found.limit.value, found.limit.source) == (456.0, "its own past")

    def test_one_that_is_like_the_other_nodes_is_measured_again_and_a_second_run_has_to_agree(self):
        found = told(460, past=[480.0] * 20, proven_by="fleet")
        assert (found.verdict, found.again) == (PASS, True)
        assert found.note.endswith("of 8 earlier runs of this node: a warning if the next run is so too")
        found = told(460, past=[*[480.0] * 20, 460.0], proven_by="fleet")
        assert (found.verdict, found.comparison) == (WARN, "history")

    def test_heat_only_warns(self):
        assert told(75, past=[60.0] * 8, unit="°C").verdict is WARN

    def test_a_good_look_among_the_three_is_enough(self):
        assert told(430, 479, 478, past=[480.0] * 8, proven_by="fleet").verdict is PASS

    def test_a_node_that_is_behind_its_past_is_measured_again(self):
        fleet = {f"gpu{at:03}": ("hgx-h100-8", [metric(466.0 + at / 5)]) for at in range(20)}
        past = {"gpu003": lambda _metric: [500.0, 499.0, 501.0] * 4}
        everywhere = dict.fromkeys(fleet, baseline())
        assert not suspects(fleet, everywhere)
        assert set(suspects(fleet, everywhere, earlier=past.get)) == {"gpu003"}


class TestWhatIsLost:
    def test_little_by_little_is_told_beside_the_first_runs(self):
        ageing = [480.0] * 16 + [480.0 * (1 - 0.0015 * night) for night in range(1, 21)]
        found = told(464, past=ageing, proven_by="fleet")
        assert (found.verdict, found.comparison) == (WARN, "history")
        assert found.note == "the mean of its newest 8 runs is 2.6 % below that of its first 16 runs (480 GB/s)"

    def test_less_than_the_floor_is_not_however_certain(self):
        assert told(470, past=[480.0] * 16 + [470.0] * 30, noise=0.001, proven_by="fleet").verdict is PASS

    def test_a_step_is_never_forgotten(self):
        for runs in (1, 5, 40, 400):
            kept = [480.0] * 4 + [455.0] * runs
            past = kept if len(kept) <= 48 else kept[:16] + kept[-32:]
            assert told(455, past=past, proven_by="fleet").verdict is WARN, runs

    def test_one_disturbed_run_is_no_loss(self):
        for past in ([480.0] * 20 + [400.0], [480.0] * 19 + [400.0, 480.0], [480.0] * 20):
            assert told(480, past=past, proven_by="fleet").verdict is PASS
        assert told(400, 400, 481, past=[480.0] * 20, proven_by="fleet").verdict is not FAIL

    def test_being_better_than_at_first_is_no_loss(self):
        assert told(500, past=[480.0] * 16 + [500.0] * 8, proven_by="fleet").verdict is PASS

    def test_a_warmer_device_is_told_by_degrees(self):
        found = told(70, past=[60.0] * 16 + [70.0] * 4, unit="°C")
        assert (found.verdict, found.note) == (
            WARN,
            "the mean of its newest 4 runs is 10 °C above that of its first 16 runs (60 °C)",
        )


class TestNoise:
    def of(self, *pasts: list[float], now: float = 480.0, others: float = 0.0) -> Past:
        alike = [metric(now, device=f"GPU {at}") for at in range(len(pasts))]
        held = {each.device: values for each, values in zip(alike, pasts, strict=True)}
        group = like(480.0, others) if others else NOBODY
        found = Pasts(alike, lambda each: held[each.device]).of(alike[0], group, MARGINS)
        assert found is not None
        return found

    def test_a_drift_is_not_noise(self):
        steady = [480.0 + (-1) ** run for run in range(30)]
        drifting = [value - run for run, value in enumerate(steady)]
        assert self.of(drifting).noise == pytest.approx(self.of(steady).noise, rel=0.2)

    def test_one_or_two_runs_do_not_tell_it(self):
        assert self.of([480.0, 480.0]).noise > 0.015

    def test_then_the_spread_of_the_other_nodes_stands_for_it(self):
        assert self.of([480.0, 480.0], others=0.004).noise == pytest.approx(0.004, rel=0.1)

    def test_eight_devices_tell_it_after_a_few_runs(self):
        runs = [[480.0 + (at + run) % 3 for run in range(6)] for at in range(8)]
        found = self.of(*runs, others=0.03)
        assert found.noise < 0.005
        assert found.freedom > 16

    def test_where_there_are_no_earlier_runs_there_is_no_past(self):
        new = metric(480)
        assert Pasts([new], None).of(new, NOBODY, MARGINS) is None
        assert Pasts([new], lambda _: ()).of(new, NOBODY, MARGINS) is None


def test_the_finding_says_it_in_words() -> None:
    verdicts = Verdicts()
    own = peers(470.0, 469.0, 471.0, 470.5, 469.5, 470.0, 468.5, 471.5).of_node(
        "gpu001", lambda _: [500.0, 501.0, 500.5, 499.5, 500.0, 470.0, 470.0, 470.0]
    )
    metric_findings.judge(verdicts, [metric(470)], baseline=baseline(), peers=own, remedy="look")
    assert verdicts.findings[0].message == (
        "all_reduce: bus bandwidth 470 GB/s, expected at least 494 GB/s (its own past); "
        "the mean of its newest 4 runs is 6.0 % below that of its first 4 runs (500.2 GB/s) - look"
    )


def test_a_node_whose_devices_all_lose_a_little_is_told_as_a_whole() -> None:
    """Each is within its noise; the median of the eight is not."""
    fleet = {
        f"gpu{node:03}": ("hgx-h100-8", [metric(480.0 + node, device=f"GPU {at}") for at in range(8)])
        for node in range(9)
    }
    noise = [12.0, -9.0, 4.0, -14.0, 7.0, 15.0, -6.0, -11.0]
    past = {
        f"GPU {at}": [495.0 + noise[(at * 3 + run) % 8] for run in range(16)]
        + [479.0 + noise[(at * 3 + run) % 8] for run in range(16)]
        for at in range(8)
    }
    own = Peers.of(fleet).of_node("gpu000", lambda each: past[each.device])
    found = [
        (each.device, said.comparison)
        for each, said in assessments(fleet["gpu000"][1], baseline=baseline(), peers=own)
        if said.verdict is WARN
    ]
    assert ("", "history") in found
