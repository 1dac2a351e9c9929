"""Ends that go away while `rdma_bandwidth` measures two guests: sshd, kernels, the network beside the rails."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.fault_table import Told
from lab.guests.campaign import BRIEF, LINKS, ONCE, Struck, campaign, struck
from lab.guests.guests import Guests
from lab.guests.leases import Lease
from lab.guests.timeouts import SETUP
from lab.run import Outcome

ERRORS, COMPLETE = "rdma_bandwidth.errors", "rdma_bandwidth.complete"
RAIL = "rxe0 (0000:01:00.0, rail0)"
LATENCY = "rdma_bandwidth.latency"
LATE_S = 0.15  # a read takes more than lab/guests/baseline.yaml allows, which is far more than a busy machine takes
KILL = "systemctl --no-block stop ssh; pkill -KILL sshd || true"


@pytest.fixture(scope="module")
def gone(pair: Lease, tmp_path_factory: pytest.TempPathFactory) -> Struck:
    """gpu-2's rail0 is late from the start; its sshd dies when the bandwidths are measured, after the latencies."""
    folder = tmp_path_factory.mktemp("gone")

    def measured(lab: Guests) -> Struck:
        lab.port("rail0", 2).delay_s = LATE_S
        return struck(lab, folder, lambda: lab.guests[1].run(KILL), (*LINKS, *ONCE, SETUP, "20"))

    return pair.act(measured)


def test_a_partner_that_cannot_be_reached_by_tcp_is_no_verdict_on_the_rails(
    pair: Lease, tmp_path: Path, told: Told
) -> None:
    def measured(lab: Guests) -> Outcome:
        lab.port("lan", 2).cut()
        # each of its clients waits as long as it may
        with campaign(lab, tmp_path, *LINKS, *BRIEF, SETUP, "6") as run:
            return run.outcome()

    found = pair.act(measured)
    for node in ("gpu-1", "gpu-2"):
        for check in (COMPLETE, ERRORS):
            assert found.verdict(node, check) == "error", found.words(node, check)
    how = "switch: gpu-2 cut from the network by which perftest's ends meet"
    told.run(
        "no TCP between nodes",
        how,
        outcome=found,
        node="gpu-2",
        check=COMPLETE,
        words=f"{RAIL}: could not read RDMA write bandwidth",
    )


def test_a_guest_whose_sshd_dies_half_way_is_incomplete_and_nothing_runs_on_there(gone: Struck, told: Told) -> None:
    found = gone.outcome
    assert found.exit_code == 1
    assert found.verdict("gpu-2", COMPLETE) == "error", found.words("gpu-2", COMPLETE)
    how = "guest: sshd of gpu-2 killed while ib_write_bw ran"
    told.run("sshd gone", how, outcome=found, node="gpu-2", check=COMPLETE, words="gpu-2", since_s=gone.since_s)


def test_a_late_rail_is_named_by_what_was_measured_before_the_node_went_away(gone: Struck, told: Told) -> None:
    found = gone.outcome
    for node in ("gpu-1", "gpu-2"):
        late = {each.part.short for each in found.record(node, LATENCY).findings if each.verdict.value == "fail"}
        assert late == {"rxe0"}, found.words(node, LATENCY)
    how = f"switch: frames to gpu-2's rail0 take {LATE_S:g} s"
    told.run("late rail", how, outcome=found, node="gpu-2", check=LATENCY, words=f"{RAIL}: RDMA read latency")


def test_a_frozen_guest_ends_the_run_without_a_fail(pair: Lease, tmp_path: Path, told: Told) -> None:
    found, since_s = pair.act(lambda lab: struck(lab, tmp_path, lab.guests[1].freeze))
    assert found.exit_code == 1
    assert found.verdict("gpu-2", COMPLETE) == "error", found.words("gpu-2", COMPLETE)
    how = "QEMU of gpu-2 stopped (SIGSTOP) while ib_write_bw ran"
    told.run("node frozen", how, outcome=found, node="gpu-2", check=COMPLETE, words="gpu-2", since_s=since_s)
