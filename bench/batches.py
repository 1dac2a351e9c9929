"""Racks, firmwares, drivers and places that are slow together: python bench/batches.py [--quick] [NAME ...].

The noise is that of bench/fleets.py, which shares nothing with the judging; what sets nodes apart is drawn here:
racks of eight, a firmware on whole racks or on any nodes, two platforms, a driver. Judged are the burn (three types x 8
GPUs) and the collectives (six of the node). "named": fleets in which the batch is named on a slow node, and nothing
else is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from fleets import GPUS, LOOKS, LOW, SPEED, look_at
from judged_fleets import BASELINE, NAMES, PLACES, PLATFORM, interval

from nodegate.metric import Metric
from nodegate.numbers.assessments import assessments
from nodegate.numbers.peers import Peers
from nodegate.records.verdict import Verdict, worst

RACK = 8
JUDGED = ("burn", "busbw")
BATCHES = ("batch ", "slot")


class Fleet:
    """The true speeds of good nodes, by measurement: an array (node, quantity, place)."""

    def __init__(self, rng: np.random.Generator, nodes: int) -> None:
        self.rng, self.nodes = rng, nodes
        chips = rng.normal(1, LOW.chips, (nodes, 1, GPUS))
        places = rng.normal(1, LOW.places, (1, 3, GPUS))
        burn = SPEED["burn"].reshape(1, 3, GPUS) * chips * places
        self.true = {"burn": burn, "busbw": np.tile(SPEED["busbw"].reshape(1, 6, 1), (nodes, 1, 1))}

    def looks(self, measurement: str) -> np.ndarray:
        true = self.true[measurement]
        drawn = look_at(measurement, LOW, (LOOKS, self.nodes, true[0].size), self.rng)
        return true * drawn.reshape(LOOKS, *true.shape)


@dataclass(frozen=True)
class Told:
    """What was said of the nodes of one kind."""

    nodes: int = 0
    rejected: int = 0
    warned: int = 0

    def __add__(self, other: Told) -> Told:
        return Told(*(mine + its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True)))


def told(verdicts: list[Verdict]) -> Told:
    return Told(len(verdicts), verdicts.count(Verdict.FAIL), verdicts.count(Verdict.WARN))


def share(part: int, whole: int) -> str:
    return interval(part, whole).rpartition(" of ")[0] or "-"


@dataclass
class Site:
    """A fleet with what sets its nodes apart. `slow` are the nodes that are behind; `named` is what should be said."""

    fleet: Fleet
    traits: dict[int, dict[str, str]]
    slow: set[int] = field(default_factory=set)
    named: str = ""
    platform: dict[int, str] = field(default_factory=dict)
    driver: dict[int, str] = field(default_factory=dict)


def site(rng: np.random.Generator, nodes: int) -> Site:
    """Good nodes in racks, with two kernels at random, which mean nothing."""
    kernels = rng.integers(2, size=nodes)
    traits = {
        at: {"rack": f"r{at // RACK}", "kernel": f"5.15.{kernels[at]}", "VBIOS": "96.00.61"} for at in range(nodes)
    }
    return Site(Fleet(rng, nodes), traits)


def slowed(made: Site, chosen: np.ndarray, left: float, measurement: str = "burn") -> Site:
    """All numbers of a measurement on these nodes."""
    for at in chosen:
        made.fleet.true[measurement][at] *= left
    made.slow |= set(chosen.tolist())
    return made


def firmware(made: Site, rng: np.random.Generator, part: float, left: float, measurement: str = "burn") -> Site:
    chosen = rng.permutation(made.fleet.nodes)[: round(part * made.fleet.nodes)]
    for at in chosen:
        made.traits[at]["VBIOS"] = "96.00.74"
    made.named = "batch VBIOS 96.00.74"
    return slowed(made, chosen, left, measurement)


def racks(made: Site, rng: np.random.Generator, left: float, measurement: str = "burn") -> Site:
    rack = int(rng.integers(made.fleet.nodes // RACK))
    made.named = f"batch rack r{rack}"
    return slowed(made, np.arange(rack * RACK, (rack + 1) * RACK), left, measurement)


def unnamed(made: Site, rng: np.random.Generator, part: float, left: float, measurement: str) -> Site:
    return slowed(made, rng.permutation(made.fleet.nodes)[: round(part * made.fleet.nodes)], left, measurement)


def gradient(made: Site, most: float) -> Site:
    """Each rack a little slower than the one before, all of them good."""
    count = max(1, made.fleet.nodes // RACK)
    for at in range(made.fleet.nodes):
        made.fleet.true["burn"][at] *= 1 + most * (0.5 - (at // RACK) / max(1, count - 1))
    return made


def platforms(made: Site, rng: np.random.Generator) -> Site:
    """Every other rack is of a platform that is a third slower, and some racks of one have another firmware."""
    for at in range(made.fleet.nodes):
        if (at // RACK) % 2:
            made.platform[at] = "hgx-h200-8"
            made.fleet.true["burn"][at] *= 0.66
            made.traits[at]["VBIOS"] = "97.00.01"
    return racks(made, rng, 0.95)


def one_driver(made: Site, rng: np.random.Generator, left: float) -> Site:
    """One node has another driver than all others."""
    chosen = rng.permutation(made.fleet.nodes)[:1]
    made.driver[int(chosen[0])] = "570.1"
    return slowed(made, chosen, left) if left < 1 else made


def drivers(made: Site, rng: np.random.Generator, left: float) -> Site:
    """A quarter of the nodes has another driver."""
    chosen = rng.permutation(made.fleet.nodes)[: made.fleet.nodes // 4]
    made.driver = dict.fromkeys(map(int, chosen), "570.1")
    made.named = "batch driver 570.1"
    return slowed(made, chosen, left)


def one_place(made: Site, left: float) -> Site:
    """GPU 3 is slow on every node."""
    made.fleet.true["burn"][:, :, 3] *= left
    made.slow, made.named = set(range(made.fleet.nodes)), "slot"
    return made


Make = Callable[[Site, np.random.Generator], Site]
CASES: dict[str, Make] = {
    "all good, two kernels": lambda made, _: made,
    "gradient of 4 % over the racks": lambda made, _: gradient(made, 0.04),
    "a firmware on 30 %, 3 % slow": lambda made, rng: firmware(made, rng, 0.3, 0.97),
    "a firmware on 20 %, 5 % slow": lambda made, rng: firmware(made, rng, 0.2, 0.95),
    "a firmware on 20 %, 10 % slow": lambda made, rng: firmware(made, rng, 0.2, 0.90),
    "a firmware on 20 %, busbw 5 % slow": lambda made, rng: firmware(made, rng, 0.2, 0.95, "busbw"),
    "a firmware on 70 %, 5 % slow": lambda made, rng: firmware(made, rng, 0.7, 0.95),
    "a rack 5 % slow": lambda made, rng: racks(made, rng, 0.95),
    "a rack 5 % slow, busbw": lambda made, rng: racks(made, rng, 0.95, "busbw"),
    "a rack 5 % slow in a gradient of 2 %": lambda made, rng: racks(gradient(made, 0.02), rng, 0.95),
    "two platforms, a rack 5 % slow": platforms,
    "any 20 %, 5 % slow": lambda made, rng: unnamed(made, rng, 0.2, 0.95, "burn"),
    "any 20 %, busbw 5 % slow": lambda made, rng: unnamed(made, rng, 0.2, 0.95, "busbw"),
    "one node with another driver, good": lambda made, rng: one_driver(made, rng, 1.0),
    "one node with another driver, 30 % slow": lambda made, rng: one_driver(made, rng, 0.7),
    "a driver on 25 %, 4 % slow": lambda made, rng: drivers(made, rng, 0.96),
    "GPU 3 of every node 7 % slow": lambda made, _: one_place(made, 0.93),
}


def metrics_of(made: Site, measurement: str, looks: np.ndarray, node: int) -> list[Metric]:
    conditions, unit = {"driver": made.driver.get(node, "580.1")}, "GB/s" if measurement == "busbw" else "TFLOPS"
    return [
        Metric(name, tuple(looks[:, node, at, place].tolist()), unit, device, conditions=conditions)
        for at, name in enumerate(NAMES[measurement])
        for place, device in enumerate([""] if measurement == "busbw" else PLACES)
    ]


def judged(made: Site) -> tuple[list[Verdict], list[set[str]]]:
    """The verdict on each node after all looks, and the codes of what is said of it."""
    nodes = made.fleet.nodes
    names = [f"gpu{at:05}" for at in range(nodes)]
    verdicts: list[list[Verdict]] = [[] for _ in names]
    codes: list[set[str]] = [set() for _ in names]
    traits = {name: made.traits[at] for at, name in enumerate(names)}
    for measurement in JUDGED:
        looks = made.fleet.looks(measurement)
        measured = {
            name: (made.platform.get(at, PLATFORM), metrics_of(made, measurement, looks, at))
            for at, name in enumerate(names)
        }
        peers = Peers.of(measured, traits)
        for at, (name, (_, metrics)) in enumerate(measured.items()):
            found = [each for _, each in assessments(metrics, baseline=BASELINE, peers=peers.of_node(name))]
            verdicts[at].append(worst(each.verdict for each in found))
            codes[at] |= {each.code for each in found if each.code.startswith(BATCHES)}
    return [worst(each) for each in verdicts], codes


def is_named(made: Site, codes: list[set[str]]) -> bool:
    told_of = set().union(*codes)
    return all(made.named in codes[at] for at in made.slow) and told_of == {made.named} if made.named else not told_of


def main() -> None:
    asked = [word for word in sys.argv[1:] if word != "--quick"]
    sizes = ((16, 10), (64, 5)) if "--quick" in sys.argv else ((8, 30), (16, 30), (64, 30), (128, 20))
    print(
        "| what | nodes | % of slow rejected | % of slow rejected or warned [95 %] | % of good rejected | % of good"
        " warned | named |"
    )
    print("|---|---|---|---|---|---|---|")
    began = time.process_time()
    for number, (name, make) in enumerate(CASES.items()):
        if asked and not any(word in name for word in asked):
            continue
        for nodes, fleets in sizes:
            rng = np.random.default_rng([nodes, fleets, number])
            bad, rest, named = Told(), Told(), 0
            for _ in range(fleets):
                made = make(site(rng, nodes), rng)
                verdicts, codes = judged(made)
                bad += told([each for at, each in enumerate(verdicts) if at in made.slow])
                rest += told([each for at, each in enumerate(verdicts) if at not in made.slow])
                named += is_named(made, codes)
            doubted = share(bad.rejected + bad.warned, bad.nodes)
            rejected, wronged = share(bad.rejected, bad.nodes).split(" ")[0], share(rest.rejected, rest.nodes)
            row = (
                name,
                nodes,
                rejected,
                doubted,
                wronged,
                share(rest.warned, rest.nodes).split(" ")[0],
                f"{named}/{fleets}",
            )
            print(f"| {' | '.join(map(str, row))} |", flush=True)
    print(f"\n{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
