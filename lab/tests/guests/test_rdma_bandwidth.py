"""`rdma_bandwidth` between three guests: real perftest over real soft-RoCE, healthy and with two bad cables at once.

Speeds are compared within one run, or with a healthy run a minute before on the same guests, never with fixed numbers:
how fast a guest is depends on what else runs here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.guests.campaign import LATENCY_BYTES, NIGHTLY, at_work, campaign
from lab.guests.guests import Guests
from lab.guests.lent import Lent
from lab.run import Outcome
from lab.told import Told

RAILS = ("rxe0", "rxe1")
METRICS = ("rdma.write_gbps", "rdma.read_gbps", "rdma.write_latency_us", "rdma.read_latency_us")
MEASUREMENT = "rdma_bandwidth"
NAMES = ("gpu-1", "gpu-2", "gpu-3")
LIMIT_S = 600.0  # to come so far, on a machine with ten others at work


class Healthy(NamedTuple):
    """What a run without a fault said, a second one that came in its way, and the first guest's GIDs.

    `gids`: a line a row: device, index, GID, type.
    """

    outcome: Outcome
    refused: Outcome
    gids: str


@pytest.fixture(scope="module")
def three() -> Iterator[Lent]:
    with Lent(("trixie", "trixie", "trixie")) as lent:
        yield lent


@pytest.fixture(scope="module")
def healthy(three: Lent, tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    """A run without a fault, another one over the same guests meanwhile, and their GID tables."""
    found: list[Healthy] = []
    folder = tmp_path_factory.mktemp("healthy")

    def act(lab: Guests) -> None:
        with campaign(lab, folder / "first") as run:
            run.wait_for(at_work(lab, "rail1", LATENCY_BYTES), LIMIT_S)
            with campaign(lab, folder / "second") as second:
                refused = second.outcome()
            outcome = run.outcome()
        script = "cd /sys/class/infiniband && for rail in *; do for row in $rail/ports/1/gids/{0..15}; do "
        script += 'echo "$rail ${row##*/} $(cat $row) $(cat ${row/gids/gid_attrs\\/types} 2>/dev/null)"; done; done'
        found.append(Healthy(outcome, refused, lab.guests[0].run(script)))

    three.act(act)
    return found[-1]


def test_healthy_guests_pass_with_a_number_for_each_rail(healthy: Healthy) -> None:
    for node in NAMES:
        assert set(healthy.outcome.values(node, MEASUREMENT)) == {(name, rail) for name in METRICS for rail in RAILS}
        for check in ("complete", "errors", "latency"):
            said = healthy.outcome.words(node, f"rdma_bandwidth.{check}")
            assert healthy.outcome.verdict(node, f"rdma_bandwidth.{check}") == "pass", said


def test_a_second_run_finds_the_guests_busy_and_judges_nothing(healthy: Healthy, told: Told) -> None:
    assert {record.verdict.value for record in healthy.refused.records} == {"skip"}
    told.run(
        "second run at once",
        "a second pytest --inventory over the same guests",
        outcome=healthy.refused,
        node="gpu-2",
        check="rdma_bandwidth.complete",
        words="busy: another run holds the node's lock",
    )


def test_each_program_uses_the_index_of_a_roce_v2_gid_with_an_ipv4_address(healthy: Healthy) -> None:
    ran = [each["argv"] for each in healthy.outcome.ran("gpu-1", MEASUREMENT) if each["labels"].get("role")]
    assert ran
    rows = healthy.gids.splitlines()
    used = {words[words.index("-x") + 1] for words in ran}
    rails = {words[words.index("-d") + 1] for words in ran}
    for rail, index in ((rail, index) for rail in rails for index in used):
        (row,) = [row for row in rows if row.startswith(f"{rail} {index} ")]
        assert re.fullmatch(r"\S+ \d+ (0000:){5}ffff:0a4d:\w{4} RoCE v2", row)


@pytest.fixture(scope="module")
def cables(three: Lent, healthy: Healthy, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """gpu-2's rail1 is slow, and gpu-1's rail0 loses frames that come to it."""
    usual = healthy.outcome.values("gpu-2", MEASUREMENT)
    folder = tmp_path_factory.mktemp("cables")
    found: list[Outcome] = []

    def act(lab: Guests) -> None:
        lab.port("rail1", 2).rate_gbps = usual["rdma.write_gbps", "rxe1"] / 8
        lab.port("rail0", 1).loss = 0.03
        with campaign(lab, folder, *NIGHTLY, "--baseline", str(_limits(folder, healthy))) as run:
            found.append(run.outcome())

    three.act(act)
    return found[-1]


def _limits(folder: Path, healthy: Healthy) -> Path:
    """A baseline: a third of what the slowest rail of the healthy run had."""
    least = min(
        value
        for node in NAMES
        for (name, _), value in healthy.outcome.values(node, MEASUREMENT).items()
        if name.endswith("_gbps")
    )
    limit = f"{{value: {least / 3:g}, unit: Gb/s, direction: at least, source: a third of a healthy run's}}"
    file = folder / "limits.yaml"
    file.write_text(f"platform: lab\nlimits:\n  rdma.write_gbps: {limit}\n  rdma.read_gbps: {limit}\n")
    return file


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
    "switch: 3 % of the frames to gpu-1's rail0 lost",
    "gpu-1",
    "rxe0",
    "both_ways",
    "rxe0: receives slowly",
)


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
