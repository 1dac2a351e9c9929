"""perftest 4.5 and Linux 6.1 on both ends: what an older release prints, and leaves unsaid, is judged alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.guests.campaign import at_work, campaign
from lab.guests.guests import Guests
from lab.guests.lent import Lent
from lab.told import Told

ERRORS = "rdma_bandwidth.errors"
LIMIT_S = 600.0  # to come so far, on a machine with ten others at work
METRICS = {"rdma.write_gbps", "rdma.read_gbps", "rdma.write_latency_us", "rdma.read_latency_us"}


@pytest.fixture(scope="module")
def pair() -> Iterator[Lent]:
    with Lent(("bookworm", "bookworm")) as lent:
        yield lent


def test_a_cable_that_is_cut_while_it_carries_is_named_and_the_other_rail_is_measured(
    pair: Lent, tmp_path: Path, told: Told
) -> None:
    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path) as run:
            run.wait_for(at_work(lab, "rail1"), LIMIT_S)
            lab.port("rail1", 2).up = False
            fault_s = time.monotonic()
            found = run.outcome()
            since_s = found.took_s - (time.monotonic() - fault_s)
        for node in ("gpu-1", "gpu-2"):
            said = {each.subject: each.verdict.value for each in found.record(node, ERRORS).findings}
            assert said == {"rxe0": "pass", "rxe1": "fail"}, found.words(node, ERRORS)
            values = found.values(node, "rdma_bandwidth")
            assert {name for name, rail in values if rail == "rxe0"} == METRICS
        ran = [each["labels"] for each in found.ran("gpu-1", "rdma_bandwidth")]
        assert {labels["version"] for labels in ran if "version" in labels} == {"6.06"}
        how = "switch: gpu-2's rail1 cut while ib_write_bw of perftest 4.5 ran"
        told.run(
            "cable cut", how, outcome=found, node="gpu-2", check=ERRORS, words="this end or that one", since_s=since_s
        )

    pair.act(act)
