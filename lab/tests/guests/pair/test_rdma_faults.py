"""Faults of the cables and of perftest while `rdma_bandwidth` measures two guests."""

from __future__ import annotations

import pytest

from lab.fault_table import Told
from lab.guests.cables import flap, pull
from lab.guests.campaign import BRIEF, OF_LINKS, Struck, struck
from lab.guests.guests import Guests
from lab.guests.leases import Lease
from lab.guests.timeouts import SECTIONS
from lab.run import ROOT, Outcome

MEASUREMENT = "rdma_bandwidth"
ERRORS, COMPLETE = "rdma_bandwidth.errors", "rdma_bandwidth.complete"
NIC, PORT = "counters.nic", "rdma.port_state"
METRICS = {"rdma.write_gbps", "rdma.read_gbps"}
WAYS = {"rdma.sends_gbps", "rdma.receives_gbps"}  # of the writes: one node of a pair sends, the other receives
NODES = ("gpu-1", "gpu-2")
# The checks that a link that goes and comes back must show in, beside those of rdma_bandwidth.
FILES = tuple(str(ROOT / "checks" / f"test_{name}.py") for name in ("rdma", "counters"))
WITH_COUNTERS = ("--profile", "nightly", *FILES, *BRIEF, SECTIONS, f"{OF_LINKS},nvml,kernel_log")
AT_WORK = "pgrep -o '^ib_write_bw' || true"
KILLER = "systemd-run -q --unit killer sh -c 'until false; do pkill -KILL \"^ib_[rw].*_bw\"; sleep 0.1; done'"
THEN_KILL = f"timeout 50 sh -c 'while kill -0 {{pid}}; do sleep 0.1; done' 2>/dev/null; {KILLER}"


@pytest.fixture(scope="module")
def cut(pair: Lease, tmp_path_factory: pytest.TempPathFactory) -> Struck:
    """gpu-2's rail1 is cut while it carries."""
    folder = tmp_path_factory.mktemp("cut")
    return pair.act(lambda lab: struck(lab, folder, lab.port("rail1", 2).cut))


@pytest.fixture(scope="module")
def loose(pair: Lease, tmp_path_factory: pytest.TempPathFactory) -> Struck:
    """gpu-1's rail0 is down from the start; its rail1 flaps while it carries, then its programs of perftest die."""
    folder = tmp_path_factory.mktemp("loose")

    def measured(lab: Guests) -> Struck:
        guest = lab.guests[0]

        def strike() -> None:
            pid = guest.run(AT_WORK).strip()
            flap(guest, 1)
            guest.run(THEN_KILL.format(pid=pid))  # what carried when the link flapped is judged by that

        pull(guest, 0)
        found = struck(lab, folder, strike, WITH_COUNTERS)
        guest.run("systemctl stop killer")
        return found

    return pair.act(measured)


def by_rail(outcome: Outcome, node: str, check: str) -> dict[str, str]:
    """Rail -> what a check said of it."""
    return {each.part.short: each.verdict.value for each in outcome.record(node, check).findings}


def test_a_cable_that_is_cut_while_it_carries_fails_and_the_other_rail_has_its_numbers(cut: Struck, told: Told) -> None:
    found = cut.outcome
    for node in NODES:
        assert by_rail(found, node, ERRORS) == {"rxe0": "pass", "rxe1": "fail"}, found.words(node, ERRORS)
        assert {name for name, rail in found.values(node, MEASUREMENT) if rail == "rxe0"} - WAYS == METRICS
    told.run(
        "cable cut",
        "switch: gpu-2's rail1 cut while ib_write_bw of perftest 4.5 ran",
        outcome=found,
        node="gpu-2",
        check=ERRORS,
        words="its only partner, so either end may be at fault",
        since_s=cut.since_s,
    )


def test_a_link_that_is_down_is_named_and_left_out(loose: Struck, told: Told) -> None:
    found = loose.outcome
    assert found.verdict("gpu-2", PORT) == "pass", found.words("gpu-2", PORT)
    assert found.verdict("gpu-2", ERRORS) != "fail", found.words("gpu-2", ERRORS)  # its rxe0 met nobody's
    how = "QEMU: no carrier on gpu-1's rail0 before the run"
    told.run("link down", how, outcome=found, node="gpu-1", check=PORT, words="rail0): state DOWN")


def test_a_link_that_flaps_under_load_is_counted_at_its_own_end(loose: Struck, told: Told) -> None:
    found, words = loose.outcome, "link_downed under load"
    assert found.verdict("gpu-2", NIC) == "pass", found.words("gpu-2", NIC)
    how = "QEMU: carrier of gpu-1's rail1 lost and back while ib_write_bw ran"
    told.run("link flap", how, outcome=found, node="gpu-1", check=NIC, words=words, since_s=loose.since_s)


def test_a_server_of_perftest_that_is_killed_is_no_pass_of_its_rail(loose: Struck, told: Told) -> None:
    found = loose.outcome
    for node in NODES:
        assert by_rail(found, node, COMPLETE)["rxe1"] == "error", found.words(node, COMPLETE)
    how = "guest: pkill -KILL of every ib_write_bw and ib_read_bw on gpu-1"
    told.run(
        "perftest killed",
        how,
        outcome=found,
        node="gpu-1",
        check=COMPLETE,
        words="rail1): could not read",
        since_s=loose.since_s,
    )
