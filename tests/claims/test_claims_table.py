"""checks/claims.yaml: the table that ships, and what is refused in one."""

import shutil
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from support import claims_page

from nodegate import suite
from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.claims import table
from nodegate.claims.provable import provable
from nodegate.claims.table import claims, claims_of, homes, read
from nodegate.errors import UsageError
from nodegate.measure.registry import is_active
from nodegate.node import Node
from nodegate.profile import Profile

CHECKS = {check.id: check for check in suite.checks()}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "claims.md"


def baseline_of(platform):
    return Baselines.read().for_node(Node("any", expected={"platform": platform}), None, None)


# Of these every claim of a delivery can be proven with what is shipped.
WHOLE = ("hgx-h100-8", "hgx-h200-8", "hgx-a100-80gb-8", "hgx-a100-40gb-8", "hgx-b200-8")


def test_a_proving_check_that_is_gone_from_its_file_stops_every_run(tmp_path, monkeypatch):
    """The claim would be proven by those that are left."""
    shutil.copytree(suite.suite_folder(suite.CHECKS), tmp_path, dirs_exist_ok=True)
    gsp = tmp_path / "test_gsp.py"
    gsp.write_text(gsp.read_text().replace("def test_state(", "def is_state("))
    for module in (suite, table):
        monkeypatch.setattr(module, "suite_folder", lambda _: tmp_path)
    with pytest.raises(UsageError, match=r"test_gsp\.py: it has no gsp\.state, which must prove configuration"):
        table.claims.__wrapped__()


def test_every_pattern_fits_a_check():
    patterns = {pattern for claim in claims() for pattern in claim.speak}
    assert [each for each in patterns if not any(fnmatchcase(check, each) for check in CHECKS)] == []


def test_every_check_has_one_home():
    assert homes().keys() ^ CHECKS.keys() == set()


def test_few_checks_may_be_silent_and_none_where_parts_and_logs_are_named():
    silent = {claim.name: claim.silent for claim in claims() if claim.silent}
    upkeep = [check for checks in silent.values() for check in checks if str(check).startswith("upkeep.")]
    assert sum(map(len, silent.values())) - len(upkeep) <= 25
    assert len(upkeep) <= 7  # facts that a node may rightly lack, and that older evidence does not have
    assert silent.keys() & {"identity", "parts", "memory_errors", "logs"} == set()


def test_each_reason_for_silence_names_a_check_that_catches_the_fault():
    for claim in claims():
        for check, reason in claim.silent_ok:
            assert [each for each in CHECKS if each in reason and each != check], f"{check}: {reason}"


@pytest.mark.parametrize("profile", [Profile.BOOTCHECK, Profile.NIGHTLY, Profile.DELIVERY])
def test_a_claim_has_a_check_in_each_of_its_profiles(profile):
    for claim in claims_of(profile):
        assert any(profile.includes(CHECKS[check].tier) for check in claim.proving), claim.name


def test_a_bootcheck_claims_only_what_can_be_read_without_load():
    proving = [check for claim in claims_of(Profile.BOOTCHECK) for check in claim.proving]
    of_profile = [check for check in proving if Profile.BOOTCHECK.includes(CHECKS[check].tier)]
    assert [check for check in of_profile if is_active(CHECKS[check].asks_for)] == []


def test_troubleshooting_accepts_nothing():
    assert claims_of(Profile.TROUBLESHOOT) == ()


@pytest.mark.parametrize("platform", WHOLE)
def test_every_claim_of_a_delivery_has_a_limit_on(platform):
    found = provable(claims_of(Profile.DELIVERY), baseline_of(platform), nodes=4)
    assert {each.claim.name: each.missing for each in found if each.missing} == {}


def test_what_is_missing_is_said():
    told = provable(claims(), Baseline("", "", "nobody knows it", "", ""), lacking=["ib_write_bw"], nodes=1)
    found = {each.claim.name: each.missing for each in told}
    assert found["rails"] == ("no limit rdma.share_of_rate_percent", "no ib_write_bw", "2 nodes in one run, of 1")
    assert found["identity"] == ()


def test_the_page_is_fresh():
    assert PAGE.read_text("utf-8") == claims_page.page(), "stale: write it again: make docs"


def test_the_limits_are_keys_that_exist():
    baselines = Baselines.read()
    keys = {key for claim in claims() for _, keys in claim.limits for key in keys}
    assert [key for key in keys if baselines.keys.nearest(key)] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "claims must be a mapping of names"),
        ("a: 1", "a claim must be a mapping of names"),
        ("a: {title: x, tier: nightly, prof: [gpu.count]}", "did you mean proof?"),
        ("a: {title: x, tier: daily, proof: [gpu.count]}", "tier is one of bootcheck, nightly, delivery"),
        ("a: {title: x, tier: nightly}", "nothing proves a"),
        ("a: {title: x, tier: nightly, proof: gpu.count}", "proof must be a list of names"),
        ("a: {title: x, tier: nightly, numbers: [gpu.count]}", "numbers must be a mapping of names"),
        ("a: {tier: nightly, proof: [gpu.count]}", "title must be some text"),
        ("a: {title: x, tier: nightly, proof: [gpu.count], nodes: two}", "nodes is a number of nodes"),
        ("a: {title: x, tier: nightly, proof: [b.c], silent_ok: [d.e]}", "silent_ok must be a mapping of names"),
        ("a: {title: x, tier: nightly, proof: [b.c], silent_ok: {d.e: ''}}", "d.e must be some text"),
        ("a: {title: x, tier: nightly, proof: [b.c], silent_ok: {b.c: x}}", "b.c belongs to 2 claims"),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_its_line(tmp_path, text, said):
    file = tmp_path / "claims.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        read(file)
    assert said in str(refused.value)
    assert str(file) in str(refused.value)
