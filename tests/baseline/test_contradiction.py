"""Settings that contradict the machine drain no node: they are refused, or nothing is judged by them."""

import re

import pytest
from fleet.machine import Machine, facts_of
from support.judging import baseline_of

from bench.silent_values import checks_of
from nodegate.baseline.baseline import Baselines
from nodegate.baseline.consistency import far_off
from nodegate.errors import UsageError
from nodegate.judge.context import Context
from nodegate.judge.fleet import Fleet
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.evidence import Evidence
from nodegate.run.bootcheck import Exit, bootcheck, outcome_of

OFF = [
    ("gpu.power_limit_w", 70, "W"),
    ("gpu.power_limit_w", 2200, "W"),
    ("gpu.memory_min_gib", 137, "GiB"),
    ("rdma.rails", 7, "ports"),
    ("gpu.count", 7, "GPUs"),
    ("nvlink.count", 17, "links"),
    ("fabric.nvswitch_count", 2, "switches"),
]
NEAR = [("gpu.power_limit_w", 650, "W"), ("gpu.memory_min_gib", 78, "GiB"), ("rdma.rails", 8, "ports")]


def site_file(folder, key, value, unit, more=""):
    file = folder / "site.yaml"
    entry = f'{{value: {value}, unit: "{unit}", source: "ours"{more}}}'
    file.write_text(f"platform: hgx-h100-8\nlimits:\n  {key}: {entry}\n")
    return file


@pytest.mark.parametrize(("key", "value", "unit"), OFF)
def test_a_limit_far_from_the_platforms_own_is_refused_unless_it_is_meant(tmp_path, key, value, unit):
    with pytest.raises(
        UsageError, match=rf"site.yaml:3: {key}: {value} {unit}, and hgx-h100-8.yaml says .* deliberate"
    ):
        Baselines.read([site_file(tmp_path, key, value, unit)])
    meant = Baselines.read([site_file(tmp_path, key, value, unit, ', deliberate: "a capped test bed"')])
    limit = meant.platforms["hgx-h100-8"].limits[key].limit
    assert (limit.value, limit.source) == (value, f"site.yaml {key}: ours; deliberate: a capped test bed")


SHIPPED = Baselines.read()
QUANTITIES = [
    (platform, key, variant)
    for platform, found in SHIPPED.platforms.items()
    for key, entry in found.limits.items()
    for variant in [(entry.variants or (entry,))[0]]
    if len({each.value for each in entry.variants}) < 2
    and isinstance(variant.value, (int, float))
    and not isinstance(variant.value, bool)
    and variant.value
]


@pytest.mark.parametrize("times", [0.1, 10])
def test_a_tenth_of_every_limit_of_every_platform_and_ten_times_of_it_are_refused(times):
    """One zero less, or one more: in the inventory of a node whose platform is named."""
    assert len({platform for platform, _, _ in QUANTITIES}) == len(SHIPPED.platforms)
    for platform, key, entry in QUANTITIES:
        value = round(entry.value * times, 6)
        assert far_off(key, value, entry), (platform, key)
        assert not far_off(key, entry.value, entry), (platform, key)
        node = Node("gpu01", expected={"platform": platform, "limits": {key: value}})
        with pytest.raises(UsageError, match=re.escape(key)):
            SHIPPED.check_expected([node])


@pytest.mark.parametrize(("key", "value", "unit"), NEAR)
def test_a_limit_near_to_it_is_the_sites_own(tmp_path, key, value, unit):
    assert Baselines.read([site_file(tmp_path, key, value, unit)]).platforms["hgx-h100-8"].limits[key].value == value


@pytest.mark.parametrize(("key", "value", "unit"), OFF)
def test_an_inventory_that_names_the_platform_is_refused_before_the_run(key, value, unit):
    node = Node("gpu01", expected={"platform": "hgx-h100-8", "limits": {key: value}})
    with pytest.raises(UsageError, match=f"{key}: {value} {unit}"):
        Baselines.read().check_expected([node])
    meant = {"value": value, "deliberate": "a capped test bed"}
    Baselines.read().check_expected([Node("gpu01", expected={"platform": "hgx-h100-8", "limits": {key: meant}})])


def checked(machine, expected, baselines):
    """What a bootcheck says of a healthy machine under these settings."""
    node = Node("gpu01", expected=expected)
    evidence = Evidence("gpu01", "facts", 0.0, 1.0, document=facts_of(machine).document.raw)
    context = Context(node, evidence, baselines=baselines, profile=Profile.BOOTCHECK, fleet=lambda: Fleet({}))
    return outcome_of(
        tuple(judge(check, context.resolve, "gpu01", context.parts) for check in checks_of(Profile.BOOTCHECK))
    )


@pytest.mark.parametrize("platform", ["hgx-h200-8", "hgx-h100-4", "hgx-a100-80gb-8", "l40s"])
def test_a_platform_that_the_pci_ids_exclude_says_nothing_of_the_node(platform):
    told = checked(Machine.hgx_h100("gpu01"), {"platform": platform}, Baselines.read())
    assert told.exit is Exit.UNKNOWN
    assert told.line.startswith("could not tell: node: your settings contradict the machine: platform")


@pytest.mark.parametrize(("key", "value", "unit"), OFF)
def test_a_limit_that_the_recognised_platform_excludes_says_nothing_either(key, value, unit):
    told = checked(Machine.hgx_h100("gpu01"), {"limits": {key: value}}, Baselines.read())
    assert (told.exit, "your settings contradict the machine" in told.line) == (Exit.UNKNOWN, True), unit


def test_the_cloud_of_a_board_contradicts_it_not():
    facts = facts_of(Machine.hgx_h100("gpu01"))
    assert baseline_of(facts, Node("gpu01", expected={"platform": "azure-nd-h100-v5"})).contradiction == ""


def test_a_site_file_with_the_limits_of_another_board_drains_no_node(tmp_path):
    """The file of H200 nodes, by a slip for all H100 nodes of a site: what each of them says before a job."""
    file = site_file(tmp_path, "gpu.memory_min_gib", 137, "GiB")
    evidence = Evidence("gpu01", "facts", 0.0, 1.0, document=facts_of(Machine.hgx_h100("gpu01")).document.raw)
    told = bootcheck(baselines=[file], measure=lambda _node: evidence)
    assert told.exit is Exit.UNKNOWN
    assert told.line.startswith("could not tell: ")
