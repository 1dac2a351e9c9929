"""Draws fleets of measured numbers and writes them: python bench/fleets.py FOLDER [--share S] [--seed N] [CELL ...].

It imports numpy alone: no rule, constant or type of the judging. A fleet is nine looks at 78 numbers a node: the burn
(three types x 8 GPUs), copies (six x 8) and collectives (six of the node). `bench/judged_fleets.py` judges what it
wrote.

Distributions: runs of one node vary by 0.5 % in GEMM (ten public burns on H100 lie within 1 %), 1 to 3 % in copies and
collectives (nccl-tests in public clusters); GPUs of one model differ by 1.5 % for good (chip lottery; published for
V100, A100 and H100); 1 % of looks lose 5 to 30 % to something else. Skewed noise dips below a ceiling (a line rate):
one minus an exponential. These shapes are assumptions, not measurements of a fleet.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

LOOKS, GPUS = 9, 8
WIDTH = {"burn": 3 * GPUS, "copies": 6 * GPUS, "busbw": 6}
SPEED = {
    "burn": np.repeat([745.0, 1400.0, 54.0], GPUS),
    "copies": np.repeat([55.0, 455.0, 855.0, 1255.0, 1655.0, 2055.0], GPUS),
    "busbw": np.array([480.0, 440.0, 400.0, 360.0, 320.0, 280.0]),
}


@dataclass(frozen=True)
class Noise:
    """Coefficients of variation of a look, of chips for good, of places, of nodes; the share of looks disturbed."""

    gemm: float = 0.005
    copies: float = 0.01
    busbw: float = 0.01
    shape: str = "normal"
    chips: float = 0.015
    places: float = 0.01
    nodes: float = 0.002
    disturbed: float = 0.01
    by_run: bool = False

    def of(self, measurement: str) -> float:
        return {"burn": self.gemm, "copies": self.copies, "busbw": self.busbw}[measurement]


LOW = Noise()
HIGH = replace(LOW, copies=0.03, busbw=0.03)
SKEWED = {percent: replace(LOW, copies=percent / 100, busbw=percent / 100, shape="skewed") for percent in (1, 2, 3)}
HEAVY = replace(LOW, shape="heavy")
BY_RUN = replace(LOW, by_run=True)


@dataclass(frozen=True)
class Cell:
    """So many fleets of so many nodes. `slow` of them (a count, or a part below 1) have `left` of their speed.

    `where`: the measurement; `what`: its quantities that are slow; `looks`: the share of looks that are so.
    """

    name: str
    nodes: int
    fleets: int
    noise: Noise
    slow: float = 0.0
    left: float = 1.0
    where: str = ""
    what: tuple[int, ...] = (0,)
    looks: float = 1.0


def cells() -> list[Cell]:
    """All of them: enough good nodes or planted ones in each for its question."""
    found = []
    noises = {"low": LOW, "high": HIGH, "by run": BY_RUN, "heavy": HEAVY}
    noises |= {f"skewed {percent} %": each for percent, each in SKEWED.items()}
    for name, noise in noises.items():
        found += [Cell(f"good, {name}, {nodes}", nodes, 2400 // nodes, noise) for nodes in (8, 16, 64, 128)]
    for name in ("low", "high", "skewed 2 %"):
        found.append(Cell(f"good, {name}, 1250", 1250, 10, noises[name]))
    all_six = tuple(range(6))
    for nodes, fleets, slow in ((8, 300, 1), (64, 75, 4), (1250, 6, 50)):
        planted = {"nodes": nodes, "fleets": fleets, "slow": slow, "left": 0.95}
        found.append(Cell(f"5 % in one of six, CV 1 %, {nodes}", noise=LOW, where="busbw", **planted))
        found.append(Cell(f"5 % in all six, CV 3 %, {nodes}", noise=HIGH, where="busbw", what=all_six, **planted))
        found.append(Cell(f"5 % in one copy, CV 3 %, {nodes}", noise=HIGH, where="copies", **planted))
        found.append(Cell(f"5 % in GEMM, {nodes}", noise=LOW, where="burn", what=(0, 1, 2), **planted))
    for part in (0.2, 0.4):
        for left in (0.95, 0.90):
            fleets = round(320 / (64 * part))
            said = f"{100 * part:.0f} % of 64 are {100 * (1 - left):.0f} % slow"
            for where, what in (("burn", (0, 1, 2)), ("busbw", all_six)):
                found.append(Cell(f"{said}, {where}", 64, fleets, LOW, part, left, where, what))
    for nodes in (1, 2, 3, 4):
        planted = {"nodes": nodes, "fleets": 300, "slow": 1, "left": 0.9, "where": "burn", "what": (0, 1, 2)}
        found.append(Cell(f"10 % in GEMM, one node of {nodes}", noise=LOW, **planted))
        found.append(Cell(f"good, low, {nodes}", nodes, 1000 // nodes, LOW))
    for looks in (0.5, 0.25):
        found.append(Cell(f"half speed in {looks:.0%} of looks, 16", 16, 300, LOW, 1, 0.5, "busbw", all_six, looks))
    return found


def drawn(cell: Cell, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One fleet: an array (look, node, number) for each measurement, and which nodes are bad."""
    bad = np.zeros(cell.nodes, dtype=bool)
    count = cell.slow if cell.slow >= 1 or not cell.slow else max(1, round(cell.slow * cell.nodes))
    bad[rng.permutation(cell.nodes)[: int(count)]] = True
    found = {"bad": bad}
    noise = cell.noise
    chips = np.tile(rng.normal(1, noise.chips, (cell.nodes, GPUS)), (1, 3))
    for measurement in [cell.where] if cell.where else WIDTH:
        width = WIDTH[measurement]
        true = SPEED[measurement] * rng.normal(1, noise.nodes, (cell.nodes, 1))
        if measurement != "busbw":
            true = true * rng.normal(1, noise.places, (1, width))
        if measurement == "burn":
            true = true * chips
        left = np.ones((LOOKS, cell.nodes, width))
        if measurement == cell.where:
            wide = 1 if measurement == "busbw" else GPUS
            columns = np.concatenate([np.arange(each * wide, (each + 1) * wide) for each in cell.what])
            hit = (rng.random((LOOKS, cell.nodes, 1)) < cell.looks) & bad[None, :, None]
            left[:, :, columns] = np.where(hit, cell.left, 1.0)
        found[measurement] = (true * left * look_at(measurement, noise, (LOOKS, cell.nodes, width), rng)).astype("f4")
    return found


def look_at(measurement: str, noise: Noise, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """What a look at a device has of its true speed; the first two of the shape are looks and nodes."""
    size = noise.of(measurement)
    if noise.shape == "skewed" and measurement != "burn":
        look = 1 - rng.exponential(size, shape)
    elif noise.shape == "heavy":
        look = 1 + size * rng.standard_t(3, shape) / np.sqrt(3)
    else:
        look = 1 + size * rng.normal(0, 1, shape)
    of = (*shape[:2], 1) if noise.by_run else shape
    lost = (rng.random(of) < noise.disturbed) * rng.uniform(0.05, 0.30, of)
    return np.maximum(look, 0.01) * (1 - lost)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder", type=Path)
    words.add_argument("--share", type=float, default=1.0, help="of the fleets of each cell")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("cells", nargs="*", help="parts of their names")
    given = words.parse_intermixed_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for at, cell in enumerate(cells()):
        if given.cells and not any(word in cell.name for word in given.cells):
            continue
        fleets = max(1, round(cell.fleets * given.share))
        rng = np.random.default_rng([given.seed, at])
        for fleet in range(fleets):
            np.savez(given.folder / f"{at:02}-{fleet:04}.npz", name=cell.name, **drawn(cell, rng))


if __name__ == "__main__":
    main()
