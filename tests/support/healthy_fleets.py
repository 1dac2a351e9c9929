"""Whole healthy fleets of every shipped platform, judged under load with the noise that good nodes show."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from fleet import system
from fleet.load import boards, burn, copies, nccl, rdma
from fleet.load.boards import Figures, Noise
from fleet.machine import Machine, facts_of
from support.healthy_platforms import CARDS, PLATFORMS, every, limits_of, node_of
from support.judged_fleet import facts_alone, judged_alone

from nodegate.claims.prove import claims_of_node
from nodegate.claims.verdict import node_verdict
from nodegate.measure import registry
from nodegate.profile import Profile
from nodegate.records.claim import State
from nodegate.records.finding import Record
from nodegate.records.verdict import Verdict
from nodegate.run.gate import Gate

# Matrix products differ by 0.3 to 0.5 % between good GPUs, copies and collectives by 1 to 3 % (standard deviation);
# a deviation of 1 is a bound of 2.45.
NOISY = Noise(burn=1.0, copies=4.9, nccl=4.9, groups=4.9)
# Rings, all_gather, reduce_scatter, alltoall and sendrecv behind NVSwitches.
NVLINK_4 = (371.0, 366.0, 368.0, 346.0, 356.0)
RAILS_8X400 = ((383.0, 371.0), (88.4, 55.2), (47.6, 47.1))
RAILS_8X200 = ((191.0, 186.0), (44.2, 27.6), (23.8, 23.5))
RAILS_4X400 = ((191.0, 186.0), (82.3, 64.4), (47.6, 47.1))
RAILS_4X200 = ((18.7, 18.2), (11.6, 9.3), (13.9, 13.6))  # of cards behind PCIe
CARDS_NCCL = (19.4, 19.3, 19.1, 19.2, 13.8, 16.1)
AMPERE = {"capability": "8.0", "multiprocessors": 108}
BLACKWELL = {"capability": "10.0", "multiprocessors": 148}
A100_NCCL = (232.0, 232.0, 223.0, 231.0, 224.0, 230.0)


def _copies(host, at_once, inside, peer):
    return (*host, inside, at_once, peer)


def _figures(nccl, groups, clock_mhz, power_w, tflops, copies, **more):  # noqa: PLR0917 - for tables
    return Figures(tflops, copies, nccl, groups, clock_mhz, power_w, **more)


# What good nodes of each platform give. bf16, copies and collectives as published for the platform (the sources stand
# at the values in baselines/*.yaml); where nothing is published for it, what the same chip or link gives elsewhere.
GEN4, GEN5 = partial(_copies, (26.3, 26.1), 24.9), partial(_copies, (55.1, 55.4), 27.4)
CARD, HGX = partial(_figures, CARDS_NCCL, RAILS_4X200), partial(_figures, (480, *NVLINK_4), RAILS_8X400)
A100 = partial(_figures, A100_NCCL, RAILS_8X200, 1350, 396, **AMPERE)
SXM_4 = partial(_figures, (335, 335, 328, 330, 310, 130), RAILS_4X400, 1740, 697)
ADA = {"capability": "8.9", "memory_temperature_c": None}
GOOD = {
    "a100-pcie-40gb": CARD(1300, 249, (224, 18.1, 17.2), GEN4(1185, 21.3), **AMPERE),
    "a100-pcie-80gb": CARD(1290, 298, (236, 18.6, 17.6), GEN4(1470, 21.3), **AMPERE),
    "gb200-tray": _figures(
        *((628, 600, 564, 549, 488, 700), RAILS_4X400, 1860, 1190, (1550, 71, 37.5), (198, 205, 5900, 190, 770)),
        **BLACKWELL,
    ),
    "gh200": CARD(1740, 620, (705, 49, 60), (300, 346, 2640, 150, 40.5)),
    "h100-nvl": CARD(1500, 349, (548, 43, 47), GEN5(2890, 40.5)),
    "h100-pcie": CARD(1440, 349, (478, 39, 41), GEN5(1640, 40.5), multiprocessors=114, triad=1832),
    "h200-nvl": CARD(1500, 590, (600, 43, 47), GEN5(3292, 40.5)),
    "hgx-a100-40gb-4": A100((247, 18.1, 18), GEN4(1190, 92.5)),
    "hgx-a100-40gb-8": A100((247, 18.1, 18), GEN4(1190, 274)),
    "hgx-a100-80gb-8": A100((270, 19.2, 18.7), GEN4(1550, 274)),
    "hgx-a800-8": replace(A100((266, 19.1, 18.7), GEN4(1550, 183)), nccl=(155, 155, 141, 147, 140, 152)),
    "hgx-b200-8": _figures(
        *((838, 682, 640, 636, 580, 660), RAILS_8X400, 1750, 990, (1467, 66.2, 36.5), (55.1, 55.4, 5900, 50, 770)),
        **BLACKWELL,
        nvls=True,
    ),
    "hgx-h100-4": SXM_4((730, 49, 60), GEN5(2490, 139)),
    "hgx-h100-8": HGX(1740, 697, (730, 49, 60), GEN5(2490, 376), nvls=True),
    "hgx-h20-8": HGX(1970, 385, (141.9, 32, 0.9), GEN5(2640, 376), nvls=True, multiprocessors=78),
    "hgx-h200-4": SXM_4((731, 49, 60), GEN5(3292, 139)),
    "hgx-h200-8": replace(HGX(1740, 697, (731, 49, 60), GEN5(3292, 396), nvls=True), nccl=(473, *NVLINK_4)),
    "hgx-h800-8": _figures(
        *((215, 164, 160, 161, 150, 158), RAILS_8X400, 1740, 697, (730, 49, 0.9), GEN5(2490, 167)), nvls=True
    ),
    "l40s": CARD(2010, 347, (227, 58, 1.3), GEN4(600, 21.3), multiprocessors=142, **ADA),
    "rtx-4090": CARD(
        2560, 440, (162, 54, 1.25), GEN4(918, 21.3), multiprocessors=128, gpudirect=False, triad=930, **ADA
    ),
}
# The same boards in a cloud or in a vendor's server, and boards of which little is published: as those with the same
# chip or links.
GOOD = {
    **GOOD,
    **{name: GOOD[each.like] for name, each in PLATFORMS.items() if each.like in GOOD},
    "a800-pcie-80gb": replace(GOOD["a100-pcie-80gb"], tflops=(215, 18.6, 17.6)),
    "gb300-tray": replace(GOOD["gb200-tray"], tflops=(1930, 72, 1.2), power_w=1390),
    "gh200": GOOD["gh200"],
    "h200-nvl": GOOD["h200-nvl"],
    "hgx-a100-80gb-4": A100((270, 19.2, 18.7), GEN4(1550, 92.5)),
    "hgx-b300-8": replace(GOOD["hgx-b200-8"], tflops=(1600, 66.2, 1.2), power_w=1090),
    "hgx-h20-3e-8": replace(GOOD["hgx-h20-8"], copies=GEN5(2232, 376), triad=4150),
    "hgx-h200-4": GOOD["hgx-h200-4"],
    "rtx-pro-6000": replace(
        CARD(2100, 590, (397, 105, 1.6), GEN5(1250, 40.5), multiprocessors=188, **ADA), capability="12.0"
    ),
}


ALARMS = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)
# Power limits of boards where the platform's file has none, in W.
POWER_W = {"gh200": 700, "h100-pcie": 350, "hgx-b200-8": 1000, "hgx-h100-4": 700, "hgx-h200-4": 700, "rtx-4090": 450}


PAGE = """# Healthy fleets of every platform

Written by `bench/healthy_fleets.py`; do not edit. Whole fleets of good nodes, made up from what is
published of each platform, with the noise that good nodes show (standard deviation: matrix products
0.4 %, copies and collectives 2 %), measured under load, the suspects twice more, and judged by
every check of profile delivery. The site has said how many GPUs and rails it ordered, their rate
and the memory. An alarm is a check that fails, warns or gives an error, with the number of its
nodes. Where the value of a good board is unknown a claim stays open, however good the nodes are:
there is only a floor, which proves nothing, and other nodes may be as bad. `nodegate baseline
learn` closes it.

{}

| platform | nodes | verdicts | claims proven on every node | not proven | alarms |
|---|---|---|---|---|---|
"""


class Shown(NamedTuple):
    """What a run says of a healthy fleet: the nodes' verdicts, how many claims each has proven, and what it has not."""

    verdicts: frozenset[str]
    proven: int  # of the node with the fewest
    claims: int
    unproven: Mapping[str, str]  # the claims that are open or refuted on some node, with the reason of the first
    alarms: Sequence[Record]  # what fails, cannot be judged or warns


def shown(platform, count):
    """What is said of so many healthy nodes of a platform; a suspect is measured twice more, as in a run."""
    machines = [machine_of(platform, number) for number in range(1, count + 1)]
    machine = machines[0]
    rails, gpus = _rails(machine), machine.sections["nvml"]["gpus"]
    memory = 1024 if platform in CARDS else 2048
    limits = {"host.memory_gib": memory, "rdma.rate_gbps": _rate(platform)}
    named = {} if PLATFORMS[platform].match else {"platform": platform}
    ordered = {"gpus": len(gpus), "rails": len(rails), "mounts": ["/scratch", "/mnt/data:ro"], "limits": limits}
    order = {**ordered, **named}
    _look_again(machines, order)
    records = judged_alone(machines, order)
    claims = {name: claims_of_node(Profile.DELIVERY, each, lambda _: "", nodes=count) for name, each in records.items()}
    unproven = {
        one.claim: one.why for each in claims.values() for one in reversed(each) if one.state is not State.PROVEN
    }
    proven = min(sum(one.state is State.PROVEN for one in each) for each in claims.values())
    return Shown(
        frozenset(node_verdict(records[name], each).value for name, each in claims.items()),
        proven,
        len(next(iter(claims.values()))),
        unproven,
        [record for each in records.values() for record in each if record.verdict in ALARMS],
    )


def machine_of(platform, number):
    """A healthy node of the platform, whole: its boards, rails and driver, and what it does under load."""
    machine = node_of(platform, Machine.pcie_l40s if platform in CARDS else Machine.hgx_h100, number)
    limits, ampere = limits_of(platform), "a100" in platform or "a800" in platform
    boards.FIGURES[machine.sections["nvml"]["gpus"][0]["name"]] = replace(GOOD[platform], noise=NOISY)
    if platform in POWER_W:
        for path in ("power_limit_mw", "power_limit_default_mw", "power_limit_enforced_mw"):
            every(machine, path, POWER_W[platform] * 1000)
    if limits.get("gpu.count") == 4:
        _four_rails(machine)
    if platform not in CARDS and _rate(platform) != 400:
        for device in _rails(machine):
            machine.set_port(device, 1, "rate", "200 Gb/sec (4X HDR)")
    if ampere or platform in {"l40s", "rtx-4090"}:
        _link(machine, 4, "16.0")
    elif platform in CARDS:
        _link(machine, 5, "32.0")
    if ampere:
        machine.sections.update(json.loads(json.dumps(machine.sections).replace(system.DRIVER, "535.183.01")))
        machine.units.update(json.loads(json.dumps(machine.units).replace(system.DRIVER, "535.183.01")))
        gpus = machine.sections["driver"]["gpus"]
        gpus.update({address: re.sub(r"(GPU Firmware:\s+)\S+", r"\1N/A", said) for address, said in gpus.items()})
        machine._lines = [(when, said.replace(system.DRIVER, "535.183.01")) for when, said in machine._lines]
    if platform in CARDS and platform not in {"l40s", "rtx-4090"}:
        every(machine, "mig_mode", [0, 0])
    return machine


def _look_again(machines, order):
    """The suspects of each measurement are measured twice more; NCCL over nodes does that by itself."""
    gate, by_name = Gate(facts_alone(machines, order)), {machine.name: machine for machine in machines}
    for module in (burn, copies, nccl, rdma):
        measurement = registry.measurement(module.NAME)
        metrics = {name: measurement.parse(ran).metrics for name, ran in module.recorded(machines).items()}
        bounds = {each.name: measurement.bounds(facts_of(each)) for each in machines} if measurement.bounds else {}
        for name in gate.suspects(metrics, bounds, alone=measurement.alone):
            by_name[name].under_load(module.NAME, _as_before, _as_before, _as_before)


def _as_before(_):
    """Nothing is changed."""


def _rate(platform):
    if platform in CARDS or "a100" in platform:
        return 200
    return int(str(limits_of(platform).get("rdma.rate_gbps", 400)))


def _rails(machine):
    return [name for name in machine.sections["infiniband"] if name != "mlx5_bond_0"]


def _four_rails(machine):
    for number in range(4, 8):
        address = machine.nic_address(number)
        del machine.sections["infiniband"][f"mlx5_{number}"], machine.sections["netdev"][f"ibs{number}"]
        machine.sections["pci"].remove(machine.pci(address))


def _link(machine, gen, speed):
    """The GPUs are of this generation of PCIe, and busy enough to show it."""
    for entry in machine.sections["nvml"]["gpus"]:
        address = machine.gpu_addresses[entry["index"]]
        for end in (address, machine.pci(address)["parent"]):
            machine.set_pci(end, "max_link_speed", f"{speed} GT/s PCIe")
        machine.set_link(address, speed_gts=speed)
        machine.set_gpu(entry["index"], "link_gen_max", gen)


def row(platform, count, found):
    """The line of a fleet in docs/evidence/healthy-fleets.md."""
    alarms = Counter((record.verdict.value, record.check) for record in found.alarms)
    said = ", ".join(f"{verdict} `{check}` on {nodes}" for (verdict, check), nodes in sorted(alarms.items())) or "none"
    missing = "; ".join(f"{claim}: {why}" for claim, why in found.unproven.items()) or "-"
    verdicts = ", ".join(sorted(found.verdicts))
    return f"| {platform} | {count} | {verdicts} | {found.proven} of {found.claims} | {missing} | {said} |\n"
