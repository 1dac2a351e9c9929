"""docs/evidence: what of a healthy node may be wrong, or say nothing, without a word has a reason."""

import random
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.healthy_platforms import CARDS, PLATFORMS, UNSUPPORTED, node_of
from support.judging import judge_one

from bench import one_value_changes as script
from bench import silent_values
from nodegate.records.verdict import Verdict
from nodegate.unknown import Why

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "silent-values.md"
SEED, SAMPLE = 27, 250


@pytest.mark.long
def test_of_a_sample_every_silence_that_changes_nothing_has_its_reason():
    some = random.Random(SEED).sample(silent_values.cases(), SAMPLE)  # noqa: S311 - the same sample each time
    outcomes = list(silent_values.tried(some))
    assert len(outcomes) == SAMPLE
    assert silent_values.unexplained(outcomes) == []


@pytest.mark.long
def test_a_section_that_is_missing_hung_denied_or_empty_is_never_accepted_without_a_word():
    wholes = [each for each in silent_values.cases() if len(each[2]) == 1]
    assert {where for _, _, where, _ in wholes} >= {("disks",), ("netdev",), ("jobs",), ("kernel_log",), ("nvml",)}
    silent = [each for each in silent_values.tried(wholes) if each.outcome == silent_values.ACCEPTED]
    assert {(each.name, each.silence) for each in silent} - {("hooks", each) for each in silent_values.SILENT} == {
        ("services", "empty"),  # a node without systemd
        ("upkeep", "empty"),  # a machine without arrays, bonds, clock policies
    }
    assert silent_values.unexplained(silent) == []


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
@pytest.mark.parametrize("most", [1, 99], ids=["one", "all"])
def test_an_adapter_that_lists_no_port_is_not_one_rail_less_by_design(platform, most):
    made = node_of(platform, Machine.pcie_l40s if platform in CARDS else Machine.hgx_h100)
    for adapter in list(made.sections["infiniband"].values())[:most]:
        adapter["ports"] = {}
    assert judge_one("rdma.port_state", made).verdict is Verdict.ERROR


def test_the_page_has_every_platform_and_profile_and_a_reason_for_each_value():
    page = PAGE.read_text("utf-8")
    for platform in silent_values.PLATFORMS:
        for profile in silent_values.PROFILES:
            assert f"| {platform} | {profile.value} |" in page
    assert "|  |" not in page
    assert "no check rests on it" not in page


def test_a_reading_that_one_gpu_of_eight_lacks_opens_a_claim_at_each_entrance():
    for profile in silent_values.PROFILES:
        for silence in silent_values.SILENT:
            where = ("nvml", "gpus", 3, "serial")
            assert silent_values.decided("hgx-h100-8", profile, where, silence) == (silent_values.OPEN, "identity")


def test_nvlinks_whose_errors_no_gpu_reports_are_not_without_errors_by_design():
    """The drivers of newer boards may count them in other fields."""
    machine = node_of("hgx-b200-8")
    for entry in machine.sections["nvml"]["gpus"]:
        entry["nvlink5"] = UNSUPPORTED
    for check in ("nvlink.errors", "nvlink.bit_errors"):
        (finding,) = judge_one(check, machine).findings
        assert (finding.verdict, finding.why) == (Verdict.SKIP, Why.NOT_DONE)


# docs/evidence/one-value-changes.md
CHANGES = PAGE.with_name("one-value-changes.md")


def test_the_page_has_a_reason_for_everything():
    assert script.NO_REASON not in CHANGES.read_text("utf-8")


def test_a_change_that_stays_accepted_without_a_reason_is_named():
    outcomes = [("cpus.smt", "", script.ACCEPTED), ("cpus.new", "", script.ACCEPTED), ("cpus.new", 1, script.REJECTED)]
    assert script.unexplained(outcomes) == ["cpus.new"]
    assert f'| {script.NO_REASON} | `cpus.new` ("") |' in script.page(outcomes)


def test_fewer_cpus_online_are_no_accepted_change():
    for change, text, verdict in (
        (("cpus", "online"), "0", script.REJECTED),
        (("cpus", "present"), "0", script.INCOMPLETE),
        (("cpus", "smt"), "garbage", script.ACCEPTED),
    ):
        assert script.verdict(script.changed(change, text), "cpus") == verdict
