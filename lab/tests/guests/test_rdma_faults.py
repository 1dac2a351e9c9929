"""Faults between a guest with perftest 25.01 on Linux 6.12 and one with perftest 4.5 on Linux 6.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.guests.cables import flap, pull
from lab.guests.campaign import struck
from lab.guests.guests import Guests
from lab.guests.lent import Lent
from lab.run import ROOT, Outcome
from lab.told import Told

MEASUREMENT = "rdma_bandwidth"
ERRORS, COMPLETE = "rdma_bandwidth.errors", "rdma_bandwidth.complete"
LATENCY = "rdma_bandwidth.latency"
NIC, PORT = "counters.nic", "rdma.port_state"
METRICS = {"rdma.write_gbps", "rdma.read_gbps", "rdma.write_latency_us", "rdma.read_latency_us"}
LATE_S = 0.12  # more than lab/guests/baseline.yaml allows, which is far more than a busy machine takes
VERSIONS = {"gpu-1": "6.24", "gpu-2": "6.06"}  # as perftest calls itself


@pytest.fixture(scope="module")
def pair() -> Iterator[Lent]:
    with Lent(("trixie", "bookworm")) as lent:
        yield lent


def by_rail(outcome: Outcome, node: str, check: str) -> dict[str, str]:
    """Rail -> what a check said of it."""
    return {each.subject: each.verdict.value for each in outcome.record(node, check).findings}


def test_a_cable_that_is_cut_while_it_carries_and_one_that_is_late_are_named(
    pair: Lent, tmp_path: Path, told: Told
) -> None:
    def act(lab: Guests) -> None:
        lab.port("rail0", 2).delay_s = LATE_S
        found, since_s = struck(lab, tmp_path, lab.port("rail1", 2).cut)
        for node, version in VERSIONS.items():
            assert by_rail(found, node, ERRORS) == {"rxe0": "pass", "rxe1": "fail"}, found.words(node, ERRORS)
            assert {name for name, rail in found.values(node, MEASUREMENT) if rail == "rxe0"} == METRICS
            ran = [each["labels"] for each in found.ran(node, MEASUREMENT)]
            assert version in {labels["version"] for labels in ran if "version" in labels}
            assert by_rail(found, node, LATENCY) == {"rxe0": "fail", "rxe1": "pass"}, found.words(node, LATENCY)
        how = "switch: gpu-2's rail1 cut while ib_write_bw of perftest 4.5 ran"
        words = "this end or that one"
        told.run("cable cut", how, outcome=found, node="gpu-2", check=ERRORS, words=words, since_s=since_s)
        how = f"switch: frames to gpu-2's rail0 take {LATE_S:g} s"
        told.run("late rail", how, outcome=found, node="gpu-2", check=LATENCY, words="rxe0: write_latency")

    pair.act(act)


def test_a_rail_that_is_down_and_one_that_flaps_are_named(pair: Lent, tmp_path: Path, told: Told) -> None:
    def act(lab: Guests) -> None:
        guest, checks = lab.guests[0], [str(ROOT / "checks" / f"test_{name}.py") for name in ("rdma", "counters")]
        pull(guest, 0)
        found, since_s = struck(lab, tmp_path, lambda: flap(guest, 1), ("--profile", "nightly", *checks))
        assert found.verdict("gpu-2", PORT) == "pass", found.words("gpu-2", PORT)
        assert found.verdict("gpu-2", NIC) == "pass", found.words("gpu-2", NIC)
        assert found.verdict("gpu-2", ERRORS) != "fail", found.words("gpu-2", ERRORS)  # its rxe0 met nobody's
        how = "QEMU: no carrier on gpu-1's rail0 before the run"
        told.run("link down", how, outcome=found, node="gpu-1", check=PORT, words="rxe0 port 1: DOWN")
        how = "QEMU: carrier of gpu-1's rail1 lost and back while ib_write_bw ran"
        words = "link_downed under load"
        told.run("link flap", how, outcome=found, node="gpu-1", check=NIC, words=words, since_s=since_s)

    pair.act(act)


def test_a_server_of_perftest_that_is_killed_is_no_pass_of_its_rails(pair: Lent, tmp_path: Path, told: Told) -> None:
    def act(lab: Guests) -> None:
        killer = "systemd-run -q --unit killer sh -c 'while sleep 0.2; do pkill -KILL \"^ib_[rw].*_bw\"; done'"
        found, since_s = struck(lab, tmp_path, lambda: lab.guests[0].run(killer))
        lab.guests[0].run("systemctl stop killer")
        for node in VERSIONS:
            assert by_rail(found, node, COMPLETE) == {"rxe0": "error", "rxe1": "error"}, found.words(node, COMPLETE)
        how = "guest: pkill -KILL of every ib_write_bw and ib_read_bw on gpu-1"
        told.run("perftest killed", how, outcome=found, node="gpu-1", check=COMPLETE, words="rxe1: ", since_s=since_s)

    pair.act(act)
