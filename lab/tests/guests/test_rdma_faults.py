"""Faults of the fabric between two guests, set while or before `rdma_bandwidth` measures them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.guests.campaign import at_work, campaign
from lab.guests.guests import Guests
from lab.guests.lent import Lent
from lab.run import ROOT, Outcome
from lab.told import Told

ERRORS, COMPLETE, NIC = "rdma_bandwidth.errors", "rdma_bandwidth.complete", "counters.nic"
LIMIT_S = 600.0  # to come so far, on a machine with ten others at work


@pytest.fixture(scope="module")
def pair() -> Iterator[Lent]:
    with Lent(("trixie", "trixie")) as lent:
        yield lent


def by_rail(outcome: Outcome, node: str, check: str) -> dict[str, str]:
    """Rail -> what a check said of it."""
    return {each.subject: each.verdict.value for each in outcome.record(node, check).findings}


def test_a_cable_that_is_cut_while_it_carries_is_named(pair: Lent, tmp_path: Path, told: Told) -> None:
    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path) as run:
            run.wait_for(at_work(lab, "rail1"), LIMIT_S)
            lab.port("rail1", 2).up = False
            fault_s = time.monotonic()
            found = run.outcome()
            since_s = found.took_s - (time.monotonic() - fault_s)
        for node in ("gpu-1", "gpu-2"):
            assert by_rail(found, node, ERRORS) == {"rxe0": "pass", "rxe1": "fail"}, found.words(node, ERRORS)
        how = "switch: gpu-2's rail1 cut while ib_write_bw ran"
        told.run(
            "cable cut", how, outcome=found, node="gpu-2", check=ERRORS, words="this end or that one", since_s=since_s
        )

    pair.act(act)


def test_a_cable_that_is_pulled_and_put_back_is_counted_though_a_second_look_finds_the_rail_well(
    pair: Lent, tmp_path: Path, told: Told
) -> None:
    def act(lab: Guests) -> None:
        guest = lab.guests[1]
        with campaign(lab, tmp_path, "--profile", "nightly", str(ROOT / "checks" / "test_counters.py")) as run:
            run.wait_for(at_work(lab, "rail1"), LIMIT_S)
            for plugged, state in ((False, "DOWN"), (True, "ACTIVE")):
                guest.cable("rail1", plugged=plugged)
                guest.run(f"until grep -q {state} /sys/class/infiniband/rxe1/ports/1/state; do sleep 0.1; done")
            fault_s = time.monotonic()
            found = run.outcome()
            since_s = found.took_s - (time.monotonic() - fault_s)
        assert found.verdict("gpu-2", ERRORS) == "pass", found.words("gpu-2", ERRORS)
        assert found.verdict("gpu-2", NIC) == "fail", found.words("gpu-2", NIC)
        assert found.verdict("gpu-1", NIC) == "pass", found.words("gpu-1", NIC)
        how, words = (
            "QEMU: carrier of gpu-2's rail1 lost and back while ib_write_bw ran",
            "link_downed under load",
        )
        told.run("link flap", how, outcome=found, node="gpu-2", check=NIC, words=words, since_s=since_s)

    pair.act(act)


def test_a_rail_that_is_down_is_named_and_the_other_one_is_measured(pair: Lent, tmp_path: Path, told: Told) -> None:
    def act(lab: Guests) -> None:
        guest = lab.guests[1]
        guest.cable("rail1", plugged=False)
        guest.run("until grep -q DOWN /sys/class/infiniband/rxe1/ports/1/state; do sleep 0.1; done")
        with campaign(lab, tmp_path, "--profile", "nightly", str(ROOT / "checks" / "test_rdma.py")) as run:
            found = run.outcome()
        assert by_rail(found, "gpu-2", COMPLETE) == {"rxe0": "pass"}, found.words("gpu-2", COMPLETE)
        assert found.verdict("gpu-1", "rdma.port_state") == "pass"
        assert found.verdict("gpu-1", ERRORS) == "pass", found.words("gpu-1", ERRORS)  # its rxe1 met rxe0 only, in vain
        how = "QEMU: no carrier on gpu-2's rail1 before the run"
        told.run("link down", how, outcome=found, node="gpu-2", check="rdma.port_state", words="rxe1 port 1: DOWN")

    pair.act(act)


def test_a_cable_that_loses_frames_one_way_is_slow_that_way_and_counts_what_was_sent_again(
    pair: Lent, tmp_path: Path
) -> None:
    def act(lab: Guests) -> None:
        lab.port("rail1", 2).loss = 0.03  # towards the second guest, which is the client: what it reads comes this way
        with campaign(lab, tmp_path) as run:
            values = run.outcome().values("gpu-1", "rdma_bandwidth")
        again = [_sent_again(lab, rail) for rail in ("rxe0", "rxe1")]
        speeds = [values.get(("rdma.read_gbps", rail), 0.0) for rail in ("rxe0", "rxe1")]
        assert again[1] > again[0]
        assert speeds[1] < speeds[0] / 2

    pair.act(act)


def _sent_again(lab: Guests, rail: str) -> int:
    counter = f"/sys/class/infiniband/{rail}/ports/1/hw_counters/completer_retry_err"
    return sum(int(guest.run(f"cat {counter}")) for guest in lab.guests)
