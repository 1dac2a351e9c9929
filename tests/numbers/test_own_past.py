"""A number against the device's own past: what one run says, what is lost little by little, what is never forgotten."""

from random import Random

import pytest
from support.measured import baseline, margins, metric, peers
from support.measured import others as like

from nodegate.numbers import metric_findings
from nodegate.numbers.assessments import Beside, assess, assessments, suspects
from nodegate.numbers.comparison import NoPeers
from nodegate.numbers.past import Past, Pasts, history
from nodegate.numbers.peers import Peers
from nodegate.past.series import FIRST, NEWEST
from nodegate.records.verdict import Verdict
from nodegate.verdicts import Verdicts

PASS, WARN, FAIL, NOT_JUDGED = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.NOT_JUDGED
MARGINS = margins()
NOBODY = NoPeers("nobody measured it in the same way")
LIMIT = "  nccl.all_reduce_gb_per_s: {value: 440, unit: GB/s, source: learned, direction: at least}\n"
QUIET, NOISY = 0.005, 0.03


def told(*values, past, noise=QUIET, proven_by="", unit="GB/s"):
    measured = metric(*values, unit=unit, better="lower" if unit == "°C" else "higher")
    right = baseline(LIMIT).entry(measured.name) if proven_by == "baseline" else None
    others = like(480.0, 0.04) if proven_by == "fleet" else NOBODY
    return assess(measured, right, others, MARGINS, Beside(history=Past(past, noise, 100.0)))


AGEING = [480.0] * 16 + [480.0 * (1 - 0.0015 * night) for night in range(1, 21)]
STEADY = [480.0] * 20
FLEET = {"proven_by": "fleet"}


@pytest.mark.parametrize(
    ("values", "past", "given", "verdict", "note"),
    [
        ([480], STEADY, {}, NOT_JUDGED, ""),  # being like its past proves no health
        *(([440], STEADY[:runs], {}, verdict, "") for runs, verdict in ((1, WARN), (2, WARN), (3, FAIL), (20, FAIL))),
        ([448], STEADY[:8], {"noise": NOISY}, NOT_JUDGED, ""),  # what its noise explains
        ([448], STEADY[:8], {"noise": QUIET}, FAIL, ""),
        ([430], STEADY[:8], {"noise": NOISY}, NOT_JUDGED, ""),
        ([450], STEADY[:3], {"proven_by": "baseline"}, WARN, "6.2 % below the median 480 GB/s of 3 earlier runs of"),
        ([460], STEADY, FLEET, PASS, "of 8 earlier runs of this node: a warning if the next run is so too"),
        ([460], [*STEADY, 460.0], FLEET, WARN, ""),  # a second run has to agree
        ([75], [60.0] * 8, {"unit": "°C"}, WARN, ""),
        ([430, 479, 478], STEADY[:8], FLEET, PASS, ""),
        # what is lost little by little
        ([464], AGEING, FLEET, WARN, "the mean of its newest 8 runs is 2.6 % below that of its first 16 runs (480 "),
        ([470], STEADY[:16] + [470.0] * 30, {"noise": 0.001, **FLEET}, PASS, ""),  # less than the floor
        *(([455], [480.0] * 4 + [455.0] * runs, FLEET, WARN, "") for runs in (1, 5, 40)),
        ([455], [480.0] * 4 + [455.0] * 44, FLEET, WARN, ""),  # never forgotten: what is kept of 400 runs
        *(([480], past, FLEET, PASS, "") for past in ([*STEADY, 400.0], [*STEADY[1:], 400.0, 480.0], STEADY)),
        ([500], STEADY[:16] + [500.0] * 8, FLEET, PASS, ""),
        ([70], [60.0] * 16 + [70.0] * 4, {"unit": "°C"}, WARN, "newest 4 runs is 10 °C above that of its first 16"),
    ],
)
def test_what_its_own_past_says(values, past, given, verdict, note):
    found = told(*values, past=past, **given)
    assert found.verdict is verdict
    assert note in found.note
    assert verdict in (PASS, NOT_JUDGED) or found.comparison == "history"


def test_what_is_behind_its_past_is_measured_again():
    assert told(430, past=[480.0] * 8, noise=NOISY).again
    assert told(460, past=STEADY, proven_by="fleet").again
    assert told(400, 400, 481, past=STEADY, proven_by="fleet").verdict is not FAIL
    fleet = {f"gpu{at:03}": ("hgx-h100-8", [metric(466.0 + at / 5)]) for at in range(20)}
    past = {"gpu003": lambda _metric: [500.0, 499.0, 501.0] * 4}
    everywhere = dict.fromkeys(fleet, baseline())
    assert not suspects(fleet, everywhere)
    assert set(suspects(fleet, everywhere, earlier=past.get)) == {"gpu003"}


def test_the_limit_is_its_own_past():
    limit = told(450, past=[480.0] * 3, proven_by="baseline").limit
    assert (limit.value, limit.source) == (456.0, "its own past")


class TestNoise:
    def of(self, *pasts, now=480.0, others=0.0):
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


def test_the_finding_says_it_in_words():
    verdicts = Verdicts()
    own = peers(470.0, 469.0, 471.0, 470.5, 469.5, 470.0, 468.5, 471.5).of_node(
        "gpu001", lambda _: [500.0, 501.0, 500.5, 499.5, 500.0, 470.0, 470.0, 470.0]
    )
    metric_findings.judge(verdicts, [metric(470)], baseline=baseline(), peers=own, remedy="look")
    assert verdicts.findings[0].message == (
        "all_reduce: bus bandwidth 470 GB/s, expected at least 494 GB/s (its own past); "
        "the mean of its newest 4 runs is 6.0 % below that of its first 4 runs (500.2 GB/s) - look"
    )


def test_a_node_whose_devices_all_lose_a_little_is_told_as_a_whole():
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


NIGHT, WEEK = 1 / 7, 1.0  # weeks between two runs
LOOKS = 3


def first_alarm(seed, *, noise, weeks, steady, runs, a_week):
    """What a number of a whole node has lost when its past warns of it; None where it never does.

    The other nodes are as noisy and find nothing. Of a look in a hundred 5 to 30 % are lost.
    """
    drawn = Random(seed)  # noqa: S311
    kept: list[float] = []
    group = like(480.0, noise, nodes=1249)
    for run in range(steady + runs):
        lost = a_week * weeks * max(0, run - steady)
        looks = [480 * (1 - lost) * drawn.gauss(1, noise) * disturbed(drawn) for _ in range(LOOKS)]
        for count in (1, LOOKS):
            measured = metric(*looks[:count])
            held = kept if len(kept) <= FIRST + NEWEST else kept[:FIRST] + kept[-NEWEST:]
            past = Pasts([measured], lambda _: held).of(measured, group, MARGINS)  # noqa: B023 - used at once
            found = history(measured, measured.best, past, MARGINS, proven=True, like_others=True)
            if found is None:
                break
        if found and found.verdict is Verdict.WARN:
            return lost
        kept.append(measured.best)
    return None


def disturbed(drawn):
    return 1 - drawn.uniform(0.05, 0.30) if drawn.random() < 0.01 else 1.0


@pytest.mark.parametrize(
    ("noise", "weeks", "steady"),
    [(0.005, NIGHT, 0), (0.005, NIGHT, 20), (0.01, NIGHT, 0), (0.01, NIGHT, 20), (0.005, WEEK, 8), (0.003, WEEK, 4)],
)
def test_one_per_cent_a_week_is_found_before_six_per_cent_are_lost(noise, weeks, steady):
    for seed in range(8):
        lost = first_alarm(seed, noise=noise, weeks=weeks, steady=steady, runs=int(8 / weeks), a_week=0.01)
        assert lost is not None
        assert 0.01 < lost < 0.0601


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_what_does_not_age_is_left_alone(noise):
    for seed in range(12):
        assert first_alarm(seed, noise=noise, weeks=NIGHT, steady=150, runs=0, a_week=0.0) is None
