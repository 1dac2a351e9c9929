"""`rdma_bandwidth` between two healthy guests: perftest 25.01 on Linux 6.12, and perftest 4.5 on Linux 6.1."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import pytest
from support.lspci import parse as parse_lspci

from lab.fault_table import Told
from lab.guests.campaign import LATENCY_BYTES, LINKS, MOST_S, NIGHTLY, UNTIL_THERE_S, at_work, campaign
from lab.guests.guests import Guests
from lab.guests.leases import Lease
from lab.guests.timeouts import SETUP
from lab.run import Outcome
from nodegate.facts import NodeFacts

MEASUREMENT = "rdma_bandwidth"
VERSIONS = {"gpu-1": "6.24", "gpu-2": "6.06"}  # as perftest calls itself
RAILS = ("rxe0", "rxe1")
METRICS = ("rdma.write_gbps", "rdma.read_gbps", "rdma.write_latency_us", "rdma.read_latency_us")
WAYS = ("rdma.sends_gbps", "rdma.receives_gbps")  # of the writes: one node of a pair sends, the other receives
GIDS = """cd /sys/class/infiniband
for rail in *; do for row in $rail/ports/1/gids/{0..15}; do
    echo "$rail ${row##*/} $(cat $row) $(cat ${row/gids/gid_attrs\\/types} 2>/dev/null)"
done; done"""


class Healthy(NamedTuple):
    """What a run without a fault said, a second one that came in its way, and what the first guest's own tools say.

    `gids`: a line a row: device, index, GID, type. `lspci`: of `lspci -D -nn -vv`. `release`: of `uname -r`.
    """

    outcome: Outcome
    refused: Outcome
    gids: str
    lspci: str
    release: str


@pytest.fixture(scope="module")
def healthy(pair: Lease, tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    """A run without a fault, and another one over the same guests meanwhile."""
    folder = tmp_path_factory.mktemp("healthy")

    def measured(lab: Guests) -> Healthy:
        with campaign(lab, folder / "first", *NIGHTLY, SETUP, str(MOST_S)) as run:
            run.wait_for(at_work(lab, "rail1", LATENCY_BYTES), UNTIL_THERE_S)
            with campaign(lab, folder / "second", *LINKS) as second:
                refused = second.outcome()
            outcome = run.outcome()
        ask = lab.guests[0].run
        return Healthy(outcome, refused, ask(GIDS), ask("lspci -D -nn -vv"), ask("uname -r").strip())

    return pair.act(measured)


@pytest.fixture(scope="module")
def facts(healthy: Healthy) -> NodeFacts:
    """What the probe read on the first guest."""
    return healthy.outcome.facts("gpu-1")


def test_they_pass_with_a_number_for_each_rail(healthy: Healthy) -> None:
    for node, version in VERSIONS.items():
        found = {each for each in healthy.outcome.values(node, MEASUREMENT) if each[0] not in WAYS}
        assert found == {(name, rail) for name in METRICS for rail in RAILS}
        for check in ("complete", "errors", "latency"):
            said = healthy.outcome.words(node, f"rdma_bandwidth.{check}")
            assert healthy.outcome.verdict(node, f"rdma_bandwidth.{check}") == "pass", said
        ran = healthy.outcome.ran(node, MEASUREMENT)
        assert version in {each["plan"]["version"] for each in ran}


def test_a_second_run_finds_the_guests_busy_and_judges_nothing(healthy: Healthy, told: Told) -> None:
    assert {record.verdict.value for record in healthy.refused.records} == {"skip"}
    told.run(
        "second run at once",
        "a second pytest --inventory over the same guests",
        outcome=healthy.refused,
        node="gpu-2",
        check="rdma_bandwidth.complete",
        words="busy: another run holds the node's lock",
    )


def test_each_program_uses_the_index_of_a_roce_v2_gid_with_an_ipv4_address(healthy: Healthy) -> None:
    ran = [each["argv"] for each in healthy.outcome.ran("gpu-1", MEASUREMENT)]
    assert ran
    rows = healthy.gids.splitlines()
    used = {words[words.index("-x") + 1] for words in ran}
    rails = {words[words.index("-d") + 1] for words in ran}
    for rail, index in ((rail, index) for rail in rails for index in used):
        (row,) = [row for row in rows if row.startswith(f"{rail} {index} ")]
        assert re.fullmatch(r"\S+ \d+ (0000:){5}ffff:0a4d:\w{4} RoCE v2", row)


def test_soft_roce_devices_are_read_from_the_kernels_own_sysfs(facts: NodeFacts) -> None:
    rdma = facts.rdma
    assert [device.name for device in rdma.devices] == ["rxe0", "rxe1"]
    for place, port in enumerate(rdma.ports):
        assert (port.state, port.phys_state, port.link_layer) == ("ACTIVE", "LinkUp", "Ethernet")
        assert port.netdev == f"rail{place}"
        assert "RoCE v2" in {kind for _, kind in port.gids.values()}
        assert f"0000:0000:0000:0000:0000:ffff:0a4d:0{place}01" in {gid for gid, _ in port.gids.values()}
        assert isinstance(port.hw_counters["sent_pkts"], int)
    assert {device.address for device in rdma.devices} == {"0000:01:00.0", "0000:02:00.0"}


def test_pcie_is_what_lspci_says(facts: NodeFacts, healthy: Healthy) -> None:
    said = {device.address: device for device in parse_lspci(healthy.lspci).devices}
    read = {device.address: device for device in facts.pci.devices}
    assert {"0000:01:00.0", "0000:02:00.0"} <= read.keys() <= said.keys()
    for address, mine in read.items():
        theirs = said[address]
        assert (mine.vendor, mine.device) == (theirs.vendor, theirs.device)
        if isinstance(theirs.width, int):
            assert (mine.width, mine.speed_gts) == (theirs.width, theirs.speed_gts)
    assert isinstance(read["0000:01:00.0"].width, int), "the rails have PCIe links"


def test_kernel_and_kernel_log_are_the_guests_own(facts: NodeFacts, healthy: Healthy) -> None:
    assert facts.host.kernel_release == healthy.release != os.uname().release
    assert [line.text for line in facts.kernel_log.lines if "infiniband rxe0: added rail0" in line.text]
