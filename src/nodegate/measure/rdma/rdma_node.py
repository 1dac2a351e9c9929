"""A node prepared for RDMA measurements: its rails, its perftest, its GIDs. Read once, before nodes are paired."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodegate.errors import CannotMeasure
from nodegate.facts import known_or_none
from nodegate.measure.measurement import Target
from nodegate.measure.rdma import rails as of_rails
from nodegate.measure.rdma.perftest_runner import Program, run_at_once
from nodegate.measure.rdma.rails import ROCE, Rail, Traffic
from nodegate.tools import perftest

TOOLS = ("ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_read_lat")
ASK_S = 20.0
FIRST_PORT = 18515  # of the servers, by TCP: perftest's own default
AMAZON = 0x1D0F
IPV6 = "ipv6-addr"  # perftest's option for ends that meet by an IPv6 address
# ConnectX-8 reaches GPU memory by a PCIe function of its own (data direct), which the kernel's driver names so.
_DATA_DIRECT = "grep -lx 'PCI_ID=15B3:2100' /sys/bus/pci/devices/*/uevent 2>/dev/null"


@dataclass(frozen=True)
class RdmaNode:
    """A node that can be paired.

    `tools` start the programs; `cuda` are the options of its build for GPU memory. `missing` are rails in service that
    cannot be measured, with the reason; `left_out` those that are taken for storage NICs.
    """

    target: Target
    rails: tuple[Rail, ...]
    tools: Mapping[str, tuple[str, ...]]
    version: str
    cuda: frozenset[str]
    missing: Mapping[str, CannotMeasure]
    left_out: Mapping[str, CannotMeasure] = field(default_factory=dict)
    options: frozenset[str] = frozenset()
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.target.node.name

    @property
    def address(self) -> str:
        """Where its servers are reached by TCP: nodegate_fabric_address, else the address of its connection."""
        return self.target.node.settings.fabric_address or self.target.node.address

    def rail(self, name: str) -> Rail:
        """A rail by its name."""
        return next(rail for rail in self.rails if rail.name == name)

    def is_efa(self, rail: Rail) -> bool:
        """Whether a rail is Amazon's EFA, which has reliable datagrams of its own (SRD) and no RC."""
        if rail.device.startswith(("efa", "rdmap")):
            return True
        pci = known_or_none(lambda: self.target.facts.pci)
        devices = () if pci is None else pci.devices
        return any(each.address == rail.address and each.vendor == AMAZON for each in devices)

    def is_bond(self, rail: Rail) -> bool:
        """Whether a rail is two ports in one."""
        ports = (port for port in self.target.facts.rdma.ports if port.device == rail.device)
        return any(of_rails.is_bond(port.device, port.netdev) for port in ports)


def prepare(target: Target) -> RdmaNode:
    """Find everything that a node must have.

    Raises:
        CannotMeasure: it has no rail in service, none with a GID on RoCE, or no perftest.
    """
    traffic, chosen = of_rails.traffic_of(target.node), of_rails.rails_in_service(target.node, target.facts)
    left_out = of_rails.without_gpu(target.node, target.facts, chosen)
    found = _with_gids(target, [rail for rail in chosen if rail.name not in left_out], traffic.gid_index)
    rails = tuple(rail for rail in found if rail.layer != ROCE or rail.gid_index is not None)
    if not rails:
        raise _without_gid(found)
    tools = {name: target.tools.find(name).argv for name in TOOLS}
    first = tools[TOOLS[0]]
    asked = [(*first, "--version"), (*first, "--help"), ("grep", "-w", "nvidia_peermem", "/proc/modules")]
    asked += [("sh", "-c", _DATA_DIRECT)]
    programs = [Program(argv) for argv in asked]
    version, help_text, peer_memory, direct = run_at_once(target, "perftest", programs, timeout_s=ASK_S)
    helped, nearest = help_text.stdout + help_text.stderr, of_rails.nearest_gpus(target.facts, rails)
    options = perftest.options_in(helped)
    rdma_node = RdmaNode(
        target=target,
        rails=tuple(replace(rail, gpu=nearest.get(rail.name)) for rail in rails),
        missing={rail.name: _without_gid([rail]) for rail in found if rail not in rails},
        tools=tools,
        version=perftest.parse_version(version.stdout + version.stderr),
        left_out=left_out,
        cuda=_cuda(options, peer_memory=bool(peer_memory.stdout.strip()), data_direct=bool(direct.stdout.strip())),
        options=options,
        traffic=traffic,
    )
    _check_build(rdma_node, helped)
    return rdma_node


def _check_build(rdma_node: RdmaNode, help_text: str) -> None:
    """Whether this build of perftest can do what the node needs.

    Raises:
        CannotMeasure: it cannot; on EFA another kind of connection fails, which would look like a bad link.
    """
    if "SRD" not in help_text and any(rdma_node.is_efa(rail) for rail in rdma_node.rails):
        raise CannotMeasure(
            "the NICs are Amazon's EFA, and perftest on the node is built without SRD, their only reliable connection",
            next_step="install perftest built with rdma-core's EFA provider; its --help then names SRD",
        )
    if ":" in rdma_node.address and IPV6 not in rdma_node.options:
        raise CannotMeasure(
            f"perftest on the node has no --{IPV6}, and must be reached by {rdma_node.address}",
            next_step="install a newer perftest, or give an IPv4 address in the inventory (nodegate_fabric_address)",
        )


def cuda_words(rdma_node: RdmaNode, rail: Rail) -> tuple[str, ...]:
    """The options with which a program uses the memory of the nearest GPU; none if it cannot."""
    if rail.gpu is None or not rdma_node.cuda:
        return ()
    place, address = rail.gpu
    which = f"--use_cuda_bus_id={address}" if "use_cuda_bus_id" in rdma_node.cuda else f"--use_cuda={place}"
    more = (f"--{name}" for name in ("use_cuda_dmabuf", "use_data_direct") if name in rdma_node.cuda)
    return (which, *more)


def _cuda(options: frozenset[str], *, peer_memory: bool, data_direct: bool) -> frozenset[str]:
    """The options for GPU memory: data direct where the NICs have it, then nvidia_peermem, then dma-buf alone."""
    which, buffers = options & {"use_cuda", "use_cuda_bus_id"}, options & {"use_cuda_dmabuf"}
    if not which:
        return frozenset()
    if data_direct and buffers and "use_data_direct" in options:
        return which | buffers | {"use_data_direct"}
    return which if peer_memory else which | buffers if buffers else frozenset()


def _with_gids(target: Target, rails: Sequence[Rail], given: int | None) -> tuple[Rail, ...]:
    """The rails with their GID index; if the probe's table does not have it, the node's whole table is read.

    The inventory's index comes first, then an IPv4 address, then an IPv6 one.
    """
    if given is not None:
        return tuple(replace(rail, gid_index=given) if rail.layer == ROCE else rail for rail in rails)
    lacking = [rail for rail in rails if rail.layer == ROCE and rail.gid_index is None]
    if not lacking:
        return tuple(rails)
    (answer,) = run_at_once(target, "gids", [Program(("sh", "-c", of_rails.READ_GIDS))], timeout_s=ASK_S)
    tables = of_rails.parse_gids(answer.stdout)
    best = {rail: of_rails.gid_index(tables.get((rail.device, rail.port), {}), ipv6=True) for rail in lacking}
    return tuple(replace(rail, gid_index=best.get(rail, rail.gid_index)) for rail in rails)


def _without_gid(rails: Sequence[Rail]) -> CannotMeasure:
    reason = "no RoCE v2 GID with an IP address that others can reach"
    step = "give the port's network device an IPv4 or a global IPv6 address; check with show_gids"
    return CannotMeasure(reason, next_step=step, whose=", ".join(rail.name for rail in rails))
