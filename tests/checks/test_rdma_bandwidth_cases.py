"""What the RDMA bandwidth checks say of links with one fault, and of those that only look faulty."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.attempts import having
from support.rdma_links import PARTNERS, RAILS, TESTS, LinkCase, attempt, checks, healthy, judged, link

from nodegate.errors import CannotMeasure
from nodegate.measure.program_run import not_begun
from nodegate.records.program_run import Attempt, Memory, MissingRail, Path, Role
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.machine import Machine
    from support.attempts import having
from support.rdma_links import Links

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
WRITE, READ = "ib_write_bw", "ib_read_bw"
ALONE = "no other node to measure with; rdma_bandwidth.inside measures NIC to NIC in this node"
LOST = {"text": "peer-lost.txt", "timed_out": True}
NINE = tuple(f"gpu{number:02}" for number in range(5, 14))
STORAGE = CannotMeasure("left out: no GPU is behind its PCIe switch", next_step="name the rails")
UNPLACED = "sysfs does not say to which of 2 NUMA nodes mlx5_3 belongs"
NO_TOOL = CannotMeasure("no ib_write_bw on the node", next_step="apt install perftest")


def slow(
    gbps: float, *partners: str, tool: str = WRITE, device: str = "mlx5_3", **fields: object
) -> Callable[[Links], None]:
    """The device is slow with these partners, with all where none is named."""

    def change(links: Links) -> None:
        for peer in partners or PARTNERS:
            known = {"peer_best": 391.5} | fields
            links[tool, device, peer] = link(tool, device, peer, gbps, **known)

    return change


def broken(*partners: str, tool: str = WRITE, device: str = "mlx5_3", **how: object) -> Callable[[Links], None]:
    """The transfers of a device with these partners, with all where none is named, go wrong in this way."""

    def change(links: Links) -> None:
        for peer in partners or PARTNERS:
            links[tool, device, peer] = link(tool, device, peer, **{"peer_best": 391.5, **how})  # type: ignore[arg-type]

    return change


def without(tool: str = WRITE, device: str = "mlx5_3") -> Callable[[Links], None]:
    def change(links: Links) -> None:
        for peer in PARTNERS:
            links.pop((tool, device, peer), None)

    return change


def one_way(*partners: str, gbps: float = 98.5, **fields: object) -> Callable[[Links], None]:
    """mlx5_3 sends slowly to these partners: as a client it writes, as a server it is read from."""

    def change(links: Links) -> None:
        for place, peer in enumerate(PARTNERS):
            for tool in (WRITE, READ):
                server, slowly = place % 2 == 1, peer in partners or not partners
                value = gbps if slowly and server == (tool == READ) else TESTS[tool]
                about = {"peer_best": 391.5, "role": Role.SERVER if server else Role.CLIENT} | fields
                links[tool, "mlx5_3", peer] = link(tool, "mlx5_3", peer, value, **about)

    return change


def of_two_one_way() -> Links:
    """This node and one other, which has met nobody else; mlx5_3 sends slowly."""
    links = of_two()
    return {
        key: run if key[1] != "mlx5_3" else replace(link(*key, 98.5 if key[0] == WRITE else TESTS[key[0]]))
        for key, run in links.items()
    }


def at_once(gbps: float, device: str = "mlx5_3", **how: object) -> Callable[[Links], None]:
    """Both directions at the same time, of which this device carries so much with everybody."""

    def change(links: Links) -> None:
        for rail in RAILS:
            for peer in PARTNERS:
                value, more = (gbps, how) if rail == device else (774.5, {})
                ran = link(WRITE, rail, peer, **{"value": value, "peer_best": 774.5, **more})  # type: ignore[arg-type]
                both = ran.stdout.replace("RDMA_Write BW", "RDMA_Write Bidirectional BW")
                links["both", rail, peer] = replace(ran, what="ib_write_bw -b", argv=(*ran.argv, "-b"), stdout=both)

    return change


def alone(links: Links) -> list[Attempt]:
    inside = {key: link(WRITE, key, "gpu01", 391.5, path=Path.INSIDE) for key in RAILS}
    return [attempt({}, partners=0, more=tuple(inside.values()))]


def with_inside(**how: object) -> Callable[[Links], list[Attempt]]:
    """Rails as usual, and inside the node mlx5_3 like this."""

    def attempts(links: Links) -> list[Attempt]:
        values = {device: {"value": 391.5} for device in RAILS} | {"mlx5_3": how}
        runs = [
            link(WRITE, key, "gpu01", path=Path.INSIDE, peer_device="mlx5_2", **each) for key, each in values.items()
        ]
        return [attempt(links, more=runs)]

    return attempts


def with_gpu(**how: object) -> Callable[[Links], list[Attempt]]:
    def attempts(links: Links) -> list[Attempt]:
        values = {device: {"value": 380.5} for device in RAILS} | {"mlx5_3": how}
        runs = [link(WRITE, device, "gpu02", memory=Memory.GPU, **each) for device, each in values.items()]
        return [attempt(links, more=runs)]

    return attempts


def detour_everywhere(links: Links) -> list[Attempt]:
    """From GPU memory mlx5_3 is slow with every partner, and each of them is with others."""
    fields = {"memory": Memory.GPU, "peer_best": 141.5}
    return [attempt(links, more=[link(WRITE, "mlx5_3", peer, 140.25, **fields) for peer in PARTNERS])]


def of_two() -> Links:
    """This node and one other, which has met nobody else; mlx5_3 is slow between them."""
    links = healthy(("gpu02",))
    for key, run in links.items():
        value = 212.5 if key[:2] == (WRITE, "mlx5_3") else TESTS[key[0]]
        links[key] = having(replace(link(*key, value), plan=run.plan, link=run.link), peer_best=None)
    return links


def of_three() -> Links:
    """This node and two others, on all of which mlx5_3 writes slowly."""
    links = healthy(PARTNERS[:2])
    for peer in PARTNERS[:2]:
        links[WRITE, "mlx5_3", peer] = link(WRITE, "mlx5_3", peer, 198.25, peer_best=198.5)
    return links


def hurt_both_ways(links: Links) -> None:
    slow(98.5)(links)
    slow(98.5, tool=READ)(links)


def neighbour_inside(links: Links) -> list[Attempt]:
    """mlx5_3 is slow everywhere, and mlx5_2 had only it to be measured with inside the node."""
    values = dict.fromkeys(RAILS, 391.5) | {"mlx5_2": 212.5, "mlx5_3": 212.5}
    partner = {"mlx5_2": "mlx5_3", "mlx5_3": "mlx5_2"}
    runs = [
        link(WRITE, device, "gpu01", value, path=Path.INSIDE, peer_device=partner.get(device, "mlx5_7"))
        for device, value in values.items()
    ]
    return [attempt(hurt(links), more=runs)]


def hurt(links: Links) -> Links:
    """A copy in which mlx5_3 is slow with everybody."""
    found = dict(links)
    slow(212.5)(found)
    return found


def down(machine: Machine) -> None:
    machine.set_port("mlx5_3", 1, "state", "1: DOWN")
    machine.set_port("mlx5_3", 1, "phys_state", "2: Polling")


def further_away(links: Links, times: float = 1.4) -> None:
    """All rails are late alike with every partner."""
    for (tool, device, peer), _ in list(links.items()):
        if tool == "ib_write_lat":
            links[tool, device, peer] = link(tool, device, peer, TESTS[tool] * times)


def much_further_away(links: Links) -> None:
    further_away(links, 2.2)


def nothing_inside(links: Links) -> list[Attempt]:
    """Every transfer inside the node loses its peer."""
    runs = [link(WRITE, device, "gpu01", path=Path.INSIDE, peer_device="mlx5_0", **LOST) for device in RAILS]
    return [attempt(links, more=runs)]


def left_out(links: Links) -> list[Attempt]:
    missing = MissingRail("mlx5_3", "no RoCE v2 GID with an IPv4 address", "give it an address", whose="mlx5_3")
    some = {key: run for key, run in links.items() if key[1] != "mlx5_3"}
    rails = [device for device in RAILS if device != "mlx5_3"]
    return [attempt(some, rails=rails, missing=[missing])]


CASES = (
    # complete
    LinkCase(
        "every rail",
        "rdma_bandwidth.complete",
        PASS,
        "8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: measured",
    ),
    LinkCase(
        "a rail without a number",
        "rdma_bandwidth.complete",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): could not read RDMA write bandwidth: no other node could be "
            "measured with it - see what the other nodes say, then run again"
        ),
        change=without(),
    ),
    LinkCase(
        "a rail without a GID",
        "rdma_bandwidth.complete",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): could not read RDMA write bandwidth and RDMA read bandwidth: no "
            "RoCE v2 GID with an IPv4 address - give it an address"
        ),
        attempts=left_out,
    ),
    LinkCase(
        "every partner of a rail lacks something",
        "rdma_bandwidth.complete",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): could not read RDMA write bandwidth: with gpu02 mlx5_3: gpu02: "
            "the connection broke - look at the other node"
        ),
        change=broken(cannot="gpu02: the connection broke"),
    ),
    LinkCase(
        "healthy: one partner of three was lost",
        "rdma_bandwidth.complete",
        PASS,
        "8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: measured",
        change=broken("gpu02", cannot="gpu02: the connection broke"),
    ),
    LinkCase(
        "healthy: a rail that is down",
        "rdma_bandwidth.complete",
        PASS,
        "7 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_4, mlx5_5, mlx5_6, mlx5_7: measured",
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
        "rdma_bandwidth.complete",
        ERROR,
        (
            "node: lost while it was measured: gpu01: the connection broke; what it gave before is not the whole - "
            "look at the other node"
        ),
        change=broken("gpu03", "gpu04", tool=READ, device="mlx5_7", cannot="gpu01: the connection broke", lost="gpu01"),
        attempts=lambda links: [attempt(dict(sorted(links.items(), key=lambda item: item[1].cannot)))],
    ),
    LinkCase(
        "a node alone",
        "rdma_bandwidth.complete",
        PASS,
        "8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: measured",
        attempts=alone,
    ),
    LinkCase(
        "no perftest",
        "rdma_bandwidth.complete",
        ERROR,
        f"node: no {WRITE} on the node - apt install perftest",
        attempts=lambda links: [not_begun(NO_TOOL)],
    ),
    # write and read
    LinkCase("a slow rail", "rdma_bandwidth.write", FAIL, "", change=slow(212.5)),
    LinkCase(
        "healthy: slow with one bad partner",
        "rdma_bandwidth.write",
        PASS,
        "",
        change=slow(212.5, "gpu02", peer_best=212.5),
    ),
    LinkCase(
        "healthy: disturbed at first, well twice more",
        "rdma_bandwidth.write",
        PASS,
        "",
        attempts=lambda links: [attempt({**links, **hurt(links)}), attempt(links), attempt(links)],
    ),
    LinkCase(
        "no number of any rail",
        "rdma_bandwidth.write",
        ERROR,
        "",
        attempts=lambda links: [attempt({k: v for k, v in links.items() if k[0] != WRITE})],
    ),
    LinkCase("a node alone", "rdma_bandwidth.write", SKIP, f"node: {ALONE}", attempts=alone),
    LinkCase("slow to read", "rdma_bandwidth.read", FAIL, "", change=slow(150.25, tool=READ)),
    LinkCase(
        "healthy: slow to read is fast to write", "rdma_bandwidth.write", PASS, "", change=slow(150.25, tool=READ)
    ),
    LinkCase("healthy", "rdma_bandwidth.read", PASS, ""),
    LinkCase(
        "no number of any rail",
        "rdma_bandwidth.read",
        ERROR,
        "",
        attempts=lambda links: [attempt({k: v for k, v in links.items() if k[0] != READ})],
    ),
    # latency
    LinkCase("healthy", "rdma_bandwidth.latency", PASS, ""),
    LinkCase("a detour", "rdma_bandwidth.latency", FAIL, "", change=slow(6.75, "gpu02", tool="ib_write_lat")),
    LinkCase(
        "not measured",
        "rdma_bandwidth.latency",
        ERROR,
        "",
        attempts=lambda links: [attempt({k: v for k, v in links.items() if not k[0].endswith("lat")})],
    ),
    LinkCase("a node alone", "rdma_bandwidth.latency", SKIP, f"node: {ALONE}", attempts=alone),
    LinkCase(
        "a NIC that is late beside the same rail of the others, while its neighbours are not",
        "rdma_bandwidth.latency",
        FAIL,
        "",
        change=slow(2.35, "gpu02", tool="ib_write_lat"),
        fleet=dict.fromkeys(NINE, 1.68),
    ),
    LinkCase(
        "known false alarm: a node on a leaf of its own, late with all rails alike",
        "rdma_bandwidth.latency",
        WARN,
        "",
        change=further_away,
        fleet=dict.fromkeys(NINE, 1.68),
    ),
    LinkCase(
        "a node whose rails are all later than a switch explains",
        "rdma_bandwidth.latency",
        FAIL,
        "",
        change=much_further_away,
        fleet=dict.fromkeys(NINE, 1.68),
        limits={"rdma.write_latency_us": None},
    ),
    # the share of the link's own rate
    LinkCase(
        "healthy",
        "rdma_bandwidth.share_of_rate",
        PASS,
        ("8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: RDMA write bandwidth 392 Gb/s"),
    ),
    LinkCase(
        "far below its own rate",
        "rdma_bandwidth.share_of_rate",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 212 Gb/s, expected at least 360 Gb/s (90 % "
            "of the link's 400 Gb/s; h100.yaml rdma.share_of_rate_percent: test) - check the NIC's PCIe "
            "width and speed, its cable and port counters, PFC and ECN on its switch port; then swap "
            "cables with a good rail"
        ),
        change=slow(212.5),
    ),
    LinkCase(
        "healthy: far below 0.01 Gb/s, where that is enough",
        "rdma_bandwidth.share_of_rate",
        PASS,
        "7 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_4, mlx5_5, mlx5_6, mlx5_7: RDMA write bandwidth 392 Gb/s",
        change=slow(0.00374),
        machine=lambda machine: machine.set_port("mlx5_3", 1, "rate", "0.004 Gb/sec (1X SDR)"),
    ),
    LinkCase(
        "known false alarm: of two nodes alone nobody can tell which end is slow",
        "rdma_bandwidth.share_of_rate",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 212 Gb/s, measured with gpu02 mlx5_3 alone: "
            "either end or the path between them may be slow - measure it with a third node to find out "
            "which end it is"
        ),
        attempts=lambda _links: [attempt(of_two(), partners=1)],
    ),
    LinkCase(
        "known false alarm: a bond carries what one of its ports does",
        "rdma_bandwidth.share_of_rate",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 196 Gb/s, what one of the two ports of this bond "
            "carries - see which of its two ports are up (/proc/net/bonding), their cables and switch ports, and how "
            "queue pairs are spread over them (LAG mode of the NIC); the NIC itself may be well"
        ),
        change=slow(195.5),
        machine=lambda machine: machine.set_port("mlx5_3", 1, "netdev", "bond0"),
    ),
    LinkCase(
        "a bond carries less than one of its ports does",
        "rdma_bandwidth.share_of_rate",
        FAIL,
        "",
        change=slow(120.5),
        machine=lambda machine: machine.set_port("mlx5_3", 1, "netdev", "bond0"),
    ),
    LinkCase(
        "healthy: a bond whose driver says the rate of one port carries that of both",
        "rdma_bandwidth.write",
        PASS,
        "",
        change=slow(391.5),
        machine=lambda machine: (
            machine.set_port("mlx5_3", 1, "netdev", "bond0"),
            machine.set_port("mlx5_3", 1, "rate", "200 Gb/sec (4X HDR)"),
        ),
    ),
    LinkCase(
        "healthy: storage NICs are left out by rule, and named",
        "rdma_bandwidth.complete",
        PASS,
        "",
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
        "rdma_bandwidth.share_of_rate",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 300 Gb/s, not measured near the NIC: sysfs does not say "
            "to which of 2 NUMA nodes mlx5_3 belongs - let the node say where its NICs are (numa_node in sysfs: the "
            "BIOS, or the topology that its virtual machine is given), then measure again"
        ),
        change=slow(300.25, client_unbound=UNPLACED),
    ),
    LinkCase(
        "known false alarm: the programs of the partners may have run on the other socket",
        "rdma_bandwidth.write",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 300 Gb/s, not measured near the NIC: on gpu02: sysfs "
            "does not say to which of 2 NUMA nodes mlx5_3 belongs - let the node say where its NICs are (numa_node in "
            "sysfs: the BIOS, or the topology that its virtual machine is given), then measure again"
        ),
        change=slow(300.25, server_unbound=UNPLACED),
    ),
    LinkCase(
        "slow near its NIC with one partner, and with the others who knows where",
        "rdma_bandwidth.share_of_rate",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 300 Gb/s, expected at least 360 Gb/s (90 % "
            "of the link's 400 Gb/s; h100.yaml rdma.share_of_rate_percent: test) - check the NIC's PCIe "
            "width and speed, its cable and port counters, PFC and ECN on its switch port; then swap "
            "cables with a good rail"
        ),
        change=lambda links: (
            slow(300.25, server_unbound=UNPLACED)(links),
            slow(299.25, "gpu04", client_near="NUMA node 0", server_near="NUMA node 1")(links),
        ),
    ),
    LinkCase(
        "known false alarm: slow in one direction, from the other socket perhaps",
        "rdma_bandwidth.both_ways",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): sends slowly with gpu02 mlx5_3, gpu04 mlx5_3, gpu03 mlx5_3, not measured "
            "near the NIC: sysfs does not say to which of 2 NUMA nodes mlx5_3 belongs - let the node say where its "
            "NICs are (numa_node in sysfs: the BIOS, or the topology that its virtual machine is given), then measure "
            "again"
        ),
        change=one_way(client_unbound=UNPLACED, server_unbound=UNPLACED),
    ),
    LinkCase(
        "healthy: nobody knows where the NIC is, and it is fast",
        "rdma_bandwidth.complete",
        PASS,
        (
            "8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: measured; not bound to CPUs near "
            "the NIC: none of the CPUs near it may be used here"
        ),
        change=lambda links: [
            slow(391.5, device=rail, client_unbound="none of the CPUs near it may be used here")(links)
            for rail in RAILS
        ],
    ),
    LinkCase(
        "slow on every node of the run",
        "rdma_bandwidth.share_of_rate",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 198 Gb/s, expected at least 360 Gb/s (90 % of the "
            "link's 400 Gb/s; h100.yaml rdma.share_of_rate_percent: test); no node of the run reaches it on this rail "
            "- not one cable: check what all nodes of this rail share, the rate and the settings of the switch ports, "
            "and PCIe in the BIOS and on the NICs (ATS, ACS, relaxed ordering)"
        ),
        change=slow(198.25, peer_best=198.5),
        fleet=dict.fromkeys(PARTNERS, 198.5),
    ),
    LinkCase(
        "known false alarm: all partners happen to be slow, another node of the run is not",
        "rdma_bandwidth.share_of_rate",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 198 Gb/s, measured only with partners that are slow "
            "with others too (gpu02 mlx5_3, gpu03 mlx5_3, gpu04 mlx5_3) - measure it with a third node to find out "
            "which end it is"
        ),
        change=slow(198.25, peer_best=198.5),
        fleet={**dict.fromkeys(PARTNERS, 198.5), "gpu05": 391.5},
    ),
    LinkCase(
        "known false alarm: two of three nodes are slow, and the third met nobody else",
        "rdma_bandwidth.share_of_rate",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 198 Gb/s, measured only with partners that are slow "
            "with others too (gpu02 mlx5_3, gpu03 mlx5_3) - measure it with a third node to find out which end "
            "it is"
        ),
        attempts=lambda _links: [attempt(of_three(), partners=2)],
        fleet=dict.fromkeys(PARTNERS[:2], 198.5),
    ),
    LinkCase(
        "the rate was not read",
        "rdma_bandwidth.share_of_rate",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): could not read the limit for RDMA write bandwidth: failed: EIO - "
            "see the evidence file for what the node answered (and 1 more)"
        ),
        machine=lambda machine: machine.set_port("mlx5_3", 1, "rate", {"why": "failed", "detail": "EIO"}),
    ),
    LinkCase(
        "healthy: a link that trained slower carries what it can",
        "rdma_bandwidth.share_of_rate",
        PASS,
        "7 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_4, mlx5_5, mlx5_6, mlx5_7: RDMA write bandwidth 392 Gb/s",
        change=lambda links: (slow(195.5)(links), slow(194.5, tool=READ)(links)),
        machine=lambda machine: machine.set_port("mlx5_3", 1, "rate", "200 Gb/sec (4X HDR)"),
    ),
    LinkCase(
        "a site without the share",
        "rdma_bandwidth.share_of_rate",
        NOT_JUDGED,
        "node: no limit rdma.share_of_rate_percent for platform hgx-h100-8",
        limits={"rdma.share_of_rate_percent": None},
    ),
    LinkCase(
        "below its limit on every node of the run",
        "rdma_bandwidth.write",
        FAIL,
        "",
        change=slow(371.5, peer_best=371.75),
        fleet=dict.fromkeys(PARTNERS, 371.75),
    ),
    LinkCase(
        "beside one partner alone it proves nothing",
        "rdma_bandwidth.write",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 212 Gb/s, measured with gpu02 mlx5_3 alone: either end "
            "or the path between them may be slow - measure it with a third node to find out which end it is"
        ),
        attempts=lambda _links: [attempt(of_two(), partners=1)],
    ),
    # the same rail on many nodes
    LinkCase(
        "healthy",
        "rdma_bandwidth.rails",
        PASS,
        "8 alike: " + ", ".join(RAILS) + ": RDMA write bandwidth not behind the other rails",
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase(
        "known false alarm: one slow NIC is no slow rail",
        "rdma_bandwidth.rails",
        PASS,
        "",
        change=slow(212.5),
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase(
        "known false alarm: four slow NICs, and as many of another rail",
        "rdma_bandwidth.rails",
        PASS,
        "",
        change=slow(212.5),
        slow_rails=dict.fromkeys((("gpu05", "mlx5_3"), ("gpu06", "mlx5_3"), ("gpu07", "mlx5_3")), 210.5)
        | dict.fromkeys((("gpu05", "mlx5_1"), ("gpu06", "mlx5_1"), ("gpu08", "mlx5_1")), 210.5),
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase(
        "the NICs behind one leaf",
        "rdma_bandwidth.rails",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 212 Gb/s, expected at least 382 Gb/s (the other rails); "
            "so on 4 of 10 nodes; the other rails reach 391.5 Gb/s - not one NIC: check the leaf switch of this rail, "
            "its uplinks and port settings, and how the rail is cabled"
        ),
        change=slow(212.5),
        slow_rails=dict.fromkeys((("gpu05", "mlx5_3"), ("gpu06", "mlx5_3"), ("gpu07", "mlx5_3")), 210.5),
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase(
        "a rail that is 5 % slow on all nodes, which no comparison of the same rail sees",
        "rdma_bandwidth.rails",
        WARN,
        "",
        change=slow(372.5),
        limits={"rdma.write_gbps": None},
        slow_rails={(name, "mlx5_3"): 372.5 for name in NINE},
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase(
        "not measured",
        "rdma_bandwidth.rails",
        ERROR,
        "",
        attempts=lambda links: [attempt({k: v for k, v in links.items() if k[0].endswith("lat")})],
    ),
    LinkCase("a node alone", "rdma_bandwidth.rails", SKIP, f"node: {ALONE}", attempts=alone),
    # errors
    LinkCase(
        "healthy",
        "rdma_bandwidth.errors",
        PASS,
        ("8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: transfers without an error"),
    ),
    LinkCase(
        "a rail that loses its peers",
        "rdma_bandwidth.errors",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write with gpu02 mlx5_3: stalled: 0 iterations, it lost its "
            "peer; it fails with every partner - check this NIC's cable, port counters and kernel log, and "
            "PFC and MTU of its switch port"
        ),
        change=broken(**LOST),
    ),
    LinkCase(
        "completion errors",
        "rdma_bandwidth.errors",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write with gpu02 mlx5_3: completion with error, status 12 "
            "(transport retry counter exceeded); it fails with every partner - check this NIC's cable, "
            "port counters and kernel log, and PFC and MTU of its switch port"
        ),
        change=broken(text="completion-error.txt"),
    ),
    LinkCase(
        "a path that hangs",
        "rdma_bandwidth.errors",
        WARN,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write with gpu03 mlx5_3: hung: no result within 25 s; both "
            "ends work with others - check the links between the two switches and the routing of this rail"
        ),
        change=broken("gpu03", text="truncated.txt", timed_out=True),
    ),
    LinkCase(
        "healthy: one partner hangs, nothing is known of it",
        "rdma_bandwidth.errors",
        PASS,
        "7 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_4, mlx5_5, mlx5_6, mlx5_7: transfers without an error",
        change=broken("gpu03", peer_best=None, **LOST),
    ),
    LinkCase(
        "only partners that are bad themselves",
        "rdma_bandwidth.errors",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write with gpu02 mlx5_3: stalled: 0 iterations, it lost its "
            "peer; that partner fails with others too - measure this node again with good ones"
        ),
        change=broken(peer_best=None, peer_failed=True, **LOST),
    ),
    LinkCase(
        "healthy: the partner had no perftest",
        "rdma_bandwidth.errors",
        PASS,
        ("8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: transfers without an error"),
        change=broken("gpu02", cannot="gpu02: no ib_write_bw"),
    ),
    LinkCase(
        "a node alone whose NICs do not reach each other",
        "rdma_bandwidth.errors",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write inside the node with gpu01 mlx5_2: Failed to modify "
            "QP 17 to RTR; on some networks the NICs of one node do not reach each other, and there was no "
            "other node - measure it with another node"
        ),
        change=lambda links: links.clear(),
        attempts=with_inside(stderr=" Failed to modify QP 17 to RTR\n"),
    ),
    LinkCase(
        "healthy: rails that do not reach each other inside the node, and are well with other nodes",
        "rdma_bandwidth.errors",
        PASS,
        "8 alike: " + ", ".join(RAILS) + ": transfers without an error",
        attempts=nothing_inside,
    ),
    LinkCase(
        "nothing was tried",
        "rdma_bandwidth.errors",
        ERROR,
        "node: no other node could be measured with it - see what the other nodes say, then run again",
        attempts=lambda links: [attempt({})],
    ),
    # both_ways
    LinkCase(
        "healthy",
        "rdma_bandwidth.both_ways",
        PASS,
        ("8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: sends as well as it receives"),
    ),
    LinkCase(
        "a rail that sends slowly to all, whoever is the client",
        "rdma_bandwidth.both_ways",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): sends slowly with gpu02 mlx5_3, gpu04 mlx5_3, gpu03 mlx5_3, and "
            "receives at full rate - clean or swap the cable and its transceivers, see symbol errors of "
            "both ends; then swap the NIC"
        ),
        change=one_way(),
    ),
    LinkCase(
        "healthy: a partner that receives slowly",
        "rdma_bandwidth.both_ways",
        PASS,
        ("8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: sends as well as it receives"),
        change=one_way("gpu03"),
    ),
    LinkCase(
        "healthy: slow both ways, which the other checks say",
        "rdma_bandwidth.both_ways",
        PASS,
        "7 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_4, mlx5_5, mlx5_6, mlx5_7: sends as well as it receives",
        change=hurt_both_ways,
    ),
    LinkCase(
        "one partner alone",
        "rdma_bandwidth.both_ways",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): sends slowly with gpu02 mlx5_3: either end may be at fault - "
            "measure it with a third node to find out which end it is"
        ),
        attempts=lambda links: [attempt(of_two_one_way(), partners=1)],
    ),
    LinkCase(
        "sends 7 % less than the other nodes, within every limit",
        "rdma_bandwidth.both_ways",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth of what it sends 365 Gb/s, expected at least 382 Gb/s "
            "(the other nodes); 6.8 % below the median 391.5 Gb/s of 9 other nodes, mlx5_3 of each; what it receives "
            "is not - clean or swap the cable and its transceivers, see symbol errors of both ends; then swap the NIC"
        ),
        change=one_way(gbps=365.0),
        limits={"rdma.write_gbps": None, "rdma.read_gbps": None},
        fleet=dict.fromkeys(NINE, 391.5),
    ),
    LinkCase("a node alone", "rdma_bandwidth.both_ways", SKIP, f"node: {ALONE}", attempts=alone),
    LinkCase(
        "no limit",
        "rdma_bandwidth.both_ways",
        NOT_JUDGED,
        (
            "mlx5_0 (0000:18:00.0, ibs0): RDMA bandwidth has no limit to be judged by - add a limit for "
            "this platform: nodegate baseline learn, or --baseline (and 7 more)"
        ),
        limits={"rdma.write_gbps": None, "rdma.read_gbps": None, "rdma.share_of_rate_percent": None},
    ),
    # path
    LinkCase(
        "healthy",
        "rdma_bandwidth.path",
        PASS,
        (
            "8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: RDMA write bandwidth "
            "alike with all partners"
        ),
    ),
    LinkCase(
        "a slow path",
        "rdma_bandwidth.path",
        WARN,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 98.5 Gb/s with gpu03 mlx5_3, 391.5 Gb/s "
            "with others; both ends are good with others - check the links between the two switches and "
            "the routing of this rail"
        ),
        change=slow(98.5, "gpu03"),
    ),
    LinkCase(
        "healthy: a slow partner",
        "rdma_bandwidth.path",
        PASS,
        (
            "7 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_4, mlx5_5, mlx5_6, mlx5_7: RDMA write bandwidth alike "
            "with all partners"
        ),
        change=slow(98.5, "gpu03", peer_best=99.25),
    ),
    LinkCase(
        "healthy: a NIC that sends slowly to all is no path, though it receives well",
        "rdma_bandwidth.path",
        PASS,
        "",
        change=one_way(peer_best_way=391.5),
    ),
    LinkCase(
        "healthy: just below the limit with one partner, and just above it with others",
        "rdma_bandwidth.path",
        PASS,
        "",
        change=slow(379.5, "gpu03"),
    ),
    LinkCase(
        "slow with all: the NIC, which is not the path's",
        "rdma_bandwidth.path",
        PASS,
        (
            "8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: RDMA write bandwidth "
            "alike with all partners"
        ),
        change=slow(98.5),
    ),
    LinkCase("a node alone", "rdma_bandwidth.path", SKIP, f"node: {ALONE}", attempts=alone),
    LinkCase(
        "no perftest",
        "rdma_bandwidth.path",
        ERROR,
        f"node: no {WRITE} on the node - apt install perftest",
        attempts=lambda links: [not_begun(NO_TOOL)],
    ),
    # inside
    LinkCase("not asked for", "rdma_bandwidth.inside", SKIP, "node: NIC to NIC inside the node was not asked for"),
    LinkCase("a node alone", "rdma_bandwidth.inside", PASS, "", attempts=alone),
    LinkCase("a slow NIC", "rdma_bandwidth.inside", FAIL, "", attempts=with_inside(value=61.5)),
    LinkCase(
        "the neighbour of a slow NIC is not blamed: one finding, of mlx5_3",
        "rdma_bandwidth.inside",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth inside the node 212 Gb/s, expected at least "
            "380 Gb/s (h100.yaml rdma.inside_gbps: test); 45.7 % below the median 391.5 Gb/s of 6 other "
            "NICs of this node - check the NIC's PCIe width and speed, its cable and port counters, PFC "
            "and ECN on its switch port; then swap cables with a good rail"
        ),
        attempts=neighbour_inside,
    ),
    LinkCase(
        "healthy: no rail of the network reaches another one",
        "rdma_bandwidth.inside",
        SKIP,
        "node: the rails of this network do not reach each other; each is measured with other nodes",
        attempts=nothing_inside,
    ),
    LinkCase(
        "healthy: NICs of a node that do not reach each other",
        "rdma_bandwidth.inside",
        WARN,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write inside the node with mlx5_2: stalled: 0 iterations, "
            "it lost its peer - check both ends: cable, port counters and kernel log, PFC on the switch"
        ),
        attempts=with_inside(**LOST),
    ),
    LinkCase(
        "a node alone whose NIC loses its peer",
        "rdma_bandwidth.inside",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write inside the node with mlx5_2: stalled: 0 iterations, "
            "it lost its peer - check both ends: cable, port counters and kernel log, PFC on the switch"
        ),
        change=lambda links: links.clear(),
        attempts=with_inside(**LOST),
    ),
    LinkCase(
        "a node alone whose program does not start",
        "rdma_bandwidth.inside",
        ERROR,
        ("mlx5_3 (0000:3c:00.0, ibs3): RDMA write inside the node with mlx5_2: no memory - look at the other node"),
        change=lambda links: links.clear(),
        attempts=with_inside(cannot="no memory"),
    ),
    # Both directions at once
    LinkCase(
        "healthy",
        "rdma_bandwidth.both_at_once",
        PASS,
        (
            "8 alike: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: RDMA write bandwidth of both "
            "directions at once 774 Gb/s"
        ),
        change=at_once(774.5),
    ),
    LinkCase(
        "no more in both directions than in one",
        "rdma_bandwidth.both_at_once",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth of both directions at once 412 Gb/s, expected at least "
            "720 Gb/s (180 % of the link's 400 Gb/s; h100.yaml rdma.both_ways_share_of_rate_percent: test) - compare "
            "the BIOS and the NIC's settings with a node that is fast: relaxed ordering and ATS of PCIe, MaxReadReq, "
            "firmware; then PFC and ECN on its switch port"
        ),
        change=at_once(412.5),
    ),
    LinkCase(
        "known false alarm: perftest may have run on the other socket",
        "rdma_bandwidth.both_at_once",
        ERROR,
        "",
        change=at_once(512.5, client_unbound=UNPLACED),
    ),
    LinkCase(
        "perftest could not register its memory",
        "rdma_bandwidth.both_at_once",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): could not read RDMA write bandwidth of both directions at once: with gpu02 "
            "mlx5_3: Couldn't allocate MR - raise the locked memory limit (ulimit -l unlimited); for GPU memory load "
            "nvidia_peermem"
        ),
        change=at_once(0.0, value=None, stderr=" Couldn't allocate MR\n"),
    ),
    LinkCase(
        "not part of a nightly run",
        "rdma_bandwidth.both_at_once",
        SKIP,
        "node: both directions at once were not asked for",
    ),
    LinkCase(
        "no other node",
        "rdma_bandwidth.both_at_once",
        SKIP,
        f"node: {ALONE}",
        change=lambda links: links.clear(),
        attempts=alone,
    ),
    # GPU memory
    LinkCase(
        "no CUDA in perftest",
        "rdma_bandwidth.gpu_memory",
        SKIP,
        ("node: perftest here cannot use GPU memory (no --use_cuda, or neither nvidia_peermem nor dma-buf)"),
    ),
    LinkCase("healthy", "rdma_bandwidth.gpu_memory", PASS, "", attempts=with_gpu(value=380.5)),
    LinkCase("a detour through host memory", "rdma_bandwidth.gpu_memory", FAIL, "", attempts=with_gpu(value=140.5)),
    LinkCase(
        "the detour on every node of the run",
        "rdma_bandwidth.gpu_memory",
        FAIL,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth from GPU memory 140 Gb/s, expected at least 360 Gb/s "
            "(90 % of the link's 400 Gb/s; h100.yaml rdma.share_of_rate_percent: test); no node of the run reaches it "
            "on this rail - not one cable: check what all nodes of this rail share, the rate and the settings of the "
            "switch ports, and PCIe in the BIOS and on the NICs (ATS, ACS, relaxed ordering)"
        ),
        attempts=detour_everywhere,
        fleet=dict.fromkeys(PARTNERS, 140.5),
        limits={"rdma.gpu_write_gbps": None},
    ),
    LinkCase(
        "no peer memory",
        "rdma_bandwidth.gpu_memory",
        ERROR,
        (
            "mlx5_3 (0000:3c:00.0, ibs3): could not read RDMA write bandwidth from GPU memory: with gpu02 "
            "mlx5_3: Couldn't allocate MR - raise the locked memory limit (ulimit -l unlimited); for GPU "
            "memory load nvidia_peermem"
        ),
        attempts=with_gpu(stderr=" Couldn't allocate MR\n"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_check_says(case: LinkCase) -> None:
    record = judged(case)
    assert (record.verdict, record.message if case.message else "") == (case.verdict, case.message)


def test_a_slow_rail_is_named_with_its_number_and_what_to_do() -> None:
    record = judged(next(case for case in CASES if case.name == "a slow rail"))
    assert record.message.startswith("mlx5_3 (0000:3c:00.0, ibs3): RDMA write bandwidth 212 Gb/s")
    assert "check the NIC's PCIe width and speed" in record.message


def test_every_check_has_a_case_that_passes_one_that_is_bad_and_one_that_is_an_error() -> None:
    for name in checks():
        said = {case.verdict for case in CASES if case.check == name}
        assert PASS in said
        assert ERROR in said, name
        assert said & {WARN, FAIL} or name == "rdma_bandwidth.complete", (
            name
        )  # what was not measured is an error, never bad


def test_a_nic_that_is_left_out_is_named() -> None:
    record = judged(next(case for case in CASES if "storage NICs" in case.name))
    (said,) = [finding for finding in record.findings if finding.part.short == "mlx5_7"]
    assert (said.verdict, said.text) == (SKIP, "left out: no GPU is behind its PCIe switch")
