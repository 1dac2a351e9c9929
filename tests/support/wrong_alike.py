"""Fleets whose nodes are all wrong in the same way: nobody is odd, so only what is right by itself can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.load import burn, copies, groups, rdma
from fleet.machine import Machine
from support.judged_fleet import judged_alone

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.claims.prove import claims_of_node
from nodegate.claims.verdict import node_verdict
from nodegate.profile import Profile
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodegate.verdict import NodeVerdict

GPUS = 8
MEMORY_GIB = 2048
# What the site ordered: of one firmware too old, or a DIMM short, on every node nothing but an order can tell.
ORDERED = {
    "gpus": GPUS,
    "mounts": ["/scratch", "/mnt/data:ro"],
    "limits": {"host.memory_gib": MEMORY_GIB},
    "expect": {"vbios": "96.00.89.00.01"},
}


class Alike(NamedTuple):
    """One way to be wrong, and the checks of which at least one has to fail by it.

    `alone` is whether it can be told from a single node. Of what it takes two nodes to measure, the slow one is not
    known where all are slow: then the check is an error.
    """

    name: str
    plant: Callable[[Machine], object]
    told_by: frozenset[str]
    alone: bool = True


class Told(NamedTuple):
    """What is said of a fleet: the verdicts of its nodes, the checks that do not pass, the first cause of the first."""

    verdicts: frozenset[NodeVerdict]
    failing: frozenset[str]
    unread: frozenset[str]
    cause: str


def _gpus_slow(machine: Machine) -> None:
    def change(document: Any) -> None:
        for gpu in range(GPUS):
            burn.slowed(document, gpu, 0.7, reasons=[], clock_mhz=1600)

    machine.under_load(burn.NAME, change)


def _memory_slow(machine: Machine) -> None:
    machine.under_load(copies.NAME, lambda document: _scale(document, 0.6, copies.INSIDE))


def _acs_on(machine: Machine) -> None:
    bridges = {device["parent"] for device in machine.sections["pci"] if device["parent"]}
    for address in bridges:
        machine.set_pci(address, "acs", "001d")


def _rails_half(machine: Machine) -> None:
    for number in range(GPUS):
        machine.under_load(rdma.NAME, rdma.slower(f"mlx5_{number}", 198.0))


def _collectives_slow(machine: Machine) -> None:
    machine.under_load(groups.NAME, groups.slower(0.5))


def _no_gpudirect(machine: Machine) -> None:
    del machine.sections["system"]["modules"]["nvidia_peermem"]
    driver, closed = machine.sections["driver"], "NVIDIA UNIX x86_64 Kernel Module"
    version = driver["version"].replace("NVIDIA UNIX Open Kernel Module for x86_64", closed)
    machine.set("driver", "version", version)


def _gen4(machine: Machine) -> None:
    for index in range(GPUS):
        machine.set_link(machine.gpu_address(index), speed_gts="16.0")
        machine.set_gpu(index, "link_gen_max", 4)
        parent = machine.pci(machine.gpu_address(index))["parent"]
        machine.set_pci(parent, "max_link_speed", "16.0 GT/s PCIe")
    machine.under_load(copies.NAME, lambda document: _scale(document, 0.5, copies.IN, copies.OUT))


def _power_capped(machine: Machine) -> None:
    for index in range(GPUS):
        machine.set_gpu(index, "power_limit_mw", 500_000)
        machine.set_gpu(index, "power_limit_enforced_mw", 500_000)


def _old_vbios(machine: Machine) -> None:
    for index in range(GPUS):
        machine.set_gpu(index, "vbios", "96.00.74.00.01")


def _dimm_short(machine: Machine) -> None:
    text = machine.sections["system"]["meminfo"]
    total = int(text.split()[1])
    machine.set("system", "meminfo", text.replace(str(total), str(total * 15 // 16), 1))


def _scale(document: Any, share: float, *whats: str) -> None:
    for gpu in document["gpus"]:
        for copy in gpu["copies"]:
            if copy["what"] in whats:
                for key in ("gb_per_s", "lowest", "highest"):
                    copy[key] = round(copy[key] * share, 2)


FLEETS = (
    Alike("all GPUs 30 % slow", _gpus_slow, frozenset(("burn.throughput",))),
    Alike("GPU memory at 60 % of its speed", _memory_slow, frozenset(("copies.device_memory",))),
    Alike("ACS on at every bridge", _acs_on, frozenset(("pcie.acs",))),
    Alike("one VBIOS too old everywhere", _old_vbios, frozenset(("ordered.versions",))),
    Alike("every rail at half of its rate", _rails_half, frozenset(("rdma_bandwidth.share_of_rate",)), alone=False),
    Alike(
        "all_reduce between nodes at half", _collectives_slow, frozenset(("nccl_groups.share_of_rate",)), alone=False
    ),
    Alike("no GPUDirect", _no_gpudirect, frozenset(("software.gpudirect",))),
    Alike("PCIe Gen4 instead of Gen5", _gen4, frozenset(("copies.host_to_device",))),
    Alike("power capped at 500 W", _power_capped, frozenset(("power.limit",))),
    Alike("one DIMM short", _dimm_short, frozenset(("host.memory_size",))),
)


def told(alike: Alike, count: int) -> Told:
    """What is said of so many HGX H100 nodes that are wrong in this way."""
    machines = [Machine.hgx_h100(f"node{number:02d}", number) for number in range(1, count + 1)]
    for machine in machines:
        alike.plant(machine)
    records = judged_alone(machines, ORDERED)
    verdicts = set()
    failing, unread = set(), set()
    for each in records.values():
        verdicts.add(node_verdict(each, claims_of_node(Profile.DELIVERY, each, lambda _: "")))
        failing.update(record.check for record in each if record.verdict is Verdict.FAIL)
        unread.update(record.check for record in each if record.verdict is Verdict.ERROR)
    first = causes_of(next(iter(records.values())), conditions())
    return Told(frozenset(verdicts), frozenset(failing), frozenset(unread), first[0].condition if first else "")
