"""What a device's own past says, over months of runs: python bench/drift.py [--quick] [SECTION ...] [low] [high].

The generator shares nothing with the judging but the metric's type: values, noise, disturbances, ageing and steps are
drawn here. nodegate's own code says what each run finds, and who is measured twice more; the best of three is kept, the
first values and the newest, as the index of earlier runs keeps them. Most values are so plain that nothing can be said
of them: they are sorted out here with wide margins (a mean of newest runs 2 % below a mean of first ones and 3.5
deviations, or one run 2 % and 2.5 deviations below the usual), the others are judged.

Sections: alarms (nothing ages: false alarms of a fleet in a year of nights), frog (1 % a week: how much is lost when it
is found), steps (what is said of a step in the runs after it), alone (a node without others).

The other comparisons pass every value: what is said is by the past alone. Assumed: noise is normal and independent from
run to run, 1 % of single looks lose 5 to 30 %, and the other nodes are as noisy. Not modelled: what a whole fleet
shares, such as a hot day.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np

from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.metric import Metric
from nodegate.numbers.comparison import Margins, NoPeers, PeerGroup
from nodegate.numbers.past import Pasts, history
from nodegate.past.series import FIRST, NEWEST
from nodegate.records.verdict import Verdict

MARGINS = Margins.of(Baseline("hgx-h100-8", "", "", "", "", Baselines.read().common))
NODES, NIGHTS = 1250, 365
NUMBERS = 78  # of a node
DISTURBED = 0.01
MORE_LOOKS = 2
ALONE_LOOKS = (3, 9)
NIGHT, WEEK = 1 / 7, 1.0  # weeks between two runs
OLD, NEW = (1, 2, 4, 8, 16), (2, 3, 4, 6, 8, 16, 32)


@dataclass(frozen=True)
class Kind:
    """A quantity of so many devices of a node, `count` such quantities, and how far two runs lie apart."""

    name: str
    devices: int
    noise: float
    count: int = 1
    chips: float = 0.0


LOW = (Kind("matrix products", 8, 0.005, 3, 0.015), Kind("copies", 8, 0.01, 6), Kind("collectives", 1, 0.01, 6))
HIGH = (LOW[0], Kind("copies", 8, 0.03, 6), Kind("collectives", 1, 0.03, 6))


class Fleet:
    """`nodes` nodes of one kind, run after run. `left` gives what is left of each device's speed in a run."""

    def __init__(self, rng: np.random.Generator, kind: Kind, nodes: int, runs: int) -> None:
        self.rng, self.kind, self.nodes = rng, kind, nodes
        self.true = (
            480 * rng.normal(1, kind.chips, (nodes, kind.devices))
            if kind.chips
            else np.full((nodes, kind.devices), 480.0)
        )
        self.kept = np.zeros((nodes, kind.devices, runs))
        self.sums = np.zeros((nodes, kind.devices, runs + 1))
        self.runs = self.again = 0

    def look(self, left: np.ndarray) -> np.ndarray:
        lost = (self.rng.random(left.shape) < DISTURBED) * self.rng.uniform(0.05, 0.30, left.shape)
        return self.true * left * self.rng.normal(1, self.kind.noise, left.shape) * (1 - lost)

    def run(self, left: np.ndarray) -> dict[tuple[int, int], Verdict]:
        """What is said of the devices after this run, by node and device."""
        first = self.look(left)
        more = [self.look(left) for _ in range(MORE_LOOKS)]
        found = {}
        for node, device in zip(*np.nonzero(self._odd(first)), strict=True):
            attempts = [first[node, device]]
            verdict, again = self._judged(node, device, first, attempts)
            if again:
                self.again += 1
                attempts += [look[node, device] for look in more]
                first[node, device] = max(attempts)
                verdict, _ = self._judged(node, device, first, attempts)
            if verdict in (Verdict.WARN, Verdict.FAIL):
                found[int(node), int(device)] = verdict
        self.kept[:, :, self.runs] = first
        self.sums[:, :, self.runs + 1] = self.sums[:, :, self.runs] + first
        self.runs += 1
        return found

    def _odd(self, now: np.ndarray) -> np.ndarray:
        """Those of whom anything could be said at all."""
        runs = self.runs
        if not runs:
            return np.zeros(now.shape, bool)
        noise = self.kind.noise * 480
        usual = np.median(self.kept[:, :, max(0, runs - 8) : runs], axis=2)
        odd = usual - now > max(0.02 * 480, 2.5 * noise)
        for old in (each for each in OLD if each < runs):
            before = self.sums[:, :, old] / old
            for new in (each for each in NEW if each + old <= runs + 1):
                mean = (self.sums[:, :, runs] - self.sums[:, :, runs + 1 - new] + now) / new
                odd |= before - mean > max(0.02 * 480, 3.5 * noise * (1 / old + 1 / new) ** 0.5)
        return odd

    def _judged(self, node: int, device: int, now: np.ndarray, attempts: list[float]) -> tuple[Verdict, bool]:
        alike = [Metric("bench", (float(value),), "GB/s", f"GPU {at}") for at, value in enumerate(now[node])]
        alike[device] = Metric("bench", tuple(map(float, attempts)), "GB/s", f"GPU {device}")
        held = {each.device: first_and_newest(self.kept[node, at, : self.runs]) for at, each in enumerate(alike)}
        nodes = NODES - 1
        spread = (self.kind.noise**2 + self.kind.chips**2) ** 0.5
        group = PeerGroup(nodes, nodes, self.true[node, device], spread, 0.75 * nodes, nodes)
        past = Pasts(alike, lambda each: held[each.device]).of(alike[device], group, MARGINS)
        value = alike[device].best
        found = history(alike[device], value, past, MARGINS, proven=True, like_others=True)
        if found is None:
            return Verdict.SKIP, False
        return found.verdict, found.again or found.verdict in (Verdict.WARN, Verdict.FAIL)


def first_and_newest(values: np.ndarray) -> list[float]:
    kept = values.tolist()
    return kept if len(kept) <= FIRST + NEWEST else kept[:FIRST] + kept[-NEWEST:]


def table(*titles: str) -> None:
    row(*titles)
    row(*["---"] * len(titles))


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def alarms(*, quick: bool) -> None:
    """False alarms of a fleet in a year of nights."""
    nodes, years = (125, 1) if quick else (NODES, 1)
    print(f"\nFalse alarms: {years} year of nights, {nodes} nodes, nothing ages\n")
    table("noise", "numbers a node", "alarms", "a year in 1,250 nodes", "looks again, a node and night")
    levels = {"low": LOW, "high": HIGH}
    for name, kinds in levels.items():
        if not levels.keys().isdisjoint(sys.argv) and name not in sys.argv:
            continue
        told = again = numbers = 0
        for year in range(years):
            for at, kind in enumerate(kinds):
                for quantity in range(kind.count):
                    fleet = Fleet(np.random.default_rng([year, at, quantity]), kind, nodes, NIGHTS)
                    level = np.ones((nodes, kind.devices))
                    told += len({where for _ in range(NIGHTS) for where in fleet.run(level)})
                    again += fleet.again
            numbers = sum(kind.count * kind.devices for kind in kinds)
        most = told + 2 * told**0.5 + 3.7
        scale = NODES / nodes / years
        looks = again / nodes / years / NIGHTS
        row(name, numbers, told, f"{told * scale:.1f} (at most {most * scale:.1f})", f"{looks:.3f}")


def frog(*, quick: bool) -> None:
    """One per cent a week: what is lost when the past says so."""
    nodes = 20 if quick else 100
    print(f"\nOne device in each of {nodes} nodes loses 1 % a week\n")
    table(
        *("quantity", "noise", "runs", "steady runs before"),
        *("lost when found, median", "95 of 100", "found at 6 % or less"),
    )
    kinds = [
        ("matrix products", 8, 0.003),
        ("matrix products", 8, 0.005),
        ("copies", 8, 0.01),
        ("collectives", 1, 0.01),
        ("collectives", 1, 0.02),
        ("collectives", 1, 0.03),
    ]
    for name, devices, noise in kinds:
        for said, weeks in (("every night", NIGHT), ("every week", WEEK)):
            for before in (0, 8, 20):
                most = before + int(18 / weeks)
                fleet = Fleet(np.random.default_rng(7), Kind(name, devices, noise), nodes, most)
                lost = np.full(nodes, np.inf)
                for run in range(most):
                    left = np.ones((nodes, devices))
                    left[:, 0] -= 0.01 * weeks * max(0, run - before)
                    for node, device in fleet.run(left):
                        if device == 0 and run > before:
                            lost[node] = min(lost[node], 1 - left[node, 0])
                    if np.isfinite(lost).all():
                        break
                share = 100 * np.mean(lost < 0.0601)
                median, most_lost = (100 * np.quantile(lost, at, method="higher") for at in (0.5, 0.95))
                shares = (f"{median:.1f} %", f"{most_lost:.1f} %", f"{share:.0f} %")
                row(name, f"{100 * noise:g} %", said, before, *shares)


def steps(*, quick: bool) -> None:
    """A step, and what is said of it in the months after."""
    nodes = 20 if quick else 100
    print(f"\nOne device in each of {nodes} nodes is slower from one night on\n")
    table(
        *("quantity", "noise", "step", "nights before"),
        *("warned of in the 2nd night", "in the 10th", "in the 60th", "in the 120th"),
    )
    for name, devices, noise in (
        ("matrix products", 8, 0.005),
        ("copies", 8, 0.01),
        ("collectives", 1, 0.01),
        ("collectives", 1, 0.03),
    ):
        for step in (0.06, 0.10):
            for before in (3, 30):
                fleet = Fleet(np.random.default_rng(9), Kind(name, devices, noise), nodes, before + 121)
                told = []
                for run in range(before + 121):
                    left = np.ones((nodes, devices))
                    left[:, 0] -= step * (run >= before)
                    said = fleet.run(left)
                    if run - before in (1, 9, 59, 119):
                        told.append(sum(device == 0 for _, device in said) / nodes)
                shares = (f"{100 * each:.0f} %" for each in told)
                row(name, f"{100 * noise:g} %", f"{100 * step:.0f} %", before, *shares)


def alone(*, quick: bool) -> None:
    """A node without others: a step of 6 % after 8 runs, 1 % a week after 4 steady weeks, a year without a fault."""
    series, nights = (20, 60) if quick else (50, NIGHTS)
    steady = series if quick else 3 * NUMBERS  # three years of a node
    print(f"\nA lone node, three looks a run, {series} series\n")
    table(
        *("quantity", "noise", "runs with a step that are told, of 20", "series told in each", "lost when found"),
        *("95 of 100", f"of nights without a fault told, of {steady * nights}", "rejected"),
    )
    for kind in (Kind("matrix products", 8, 0.005, chips=0.015), Kind("collectives", 1, 0.01)):
        rng = np.random.default_rng(11)
        step = [run_alone(rng, kind, [1.0] * 8 + [0.94] * 20)[8:] for _ in range(series)]
        weeks = [1 - 0.01 * max(0, week - 4) for week in range(20)]
        lost = [next((1 - weeks[at] for at, said in enumerate(run_alone(rng, kind, weeks)) if said), 1.0) for _ in step]
        good = [said for _ in range(steady) for said in run_alone(rng, kind, [1.0] * nights)]
        told = [sum(map(bool, each)) for each in step]
        shares = (f"{100 * np.mean(told) / 20:.1f} %", f"{100 * np.mean(np.array(told) == 20):.0f} %")
        found = (f"{100 * np.median(lost):.0f} %", f"{100 * np.quantile(lost, 0.95, method='higher'):.0f} %")
        row(kind.name, f"{100 * kind.noise:g} %", *shares, *found, sum(map(bool, good)), good.count(Verdict.FAIL))


def run_alone(rng: np.random.Generator, kind: Kind, left: list[float]) -> list[Verdict | None]:
    """What is said of the first device in each run; its node has so much left. Nine looks where three leave a doubt."""
    true = 480 * rng.normal(1, kind.chips, kind.devices)
    kept: list[list[float]] = []
    said: list[Verdict | None] = []
    for share in left:
        shape = (kind.devices, ALONE_LOOKS[-1])
        lost = (rng.random(shape) < DISTURBED) * rng.uniform(0.05, 0.30, shape)
        looks = true[:, None] * share * rng.normal(1, kind.noise, shape) * (1 - lost)
        held = [first_and_newest(np.array([run[at] for run in kept])) for at in range(kind.devices)]
        for count in ALONE_LOOKS:
            alike = [Metric("bench", tuple(map(float, each[:count])), "GB/s", str(at)) for at, each in enumerate(looks)]
            past = Pasts(alike, lambda each: held[int(each.device)]).of(alike[0], NoPeers(""), MARGINS)  # noqa: B023
            found = history(alike[0], alike[0].judged, past, MARGINS, proven=False, like_others=False)
            if found is None:  # else whatever is said or doubted is measured again
                break
        said.append(found.verdict if found and found.verdict is not Verdict.SKIP else None)
        if said[-1] is not Verdict.FAIL:  # a run that failed is not kept
            kept.append([each.judged for each in alike])
    return said


def main() -> None:
    """Run the sections that are asked for."""
    asked = {"alarms", "frog", "steps", "alone"}.intersection(sys.argv)
    for section in (alarms, frog, steps, alone):
        if not asked or section.__name__ in asked:
            started = time.process_time()
            section(quick="--quick" in sys.argv)
            print(f"\n{section.__name__}: {time.process_time() - started:.0f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
