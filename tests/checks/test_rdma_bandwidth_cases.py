"""What the RDMA bandwidth checks say of links with one fault, and of those that only look faulty."""

from dataclasses import replace

from fleet.changes import changes
from support.attempts import having
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, SKIP, WARN, asserting, of, unread
from support.judging import both, plant
from support.rdma_links import PARTNERS, RAILS, TESTS, LinkCase, attempt, healthy, judged, link

from nodegate.errors import CannotMeasure
from nodegate.measure.program_run import not_begun
from nodegate.records.program_run import Memory, MissingRail, Path, Role

BOTH_WAYS = "rdma_bandwidth.both_ways"
COMPLETE = "rdma_bandwidth.complete"
SHARE_OF_RATE = "rdma_bandwidth.share_of_rate"
WRITE_RATE = "rdma_bandwidth.write"
NINE = tuple(f"gpu{number:02}" for number in range(5, 14))
STORAGE = CannotMeasure("left out: no GPU is behind its PCIe switch", next_step="name the rails")
UNPLACED = "sysfs does not say to which of 2 NUMA nodes mlx5_3 belongs"
GOOD_NINE = dict.fromkeys(NINE, 391.5)
NO_TOOL = CannotMeasure("no ib_write_bw on the node", next_step="apt install perftest")


WRITE, READ = "ib_write_bw", "ib_read_bw"
LOST = {"text": "peer-lost.txt", "timed_out": True}


@changes
def slow(links, gbps, *partners, tool=WRITE, device="mlx5_3", **fields):
    """The device is slow with these partners, with all where none is named."""
    for peer in partners or PARTNERS:
        known = {"peer_best": 391.5} | fields
        links[tool, device, peer] = link(tool, device, peer, gbps, **known)


@changes
def broken(links, *partners, tool=WRITE, device="mlx5_3", **how):
    """The transfers of a device with these partners, with all where none is named, go wrong in this way."""
    for peer in partners or PARTNERS:
        links[tool, device, peer] = link(tool, device, peer, **{"peer_best": 391.5, **how})


@changes
def without(links, tool=WRITE, device="mlx5_3"):
    for peer in PARTNERS:
        links.pop((tool, device, peer), None)


@changes
def one_way(links, *partners, gbps=98.5, **fields):
    """mlx5_3 sends slowly to these partners: as a client it writes, as a server it is read from."""
    for place, peer in enumerate(PARTNERS):
        for tool in (WRITE, READ):
            server, slowly = place % 2 == 1, peer in partners or not partners
            value = gbps if slowly and server == (tool == READ) else TESTS[tool]
            about = {"peer_best": 391.5, "role": Role.SERVER if server else Role.CLIENT} | fields
            links[tool, "mlx5_3", peer] = link(tool, "mlx5_3", peer, value, **about)


def of_two_one_way():
    """This node and one other, which has met nobody else; mlx5_3 sends slowly."""
    links = of_two()
    return {
        key: run if key[1] != "mlx5_3" else replace(link(*key, 98.5 if key[0] == WRITE else TESTS[key[0]]))
        for key, run in links.items()
    }


@changes
def at_once(links, gbps, device="mlx5_3", **how):
    """Both directions at the same time, of which this device carries so much with everybody."""
    for rail in RAILS:
        for peer in PARTNERS:
            value, more = (gbps, how) if rail == device else (774.5, {})
            ran = link(WRITE, rail, peer, **{"value": value, "peer_best": 774.5, **more})
            both = ran.stdout.replace("RDMA_Write BW", "RDMA_Write Bidirectional BW")
            links["both", rail, peer] = replace(ran, what="ib_write_bw -b", argv=(*ran.argv, "-b"), stdout=both)


def alone(links):
    inside = {key: link(WRITE, key, "gpu01", 391.5, path=Path.INSIDE) for key in RAILS}
    return [attempt({}, partners=0, more=tuple(inside.values()))]


@changes
def with_inside(links, **how):
    """Rails as usual, and inside the node mlx5_3 like this."""
    values = {device: {"value": 391.5} for device in RAILS} | {"mlx5_3": how}
    runs = [link(WRITE, key, "gpu01", path=Path.INSIDE, peer_device="mlx5_2", **each) for key, each in values.items()]
    return [attempt(links, more=runs)]


@changes
def with_gpu(links, **how):
    values = {device: {"value": 380.5} for device in RAILS} | {"mlx5_3": how}
    runs = [link(WRITE, device, "gpu02", memory=Memory.GPU, **each) for device, each in values.items()]
    return [attempt(links, more=runs)]


def detour_everywhere(links):
    """From GPU memory mlx5_3 is slow with every partner, and each of them is with others."""
    fields = {"memory": Memory.GPU, "peer_best": 141.5}
    return [attempt(links, more=[link(WRITE, "mlx5_3", peer, 140.25, **fields) for peer in PARTNERS])]


def of_two():
    """This node and one other, which has met nobody else; mlx5_3 is slow between them."""
    links = healthy(("gpu02",))
    for key, run in links.items():
        value = 212.5 if key[:2] == (WRITE, "mlx5_3") else TESTS[key[0]]
        links[key] = having(replace(link(*key, value), plan=run.plan, link=run.link), peer_best=None)
    return links


def of_three():
    """This node and two others, on all of which mlx5_3 writes slowly."""
    links = healthy(PARTNERS[:2])
    for peer in PARTNERS[:2]:
        links[WRITE, "mlx5_3", peer] = link(WRITE, "mlx5_3", peer, 198.25, peer_best=198.5)
    return links


def neighbour_inside(links):
    """mlx5_3 is slow everywhere, and mlx5_2 had only it to be measured with inside the node."""
    values = dict.fromkeys(RAILS, 391.5) | {"mlx5_2": 212.5, "mlx5_3": 212.5}
    partner = {"mlx5_2": "mlx5_3", "mlx5_3": "mlx5_2"}
    runs = [
        link(WRITE, device, "gpu01", value, path=Path.INSIDE, peer_device=partner.get(device, "mlx5_7"))
        for device, value in values.items()
    ]
    return [attempt(hurt(links), more=runs)]


def hurt(links):
    """A copy in which mlx5_3 is slow with everybody."""
    found = dict(links)
    slow(212.5)(found)
    return found


@changes
def further_away(links, times):
    """All rails are late alike with every partner."""
    for (tool, device, peer), _ in list(links.items()):
        if tool == "ib_write_lat":
            links[tool, device, peer] = link(tool, device, peer, TESTS[tool] * times)


def nothing_inside(links):
    """Every transfer inside the node loses its peer."""
    runs = [link(WRITE, device, "gpu01", path=Path.INSIDE, peer_device="mlx5_0", **LOST) for device in RAILS]
    return [attempt(links, more=runs)]


def left_out(links):
    why = CannotMeasure("mlx5_3: no RoCE v2 GID with an IPv4 address", next_step="give it an address")
    some = {key: run for key, run in links.items() if key[1] != "mlx5_3"}
    rails = [device for device in RAILS if device != "mlx5_3"]
    return [attempt(some, rails=rails, missing=[MissingRail("mlx5_3", why.reason, why.next_step)])]


def kept(those, **about):
    return lambda links: [attempt({key: ran for key, ran in links.items() if those(*key[:2])}, **about)]


# complete
def of_two_alone(_links):
    return [attempt(of_two(), partners=1)]


def disturbed_at_first(links):
    return [attempt({**links, **hurt(links)}), attempt(links), attempt(links)]


def fast_wherever(links):
    for rail in RAILS:
        slow(391.5, device=rail, client_unbound="none of the CPUs near it may be used here")(links)


def slow_rails(**devices):
    return {(f"gpu{number:02}", device): 210.5 for device, nodes in devices.items() for number in nodes}


def port_of_3(key, value):
    return plant.set_port("mlx5_3", 1, key, value)


BOND, HDR = port_of_3("netdev", "bond0"), port_of_3("rate", "200 Gb/sec (4X HDR)")
SLOW_ALIKE = dict.fromkeys(PARTNERS, 198.5)
FREE = {"rdma.write_gbps": None, "rdma.read_gbps": None}
LOSES_PEER = {"cannot": "gpu02: the connection broke"}
NEAR = {"client_near": "NUMA node 0", "server_near": "NUMA node 1"}
BY_RULE = MissingRail("mlx5_7", STORAGE.reason, STORAGE.next_step, by_rule=True)
WITHOUT_3 = [device for device in RAILS if device != "mlx5_3"]

DOWN = both(port_of_3("state", "1: DOWN"), port_of_3("phys_state", "2: Polling"))
BUT_3 = kept(lambda _, device: device in WITHOUT_3, rails=WITHOUT_3)
BUT_STORAGE = kept(lambda _, device: device != "mlx5_7", rails=RAILS[:7], missing=[BY_RULE])
FAR_SERVER = slow(300.25, server_unbound=UNPLACED)
ALL_BELOW = dict.fromkeys(PARTNERS, 371.75)
LATE = slow(2.35, "gpu02", tool="ib_write_lat")
NO_LATENCY = {"rdma.write_latency_us": None}
SDR = port_of_3("rate", "0.004 Gb/sec (1X SDR)")
SLOW_NEAR = both(FAR_SERVER, slow(299.25, "gpu04", **NEAR))
AT_HDR = both(slow(195.5), slow(194.5, tool=READ))
FAR_ONE_WAY = one_way(client_unbound=UNPLACED, server_unbound=UNPLACED)
SENDS_LESS = one_way(gbps=365.0)
TWO_RAILS = slow_rails(mlx5_3=(5, 6, 7), mlx5_1=(5, 6, 8))
UNREACHED = with_inside(stderr=" Failed to modify QP 17 to RTR\n")
RECEIVES = one_way(peer_best_way=391.5)
JUST_LOW = slow(379.5, "gpu03")
FAR_AT_ONCE = at_once(512.5, client_unbound=UNPLACED)
NO_MEMORY = at_once(0.0, value=None, stderr=" Couldn't allocate MR\n")
CASES = of(COMPLETE)(
    LinkCase("every rail", PASS),
    LinkCase("a rail without a number", ERROR, without()),
    LinkCase("a rail without a GID", ERROR, attempts=left_out),
    LinkCase("every partner of a rail lacks something", ERROR, broken(**LOSES_PEER)),
    LinkCase("healthy: one partner of three was lost", PASS, broken("gpu02", **LOSES_PEER)),
    LinkCase("healthy: a rail that is down", PASS, machine=DOWN, attempts=BUT_3),
    LinkCase(
        "a node that was lost after its first partner",
        ERROR,
        broken("gpu03", "gpu04", tool=READ, device="mlx5_7", cannot="gpu01: the connection broke", lost="gpu01"),
        attempts=lambda links: [attempt(dict(sorted(links.items(), key=lambda item: item[1].cannot)))],
    ),
    LinkCase("a node alone", PASS, attempts=alone),
    LinkCase("no perftest", ERROR, attempts=lambda links: [not_begun(NO_TOOL)]),
    LinkCase("healthy: storage NICs are left out by rule, and named", PASS, attempts=BUT_STORAGE),
    LinkCase("healthy: nobody knows where the NIC is, and it is fast", PASS, fast_wherever),
)
# write and read
CASES += of(WRITE_RATE)(
    LinkCase("a slow rail", FAIL, slow(212.5)),
    LinkCase("healthy: slow with one bad partner", PASS, slow(212.5, "gpu02", peer_best=212.5)),
    LinkCase("healthy: disturbed at first, well twice more", PASS, attempts=disturbed_at_first),
    LinkCase("no number of any rail", ERROR, attempts=kept(lambda tool, _: tool != WRITE)),
    LinkCase("a node alone", SKIP, attempts=alone),
    LinkCase("healthy: slow to read is fast to write", PASS, slow(150.25, tool=READ)),
    LinkCase("known false alarm: the programs of the partners may have run on the other socket", ERROR, FAR_SERVER),
    LinkCase("below its limit on every node of the run", FAIL, slow(371.5, peer_best=371.75), fleet=ALL_BELOW),
    LinkCase("beside one partner alone it proves nothing", ERROR, attempts=of_two_alone),
)
CASES += of(WRITE_RATE, machine=both(BOND, HDR))(
    LinkCase("healthy: a bond whose driver says the rate of one port carries that of both", PASS, slow(391.5))
)
CASES += of("rdma_bandwidth.read")(
    LinkCase("slow to read", FAIL, slow(150.25, tool=READ)),
    LinkCase("healthy", PASS),
    LinkCase("no number of any rail", ERROR, attempts=kept(lambda tool, _: tool != READ)),
)
# latency
CASES += of("rdma_bandwidth.latency")(
    LinkCase("healthy", PASS),
    LinkCase("a detour", FAIL, slow(6.75, "gpu02", tool="ib_write_lat")),
    LinkCase("not measured", ERROR, attempts=kept(lambda tool, _: not tool.endswith("lat"))),
    LinkCase("a node alone", SKIP, attempts=alone),
)
CASES += of("rdma_bandwidth.latency", fleet=dict.fromkeys(NINE, 1.68))(
    LinkCase("a NIC that is late beside the same rail of the others, while its neighbours are not", FAIL, LATE),
    LinkCase("known false alarm: a node on a leaf of its own, late with all rails alike", WARN, further_away(1.4)),
    LinkCase("a node whose rails are all later than a switch explains", FAIL, further_away(2.2), limits=NO_LATENCY),
)
# the share of the link's own rate
CASES += of(SHARE_OF_RATE)(
    LinkCase("healthy", PASS),
    LinkCase("far below its own rate", FAIL, slow(212.5)),
    LinkCase("healthy: far below 0.01 Gb/s, where that is enough", PASS, slow(0.00374), machine=SDR),
    LinkCase("known false alarm: of two nodes alone nobody can tell which end is slow", ERROR, attempts=of_two_alone),
    LinkCase("known false alarm: a bond carries what one of its ports does", ERROR, slow(195.5), machine=BOND),
    LinkCase("a bond carries less than one of its ports does", FAIL, slow(120.5), machine=BOND),
    LinkCase(
        "known false alarm: perftest may have run on the other socket, for sysfs does not say where the NIC is",
        ERROR,
        slow(300.25, client_unbound=UNPLACED),
    ),
    LinkCase("slow near its NIC with one partner, and with the others who knows where", FAIL, SLOW_NEAR),
    LinkCase("slow on every node of the run", FAIL, slow(198.25, peer_best=198.5), fleet=SLOW_ALIKE),
    LinkCase(
        "known false alarm: all partners happen to be slow, another node of the run is not",
        ERROR,
        slow(198.25, peer_best=198.5),
        fleet={**SLOW_ALIKE, "gpu05": 391.5},
    ),
    LinkCase(
        "known false alarm: two of three nodes are slow, and the third met nobody else",
        ERROR,
        attempts=lambda _links: [attempt(of_three(), partners=2)],
        fleet=dict.fromkeys(PARTNERS[:2], 198.5),
    ),
    LinkCase("the rate was not read", ERROR, machine=port_of_3("rate", unread("failed", "EIO"))),
    LinkCase("healthy: a link that trained slower carries what it can", PASS, AT_HDR, machine=HDR),
    LinkCase("a site without the share", NOT_JUDGED, limits={"rdma.share_of_rate_percent": None}),
)
CASES += of(BOTH_WAYS)(
    LinkCase("known false alarm: slow in one direction, from the other socket perhaps", ERROR, FAR_ONE_WAY),
    LinkCase("healthy", PASS),
    LinkCase("a rail that sends slowly to all, whoever is the client", FAIL, one_way()),
    LinkCase("healthy: a partner that receives slowly", PASS, one_way("gpu03")),
    LinkCase("healthy: slow both ways, which the other checks say", PASS, both(slow(98.5), slow(98.5, tool=READ))),
    LinkCase("one partner alone", ERROR, attempts=lambda links: [attempt(of_two_one_way(), partners=1)]),
    LinkCase("sends 7 % less than the other nodes, within every limit", FAIL, SENDS_LESS, limits=FREE, fleet=GOOD_NINE),
    LinkCase("a node alone", SKIP, attempts=alone),
    LinkCase("no limit", NOT_JUDGED, limits=FREE | {"rdma.share_of_rate_percent": None}),
)
# the same rail on many nodes
CASES += of("rdma_bandwidth.rails")(
    LinkCase("not measured", ERROR, attempts=kept(lambda tool, _: tool.endswith("lat"))),
    LinkCase("a node alone", SKIP, attempts=alone),
)
CASES += of("rdma_bandwidth.rails", fleet=GOOD_NINE)(
    LinkCase("healthy", PASS),
    LinkCase("known false alarm: one slow NIC is no slow rail", PASS, slow(212.5)),
    LinkCase("known false alarm: four slow NICs, and as many of another rail", PASS, slow(212.5), slow_rails=TWO_RAILS),
    LinkCase("the NICs behind one leaf", FAIL, slow(212.5), slow_rails=slow_rails(mlx5_3=(5, 6, 7))),
    LinkCase(
        "a rail that is 5 % slow on all nodes, which no comparison of the same rail sees",
        WARN,
        slow(372.5),
        limits={"rdma.write_gbps": None},
        slow_rails={(name, "mlx5_3"): 372.5 for name in NINE},
    ),
)
# errors
CASES += of("rdma_bandwidth.errors")(
    LinkCase("healthy", PASS),
    LinkCase("a rail that loses its peers", FAIL, broken(**LOST)),
    LinkCase("completion errors", FAIL, broken(text="completion-error.txt")),
    LinkCase("a path that hangs", WARN, broken("gpu03", text="truncated.txt", timed_out=True)),
    LinkCase("healthy: one partner hangs, nothing is known of it", PASS, broken("gpu03", peer_best=None, **LOST)),
    LinkCase("only partners that are bad themselves", ERROR, broken(peer_best=None, peer_failed=True, **LOST)),
    LinkCase("healthy: the partner had no perftest", PASS, broken("gpu02", cannot="gpu02: no ib_write_bw")),
    LinkCase("a node alone whose NICs do not reach each other", ERROR, dict.clear, attempts=UNREACHED),
    LinkCase(
        "healthy: rails that do not reach each other inside the node, and are well with other nodes",
        PASS,
        attempts=nothing_inside,
    ),
    LinkCase("nothing was tried", ERROR, attempts=lambda links: [attempt({})]),
)
# both_ways
# path
CASES += of("rdma_bandwidth.path")(
    LinkCase("healthy", PASS),
    LinkCase("a slow path", WARN, slow(98.5, "gpu03")),
    LinkCase("healthy: a slow partner", PASS, slow(98.5, "gpu03", peer_best=99.25)),
    LinkCase("healthy: a NIC that sends slowly to all is no path, though it receives well", PASS, RECEIVES),
    LinkCase("healthy: just below the limit with one partner, and just above it with others", PASS, JUST_LOW),
    LinkCase("slow with all: the NIC, which is not the path's", PASS, slow(98.5)),
    LinkCase("a node alone", SKIP, attempts=alone),
    LinkCase("no perftest", ERROR, attempts=lambda links: [not_begun(NO_TOOL)]),
)
# inside
CASES += of("rdma_bandwidth.inside")(
    LinkCase("not asked for", SKIP),
    LinkCase("a node alone", PASS, attempts=alone),
    LinkCase("a slow NIC", FAIL, attempts=with_inside(value=61.5)),
    LinkCase("the neighbour of a slow NIC is not blamed: one finding, of mlx5_3", FAIL, attempts=neighbour_inside),
    LinkCase("healthy: no rail of the network reaches another one", SKIP, attempts=nothing_inside),
    LinkCase("healthy: NICs of a node that do not reach each other", WARN, attempts=with_inside(**LOST)),
    LinkCase("a node alone whose NIC loses its peer", FAIL, dict.clear, attempts=with_inside(**LOST)),
    LinkCase("a node alone whose program does not start", ERROR, dict.clear, attempts=with_inside(cannot="no memory")),
)
# Both directions at once
CASES += of("rdma_bandwidth.both_at_once")(
    LinkCase("healthy", PASS, at_once(774.5)),
    LinkCase("no more in both directions than in one", FAIL, at_once(412.5)),
    LinkCase("known false alarm: perftest may have run on the other socket", ERROR, FAR_AT_ONCE),
    LinkCase("perftest could not register its memory", ERROR, NO_MEMORY),
    LinkCase("not part of a nightly run", SKIP),
    LinkCase("no other node", SKIP, dict.clear, attempts=alone),
)
# GPU memory
CASES += of("rdma_bandwidth.gpu_memory")(
    LinkCase("no CUDA in perftest", SKIP),
    LinkCase("healthy", PASS, attempts=with_gpu(value=380.5)),
    LinkCase("a detour through host memory", FAIL, attempts=with_gpu(value=140.5)),
    LinkCase("no peer memory", ERROR, attempts=with_gpu(stderr=" Couldn't allocate MR\n")),
)
CASES += of("rdma_bandwidth.gpu_memory", fleet=dict.fromkeys(PARTNERS, 140.5), limits={"rdma.gpu_write_gbps": None})(
    LinkCase("the detour on every node of the run", FAIL, attempts=detour_everywhere)
)


test_what_a_check_says = asserting(CASES)


def test_a_nic_that_is_left_out_is_named():
    record = judged(next(case for case in CASES if "storage NICs" in case.name))
    (said,) = [finding for finding in record.findings if finding.part.short == "mlx5_7"]
    assert (said.verdict, said.text) == (SKIP, "left out: no GPU is behind its PCIe switch")
