"""A node prepared for RDMA measurements: its rails, its perftest, its GIDs. Read once, before nodes are paired."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.measure.rdma.perftest_runner import Program, run_at_once
from nodegate.measure.rdma.rails import READ_GIDS, ROCE, Rail, gid_index, nearest_gpus, parse_gids, rails_in_service
from nodegate.tools import perftest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.measure.measurement import Target

TOOLS = ("ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_read_lat")
ASK_S = 20.0
FIRST_PORT, LAST_PORT = 18515, 65000


@dataclass(frozen=True)
class RdmaNode:
    """A node that can be paired.

    `tools` start the programs; `cuda` are the options of its build for GPU memory. `missing` are rails in service that
    cannot be measured, with the reason.
    """

    target: Target
    rails: tuple[Rail, ...]
    tools: Mapping[str, tuple[str, ...]]
    version: str
    cuda: frozenset[str]
    missing: Mapping[str, CannotMeasure]

    @property
    def name(self) -> str:
        """The node's name."""
        return self.target.node.name

    @property
    def address(self) -> str:
        """Where its servers are reached by TCP: nodegate_fabric_address, else the address of its connection."""
        return str(self.target.node.expected.get("fabric_address") or self.target.node.address)

    @property
    def first_port(self) -> int:
        """The first TCP port of its servers: nodegate_rdma_port, else perftest's own default."""
        port = self.target.node.expected.get("rdma_port")
        return port if isinstance(port, int) and 0 < port < LAST_PORT else FIRST_PORT

    def rail(self, name: str) -> Rail:
        """A rail by its name."""
        return next(rail for rail in self.rails if rail.name == name)


def prepare(target: Target) -> RdmaNode:
    """Find everything that a node must have.

    Raises:
        CannotMeasure: it has no rail in service, none with a GID on RoCE, or no perftest.
    """
    found = _with_gids(target, rails_in_service(target.node, target.facts))
    rails = tuple(rail for rail in found if rail.layer != ROCE or rail.gid_index is not None)
    if not rails:
        raise _without_gid(found)
    tools = {name: target.tools.find(name).argv for name in TOOLS}
    first = tools[TOOLS[0]]
    asked = [(*first, "--version"), (*first, "--help"), ("grep", "-w", "nvidia_peermem", "/proc/modules")]
    programs = [Program(argv) for argv in asked]
    version, help_text, peer_memory = run_at_once(target, "perftest", programs, timeout_s=ASK_S)
    options = perftest.options_in(help_text.stdout + help_text.stderr)
    return RdmaNode(
        target=target,
        rails=_with_gpus(target, rails),
        missing={rail.name: _without_gid([rail]) for rail in found if rail not in rails},
        tools=tools,
        version=perftest.parse_version(version.stdout + version.stderr),
        cuda=_cuda(options, peer_memory=bool(peer_memory.stdout.strip())),
    )


def cuda_words(rdma_node: RdmaNode, rail: Rail) -> tuple[str, ...]:
    """The options with which a program uses the memory of the nearest GPU; none if it cannot."""
    if rail.gpu is None or not rdma_node.cuda:
        return ()
    place, address = rail.gpu
    which = f"--use_cuda_bus_id={address}" if "use_cuda_bus_id" in rdma_node.cuda else f"--use_cuda={place}"
    return (which, "--use_cuda_dmabuf") if "use_cuda_dmabuf" in rdma_node.cuda else (which,)


def _cuda(options: frozenset[str], *, peer_memory: bool) -> frozenset[str]:
    """The options for GPU memory; dma-buf only without the module nvidia_peermem."""
    found = options & {"use_cuda", "use_cuda_bus_id", "use_cuda_dmabuf"}
    if peer_memory:
        return found - {"use_cuda_dmabuf"}
    return found if "use_cuda_dmabuf" in found else frozenset()


def _with_gids(target: Target, rails: Sequence[Rail]) -> tuple[Rail, ...]:
    """The rails with their GID index; if the probe's table does not have it, the node's whole table is read."""
    lacking = [rail for rail in rails if rail.layer == ROCE and rail.gid_index is None]
    if not lacking:
        return tuple(rails)
    (answer,) = run_at_once(target, "gids", [Program(("sh", "-c", READ_GIDS))], timeout_s=ASK_S)
    tables = parse_gids(answer.stdout)
    return tuple(
        replace(rail, gid_index=gid_index(tables.get((rail.device, rail.port), {}))) if rail in lacking else rail
        for rail in rails
    )


def _without_gid(rails: Sequence[Rail]) -> CannotMeasure:
    reason = f"{', '.join(rail.name for rail in rails)}: no RoCE v2 GID with an IPv4 address"
    return CannotMeasure(reason, next_step="give the port's network device an IPv4 address; check with show_gids")


def _with_gpus(target: Target, rails: Sequence[Rail]) -> tuple[Rail, ...]:
    nearest = nearest_gpus(target.facts, rails)
    return tuple(replace(rail, gpu=nearest.get(rail.name)) for rail in rails)
