"""Ends that go away while `rdma_bandwidth` measures two guests: sshd, kernels, the network beside the rails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.guests.campaign import campaign, struck
from lab.guests.guests import Guests
from lab.guests.lent import Lent
from lab.told import Told

ERRORS, COMPLETE = "rdma_bandwidth.errors", "rdma_bandwidth.complete"


@pytest.fixture(scope="module")
def pair() -> Iterator[Lent]:
    with Lent(("trixie", "trixie")) as lent:
        yield lent


def test_a_partner_that_cannot_be_reached_by_tcp_is_no_verdict_on_the_rails(
    pair: Lent, tmp_path: Path, told: Told
) -> None:
    def act(lab: Guests) -> None:
        lab.port("lan", 2).cut()
        with campaign(lab, tmp_path) as run:
            found = run.outcome()
        for node in ("gpu-1", "gpu-2"):
            for check in (COMPLETE, ERRORS):
                assert found.verdict(node, check) == "error", found.words(node, check)
        how = "switch: gpu-2 cut from the network by which perftest's ends meet"
        told.run("no TCP between nodes", how, outcome=found, node="gpu-2", check=COMPLETE, words="rxe0: write")

    pair.act(act)


def test_a_guest_whose_sshd_dies_half_way_is_incomplete_and_nothing_runs_on_there(
    pair: Lent, tmp_path: Path, told: Told
) -> None:
    def act(lab: Guests) -> None:
        kill = "systemctl stop ssh; pkill -KILL sshd || true"
        found, since_s = struck(lab, tmp_path, lambda: lab.guests[1].run(kill))
        assert found.exit_code == 1
        assert found.verdict("gpu-2", COMPLETE) == "error", found.words("gpu-2", COMPLETE)
        how = "guest: sshd of gpu-2 killed while ib_write_bw ran"
        told.run("sshd gone", how, outcome=found, node="gpu-2", check=COMPLETE, words="gpu-2", since_s=since_s)

    pair.act(act)


def test_a_frozen_guest_ends_the_run_without_a_fail(pair: Lent, tmp_path: Path, told: Told) -> None:
    def act(lab: Guests) -> None:
        found, since_s = struck(lab, tmp_path, lab.guests[1].freeze)
        assert found.exit_code == 1
        assert found.verdict("gpu-2", COMPLETE) == "error", found.words("gpu-2", COMPLETE)
        how = "QEMU of gpu-2 stopped (SIGSTOP) while ib_write_bw ran"
        told.run("node frozen", how, outcome=found, node="gpu-2", check=COMPLETE, words="gpu-2", since_s=since_s)

    pair.act(act)
