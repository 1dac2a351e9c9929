"""Good and slow nodes in whole runs with noise as it is published: python bench/noise.py [--quick] [SECTION ...].

The generator shares nothing with the judging but the metric's type: speeds, slots, chips, noise and disturbances are
drawn here; nodegate's own code decides who is measured again and what is said. A run is three measurements: the burn
(three types x 8 GPUs), copies (six x 8) and collectives (six of the node), 78 numbers a node, each measured once and
its suspects twice more, and in a large fleet who would be rejected once more. Sections: good (nothing is slow), slow
(one node, one GPU, a fifth of the fleet).
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, replace

import numpy as np

from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.metric import Metric
from nodegate.numbers.assessments import assessments
from nodegate.numbers.peers import Peers
from nodegate.numbers.suspects import TIMES_MORE, rejected, suspects, with_equal_looks
from nodegate.records.verdict import Verdict, worst

PLATFORM = "hgx-h100-8"
GPUS = 8
BASELINE = Baseline(PLATFORM, "", "", "", "", Baselines.read().common)
ADDRESSES = [f"{0x1A + 0x10 * place:08x}:00:00.0" for place in range(GPUS)]
Name = tuple[str, str]  # measurement, metric
RUN: dict[str, tuple[tuple[str, float], ...]] = {
    "burn": (("burn.bf16", 745.0), ("burn.fp8", 1400.0), ("burn.fp32", 54.0)),
    "copies": tuple((f"copies.{at}", 55.0 + 400.0 * at) for at in range(6)),
    "busbw": tuple((f"nccl.{at}", 480.0 - 40.0 * at) for at in range(6)),
}
UNITS = {"burn": "TFLOPS", "copies": "GB/s", "busbw": "GB/s"}


@dataclass(frozen=True)
class Noise:
    """Coefficients of variation, and the share of single numbers or of whole runs that lose 5 to 30 %.

    `chips`: how far apart healthy GPUs are in the burn, for good; `slots`: the places of a node, the same on all.
    `unequal`: how unlike the numbers of one measurement are in their noise (standard deviation of its logarithm).
    """

    name: str
    gemm: float
    copies: float
    busbw: float
    chips: float
    disturbed: float = 0.01
    by_run: bool = False
    slots: float = 0.01
    unequal: float = 0.0

    def of(self, measurement: str) -> float:
        return {"burn": self.gemm, "copies": self.copies, "busbw": self.busbw}[measurement]


LOW = Noise("low", 0.005, 0.01, 0.01, 0.015)
LEVELS = (
    Noise("quiet", 0.003, 0.003, 0.005, 0.0, by_run=True),
    LOW,
    replace(LOW, name="low, disturbed by run", by_run=True),
    replace(LOW, name="low, equal chips", chips=0.0),
    replace(LOW, name="low, unequal", unequal=0.5),
    replace(LOW, name="high", copies=0.03, busbw=0.03),
)


@dataclass(frozen=True)
class Told:
    """What was said of the nodes of one kind."""

    nodes: int = 0
    rejected: int = 0
    warned: int = 0
    fleets: int = 0
    hit: int = 0  # fleets in which one was rejected

    def __add__(self, other: Told) -> Told:
        return Told(*(mine + its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True)))


class Fleet:
    """The true speeds of a fleet, and looks at it. `slow` maps (node, GPU or None, measurement) to what is left."""

    def __init__(self, rng: np.random.Generator, noise: Noise, nodes: int) -> None:
        self.rng, self.noise, self.nodes = rng, noise, nodes
        self.true: dict[str, np.ndarray] = {}
        self.noises = {
            measurement: noise.of(measurement) * np.exp(rng.normal(0, noise.unequal, (1, len(metrics), 1)))
            for measurement, metrics in RUN.items()
        }
        chips = rng.normal(1, noise.chips, (nodes, GPUS)) if noise.chips else np.ones((nodes, GPUS))
        for measurement, metrics in RUN.items():
            wide = 1 if measurement == "busbw" else GPUS
            speed = np.array([good for _, good in metrics])[None, :, None] * np.ones((nodes, 1, wide))
            if wide > 1:
                speed = speed * rng.normal(1, noise.slots, (1, len(metrics), wide))
            self.true[measurement] = speed * chips[:, None, :] if measurement == "burn" else speed

    def slowed(self, measurement: str, nodes: np.ndarray, left: float, gpu: int | None = None) -> None:
        """The burn in all types; of copies and collectives only one, which is the harder case."""
        places = slice(None) if gpu is None else slice(gpu, gpu + 1)
        kinds = slice(None) if measurement == "burn" else slice(1)
        for node in nodes:
            self.true[measurement][node, kinds, places] *= left

    def look(self, measurement: str) -> np.ndarray:
        true, noise = self.true[measurement], self.noise
        shape = (self.nodes, 1, 1) if noise.by_run else true.shape
        lost = (self.rng.random(shape) < noise.disturbed) * self.rng.uniform(0.05, 0.30, shape)
        return true * (1 + self.noises[measurement] * self.rng.normal(0, 1, true.shape)) * (1 - lost)


def metrics_of(measurement: str, looks: list[np.ndarray], node: int, count: int) -> list[Metric]:
    devices = [""] if measurement == "busbw" else ADDRESSES
    return [
        Metric(name, tuple(float(look[node, at, place]) for look in looks[:count]), UNITS[measurement], device=device)
        for at, (name, _) in enumerate(RUN[measurement])
        for place, device in enumerate(devices)
    ]


def judged(fleet: Fleet) -> tuple[list[Verdict], int]:
    """The verdict on each node after a whole run, and how many measurements were repeated."""
    names = [f"gpu{at:05}" for at in range(fleet.nodes)]
    worst_of: dict[str, list[Verdict]] = {name: [] for name in names}
    repeated = 0
    baselines = dict.fromkeys(names, BASELINE)
    for measurement in RUN:
        looks = [fleet.look(measurement) for _ in range(2 + TIMES_MORE)]
        counts = dict.fromkeys(names, 1)
        measured = {name: (PLATFORM, metrics_of(measurement, looks, at, 1)) for at, name in enumerate(names)}
        for look in range(TIMES_MORE + 1):
            if look < TIMES_MORE:
                doubtful = with_equal_looks(suspects(measured, baselines), measured)
            else:
                doubtful = rejected(measured, baselines)
            repeated += len(doubtful)
            for at, name in enumerate(names):
                if name in doubtful:
                    counts[name] += 1
                    measured[name] = (PLATFORM, metrics_of(measurement, looks, at, counts[name]))
        peers = Peers.of(measured)
        for name, (_, metrics) in measured.items():
            found = assessments(metrics, baseline=BASELINE, peers=peers.of_node(name))
            worst_of[name].append(worst(each.verdict for _, each in found))
    return [worst(each) for each in worst_of.values()], repeated


def told(verdicts: list[Verdict]) -> Told:
    bad = verdicts.count(Verdict.FAIL)
    return Told(len(verdicts), bad, verdicts.count(Verdict.WARN), 1, int(bad > 0))


def share(part: int, whole: int) -> str:
    """A share in per cent with its 95 % interval (Wilson 1927)."""
    if not whole:
        return "-"
    z, p = 1.96, part / whole
    middle = (p + z * z / (2 * whole)) / (1 + z * z / whole)
    reach = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole)) / (1 + z * z / whole)
    return f"{100 * p:.2f} [{max(0.0, 100 * (middle - reach)):.2f}-{100 * (middle + reach):.2f}]"


def good(quick: bool) -> None:
    """Good nodes only: every one that is rejected or warned of is wronged."""
    print("| noise | nodes | fleets | % of good nodes rejected [95 %] | fleets with one | % warned | repeats a node |")
    print("|---|---|---|---|---|---|---|")
    sizes = (
        ((4, 30), (8, 30), (16, 30), (64, 10))
        if quick
        else ((4, 60), (8, 60), (16, 40), (64, 30), (128, 30), (1250, 10))
    )
    for noise in LEVELS:
        for nodes, fleets in sizes:
            rng = np.random.default_rng([nodes, fleets, LEVELS.index(noise)])
            found, repeats = Told(), 0
            for _ in range(fleets):
                verdicts, repeated = judged(Fleet(rng, noise, nodes))
                found, repeats = found + told(verdicts), repeats + repeated
            warned, again = 100 * found.warned / found.nodes, repeats / found.nodes
            row = (noise.name, nodes, fleets, share(found.rejected, found.nodes), found.hit, f"{warned:.1f}")
            print(f"| {' | '.join(map(str, row))} | {again:.2f} |", flush=True)


@dataclass(frozen=True)
class Fault:
    """What is slow: which measurement, how much is left, of how many nodes; `gpu`: of one GPU of each only."""

    name: str
    measurement: str
    left: float
    part: float = 0.0  # of the fleet; 0: one node
    gpu: int | None = None
    noise: Noise = LOW


QUIET = LEVELS[0]
FAULTS = (
    Fault("node 5 % slow, GEMM", "burn", 0.95),
    Fault("node 5 % slow, one copy CV 1 %", "copies", 0.95),
    Fault("node 5 % slow, busbw CV 1 %", "busbw", 0.95),
    Fault("node 5 % slow, one copy CV 3 %", "copies", 0.95, noise=LEVELS[-1]),
    Fault("node 5 % slow, busbw CV 3 %", "busbw", 0.95, noise=LEVELS[-1]),
    Fault("node 10 % slow, busbw CV 3 %", "busbw", 0.90, noise=LEVELS[-1]),
    Fault("one GPU 10 % slow, GEMM", "burn", 0.90, gpu=3),
    Fault("one GPU 10 % slow, one copy CV 1 %", "copies", 0.90, gpu=3),
    Fault("a fifth 5 % slow, GEMM", "burn", 0.95, part=0.2),
    Fault("a fifth 5 % slow, busbw CV 1 %", "busbw", 0.95, part=0.2),
    Fault("node figure 2.4 % low, busbw CV 0.3 %", "busbw", 0.976, noise=replace(QUIET, busbw=0.003)),
    Fault("node figure 2.4 % low, busbw CV 1 %", "busbw", 0.976),
)


def slow(quick: bool) -> None:
    """Slow nodes among good ones: how many are rejected, or warned of; and what the good ones beside them get."""
    print("| slow | nodes | slow ones | % rejected [95 %] | % rejected or warned [95 %] | % of the good rejected |")
    print("|---|---|---|---|---|---|")
    sizes = ((8, 30), (64, 10)) if quick else ((8, 100), (16, 100), (64, 40), (128, 30), (1250, 3))
    for fault in FAULTS:
        for nodes, fleets in sizes:
            rng = np.random.default_rng([nodes, fleets, FAULTS.index(fault)])
            bad, rest = Told(), Told()
            for _ in range(fleets):
                fleet = Fleet(rng, fault.noise, nodes)
                count = max(1, round(fault.part * nodes))
                chosen = rng.permutation(nodes)[:count]
                fleet.slowed(fault.measurement, chosen, fault.left, fault.gpu)
                verdicts, _ = judged(fleet)
                picked = set(chosen.tolist())
                bad += told([each for at, each in enumerate(verdicts) if at in picked])
                rest += told([each for at, each in enumerate(verdicts) if at not in picked])
            doubted = share(bad.rejected + bad.warned, bad.nodes)
            row = (
                fault.name,
                nodes,
                bad.nodes,
                share(bad.rejected, bad.nodes),
                doubted,
                share(rest.rejected, rest.nodes),
            )
            print(f"| {' | '.join(map(str, row))} |", flush=True)


SECTIONS = {"good": good, "slow": slow}


def main() -> None:
    asked = [word for word in sys.argv[1:] if word != "--quick"]
    for name in asked or SECTIONS:
        began = time.process_time()
        print(f"\n## {name}\n")
        SECTIONS[name]("--quick" in sys.argv)
        print(f"\n{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
