"""Baselines: what a file may say, which limit a node gets, and that a slip of the pen never switches a limit off."""

import pytest
from support.hardware import NVSWITCH, pci_seen

from nodegate.baseline import baseline_file
from nodegate.baseline.baseline import Baselines
from nodegate.baseline.limit_keys import LimitKeys
from nodegate.errors import NotJudged, UsageError
from nodegate.files import strict_yaml
from nodegate.node import Node
from nodegate.records.finding import Limit, LimitKind

H100 = """
platform: hgx-h100-8
title: 8 x H100
match: {gpu_pci_ids: ["10de:2330"], nvswitch: true}
limits:
  gpu.count: {value: 8, unit: GPUs, source: data sheet}
  gpu.power_limit_w: {value: 700, unit: W, source: data sheet}
"""
COMMON = """
platform: "*"
limits:
  host.shm_min_gib: {value: 64, unit: GiB, source: choice}
  host.locked_memory_min_gib: {value: unlimited, unit: GiB, source: guide}
"""
EIGHT_H100 = pci_seen(*["10de:2330"] * 8, *[NVSWITCH] * 4)


def parsed(text, name="b.yaml"):
    return baseline_file.parse(strict_yaml.load(text, name))


def baselines(*texts, known=frozenset()):
    return Baselines.of([parsed(text, f"{index}.yaml") for index, text in enumerate(texts)], known=LimitKeys(known))


def node(**expected):
    return Node("gpu01", expected=expected, origin="hosts.yaml:7")


class TestWhatALimitSays:
    def test_value_unit_and_where_it_comes_from(self):
        found = baselines(H100).for_node(node(), None, EIGHT_H100).limit("gpu.count")
        assert found == Limit(8, "GPUs", "0.yaml gpu.count: data sheet", kind=LimitKind.BASELINE)

    def test_a_key_that_no_file_has_is_not_judged(self):
        baseline = baselines(H100).for_node(node(), None, EIGHT_H100)
        assert baseline.find("nvlink.count") is None
        with pytest.raises(NotJudged, match=r"^no limit nvlink\.count for platform hgx-h100-8$"):
            baseline.limit("nvlink.count")

    def test_common_limits_hold_on_every_platform_and_on_an_unknown_one(self):
        both = baselines(COMMON, H100)
        assert both.for_node(node(), None, EIGHT_H100).limit("host.shm_min_gib").value == 64
        assert both.for_node(node(), None, pci_seen("10de:ffff")).limit("host.shm_min_gib").value == 64

    def test_a_tolerance_widens_the_limit_but_never_below_its_floor(self):
        text = """
platform: p
limits:
  nccl.busbw: {value: 480, unit: GB/s, source: measured, direction: at least, tolerance: 0.05}
  copy.busbw: {value: 50, unit: GB/s, source: measured, direction: at least, tolerance: 0.2, floor: 48}
  lat.max: {value: 4.0, unit: us, source: measured, direction: at most, tolerance: 0.5}
"""
        entries = parsed(text).limits
        assert entries["nccl.busbw"].limit.value == pytest.approx(456)
        assert entries["nccl.busbw"].limit.source == "5 % below 480 GB/s, b.yaml nccl.busbw: measured"
        assert entries["copy.busbw"].limit.value == 48
        assert entries["lat.max"].limit.value == pytest.approx(6.0)

    def test_switches_are_words_even_when_yaml_reads_true_or_false(self):
        text = 'platform: p\nlimits:\n  gpu.ecc: {value: on, unit: "", source: s}\n'
        assert parsed(text).limits["gpu.ecc"].limit.value == "on"


class TestSitesOwnFiles:
    def test_one_key_is_overridden_and_the_rest_inherited(self):
        site = "platform: hgx-h100-8\nlimits:\n  gpu.power_limit_w: {value: 650, unit: W, source: contract}\n"
        baseline = baselines(H100, site).for_node(node(), None, EIGHT_H100)
        assert baseline.limit("gpu.power_limit_w").value == 650
        assert baseline.limit("gpu.count").value == 8
        assert baseline.title == "8 x H100"

    def test_the_sources_are_named_with_their_hash(self, tmp_path):
        file = tmp_path / "site.yaml"
        file.write_text('platform: "*"\nlimits:\n  host.shm_min_gib: {value: 1, unit: GiB, source: ours}\n')
        read = Baselines.read([file])
        assert read.sources[-1].path == str(file)
        assert len(read.sources[-1].sha256) == 64
        assert read.common["host.shm_min_gib"].value == 1

    @pytest.mark.parametrize(
        ("limit", "message"),
        [
            ("gpu.count: {value: 8, unit: cards, source: s}", "gpu.count is in 'cards' here and in 'GPUs' in 0.yaml:6"),
            ('gpu.count: {value: "8", unit: GPUs, source: s}', "gpu.count is text here and a number in 0.yaml:6"),
            ("gpu.cuont: {value: 8, unit: GPUs, source: s}", "no check asks for gpu.cuont - did you mean gpu.count?"),
        ],
    )
    def test_what_contradicts_another_file_is_refused(self, limit, message):
        with pytest.raises(UsageError) as refused:
            baselines(H100, f"platform: hgx-h100-8\nlimits:\n  {limit}\n", known=frozenset({"gpu.count"}))
        assert str(refused.value).startswith(f"1.yaml:3: {message}")

    def test_unlimited_stands_for_a_number(self):
        site = 'platform: "*"\nlimits:\n  host.locked_memory_min_gib: {value: 512, unit: GiB, source: s}\n'
        assert baselines(COMMON, site).common["host.locked_memory_min_gib"].value == 512

    def test_a_site_may_have_keys_of_its_own(self):
        site = "platform: hgx-h100-8\nlimits:\n  sitecheck.coolant_flow: {value: 3, unit: l/min, source: s}\n"
        assert "sitecheck.coolant_flow" in baselines(H100, site, known=frozenset({"gpu.count"})).keys

    def test_two_platforms_that_cannot_be_told_apart_are_refused(self):
        site = 'platform: ours\nmatch: {gpu_pci_ids: ["10de:2330"], nvswitch: true}\n'
        with pytest.raises(UsageError, match=r"platforms hgx-h100-8 and ours both match 10de:2330 - remove the match"):
            baselines(H100, site)


CLOUD = """
platform: cloud-h100
title: 8 x H100 in a cloud
match: {gpu_pci_ids: ["10de:2330"], nvswitch: true, system: ["Some Cloud"]}
like: hgx-h100-8
without: [gpu.power_limit_w]
limits:
  rdma.rails: {value: 16, unit: ports, source: documentation}
"""


class TestAPlatformThatIsLikeAnother:
    def test_it_has_the_other_s_limits_but_for_its_own_and_those_left_out(self):
        limits = baselines(CLOUD, H100).platforms["cloud-h100"].limits
        assert {key: entry.value for key, entry in limits.items()} == {"gpu.count": 8, "rdma.rails": 16}
        assert limits["gpu.count"].origin == "1.yaml gpu.count: data sheet"

    def test_what_a_site_sets_for_the_board_holds_for_it_too(self):
        site = "platform: hgx-h100-8\nlimits:\n  gpu.count: {value: 4, unit: GPUs, source: contract}\n"
        assert baselines(CLOUD, H100, site).platforms["cloud-h100"].limits["gpu.count"].value == 4

    @pytest.mark.parametrize(
        ("before", "after", "complaint"),
        [
            ("like: hgx-h100-8", "like: hgx-h100", "like: hgx-h100: this platform does not exist"),
            ("like: hgx-h100-8", "like: cloud-h100", "like: cloud-h100: this platform is like another one itself"),
            ("[gpu.power_limit_w]", "[gpu.power]", "without: gpu.power is not a limit of hgx-h100-8"),
            ("[gpu.power_limit_w]", "[rdma.rails]", "without: rdma.rails is not a limit of hgx-h100-8"),
            ("like: hgx-h100-8\n", "", "without leaves out limits of the platform that `like` names"),
            ("[gpu.power_limit_w]", "gpu.power_limit_w", "without must be a list of texts"),
        ],
    )
    def test_a_slip_is_an_error_of_its_file(self, before, after, complaint):
        with pytest.raises(UsageError) as problem:
            baselines(CLOUD.replace(before, after), H100)
        assert complaint in str(problem.value)
        assert "0.yaml:" in str(problem.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- 1\n", "1: a baseline file must be a mapping of names"),
        ("", "1: a baseline file must be a mapping"),
        ("platform: p\nlimits:\n\ta.b: {}\n", "indent with spaces"),
        ("platform: p\nlimits:\n  a.b: *default\n", "default"),
        ("title: x\n", "1: the file needs platform: some text"),
        ("platform: My Platform\n", "1: 'My Platform' is not a valid platform name"),
        ("platform: p\nlimit: {}\n", "2: unknown key 'limit' - did you mean limits?"),
        ('platform: "*"\nmatch: {gpu_pci_ids: ["10de:2330"]}\n', '2: platform "*" applies everywhere'),
        ("platform: p\nmatch: {gpu_pci_ids: [2330]}\n", "2: 2330 is not a PCI id"),
        ("platform: p\nmatch: {gpu_count: 8}\n", "2: match: unknown key 'gpu_count'"),
        ('platform: p\nmatch: {gpu_pci_ids: ["10de:2330"], nvswitch: maybe}\n', "2: nvswitch must be true or false"),
        ("platform: p\nlimits: 8\n", "2: limits must be a mapping"),
        ("platform: p\nlimits:\n  a.b: {value: 8, unit: W, source: s}\n  a.b: {}\n", "occurs twice"),
    ],
)
def test_a_slip_of_the_pen_is_an_error_with_its_line(text, complaint):
    with pytest.raises(UsageError) as problem:
        parsed(text)
    assert str(problem.value).startswith("b.yaml:")
    assert complaint in str(problem.value)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("GPUs: {value: 8}", "'GPUs' is not a valid limit key"),
        ("a.b: 8", "a.b must be a mapping"),
        ("a.b: {unit: W, source: s}", "a.b has no value"),
        ("a.b: {value: 8, source: s}", "a.b has no unit"),
        ("a.b: {value: 8, unit: W}", "limits.a.b needs source"),
        ("a.b: {value: 8, unit: 3, source: s}", "limits.a.b needs unit"),
        ("a.b: {value: {x: 1}, unit: W, source: s}", "a.b: {'x': 1} is not a number"),
        ("a.b: {value: !!python/object:os.system x, unit: W, source: s}", ""),
        ("a.b_mhz: {value: 8, unit: GHz, source: s}", "a.b_mhz is in MHz"),
        ("a.b_gbps: {value: 8, unit: GB/s, source: s}", "a.b_gbps is in Gb/s"),
        ("a.b_per_h: {value: 8, unit: h, source: s}", "a.b_per_h is in per hour"),
        ("gpu.ecc: {value: yea, unit: '', source: s}", 'gpu.ecc must be "on" or "off"'),
        ("a.b: {value: 8, unit: W, source: s, tollerance: 0.1}", "unknown key 'tollerance' - did you mean tolerance?"),
        ("a.b: {value: 8, unit: W, source: s, tolerance: 0.1}", "a.b: a tolerance needs a number and direction"),
        ("a.b: {value: 8, unit: W, source: s, direction: at least, tolerance: 5}", "a tolerance is a part of one"),
        ("a.b: {value: 8, unit: W, source: s, direction: atleast}", "unknown direction 'atleast' - did you mean at l"),
        ("a.b: {value: 8, unit: W, source: s, direction: at most, floor: 5}", "a floor needs a number and direction"),
        ("a.b: {value: 2.333, unit: W, direction: at least, peak: 4800, source: s}", "2.333 W is less than a fifth"),
    ],
)
def test_a_slip_in_a_limit_is_an_error_with_its_line(entry, complaint):
    with pytest.raises(UsageError) as problem:
        parsed(f"platform: p\nlimits:\n  {entry}\n")
    assert str(problem.value).startswith("b.yaml:3: ")
    assert complaint in str(problem.value)


def test_a_file_that_is_not_there_is_a_clear_message(tmp_path):
    with pytest.raises(UsageError, match=r"nosuch\.yaml: cannot read it: No such file"):
        Baselines.read([tmp_path / "nosuch.yaml"])


class TestWhatTheInventoryExpects:
    @pytest.mark.parametrize(
        ("given", "key", "value", "unit"),
        [
            ({"gpus": 4}, "gpu.count", 4, "GPUs"),
            ({"gpus": "4"}, "gpu.count", 4, "GPUs"),  # of an INI inventory
            ({"nics": ["mlx5_0", "mlx5_1"]}, "rdma.rails", 2, "ports"),
            ({"gsp": False}, "gpu.gsp", "off", ""),
            ({"gsp": "OFF"}, "gpu.gsp", "off", ""),
            ({"limits": {"gpu.power_limit_w": 500}}, "gpu.power_limit_w", 500, "W"),
            ({"limits": '{"gpu.power_limit_w": 500}'}, "gpu.power_limit_w", 500, "W"),
        ],
    )
    def test_it_wins_over_the_platform(self, given, key, value, unit):
        found = baselines(H100).for_node(node(**given), None, EIGHT_H100).limit(key)
        assert found == Limit(value, unit, "inventory hosts.yaml:7", kind=LimitKind.ORDER)

    @pytest.mark.parametrize(
        ("expected", "complaint"),
        [
            ({"gpu": 8}, "hosts.yaml:7: gpu01: unknown variable nodegate_gpu - did you mean nodegate_gpus"),
            ({"platform": "hgx-h100"}, "no baseline for 'hgx-h100' - did you mean hgx-h100-8?"),
            ({"limits": {"gpu.cuont": 8}}, "unknown limit 'gpu.cuont' - did you mean gpu.count?"),
            ({"limits": [1]}, "nodegate_limits must map limit keys to values"),
            ({"limits": "{"}, "nodegate_limits must map limit keys to values"),
            ({"gsp": "maybe"}, "gpu.gsp must be on or off, not 'maybe'"),
            ({"gpus": True}, "gpu.count must be a number, not True"),
        ],
    )
    def test_what_nothing_would_read_is_refused(self, expected, complaint):
        with pytest.raises(UsageError) as problem:
            baselines(H100).check_expected([node(**expected)])
        assert complaint in str(problem.value)

    def test_a_wrong_kind_of_number_is_refused_where_the_platform_says_which_kind(self):
        with pytest.raises(UsageError, match=r"gpu\.power_limit_w must be a number, not 'lots'"):
            baselines(H100).for_node(node(limits={"gpu.power_limit_w": "lots"}), None, EIGHT_H100)

    def test_what_is_read_is_accepted(self):
        baselines(H100).check_expected(
            [node(platform="hgx-h100-8", gpus=8, rack="r1", serial="0123", mounts=["/home"])]
        )
