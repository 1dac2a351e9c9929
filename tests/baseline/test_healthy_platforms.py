"""Healthy nodes of every platform.

Each test makes a node of a shipped platform as its boards report themselves, and asks every check of the GPUs.
"""

import pytest
from support.healthy_platforms import PLATFORMS, node_of
from support.whole_node import whole

from nodegate.records.verdict import Verdict

SUBJECTS = ("gpu", "boards", "ecc", "power", "clocks", "idle", "nvlink", "gsp", "platform")
FABRIC = {"fabric.nvswitches", "fabric.state", "fabric.health", "fabric.summary", "fabric.one_cluster", "pcie.replays"}


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_a_healthy_node_of_the_platform(platform: str) -> None:
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


def test_every_platform_is_made() -> None:
    assert len(PLATFORMS) == 30
