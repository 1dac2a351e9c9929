"""Ends that go away while `rdma_bandwidth` measures two guests: programs, sshd, kernels, the network beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.guests.campaign import LATENCY_BYTES, at_work, campaign
from lab.guests.guests import Guests
from lab.guests.lent import Lent
from lab.told import Told

ERRORS, COMPLETE = "rdma_bandwidth.errors", "rdma_bandwidth.complete"
LIMIT_S = 600.0  # to come so far, on a machine with ten others at work


@pytest.fixture(scope="module")
def pair() -> Iterator[Lent]:
    with Lent(("trixie", "trixie")) as lent:
        yield lent


def test_a_partner_that_cannot_be_reached_by_tcp_is_no_verdict_on_the_rails(
    pair: Lent, tmp_path: Path, told: Told
) -> None:
    def act(lab: Guests) -> None:
        lab.port("lan", 2).up = False
        with campaign(lab, tmp_path) as run:
            found = run.outcome()
        for node in ("gpu-1", "gpu-2"):
            for check in (COMPLETE, ERRORS):
                assert found.verdict(node, check) == "error", found.words(node, check)
        how = "switch: gpu-2 cut from the network by which perftest's ends meet"
        told.run("no TCP between nodes", how, outcome=found, node="gpu-2", check=COMPLETE, words="rxe0: write")

    pair.act(act)


def test_a_second_run_finds_the_guests_busy_and_does_not_disturb_the_first(
    pair: Lent, tmp_path: Path, told: Told
) -> None:
    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path / "first") as run:
            run.wait_for(at_work(lab, "rail1", LATENCY_BYTES), LIMIT_S)
            with campaign(lab, tmp_path / "second") as second:
                refused = second.outcome()
            found = run.outcome()
        assert not [record for record in refused.records if record.verdict.value == "pass"]
        for node in ("gpu-1", "gpu-2"):
            assert found.verdict(node, ERRORS) == "pass", found.words(node, ERRORS)
        check, how = "node.reachable", "a second pytest --inventory over the same guests"
        told.run("second run at once", how, outcome=refused, node="gpu-2", check=check, words="another run holds")

    pair.act(act)


def test_a_server_of_perftest_that_is_killed_is_no_pass_of_its_rails(pair: Lent, tmp_path: Path, told: Told) -> None:
    def act(lab: Guests) -> None:
        killer = "systemd-run -q --unit killer sh -c 'while sleep 0.5; do pkill -KILL ib_write_bw; done'"
        with campaign(lab, tmp_path) as run:
            run.wait_for(at_work(lab, "rail1"), LIMIT_S)
            lab.guests[0].run(killer)
            fault_s = time.monotonic()
            found = run.outcome()
            since_s = found.took_s - (time.monotonic() - fault_s)
        lab.guests[0].run("systemctl stop killer")
        for node in ("gpu-1", "gpu-2"):
            assert found.verdict(node, ERRORS) in {"fail", "error"}, found.words(node, ERRORS)
        how = "guest: pkill -KILL ib_write_bw on gpu-1, again and again"
        told.run(
            "perftest killed on the node",
            how,
            outcome=found,
            node="gpu-1",
            check=ERRORS,
            words="rxe1: write",
            since_s=since_s,
        )

    pair.act(act)


def test_a_guest_whose_sshd_dies_half_way_is_incomplete_and_nothing_runs_on_there(
    pair: Lent, tmp_path: Path, told: Told
) -> None:
    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path) as run:
            run.wait_for(at_work(lab, "rail1"), LIMIT_S)
            lab.guests[1].run("systemctl stop ssh; pkill -KILL sshd || true")
            fault_s = time.monotonic()
            found = run.outcome()
            since_s = found.took_s - (time.monotonic() - fault_s)
        assert found.exit_code == 1
        assert found.verdict("gpu-2", COMPLETE) == "error", found.words("gpu-2", COMPLETE)
        how = "guest: sshd of gpu-2 killed while ib_write_bw ran"
        told.run("sshd gone", how, outcome=found, node="gpu-2", check=COMPLETE, words="gpu-2", since_s=since_s)

    pair.act(act)


def test_a_frozen_guest_ends_the_run_without_a_fail(pair: Lent, tmp_path: Path, told: Told) -> None:
    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path) as run:
            run.wait_for(at_work(lab, "rail1"), LIMIT_S)
            lab.guests[1].freeze()
            fault_s = time.monotonic()
            found = run.outcome()
            since_s = found.took_s - (time.monotonic() - fault_s)
        assert found.exit_code == 1
        assert found.verdict("gpu-2", COMPLETE) == "error", found.words("gpu-2", COMPLETE)
        how = "QEMU of gpu-2 stopped (SIGSTOP) while ib_write_bw ran"
        told.run("node frozen", how, outcome=found, node="gpu-2", check=COMPLETE, words="gpu-2", since_s=since_s)

    pair.act(act)


def test_a_guest_that_is_reset_while_it_transfers_is_incomplete(pair: Lent, tmp_path: Path, told: Told) -> None:
    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path) as run:
            run.wait_for(at_work(lab, "rail1"), LIMIT_S)
            lab.guests[1].reset()
            fault_s = time.monotonic()
            found = run.outcome()
            since_s = found.took_s - (time.monotonic() - fault_s)
        assert found.exit_code == 1
        assert found.verdict("gpu-2", COMPLETE) == "error", found.words("gpu-2", COMPLETE)
        how = "QEMU: reset button of gpu-2 pressed while ib_write_bw ran"
        told.run("node reset", how, outcome=found, node="gpu-2", check=COMPLETE, words="gpu-2", since_s=since_s)

    pair.act(act, spent=True)
