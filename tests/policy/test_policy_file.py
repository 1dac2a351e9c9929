"""Policy files: what one says, and that a slip of the pen is refused with its line and never makes a policy milder."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support import policies_page

from nodegate.baseline.baseline import Baselines
from nodegate.claims.table import claims
from nodegate.errors import UsageError
from nodegate.metric import Metric, Statistic
from nodegate.node import Node
from nodegate.numbers.assessments import assessments
from nodegate.numbers.peers import Peers
from nodegate.policy import policy_file
from nodegate.policy.policy import DEFAULT, ClassRule, DefectClass, Item
from nodegate.records.finding import LimitKind
from nodegate.records.verdict import Verdict

Write = Callable[[str], str]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "policies.md"
A, B, C = DefectClass.A, DefectClass.B, DefectClass.C
CONTRACT = """
policy: contract
title: "our contract"
source: "order 4711"
classes:
  A: {may_fail_percent: 0, clause: "1"}
  B: {may_fail_percent: 10, days: 30, clause: "2"}
  C: {clause: "3"}
claims:
  compute: {class: A, statistic: median, clause: "3.1"}
  rails: {class: B, may_fail_percent: 2.5, clause: "4.2"}
limits:
  hgx-h100-*:
    burn.fp32_tflops: {value: 54, unit: TFLOPS, direction: at least, tolerance: 0.1, clause: "3.2", source: "table 2"}
  "*":
    rdma.share_of_rate_percent: {value: 45, unit: "%", direction: at least, clause: "4.1", source: "180 of 400 Gb/s"}
not_measured:
  storage: {class: C, title: "checkpoint rate", clause: "6"}
"""
H100 = Node("gpu01", expected={"platform": "hgx-h100-8"})


@pytest.fixture
def write(tmp_path):
    def written(text):
        file = tmp_path / "contract.yaml"
        file.write_text(text)
        return str(file)

    return written


@pytest.fixture
def contract(write):
    return policy_file.read(write(CONTRACT))


def limits(policy, node=H100):
    return Baselines.read(policy=policy.limits).for_node(node, None, None)


class TestWhatAPolicySays:
    def test_each_claim_has_its_class_its_clause_and_the_share_that_may_fail(self, contract):
        assert contract.policy.item("compute") == Item("compute", A, "3.1", Statistic.MEDIAN)
        assert contract.policy.item("rails") == Item("rails", B, "4.2", may_fail_percent=2.5)
        assert contract.policy.item("logs") == Item("logs", A, "1"), "one that it does not name blocks"
        assert contract.policy.classes == {A: ClassRule("1"), B: ClassRule("2", 10, 30), C: ClassRule("3", 100)}
        (item,) = contract.policy.not_measured
        assert (item.claim, item.title, item.is_measured) == ("storage", "checkpoint rate", False)

    def test_the_attempt_that_counts_is_that_of_the_claims_on_a_checks_numbers(self, contract):
        assert contract.policy.statistic_of("burn.throughput") is Statistic.MEDIAN
        assert contract.policy.statistic_of("copies.device_memory") is None

    def test_a_policy_may_be_for_some_platforms(self, write):
        policy = policy_file.read(write(CONTRACT + 'platforms: ["hgx-h100-*"]\n')).policy
        assert [policy.is_for(name) for name in ("hgx-h100-8", "hgx-a100-80gb-8", "")] == [True, False, False]


class TestItsLimits:
    def test_they_win_over_the_baselines_and_say_their_clause(self, contract):
        found = limits(contract).limit("burn.fp32_tflops")
        assert found.value == pytest.approx(54 * 0.9)
        assert found.kind is LimitKind.BASELINE
        assert found.source == "10 % below 54 TFLOPS, policy contract, clause 3.2 burn.fp32_tflops: table 2"
        assert limits(contract).entry("burn.fp32_tflops").peak == 67, "what physics allows stays"

    def test_they_win_over_the_inventory(self, contract):
        asked = {"rdma.share_of_rate_percent": 10, "host.shm_min_gib": 8}
        node = Node("gpu01", expected={"platform": "hgx-h100-8", "limits": asked})
        assert limits(contract, node).limit("rdma.share_of_rate_percent").value == 45
        assert limits(contract, node).limit("host.shm_min_gib").value == 8

    def test_other_platforms_keep_theirs(self, contract):
        a100 = Node("gpu01", expected={"platform": "hgx-a100-80gb-8"})
        plain = Baselines.read().for_node(a100, None, None)
        assert limits(contract, a100).limit("burn.fp32_tflops") == plain.limit("burn.fp32_tflops")


class TestTheShippedOnes:
    def test_the_page_is_fresh(self):
        written = PAGE.read_text("utf-8")
        assert written == policies_page.page(written), "stale: write it again: make docs"

    @pytest.mark.parametrize("name", policy_file.shipped())
    def test_each_is_read_and_its_limits_fit_the_baselines(self, name):
        found = policy_file.read(name)
        assert found.policy.name == name
        assert Baselines.read(policy=found.limits).platforms

    def test_the_default_asks_for_every_claim_on_every_node_and_changes_no_limit(self):
        found = policy_file.read(DEFAULT)
        assert {found.policy.item(claim.name).defect_class for claim in claims()} == {A}
        assert found.policy.classes == {A: ClassRule("no node may have one")}
        assert found.policy.not_measured == ()
        held, plain = Baselines.read(policy=found.limits), Baselines.read()
        assert (held.platforms, held.common, held.settled) == (plain.platforms, plain.common, {})


@pytest.mark.parametrize(
    ("right", "wrong", "line", "said"),
    [
        ("  compute:", "  comput:", 10, "did you mean compute?"),
        ("statistic: median", "statistic: mean", 10, "no statistic 'mean'"),
        ("{class: A, statistic", "{class: D, statistic", 10, "class must be A, B or C, not 'D'"),
        ('class: A, statistic: median, clause: "3.1"', "class: A", 10, "compute needs clause: some text"),
        ('class: A, statistic: median, clause: "3.1"', "class: A, clause: 3.1", 10, 'write a number in quotes: "3.1"'),
        ("may_fail_percent: 2.5", "may_fail_percent: 80", 11, "80 is not between 0 and 50 % of the nodes"),
        (" days: 30,", "", 7, "class B (to be fixed by a given date) has no days"),
        ('  A: {may_fail_percent: 0, clause: "1"}\n', "", 5, "classes lacks A"),
        ('  C: {clause: "3"}\n', "", 17, "storage is of class C, which classes does not define"),
        ('C: {clause: "3"}', 'C: {clause: "3", days: 3}', 8, "unknown key 'days'"),
        ("hgx-h100-*:", "hgx-h1000-*:", 13, "no platform 'hgx-h1000-*'"),
        ("burn.fp32_tflops", "burn.fp23_tflops", 14, "did you mean burn.fp32_tflops?"),
        ("value: 54", "value: 540", 14, "the peak is what nothing can exceed"),
        ("value: 54", "value: 5", 14, "less than a fifth of its peak"),
        ("at least, tolerance", "at most, tolerance", 14, "at least"),
        ("unit: TFLOPS", "unit: GFLOPS", 14, "is in TFLOPS by its name"),
        (' clause: "3.2",', "", 14, "needs clause: some text"),
        ("  storage:", "  rails:", 18, "rails is a claim that nodegate measures"),
        ('source: "order 4711"\n', "", 2, "the file needs source: some text"),
    ],
)
def test_a_slip_is_refused_with_its_line(write, right, wrong, line, said):
    assert CONTRACT.count(right) == 1
    file = write(CONTRACT.replace(right, wrong))
    with pytest.raises(UsageError) as refused:
        limits(policy_file.read(file))
    assert said in str(refused.value)
    assert f"{file}:{line}:" in str(refused.value)


def test_a_name_that_no_policy_has_is_refused_with_the_near_one():
    with pytest.raises(UsageError, match="did you mean default"):
        policy_file.read("defualt")


def test_physics_does_not_prove_what_a_policy_asks_for_under_other_conditions(write):
    cublas = CONTRACT.replace('clause: "3.2"', 'clause: "3.2", parameters: {path: cublas}')
    agreed, plain = limits(policy_file.read(write(cublas))), Baselines.read().for_node(H100, None, None)
    own = Metric("burn.fp32_tflops", (45.0,), "TFLOPS", "GPU 3", conditions={"path": "ptx"})
    found = [next(assessments([own], baseline=each, peers=Peers.of({}).of_node("gpu01"))) for each in (agreed, plain)]
    assert [each.verdict for _, each in found] == [Verdict.NOT_JUDGED, Verdict.PASS]


@pytest.mark.parametrize(
    ("statistic", "verdict"),
    [(Statistic.BEST, Verdict.PASS), (Statistic.MEDIAN, Verdict.FAIL), (Statistic.WORST, Verdict.FAIL)],
)
def test_the_statistic_says_which_attempt_is_held_to_the_limit(statistic, verdict):
    baseline = replace(Baselines.read().for_node(H100, None, None), statistic=statistic)
    conditions = {"path": "cublas", "matrix": "8192"}
    suspect = Metric("burn.bf16_tflops", (500.0, 510.0, 730.0), "TFLOPS", "GPU 3", conditions=conditions)
    ((_, found),) = assessments([suspect], baseline=baseline, peers=Peers.of({}).of_node("gpu01"))
    assert found.verdict is verdict
    assert found.value == statistic.of(suspect.values, better="higher")
    assert f"the {statistic.value} of 3 attempts" in found.note
