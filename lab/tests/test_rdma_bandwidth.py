"""`rdma_bandwidth` between guests: real perftest over real soft-RoCE, healthy and with faults.

Speeds are compared within one run, never with fixed numbers: how fast a guest is depends on what else runs here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lab.campaign import Campaign, Outcome
from lab.together import Lab

RAILS = ("rxe0", "rxe1")
METRICS = ("rdma.write_gbps", "rdma.read_gbps", "rdma.write_latency_us", "rdma.read_latency_us")
NIGHTLY = ("--profile", "nightly", "-k", "rdma_bandwidth")
TWO = (*NIGHTLY, "--nodes", "gpu-1,gpu-2")
Start = Callable[..., Campaign]


@pytest.fixture
def start(lab: Lab, tmp_path: Path) -> Iterator[Start]:
    begun: list[Campaign] = []

    def run(*arguments: str) -> Campaign:
        begun.append(Campaign(lab, tmp_path / f"run-{len(begun)}", *arguments))
        return begun[-1]

    yield run
    for each in begun:
        each.end()


def left_behind(lab: Lab) -> str:
    """The programs of perftest that still run on a guest."""
    return "".join(guest.run("pgrep -a '^ib_' || true") for guest in lab.guests)


def at_work(lab: Lab, tool: str, guest: int) -> Callable[[], bool]:
    """Whether both rails of a guest run a program of perftest that has met its other end."""
    met = "ss -Htnp state established | grep -c '\"" + tool + "\"'"
    return lambda: lab.guests[guest - 1].run(f"{met} || true").strip() == "2"


def said(outcome: Outcome, node: str, check: str) -> str:
    """Verdict and words of a check on a node, for what pytest shows of a failure."""
    return f"{outcome.verdict(node, check)}: {outcome.words(node, check)}"


@pytest.fixture(scope="module")
def healthy(running: Lab, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return Campaign(running, tmp_path_factory.mktemp("healthy") / "run", *NIGHTLY).outcome()


def test_healthy_guests_pass_with_a_number_for_each_rail(healthy: Outcome) -> None:
    for node in ("gpu-1", "gpu-2", "gpu-3"):
        assert set(healthy.values(node)) == {(name, rail) for name in METRICS for rail in RAILS}
        for check in ("complete", "errors", "latency"):
            assert healthy.verdict(node, f"rdma_bandwidth.{check}") == "pass", said(
                healthy, node, f"rdma_bandwidth.{check}"
            )


def test_each_program_uses_the_index_of_a_roce_v2_gid_with_an_ipv4_address(lab: Lab, healthy: Outcome) -> None:
    clients = [ran for ran in healthy.ran("gpu-1") if ran["labels"].get("role") == "client" and "argv" in ran]
    assert clients
    for ran in clients:
        words = ran["argv"]
        rail, index = words[words.index("-d") + 1], words[words.index("-x") + 1]
        port = f"/sys/class/infiniband/{rail}/ports/1"
        found = lab.guests[0].run(f"cat {port}/gid_attrs/types/{index} {port}/gids/{index}")
        assert found.startswith("RoCE v2\n0000:0000:0000:0000:0000:ffff:0a4d:")


def test_a_cable_that_is_cut_while_it_carries_is_named(lab: Lab, start: Start) -> None:
    run = start(*TWO)
    run.wait_for(at_work(lab, "ib_write_bw", 2))
    lab.port("rail1", 2).up = False
    found = run.outcome()
    for node in ("gpu-1", "gpu-2"):
        record = found.record(node, "rdma_bandwidth.errors")
        assert {each.subject: each.verdict.value for each in record.findings} == {"rxe0": "pass", "rxe1": "fail"}
        assert "this end or that one" in said(found, node, "rdma_bandwidth.errors")
    assert not left_behind(lab)


def test_a_rail_that_the_switch_slows_is_slow_against_the_same_rail_of_the_others(
    lab: Lab, healthy: Outcome, start: Start
) -> None:
    lab.port("rail1", 3).rate_gbps = healthy.values("gpu-3")["rdma.write_gbps", "rxe1"] / 20
    found = start(*NIGHTLY).outcome()
    (slow,) = [
        each for each in found.record("gpu-3", "rdma_bandwidth.write").findings if each.verdict.value in ("fail", "warn")
    ]
    assert slow.subject == "rxe1", said(found, "gpu-3", "rdma_bandwidth.write")
    for node in ("gpu-1", "gpu-2"):
        assert found.verdict(node, "rdma_bandwidth.write") == "pass", said(found, node, "rdma_bandwidth.write")


def test_a_lossy_cable_is_slower_than_the_other_rail_and_counts_what_it_sent_again(lab: Lab, start: Start) -> None:
    counter = "cat /sys/class/infiniband/rxe1/ports/1/hw_counters/completer_retry_err"
    before = int(lab.guests[0].run(counter)) + int(lab.guests[1].run(counter))
    lab.port("rail1", 2).loss = 0.03
    found = start(*TWO).outcome()
    assert int(lab.guests[0].run(counter)) + int(lab.guests[1].run(counter)) > before
    values = found.values("gpu-1")
    rails = [values.get(("rdma.write_gbps", rail), 0.0) for rail in RAILS]
    assert rails[1] < rails[0] / 2


def test_a_partner_that_cannot_be_reached_by_tcp_is_no_verdict_on_the_rails(lab: Lab, start: Start) -> None:
    lab.port("lan", 2).up = False
    found = start(*TWO).outcome()
    for node in ("gpu-1", "gpu-2"):
        assert found.verdict(node, "rdma_bandwidth.complete") == "error", said(found, node, "rdma_bandwidth.complete")
        assert found.verdict(node, "rdma_bandwidth.errors") == "error", said(found, node, "rdma_bandwidth.errors")
    assert not left_behind(lab)


def test_a_guest_whose_sshd_dies_half_way_is_incomplete_and_nothing_runs_on_there(lab: Lab, start: Start) -> None:
    guest = lab.guests[1]
    run = start(*TWO)
    try:
        run.wait_for(at_work(lab, "ib_write_bw", 2))
        guest.run("systemctl stop ssh; pkill -KILL sshd || true")
        found = run.outcome()
    finally:
        guest.run("systemctl start ssh")
    assert found.verdict("gpu-2", "rdma_bandwidth.complete") == "error", said(
        found, "gpu-2", "rdma_bandwidth.complete"
    )
    assert found.exit_code == 1
    guest.run("timeout 60 sh -c 'while pgrep ^ib_; do sleep 0.2; done'", limit_s=70)


def test_a_frozen_guest_ends_the_run_in_time_without_a_fail(lab: Lab, start: Start) -> None:
    run = start(*TWO)
    try:
        run.wait_for(at_work(lab, "ib_write_bw", 2))
        lab.guests[1].freeze()
        found = run.outcome()
    finally:
        with suppress(ProcessLookupError):
            lab.guests[1].thaw()
    assert found.verdict("gpu-2", "rdma_bandwidth.complete") == "error", said(
        found, "gpu-2", "rdma_bandwidth.complete"
    )
    assert found.exit_code == 1
    lab.guests[0].run("timeout 60 sh -c 'while pgrep ^ib_; do sleep 0.2; done'", limit_s=70)
