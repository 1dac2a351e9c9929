"""`rdma_bandwidth` between guests: real perftest over real soft-RoCE, healthy and with faults.

Speeds are compared within one run, never with fixed numbers: how fast a guest is depends on what else runs here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.guests.campaign import campaign
from lab.guests.guests import Guests
from lab.run import Outcome

RAILS = ("rxe0", "rxe1")
METRICS = ("rdma.write_gbps", "rdma.read_gbps", "rdma.write_latency_us", "rdma.read_latency_us")
MEASUREMENT = "rdma_bandwidth"
TRIES = 3
NIGHTLY = ("--profile", "nightly", "-k", "rdma_bandwidth")


def left_behind(lab: Guests) -> str:
    """The programs of perftest that still run on a guest."""
    return "".join(guest.run("pgrep -a '^ib_' || true") for guest in lab.guests)


def comes_clear(lab: Guests, limit_s: float = 90.0) -> bool:
    """Whether no program of perftest runs on any guest: a guard that has lost its connection ends its own."""
    end_s = time.monotonic() + limit_s
    while left_behind(lab):
        if time.monotonic() > end_s:
            return False
        time.sleep(1)
    return True


def at_work(lab: Guests, tool: str, guest: int) -> Callable[[], bool]:
    """Whether both rails of a guest run a program of perftest that has met its other end."""
    met = "ss -Htnp state established | grep -c '\"" + tool + "\"'"
    return lambda: lab.guests[guest - 1].run(f"{met} || true").strip() == "2"


class Healthy(NamedTuple):
    """What a run without a fault said, and the first guest's GIDs: device, index, GID, type."""

    outcome: Outcome
    gids: str


def said(outcome: Outcome, node: str, check: str) -> str:
    """Verdict and words of a check on a node, for what pytest shows of a failure."""
    return f"{outcome.verdict(node, check)}: {outcome.words(node, check)}"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    """A run without a fault, and the GID tables of the guests meanwhile."""
    with Guests(3) as lab, campaign(lab, tmp_path_factory.mktemp("healthy"), *NIGHTLY) as run:
        outcome = run.outcome()
        script = "cd /sys/class/infiniband && for rail in *; do for row in $rail/ports/1/gids/{0..15}; do "
        script += 'echo "$rail ${row##*/} $(cat $row) $(cat ${row/gids/gid_attrs\\/types} 2>/dev/null)"; done; done'
        return Healthy(outcome, lab.guests[0].run(script))


def test_healthy_guests_pass_with_a_number_for_each_rail(healthy: Healthy) -> None:
    for node in ("gpu-1", "gpu-2", "gpu-3"):
        assert set(healthy.outcome.values(node, MEASUREMENT)) == {(name, rail) for name in METRICS for rail in RAILS}
        for check in ("complete", "errors", "latency"):
            check_id = f"rdma_bandwidth.{check}"
            assert healthy.outcome.verdict(node, check_id) == "pass", said(healthy.outcome, node, check_id)


def test_each_program_uses_the_index_of_a_roce_v2_gid_with_an_ipv4_address(healthy: Healthy) -> None:
    ran = [ran["argv"] for ran in healthy.outcome.ran("gpu-1", MEASUREMENT) if ran["labels"].get("role") == "client"]
    assert ran
    rows = healthy.gids.splitlines()
    for words in ran:
        rail, index = words[words.index("-d") + 1], words[words.index("-x") + 1]
        (row,) = [row for row in rows if row.startswith(f"{rail} {index} ")]
        assert re.fullmatch(r"\S+ \d+ (0000:){5}ffff:0a4d:\w{4} RoCE v2", row)


def in_sound_guests(count: int, act: Callable[[Guests], None]) -> None:
    """Do something with guests of its own. Where it fails because a guest's kernel has panicked, once more.

    Soft-RoCE of Linux 6.12 may use a timer of a queue pair that is gone (rxe_sched_task) after it lost its peer.
    """
    for _ in range(TRIES):
        with Guests(count) as lab:
            try:
                act(lab)
            except (AssertionError, RuntimeError):
                if not lab.panicked():
                    raise
            else:
                return
    pytest.fail(f"the guests' kernels panicked in {TRIES} of {TRIES} runs")


def test_a_cable_that_is_cut_while_it_carries_is_named(tmp_path: Path) -> None:
    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path, *NIGHTLY) as run:
            run.wait_for(at_work(lab, "ib_write_bw", 2))
            lab.port("rail1", 2).up = False
            found = run.outcome()
        for node in ("gpu-1", "gpu-2"):
            record = found.record(node, "rdma_bandwidth.errors")
            assert {each.subject: each.verdict.value for each in record.findings} == {"rxe0": "pass", "rxe1": "fail"}
            assert "this end or that one" in said(found, node, "rdma_bandwidth.errors")
        assert comes_clear(lab)

    in_sound_guests(2, act)


def test_a_rail_that_the_switch_slows_is_slow_against_the_same_rail_of_the_others(
    healthy: Healthy, tmp_path: Path
) -> None:
    def act(lab: Guests) -> None:
        lab.port("rail1", 3).rate_gbps = healthy.outcome.values("gpu-3", MEASUREMENT)["rdma.write_gbps", "rxe1"] / 8
        with campaign(lab, tmp_path, *NIGHTLY) as run:
            found = run.outcome()
        slow = [each for each in found.record("gpu-3", "rdma_bandwidth.write").findings if each.verdict.value != "pass"]
        assert [each.subject for each in slow] == ["rxe1"], said(found, "gpu-3", "rdma_bandwidth.write")
        for node in ("gpu-1", "gpu-2"):
            assert found.verdict(node, "rdma_bandwidth.write") == "pass", said(found, node, "rdma_bandwidth.write")

    in_sound_guests(3, act)


def test_a_cable_that_loses_frames_one_way_is_slow_that_way_and_counts_what_was_sent_again(tmp_path: Path) -> None:
    def act(lab: Guests) -> None:
        lab.port("rail1", 2).loss = 0.03  # towards the second guest, which is the client: what it reads comes this way
        with campaign(lab, tmp_path, *NIGHTLY) as run:
            values = run.outcome().values("gpu-1", MEASUREMENT)
        again = [_sent_again(lab, rail) for rail in RAILS]
        speeds = [values.get(("rdma.read_gbps", rail), 0.0) for rail in RAILS]
        assert again[1] > again[0]
        assert speeds[1] < speeds[0] / 2

    in_sound_guests(2, act)


def _sent_again(lab: Guests, rail: str) -> int:
    counter = f"/sys/class/infiniband/{rail}/ports/1/hw_counters/completer_retry_err"
    return sum(int(guest.run(f"cat {counter}")) for guest in lab.guests)


def test_a_partner_that_cannot_be_reached_by_tcp_is_no_verdict_on_the_rails(tmp_path: Path) -> None:
    def act(lab: Guests) -> None:
        lab.port("lan", 2).up = False
        with campaign(lab, tmp_path, *NIGHTLY) as run:
            found = run.outcome()
        for node in ("gpu-1", "gpu-2"):
            for check in ("rdma_bandwidth.complete", "rdma_bandwidth.errors"):
                assert found.verdict(node, check) == "error", said(found, node, check)
        assert comes_clear(lab)

    in_sound_guests(2, act)


def test_a_guest_whose_sshd_dies_half_way_is_incomplete_and_nothing_runs_on_there(tmp_path: Path) -> None:
    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path, *NIGHTLY) as run:
            run.wait_for(at_work(lab, "ib_write_bw", 2))
            lab.guests[1].run("systemctl stop ssh; pkill -KILL sshd || true")
            found = run.outcome()
        assert found.exit_code == 1
        check = "rdma_bandwidth.complete"
        assert found.verdict("gpu-2", check) == "error", said(found, "gpu-2", check)
        assert comes_clear(lab)

    in_sound_guests(2, act)


def test_a_frozen_guest_ends_the_run_without_a_fail(tmp_path: Path) -> None:
    def act(lab: Guests) -> None:
        with campaign(lab, tmp_path, *NIGHTLY) as run:
            run.wait_for(at_work(lab, "ib_write_bw", 2))
            lab.guests[1].freeze()
            found = run.outcome(limit_s=300)
        assert found.exit_code == 1
        check = "rdma_bandwidth.complete"
        assert found.verdict("gpu-2", check) == "error", said(found, "gpu-2", check)
        lab.guests[1].thaw()
        assert comes_clear(lab)

    in_sound_guests(2, act)
