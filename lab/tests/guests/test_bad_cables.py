"""`rdma_bandwidth` between three guests with two bad cables at once: each is told from the same rail of the others.

Speeds are compared within one run, or with what the same guests carried just before, never with fixed numbers: how fast
a guest is depends on what else runs here.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from lab.guests.campaign import NIGHTLY, campaign, carried_gbps
from lab.guests.guests import Guests
from lab.guests.lent import Lent
from lab.guests.patience import LINK
from lab.run import Outcome
from lab.told import Told

NAMES = ("gpu-1", "gpu-2", "gpu-3")
LOSS, LINK_S = 0.05, "2"  # many frames, of which some are lost for sure


class Cable(NamedTuple):
    """A bad cable: what is wrong, how it was made so, the guest and rail, and the check that says it in these words."""

    fault: str
    injected: str
    node: str
    rail: str
    check: str
    words: str


SLOW = Cable("slow rail", "switch: gpu-2's rail1 at an eighth of its rate", "gpu-2", "rxe1", "write", "rxe1: write")
ONE_WAY = Cable(
    "rail that loses what comes to it, and sends well",
    f"switch: {LOSS:.0%} of the frames to gpu-1's rail0 lost",
    "gpu-1",
    "rxe0",
    "both_ways",
    "rxe0: receives slowly",
)


@pytest.fixture(scope="module")
def cables(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """gpu-2's rail1 is slow, and gpu-1's rail0 loses frames that come to it."""
    folder = tmp_path_factory.mktemp("cables")

    def measured(lab: Guests) -> Outcome:
        usual_gbps = carried_gbps(lab)
        lab.port("rail1", 2).rate_gbps = usual_gbps / 8
        lab.port("rail0", 1).loss = LOSS
        baseline = str(limits(folder, usual_gbps / 3))
        with campaign(lab, folder, *NIGHTLY, "--baseline", baseline, LINK, LINK_S) as run:
            return run.outcome()

    with Lent(("trixie", "trixie", "trixie")) as lent:
        return lent.act(measured)


def limits(folder: Path, least_gbps: float) -> Path:
    """A baseline that wants so much of each rail."""
    limit = f"{{value: {least_gbps:g}, unit: Gb/s, direction: at least, source: a third of what they carried before}}"
    file = folder / "limits.yaml"
    file.write_text(f"platform: lab\nlimits:\n  rdma.write_gbps: {limit}\n  rdma.read_gbps: {limit}\n")
    return file


@pytest.mark.parametrize("cable", [SLOW, ONE_WAY], ids=lambda cable: str(cable.check))
def test_of_two_bad_cables_each_is_told_from_the_same_rail_of_the_others(
    cables: Outcome, told: Told, cable: Cable
) -> None:
    check = f"rdma_bandwidth.{cable.check}"
    told.run(cable.fault, cable.injected, outcome=cables, node=cable.node, check=check, words=cable.words)
    bad = {
        (name, each.subject)
        for name in NAMES
        for each in cables.record(name, check).findings
        if each.verdict.value == "fail"
    }
    assert bad == {(cable.node, cable.rail)}, "\n".join(cables.words(name, check) for name in NAMES)
