"""Platforms: recognised by GPU model and switches, whatever is broken, and never guessed; healthy nodes pass."""

import pytest
from support.hardware import NVSWITCH, gpu_seen, gpus_seen, host_seen, pci_seen
from support.healthy_platforms import PLATFORMS, node_of
from support.shipped import SHIPPED
from support.whole_node import whole

from nodegate.errors import NotJudged
from nodegate.node import Node
from nodegate.records.verdict import Verdict

H100, L40S, H200 = "10de:2330", "10de:26b9", "10de:2335"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([H100] * 8 + [NVSWITCH] * 4, "hgx-h100-8"),
        ([H100] * 3 + [NVSWITCH] * 4, "hgx-h100-8"),  # GPUs are lost
        ([H100] * 7, "hgx-h100-8"),  # the switches too
        ([H100] * 8, "hgx-h100-8"),  # a virtual machine that sees no switch
        ([H100] * 4, "hgx-h100-4"),  # the board of four has none
        ([L40S] * 7 + [H200], "l40s"),
    ],
)
def test_the_platform_is_known_by_most_gpus_and_the_switches(seen, expected):
    assert SHIPPED.for_node(Node("n"), None, pci_seen(*seen)).platform == expected


def test_half_and_half_is_unknown():
    baseline = SHIPPED.for_node(Node("n"), None, pci_seen(*[L40S] * 4, *[H200] * 4))
    assert baseline.platform == ""
    assert "4 x 10de:2335, 4 x 10de:26b9" in baseline.reason


def test_nvml_alone_will_do():
    gpus = gpus_seen(*(gpu_seen(index, pci_id=L40S) for index in range(8)))
    assert SHIPPED.for_node(Node("n"), gpus, None).platform == "l40s"


@pytest.mark.parametrize(
    ("vendor", "product", "switches", "expected"),
    [
        ("Microsoft Corporation", "Virtual Machine", 0, "azure-nd-h100-v5"),
        ("Amazon EC2", "p5.48xlarge", 4, "aws-p5"),
        ("Google", "Google Compute Engine", 4, "gcp-a3"),
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", 0, "hgx-h100-8"),
        ("Supermicro", "SYS-821GE-TNHR", 4, "hgx-h100-8"),
        ("", "", 4, "hgx-h100-8"),
    ],
)
def test_a_cloud_is_known_by_its_system(vendor, product, switches, expected):
    pci = pci_seen(*[H100] * 8, *[NVSWITCH] * switches)
    found = SHIPPED.for_node(Node("n"), None, pci, host_seen(vendor, product))
    assert (found.platform, found.is_part) == (expected, False)
    assert found.limit("gpu.count").value == 8


@pytest.mark.parametrize(
    ("named", "system"),
    [
        ("oci-bm-gpu-h100-8", ("Oracle Corporation", "ORACLE SERVER")),  # known by its name alone
        ("hgx-h100-8", ("Microsoft Corporation", "Virtual Machine")),  # named before the layout was known
    ],
)
def test_a_layout_and_its_board_are_no_contradiction(named, system):
    node = Node("n", expected={"platform": named})
    found = SHIPPED.for_node(node, None, pci_seen(*[H100] * 8, *[NVSWITCH] * 4), host_seen(*system))
    assert (found.platform, found.named, found.detected) == (named, named, named)


class TestAPartOfABoard:
    @pytest.mark.parametrize("count", [1, 2, 4])
    @pytest.mark.parametrize("system", [("QEMU", "Standard PC"), ("", "")])
    def test_a_virtual_machine_may_have_some_of_the_gpus(self, count, system):
        found = SHIPPED.for_node(Node("n"), None, pci_seen(*[H200] * count), host_seen(*system))
        assert (found.platform, found.is_part) == ("hgx-h200-8", True)
        assert found.title == "a virtual machine with a part of 8 x H200 SXM5 141 GB on an HGX board with NVSwitches"
        assert found.limit("gpu.power_limit_w").value == 700
        assert found.entry("burn.bf16_tflops") is not None
        for key in ("gpu.count", "nvlink.count", "fabric.nvswitch_count", "rdma.rails", "memory.peer_gb_per_s"):
            assert found.find(key) is None
        with pytest.raises(NotJudged, match=r"part of hgx-h200-8; nodegate_gpus says how many GPUs it has$"):
            found.limit("gpu.count")

    def test_their_number_is_judged_where_the_inventory_names_it(self):
        node = Node("n", expected={"gpus": 2})
        found = SHIPPED.for_node(node, None, pci_seen(H200), host_seen("QEMU", "KVM"))
        assert found.limit("gpu.count").value == 2

    @pytest.mark.parametrize("count", [3, 5, 6, 7])
    def test_numbers_that_nobody_sells_are_a_lost_gpu(self, count):
        found = SHIPPED.for_node(Node("n"), None, pci_seen(*[H200] * count), host_seen("QEMU", "KVM"))
        assert not found.is_part
        assert found.limit("gpu.count").value in (4, 8)
        assert found.limit("gpu.count").value != count

    def test_on_bare_metal_a_missing_gpu_is_missing(self):
        pci = pci_seen(*[H200] * 4, *[NVSWITCH] * 4)
        found = SHIPPED.for_node(Node("n"), None, pci, host_seen("Dell Inc.", "PowerEdge XE9680"))
        assert (found.is_part, found.limit("gpu.count").value) == (False, 8)

    def test_a_named_platform_is_meant_whole(self):
        node = Node("n", expected={"platform": "hgx-h200-8"})
        found = SHIPPED.for_node(node, None, pci_seen(H200), host_seen("QEMU", "KVM"))
        assert (found.is_part, found.limit("gpu.count").value) == (False, 8)


def test_an_unknown_model_is_said_and_not_judged():
    baseline = SHIPPED.for_node(Node("n"), None, pci_seen(*["10de:ffff"] * 8))
    assert baseline.platform == ""
    with pytest.raises(NotJudged) as said:
        baseline.limit("gpu.count")
    assert str(said.value) == (
        "no limit gpu.count for platform unknown (GPU PCI ids seen: 8 x 10de:ffff, no baseline has this model)"
    )


def test_a_node_that_shows_no_gpu_is_unknown():
    baseline = SHIPPED.for_node(Node("n"), None, None)
    assert "no NVIDIA GPU seen on PCIe or by NVML" in baseline.reason


def test_a_named_platform_counts_even_when_every_gpu_is_gone():
    baseline = SHIPPED.for_node(Node("n", expected={"platform": "hgx-h100-8"}), None, pci_seen())
    assert (baseline.platform, baseline.named, baseline.detected) == ("hgx-h100-8", "hgx-h100-8", "")
    assert baseline.limit("gpu.count").value == 8


def test_named_and_detected_are_both_kept():
    baseline = SHIPPED.for_node(Node("n", expected={"platform": "hgx-h200-8"}), None, pci_seen(*[L40S] * 8))
    assert (baseline.platform, baseline.detected) == ("hgx-h200-8", "l40s")


SUBJECTS = ("gpu", "boards", "ecc", "power", "clocks", "idle", "nvlink", "gsp", "platform")
FABRIC = {"fabric.nvswitches", "fabric.state", "fabric.health", "fabric.summary", "fabric.one_cluster", "pcie.replays"}


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_a_healthy_node_of_the_platform(platform):
    machine = node_of(platform)
    records = whole(machine, only=lambda check: check.id.split(".")[0] in SUBJECTS or check.id in FABRIC)
    recognised = LOOKS_LIKE.get(platform, platform)
    assert records["platform.known"].message.endswith(f"platform {recognised}, recognised from the hardware")
    bad = {
        name: record.message
        for name, record in records.items()
        if record.verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN) and name not in NEEDS_MORE
    }
    assert bad == {}


LOOKS_LIKE = {"oci-bm-gpu-h100-8": "hgx-h100-8"}  # the inventory has to name it
NEEDS_MORE = {"gsp.agreement", "gsp.version", "platform.one_name", "gsp.fleet"}  # other facts than the GPU's own


def test_every_platform_is_made():
    assert len(PLATFORMS) == 30
