"""What can be wrong with what was measured on RDMA links: each changes the links of one healthy node."""

from dataclasses import replace

from fleet.changes import changes
from fleet.machine import Machine
from support.attempts import having
from support.rdma_links import PARTNERS, RAILS, TESTS, Links, attempt, healthy, link

from nodegate.errors import CannotMeasure
from nodegate.records.program_run import Attempt, Memory, MissingRail, Path, Role

WRITE, READ = "ib_write_bw", "ib_read_bw"
LOST = {"text": "peer-lost.txt", "timed_out": True}


@changes
def slow(
    links: Links, gbps: float, *partners: str, tool: str = WRITE, device: str = "mlx5_3", **fields: object
) -> None:
    """The device is slow with these partners, with all where none is named."""
    for peer in partners or PARTNERS:
        known = {"peer_best": 391.5} | fields
        links[tool, device, peer] = link(tool, device, peer, gbps, **known)


@changes
def broken(links: Links, *partners: str, tool: str = WRITE, device: str = "mlx5_3", **how: object) -> None:
    """The transfers of a device with these partners, with all where none is named, go wrong in this way."""
    for peer in partners or PARTNERS:
        links[tool, device, peer] = link(tool, device, peer, **{"peer_best": 391.5, **how})  # type: ignore[arg-type]


@changes
def without(links: Links, tool: str = WRITE, device: str = "mlx5_3") -> None:
    for peer in PARTNERS:
        links.pop((tool, device, peer), None)


@changes
def one_way(links: Links, *partners: str, gbps: float = 98.5, **fields: object) -> None:
    """mlx5_3 sends slowly to these partners: as a client it writes, as a server it is read from."""
    for place, peer in enumerate(PARTNERS):
        for tool in (WRITE, READ):
            server, slowly = place % 2 == 1, peer in partners or not partners
            value = gbps if slowly and server == (tool == READ) else TESTS[tool]
            about = {"peer_best": 391.5, "role": Role.SERVER if server else Role.CLIENT} | fields
            links[tool, "mlx5_3", peer] = link(tool, "mlx5_3", peer, value, **about)


def of_two_one_way() -> Links:
    """This node and one other, which has met nobody else; mlx5_3 sends slowly."""
    links = of_two()
    return {
        key: run if key[1] != "mlx5_3" else replace(link(*key, 98.5 if key[0] == WRITE else TESTS[key[0]]))
        for key, run in links.items()
    }


@changes
def at_once(links: Links, gbps: float, device: str = "mlx5_3", **how: object) -> None:
    """Both directions at the same time, of which this device carries so much with everybody."""
    for rail in RAILS:
        for peer in PARTNERS:
            value, more = (gbps, how) if rail == device else (774.5, {})
            ran = link(WRITE, rail, peer, **{"value": value, "peer_best": 774.5, **more})  # type: ignore[arg-type]
            both = ran.stdout.replace("RDMA_Write BW", "RDMA_Write Bidirectional BW")
            links["both", rail, peer] = replace(ran, what="ib_write_bw -b", argv=(*ran.argv, "-b"), stdout=both)


def alone(links: Links) -> list[Attempt]:
    inside = {key: link(WRITE, key, "gpu01", 391.5, path=Path.INSIDE) for key in RAILS}
    return [attempt({}, partners=0, more=tuple(inside.values()))]


@changes
def with_inside(links: Links, **how: object) -> list[Attempt]:
    """Rails as usual, and inside the node mlx5_3 like this."""
    values = {device: {"value": 391.5} for device in RAILS} | {"mlx5_3": how}
    runs = [link(WRITE, key, "gpu01", path=Path.INSIDE, peer_device="mlx5_2", **each) for key, each in values.items()]
    return [attempt(links, more=runs)]


@changes
def with_gpu(links: Links, **how: object) -> list[Attempt]:
    values = {device: {"value": 380.5} for device in RAILS} | {"mlx5_3": how}
    runs = [link(WRITE, device, "gpu02", memory=Memory.GPU, **each) for device, each in values.items()]
    return [attempt(links, more=runs)]


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
    why = CannotMeasure("mlx5_3: no RoCE v2 GID with an IPv4 address", next_step="give it an address")
    some = {key: run for key, run in links.items() if key[1] != "mlx5_3"}
    rails = [device for device in RAILS if device != "mlx5_3"]
    return [attempt(some, rails=rails, missing=[MissingRail("mlx5_3", why.reason, why.next_step)])]
