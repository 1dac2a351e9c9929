"""`rdma_bandwidth` between four guests at once: real perftest of two Debian releases over real soft-RoCE.

Speeds are compared within one run, never with fixed numbers: how fast a guest is depends on what else runs here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.guests.campaign import campaign
from lab.guests.guests import Guests
from lab.guests.lent import Lent
from lab.run import Outcome
from lab.told import Told

RAILS = ("rxe0", "rxe1")
METRICS = ("rdma.write_gbps", "rdma.read_gbps", "rdma.write_latency_us", "rdma.read_latency_us")
MEASUREMENT = "rdma_bandwidth"
# The last one has perftest 4.5 and Linux 6.1: it is measured with the others, and compared with nobody.
SUITES = ("trixie", "trixie", "trixie", "bookworm")
NAMES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")


class Healthy(NamedTuple):
    """What a run without a fault said, and the first guest's GIDs: device, index, GID, type."""

    outcome: Outcome
    gids: str


@pytest.fixture(scope="module")
def four() -> Iterator[Lent]:
    with Lent(SUITES) as lent:
        yield lent


@pytest.fixture(scope="module")
def healthy(four: Lent, tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    """A run without a fault, and the GID tables of the guests meanwhile."""
    found: list[Healthy] = []

    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path_factory.mktemp("healthy")) as run:
            outcome = run.outcome()
        script = "cd /sys/class/infiniband && for rail in *; do for row in $rail/ports/1/gids/{0..15}; do "
        script += 'echo "$rail ${row##*/} $(cat $row) $(cat ${row/gids/gid_attrs\\/types} 2>/dev/null)"; done; done'
        found.append(Healthy(outcome, lab.guests[0].run(script)))

    four.act(act)
    return found[-1]


def test_healthy_guests_pass_with_a_number_for_each_rail(healthy: Healthy) -> None:
    for node in NAMES:
        assert set(healthy.outcome.values(node, MEASUREMENT)) == {(name, rail) for name in METRICS for rail in RAILS}
        for check in ("complete", "errors", "latency"):
            said = healthy.outcome.words(node, f"rdma_bandwidth.{check}")
            assert healthy.outcome.verdict(node, f"rdma_bandwidth.{check}") == "pass", said


def test_both_versions_of_perftest_are_measured_with_each_other(healthy: Healthy) -> None:
    links = [each["labels"] for each in healthy.outcome.ran("gpu-4", MEASUREMENT) if "peer" in each["labels"]]
    assert {labels["peer"] for labels in links} == {"gpu-1", "gpu-2", "gpu-3"}
    assert {labels["version"] for labels in links} == {"6.06"}
    theirs = [each["labels"] for each in healthy.outcome.ran("gpu-1", MEASUREMENT)]
    assert {labels["version"] for labels in theirs if "version" in labels} == {"6.24"}


def test_each_program_uses_the_index_of_a_roce_v2_gid_with_an_ipv4_address(healthy: Healthy) -> None:
    ran = [each["argv"] for each in healthy.outcome.ran("gpu-1", MEASUREMENT) if each["labels"].get("role") == "client"]
    assert ran
    rows = healthy.gids.splitlines()
    for words in ran:
        rail, index = words[words.index("-d") + 1], words[words.index("-x") + 1]
        (row,) = [row for row in rows if row.startswith(f"{rail} {index} ")]
        assert re.fullmatch(r"\S+ \d+ (0000:){5}ffff:0a4d:\w{4} RoCE v2", row)


def test_a_slow_rail_and_a_late_one_are_told_from_the_same_rails_of_the_others(
    four: Lent, healthy: Healthy, tmp_path: Path, told: Told
) -> None:
    usual = healthy.outcome.values("gpu-2", MEASUREMENT)
    late_s = 20e-6 * max(usual["rdma.read_latency_us", rail] for rail in RAILS)

    def act(lab: Guests) -> None:
        lab.port("rail1", 2).rate_gbps = usual["rdma.write_gbps", "rxe1"] / 8
        lab.port("rail0", 3).delay_s = late_s
        with campaign(lab, tmp_path) as run:
            found = run.outcome()
        how = "switch: frames of gpu-2's rail1 at an eighth of its rate"
        told.run("slow rail", how, outcome=found, node="gpu-2", check="rdma_bandwidth.write", words="rxe1: write")
        how = "switch: frames to gpu-3's rail0 wait for 20 times its usual latency"
        told.run(
            "late rail", how, outcome=found, node="gpu-3", check="rdma_bandwidth.latency", words="rxe0: read_latency"
        )
        slow = {("gpu-2", "rdma_bandwidth.write"): {"rxe1"}, ("gpu-3", "rdma_bandwidth.latency"): {"rxe0"}}
        for node in NAMES[:3]:
            for check in ("rdma_bandwidth.write", "rdma_bandwidth.latency"):
                bad = {each.subject for each in found.record(node, check).findings if each.verdict.value == "fail"}
                assert bad == slow.get((node, check), set()), found.words(node, check)

    four.act(act)
