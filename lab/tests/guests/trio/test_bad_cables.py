"""`rdma_bandwidth` between three guests with two bad cables at once: each is told from the same rail of the others.

Speeds are compared within one run, or with what the same guests carried just before, never with fixed numbers: how fast
a guest is depends on what else runs here. Only where the first look does not tell both, everything is measured for
longer, and suspects again, as in any run outside the lab: it takes longer than all else.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from lab.fault_table import Told
from lab.guests.campaign import LINKS, MOST_S, ONCE, campaign, carried_gbps
from lab.guests.guests import Guests
from lab.guests.leases import Lease
from lab.guests.timeouts import AGAIN, LINK, NO_LATENCY, SETUP
from lab.run import Outcome
from nodegate.run.load import MOST_AMONG_NODES

NAMES = ("gpu-1", "gpu-2", "gpu-3")
LOSS = 0.2  # what comes then is a twentieth and less, and not nothing
LOOKS = {"first": (LINK, "2", *ONCE), "again": (LINK, "6", AGAIN, str(MOST_AMONG_NODES - 1))}


class Cable(NamedTuple):
    """A bad cable: what is wrong, how it was made so, the guest and rail, and the check that says it in these words."""

    fault: str
    injected: str
    node: str
    rail: str
    check: str
    words: str

    @property
    def at(self) -> tuple[str, str]:
        """Its guest and rail."""
        return self.node, self.rail


SLOW = Cable(
    "slow rail",
    "switch: gpu-2's rail1 at an eighth of its rate",
    "gpu-2",
    "rxe1",
    "write",
    "rail1): RDMA write bandwidth",
)
ONE_WAY = Cable(
    "rail that loses what comes to it, and sends well",
    f"switch: {LOSS:.0%} of the long frames to gpu-1's rail0 lost",
    "gpu-1",
    "rxe0",
    "both_ways",
    "rxe0 (0000:01:00.0, rail0): receives slowly",
)
CABLES = (SLOW, ONE_WAY)


@pytest.fixture(scope="module")
def cables(trio: Lease, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """gpu-2's rail1 is slow, and gpu-1's rail0 loses frames that come to it."""
    folder = tmp_path_factory.mktemp("cables")

    def look(lab: Guests, name: str) -> Outcome:
        slow, one_way = lab.port("rail1", 2), lab.port("rail0", 1)
        for port in (slow, one_way):
            port.mend()
        usual_gbps = max(carried_gbps(lab) for _ in range(2))  # guests are slow at what they do for the first time
        slow.rate_gbps, one_way.loss = usual_gbps / 8, LOSS
        baseline = str(limits(folder, usual_gbps / 5))
        patience = (SETUP, str(MOST_S), *LOOKS[name])  # nothing hangs here, so nobody has to wait so long
        with campaign(lab, folder / name, *LINKS, NO_LATENCY, "--baseline", baseline, *patience) as run:
            return run.outcome()

    def measured(lab: Guests) -> Outcome:
        first = look(lab, "first")
        told = all(suspects(first, cable) == {cable.at} for cable in CABLES)
        return first if told else look(lab, "again")

    return trio.act(measured)


def limits(folder: Path, least_gbps: float) -> Path:
    """A baseline that wants so much of each rail."""
    limit = f"{{value: {least_gbps:g}, unit: Gb/s, direction: at least, source: a fifth of what they carried before}}"
    file = folder / "limits.yaml"
    file.write_text(f"platform: lab\nlimits:\n  rdma.write_gbps: {limit}\n  rdma.read_gbps: {limit}\n")
    return file


def suspects(outcome: Outcome, cable: Cable) -> set[tuple[str, str]]:
    """The guests and rails that the cable's check found bad."""
    found = {name: outcome.record(name, f"rdma_bandwidth.{cable.check}").findings for name in NAMES}
    return {(name, each.part.short) for name in NAMES for each in found[name] if each.verdict.value == "fail"}


@pytest.mark.parametrize("cable", CABLES, ids=lambda cable: str(cable.check))
def test_of_two_bad_cables_each_is_told_from_the_same_rail_of_the_others(
    cables: Outcome, told: Told, cable: Cable
) -> None:
    check = f"rdma_bandwidth.{cable.check}"
    told.run(cable.fault, cable.injected, outcome=cables, node=cable.node, check=check, words=cable.words)
    assert suspects(cables, cable) == {cable.at}, "\n".join(cables.words(name, check) for name in NAMES)
