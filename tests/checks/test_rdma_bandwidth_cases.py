"""What the RDMA bandwidth checks say of links with one fault, and of those that only look faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.cases import assert_case
from support.link_changes import (
    LOST,
    READ,
    WRITE,
    alone,
    at_once,
    broken,
    detour_everywhere,
    down,
    further_away,
    hurt,
    hurt_both_ways,
    left_out,
    much_further_away,
    neighbour_inside,
    nothing_inside,
    of_three,
    of_two,
    of_two_one_way,
    one_way,
    slow,
    with_gpu,
    with_inside,
    without,
)
from support.rdma_links import PARTNERS, RAILS, LinkCase, attempt, judged

from nodegate.errors import CannotMeasure
from nodegate.measure.program_run import not_begun
from nodegate.records.program_run import MissingRail
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    pass

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
BOTH_AT_ONCE = "rdma_bandwidth.both_at_once"
BOTH_WAYS = "rdma_bandwidth.both_ways"
COMPLETE = "rdma_bandwidth.complete"
ERRORS = "rdma_bandwidth.errors"
GPU_MEMORY = "rdma_bandwidth.gpu_memory"
INSIDE = "rdma_bandwidth.inside"
LATENCY = "rdma_bandwidth.latency"
PATH = "rdma_bandwidth.path"
RAIL_RATE = "rdma_bandwidth.rails"
SHARE_OF_RATE = "rdma_bandwidth.share_of_rate"
WRITE_RATE = "rdma_bandwidth.write"
NOT_JUDGED = Verdict.NOT_JUDGED
NINE = tuple(f"gpu{number:02}" for number in range(5, 14))
STORAGE = CannotMeasure("left out: no GPU is behind its PCIe switch", next_step="name the rails")
UNPLACED = "sysfs does not say to which of 2 NUMA nodes mlx5_3 belongs"
NO_TOOL = CannotMeasure("no ib_write_bw on the node", next_step="apt install perftest")
CASES = (
    # complete
    LinkCase("every rail", COMPLETE, PASS),
    LinkCase("a rail without a number", COMPLETE, ERROR, change=without()),
    LinkCase("a rail without a GID", COMPLETE, ERROR, attempts=left_out),
    LinkCase(
        "every partner of a rail lacks something", COMPLETE, ERROR, change=broken(cannot="gpu02: the connection broke")
    ),
    LinkCase(
        "healthy: one partner of three was lost",
        COMPLETE,
        PASS,
        change=broken("gpu02", cannot="gpu02: the connection broke"),
    ),
    LinkCase(
        "healthy: a rail that is down",
        COMPLETE,
        PASS,
        machine=down,
        attempts=lambda links: [
            attempt(
                {k: v for k, v in links.items() if k[1] != "mlx5_3"},
                rails=[device for device in RAILS if device != "mlx5_3"],
            )
        ],
    ),
    LinkCase(
        "a node that was lost after its first partner",
        COMPLETE,
        ERROR,
        change=broken("gpu03", "gpu04", tool=READ, device="mlx5_7", cannot="gpu01: the connection broke", lost="gpu01"),
        attempts=lambda links: [attempt(dict(sorted(links.items(), key=lambda item: item[1].cannot)))],
    ),
    LinkCase("a node alone", COMPLETE, PASS, attempts=alone),
    LinkCase("no perftest", COMPLETE, ERROR, attempts=lambda links: [not_begun(NO_TOOL)]),
    # write and read
    LinkCase("a slow rail", WRITE_RATE, FAIL, change=slow(212.5)),
    LinkCase("healthy: slow with one bad partner", WRITE_RATE, PASS, change=slow(212.5, "gpu02", peer_best=212.5)),
    LinkCase(
        "healthy: disturbed at first, well twice more",
        WRITE_RATE,
        PASS,
        attempts=lambda links: [attempt({**links, **hurt(links)}), attempt(links), attempt(links)],
    ),
    LinkCase(
        "no number of any rail",
        WRITE_RATE,
        ERROR,
        attempts=lambda links: [attempt({k: v for k, v in links.items() if k[0] != WRITE})],
    ),
    LinkCase("a node alone", WRITE_RATE, SKIP, attempts=alone),
    LinkCase("slow to read", "rdma_bandwidth.read", FAIL, change=slow(150.25, tool=READ)),
    LinkCase("healthy: slow to read is fast to write", WRITE_RATE, PASS, change=slow(150.25, tool=READ)),
    LinkCase("healthy", "rdma_bandwidth.read", PASS),
    LinkCase(
        "no number of any rail",
        "rdma_bandwidth.read",
        ERROR,
        attempts=lambda links: [attempt({k: v for k, v in links.items() if k[0] != READ})],
    ),
    # latency
    LinkCase("healthy", LATENCY, PASS),
    LinkCase("a detour", LATENCY, FAIL, change=slow(6.75, "gpu02", tool="ib_write_lat")),
    LinkCase(
        "not measured",
        LATENCY,
        ERROR,
        attempts=lambda links: [attempt({k: v for k, v in links.items() if not k[0].endswith("lat")})],
    ),
    LinkCase("a node alone", LATENCY, SKIP, attempts=alone),
    LinkCase(
        "a NIC that is late beside the same rail of the others, while its neighbours are not",
        LATENCY,
        FAIL,
        change=slow(2.35, "gpu02", tool="ib_write_lat"),
        fleet=dict.fromkeys(NINE, 1.68),
    ),
    LinkCase(
        "known false alarm: a node on a leaf of its own, late with all rails alike",
        LATENCY,
        WARN,
        change=further_away,
        fleet=dict.fromkeys(NINE, 1.68),
    ),
    LinkCase(
        "a node whose rails are all later than a switch explains",
        LATENCY,
        FAIL,
        change=much_further_away,
        fleet=dict.fromkeys(NINE, 1.68),
        limits={"rdma.write_latency_us": None},
    ),
    # the share of the link's own rate
    LinkCase("healthy", SHARE_OF_RATE, PASS),
    LinkCase("far below its own rate", SHARE_OF_RATE, FAIL, change=slow(212.5)),
    LinkCase(
        "healthy: far below 0.01 Gb/s, where that is enough",
        SHARE_OF_RATE,
        PASS,
        change=slow(0.00374),
        machine=lambda machine: machine.set_port("mlx5_3", 1, "rate", "0.004 Gb/sec (1X SDR)"),
    ),
    LinkCase(
        "known false alarm: of two nodes alone nobody can tell which end is slow",
        SHARE_OF_RATE,
        ERROR,
        attempts=lambda _links: [attempt(of_two(), partners=1)],
    ),
    LinkCase(
        "known false alarm: a bond carries what one of its ports does",
        SHARE_OF_RATE,
        ERROR,
        change=slow(195.5),
        machine=lambda machine: machine.set_port("mlx5_3", 1, "netdev", "bond0"),
    ),
    LinkCase(
        "a bond carries less than one of its ports does",
        SHARE_OF_RATE,
        FAIL,
        change=slow(120.5),
        machine=lambda machine: machine.set_port("mlx5_3", 1, "netdev", "bond0"),
    ),
    LinkCase(
        "healthy: a bond whose driver says the rate of one port carries that of both",
        WRITE_RATE,
        PASS,
        change=slow(391.5),
        machine=lambda machine: (
            machine.set_port("mlx5_3", 1, "netdev", "bond0"),
            machine.set_port("mlx5_3", 1, "rate", "200 Gb/sec (4X HDR)"),
        ),
    ),
    LinkCase(
        "healthy: storage NICs are left out by rule, and named",
        COMPLETE,
        PASS,
        attempts=lambda links: [
            attempt(
                {key: ran for key, ran in links.items() if key[1] != "mlx5_7"},
                rails=RAILS[:7],
                missing=[MissingRail("mlx5_7", STORAGE.reason, STORAGE.next_step, by_rule=True)],
            )
        ],
    ),
    LinkCase(
        "known false alarm: perftest may have run on the other socket, for sysfs does not say where the NIC is",
        SHARE_OF_RATE,
        ERROR,
        change=slow(300.25, client_unbound=UNPLACED),
    ),
    LinkCase(
        "known false alarm: the programs of the partners may have run on the other socket",
        WRITE_RATE,
        ERROR,
        change=slow(300.25, server_unbound=UNPLACED),
    ),
    LinkCase(
        "slow near its NIC with one partner, and with the others who knows where",
        SHARE_OF_RATE,
        FAIL,
        change=lambda links: (
            slow(300.25, server_unbound=UNPLACED)(links),
            slow(299.25, "gpu04", client_near="NUMA node 0", server_near="NUMA node 1")(links),
        ),
    ),
    LinkCase(
        "known false alarm: slow in one direction, from the other socket perhaps",
        BOTH_WAYS,
        ERROR,
        change=one_way(client_unbound=UNPLACED, server_unbound=UNPLACED),
    ),
    LinkCase(
        "healthy: nobody knows where the NIC is, and it is fast",
        COMPLETE,
        PASS,
        change=lambda links: [
            slow(391.5, device=rail, client_unbound="none of the CPUs near it may be used here")(links)
            for rail in RAILS
        ],
    ),
    LinkCase(
        "slow on every node of the run",
        SHARE_OF_RATE,
        FAIL,
        change=slow(198.25, peer_best=198.5),
        fleet=dict.fromkeys(PARTNERS, 198.5),
    ),
    LinkCase(
        "known false alarm: all partners happen to be slow, another node of the run is not",
        SHARE_OF_RATE,
        ERROR,
        change=slow(198.25, peer_best=198.5),
        fleet={**dict.fromkeys(PARTNERS, 198.5), "gpu05": 391.5},
    ),
    LinkCase(
        "known false alarm: two of three nodes are slow, and the third met nobody else",
        SHARE_OF_RATE,
        ERROR,
        attempts=lambda _links: [attempt(of_three(), partners=2)],
        fleet=dict.fromkeys(PARTNERS[:2], 198.5),
    ),
    LinkCase(
        "the rate was not read",
        SHARE_OF_RATE,
        ERROR,
        machine=lambda machine: machine.set_port("mlx5_3", 1, "rate", {"why": "failed", "detail": "EIO"}),
    ),
    LinkCase(
        "healthy: a link that trained slower carries what it can",
        SHARE_OF_RATE,
        PASS,
        change=lambda links: (slow(195.5)(links), slow(194.5, tool=READ)(links)),
        machine=lambda machine: machine.set_port("mlx5_3", 1, "rate", "200 Gb/sec (4X HDR)"),
    ),
    LinkCase("a site without the share", SHARE_OF_RATE, NOT_JUDGED, limits={"rdma.share_of_rate_percent": None}),
    LinkCase(
        "below its limit on every node of the run",
        WRITE_RATE,
        FAIL,
        change=slow(371.5, peer_best=371.75),
        fleet=dict.fromkeys(PARTNERS, 371.75),
    ),
    LinkCase(
        "beside one partner alone it proves nothing",
        WRITE_RATE,
        ERROR,
        attempts=lambda _links: [attempt(of_two(), partners=1)],
    ),
    # the same rail on many nodes
    LinkCase("healthy", RAIL_RATE, PASS, fleet=dict.fromkeys(NINE, 391.5)),
    LinkCase(
        "known false alarm: one slow NIC is no slow rail",
        RAIL_RATE,
        PASS,
        change=slow(212.5),
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase(
        "known false alarm: four slow NICs, and as many of another rail",
        RAIL_RATE,
        PASS,
        change=slow(212.5),
        slow_rails=dict.fromkeys((("gpu05", "mlx5_3"), ("gpu06", "mlx5_3"), ("gpu07", "mlx5_3")), 210.5)
        | dict.fromkeys((("gpu05", "mlx5_1"), ("gpu06", "mlx5_1"), ("gpu08", "mlx5_1")), 210.5),
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase(
        "the NICs behind one leaf",
        RAIL_RATE,
        FAIL,
        change=slow(212.5),
        slow_rails=dict.fromkeys((("gpu05", "mlx5_3"), ("gpu06", "mlx5_3"), ("gpu07", "mlx5_3")), 210.5),
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase(
        "a rail that is 5 % slow on all nodes, which no comparison of the same rail sees",
        RAIL_RATE,
        WARN,
        change=slow(372.5),
        limits={"rdma.write_gbps": None},
        slow_rails={(name, "mlx5_3"): 372.5 for name in NINE},
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase(
        "not measured",
        RAIL_RATE,
        ERROR,
        attempts=lambda links: [attempt({k: v for k, v in links.items() if k[0].endswith("lat")})],
    ),
    LinkCase("a node alone", RAIL_RATE, SKIP, attempts=alone),
    # errors
    LinkCase("healthy", ERRORS, PASS),
    LinkCase("a rail that loses its peers", ERRORS, FAIL, change=broken(**LOST)),
    LinkCase("completion errors", ERRORS, FAIL, change=broken(text="completion-error.txt")),
    LinkCase("a path that hangs", ERRORS, WARN, change=broken("gpu03", text="truncated.txt", timed_out=True)),
    LinkCase(
        "healthy: one partner hangs, nothing is known of it",
        ERRORS,
        PASS,
        change=broken("gpu03", peer_best=None, **LOST),
    ),
    LinkCase(
        "only partners that are bad themselves", ERRORS, ERROR, change=broken(peer_best=None, peer_failed=True, **LOST)
    ),
    LinkCase(
        "healthy: the partner had no perftest", ERRORS, PASS, change=broken("gpu02", cannot="gpu02: no ib_write_bw")
    ),
    LinkCase(
        "a node alone whose NICs do not reach each other",
        ERRORS,
        ERROR,
        change=lambda links: links.clear(),
        attempts=with_inside(stderr=" Failed to modify QP 17 to RTR\n"),
    ),
    LinkCase(
        "healthy: rails that do not reach each other inside the node, and are well with other nodes",
        ERRORS,
        PASS,
        attempts=nothing_inside,
    ),
    LinkCase("nothing was tried", ERRORS, ERROR, attempts=lambda links: [attempt({})]),
    # both_ways
    LinkCase("healthy", BOTH_WAYS, PASS),
    LinkCase("a rail that sends slowly to all, whoever is the client", BOTH_WAYS, FAIL, change=one_way()),
    LinkCase("healthy: a partner that receives slowly", BOTH_WAYS, PASS, change=one_way("gpu03")),
    LinkCase("healthy: slow both ways, which the other checks say", BOTH_WAYS, PASS, change=hurt_both_ways),
    LinkCase("one partner alone", BOTH_WAYS, ERROR, attempts=lambda links: [attempt(of_two_one_way(), partners=1)]),
    LinkCase(
        "sends 7 % less than the other nodes, within every limit",
        BOTH_WAYS,
        FAIL,
        change=one_way(gbps=365.0),
        limits={"rdma.write_gbps": None, "rdma.read_gbps": None},
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase("a node alone", BOTH_WAYS, SKIP, attempts=alone),
    LinkCase(
        "no limit",
        BOTH_WAYS,
        NOT_JUDGED,
        limits={"rdma.write_gbps": None, "rdma.read_gbps": None, "rdma.share_of_rate_percent": None},
    ),
    # path
    LinkCase("healthy", PATH, PASS),
    LinkCase("a slow path", PATH, WARN, change=slow(98.5, "gpu03")),
    LinkCase("healthy: a slow partner", PATH, PASS, change=slow(98.5, "gpu03", peer_best=99.25)),
    LinkCase(
        "healthy: a NIC that sends slowly to all is no path, though it receives well",
        PATH,
        PASS,
        change=one_way(peer_best_way=391.5),
    ),
    LinkCase(
        "healthy: just below the limit with one partner, and just above it with others",
        PATH,
        PASS,
        change=slow(379.5, "gpu03"),
    ),
    LinkCase("slow with all: the NIC, which is not the path's", PATH, PASS, change=slow(98.5)),
    LinkCase("a node alone", PATH, SKIP, attempts=alone),
    LinkCase("no perftest", PATH, ERROR, attempts=lambda links: [not_begun(NO_TOOL)]),
    # inside
    LinkCase("not asked for", INSIDE, SKIP),
    LinkCase("a node alone", INSIDE, PASS, attempts=alone),
    LinkCase("a slow NIC", INSIDE, FAIL, attempts=with_inside(value=61.5)),
    LinkCase(
        "the neighbour of a slow NIC is not blamed: one finding, of mlx5_3", INSIDE, FAIL, attempts=neighbour_inside
    ),
    LinkCase("healthy: no rail of the network reaches another one", INSIDE, SKIP, attempts=nothing_inside),
    LinkCase("healthy: NICs of a node that do not reach each other", INSIDE, WARN, attempts=with_inside(**LOST)),
    LinkCase(
        "a node alone whose NIC loses its peer",
        INSIDE,
        FAIL,
        change=lambda links: links.clear(),
        attempts=with_inside(**LOST),
    ),
    LinkCase(
        "a node alone whose program does not start",
        INSIDE,
        ERROR,
        change=lambda links: links.clear(),
        attempts=with_inside(cannot="no memory"),
    ),
    # Both directions at once
    LinkCase("healthy", BOTH_AT_ONCE, PASS, change=at_once(774.5)),
    LinkCase("no more in both directions than in one", BOTH_AT_ONCE, FAIL, change=at_once(412.5)),
    LinkCase(
        "known false alarm: perftest may have run on the other socket",
        BOTH_AT_ONCE,
        ERROR,
        change=at_once(512.5, client_unbound=UNPLACED),
    ),
    LinkCase(
        "perftest could not register its memory",
        BOTH_AT_ONCE,
        ERROR,
        change=at_once(0.0, value=None, stderr=" Couldn't allocate MR\n"),
    ),
    LinkCase("not part of a nightly run", BOTH_AT_ONCE, SKIP),
    LinkCase("no other node", BOTH_AT_ONCE, SKIP, change=lambda links: links.clear(), attempts=alone),
    # GPU memory
    LinkCase("no CUDA in perftest", GPU_MEMORY, SKIP),
    LinkCase("healthy", GPU_MEMORY, PASS, attempts=with_gpu(value=380.5)),
    LinkCase("a detour through host memory", GPU_MEMORY, FAIL, attempts=with_gpu(value=140.5)),
    LinkCase(
        "the detour on every node of the run",
        GPU_MEMORY,
        FAIL,
        attempts=detour_everywhere,
        fleet=dict.fromkeys(PARTNERS, 140.5),
        limits={"rdma.gpu_write_gbps": None},
    ),
    LinkCase("no peer memory", GPU_MEMORY, ERROR, attempts=with_gpu(stderr=" Couldn't allocate MR\n")),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_check_says(case: LinkCase) -> None:
    assert_case(case)


def test_a_slow_rail_is_named_with_its_number_and_what_to_do() -> None:
    record = judged(next(case for case in CASES if case.name == "a slow rail"))
    assert record.message.startswith("mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 212 Gb/s")
    assert "check the NIC's PCIe width and speed" in record.message


def test_a_nic_that_is_left_out_is_named() -> None:
    record = judged(next(case for case in CASES if "storage NICs" in case.name))
    (said,) = [finding for finding in record.findings if finding.part.short == "mlx5_7"]
    assert (said.verdict, said.text) == (SKIP, "left out: no GPU is behind its PCIe switch")
