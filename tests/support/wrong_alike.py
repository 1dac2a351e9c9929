"""Fleets whose nodes are all wrong in the same way: nobody is odd, so only what is right by itself can tell."""

from collections.abc import Callable
from typing import NamedTuple

from fleet.load import burn, copies, groups, rdma
from fleet.machine import Machine
from support.judged_fleet import judged_alone

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.causes.fleet import fleet_causes
from nodegate.causes.lines import line
from nodegate.claims.prove import claims_of_node
from nodegate.claims.verdict import node_verdict
from nodegate.profile import Profile
from nodegate.records.claim import State
from nodegate.records.verdict import NodeVerdict, Verdict

GPUS = 8
MEMORY_GIB = 2048
# What the site ordered: of one firmware too old, or a DIMM short, on every node nothing but an order can tell.
ORDERED = {
    "gpus": GPUS,
    "mounts": ["/scratch", "/mnt/data:ro"],
    "limits": {"host.memory_gib": MEMORY_GIB},
    "expect": {"vbios": "96.00.89.00.01"},
}


PAGE = """# Fleets that are wrong alike

Written by `bench/wrong_alike.py`; do not edit. All nodes of these fleets of HGX H100 are wrong in
the same way: none is odd among the others, and only absolute limits and the order show it. Every
check of profile delivery judges them, with an inventory that says what was ordered. What it takes
other nodes to measure is open on a single one, which is incomplete and not accepted.

| all nodes | nodes | each is | worst cause of the run | failed check |
|---|---|---|---|---|
"""


class Alike(NamedTuple):
    """One way to be wrong, the check that has to fail by it on every node, and the cause of it.

    `nodes` is how many nodes it takes to tell: fewer are incomplete, for what it takes others to measure is open.
    """

    name: str
    plant: Callable[[Machine], object]
    told_by: str
    cause: str
    nodes: int = 1


class Told(NamedTuple):
    """What is said of a fleet: the verdicts, the checks that fail on every node, the worst cause and its line.

    `unproven` are the claims that are open on some node.
    """

    verdicts: frozenset[NodeVerdict]
    failing: frozenset[str]
    cause: str
    line: str
    unproven: tuple[str, ...]


def _gpus_slow(document):
    for gpu in range(GPUS):
        burn.slowed(document, gpu, 0.7, reasons=[], clock_mhz=1600)


def _memory_slow(document):
    _scale(document, 0.6, copies.INSIDE, copies.READ, copies.COPY, copies.TRIAD)


def _acs_on(machine):
    bridges = {device["parent"] for device in machine.sections["pci"] if device["parent"]}
    for address in bridges:
        machine.set_pci(address, "acs", "001d")


def _rails_half(machine):
    for number in range(GPUS):
        machine.under_load(rdma.NAME, rdma.slower(f"mlx5_{number}", 198.0))


def under_load(measurement, *changes):
    return lambda machine: machine.under_load(measurement, *changes)


def _no_gpudirect(machine):
    del machine.sections["system"]["modules"]["nvidia_peermem"]
    driver, closed = machine.sections["driver"], "NVIDIA UNIX x86_64 Kernel Module"
    version = driver["version"].replace("NVIDIA UNIX Open Kernel Module for x86_64", closed)
    machine.set("driver", "version", version)


def _gen4(machine):
    for index in range(GPUS):
        machine.set_link(machine.gpu_address(index), speed_gts="16.0")
        machine.set_gpu(index, "link_gen_max", 4)
        parent = machine.pci(machine.gpu_address(index))["parent"]
        machine.set_pci(parent, "max_link_speed", "16.0 GT/s PCIe")
    machine.under_load(copies.NAME, lambda document: _scale(document, 0.5, copies.IN, copies.OUT))


def every_gpu(**readings):
    return lambda machine: [machine.set_gpu(gpu, *each) for gpu in range(GPUS) for each in readings.items()]


def _dimm_short(machine):
    text = machine.sections["system"]["meminfo"]
    total = int(text.split()[1])
    machine.set("system", "meminfo", text.replace(str(total), str(total * 15 // 16), 1))


def _scale(document, share, *whats):
    for gpu in document["gpus"]:
        for copy in gpu["copies"]:
            if copy["what"] in whats:
                for key in ("gb_per_s", "lowest", "highest"):
                    copy[key] = round(copy[key] * share, 2)


CAPPED = dict.fromkeys(("power_limit_mw", "power_limit_enforced_mw"), 500_000)
MEMORY, SHARE = "copies.memory_bandwidth", "rdma_bandwidth.share_of_rate"
FLEETS = (
    Alike("all GPUs 30 % slow", under_load(burn.NAME, _gpus_slow), "burn.throughput", "gpu_slow"),
    Alike("GPU memory at 60 % of its speed", under_load(copies.NAME, _memory_slow), MEMORY, "gpu_slow"),
    Alike("ACS on at every bridge", _acs_on, "pcie.acs", "no_rdma"),
    Alike("one VBIOS too old everywhere", every_gpu(vbios="96.00.74.00.01"), "ordered.versions", "ordered"),
    Alike("every rail at half of its rate", _rails_half, SHARE, "rails_slow_everywhere", nodes=4),
    *(
        Alike(
            f"{what} between nodes at half",
            under_load(groups.NAME, groups.slower(0.5, *([what] if what != "all_reduce" else []))),
            "nccl_groups.wide",
            "groups_slow",
            nodes=4,
        )
        for what in ("all_reduce", "alltoall", "sendrecv")
    ),
    Alike("no GPUDirect", _no_gpudirect, "software.gpudirect", "no_rdma"),
    Alike("PCIe Gen4 instead of Gen5", _gen4, "copies.host_to_device", "host_copies"),
    Alike("power capped at 500 W", every_gpu(**CAPPED), "power.limit", "clock_limits"),
    Alike("one DIMM short", _dimm_short, "host.memory_size", "host.memory_size"),
)


def told(alike, count):
    """What is said of so many HGX H100 nodes that are wrong in this way."""
    machines = [Machine.hgx_h100(f"node{number:02d}", number) for number in range(1, count + 1)]
    for machine in machines:
        alike.plant(machine)
    records = judged_alone(machines, ORDERED)
    claims = {name: claims_of_node(Profile.DELIVERY, each, lambda _: "") for name, each in records.items()}
    failing = [
        frozenset(record.check for record in each if record.verdict is Verdict.FAIL) for each in records.values()
    ]
    worst = fleet_causes({name: causes_of(each, conditions()) for name, each in records.items()}, {})[0]
    return Told(
        frozenset(node_verdict(records[name], each) for name, each in claims.items()),
        frozenset.intersection(*failing),
        worst.condition,
        line(worst).text,
        tuple(dict.fromkeys(one.claim for each in claims.values() for one in each if one.state is State.NOT_PROVEN)),
    )


def row(alike, count, found):
    """The line of a fleet in docs/evidence/wrong-alike.md."""
    verdicts = ", ".join(sorted(each.value for each in found.verdicts))
    fails = alike.told_by in found.failing
    said = found.line if fails else f"not proven: {', '.join(found.unproven)}"
    return f"| {alike.name} | {count} | {verdicts} | {said} | {f'`{alike.told_by}`' if fails else '-'} |\n"
