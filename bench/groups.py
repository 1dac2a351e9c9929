"""Who is named where launches over several nodes are bad, who is wronged, and what it costs.

Whole runs over drawn fleets (tests/support/launched_fleet.py, which shares nothing with the judging): nodegate's own
code decides what is launched, searched, measured again and said.
Sections: healthy, faults, small_racks, cost.

    PYTHONPATH=tests python bench/groups.py [--quick] [SECTION ...]
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from support.launched_fleet import Fabric, Judged, Path, Sick, measured, racks_of

Racks = Mapping[str, Sequence[str]]
Faults = Sequence[Sick | Path]
SHAPES = {"16 in 2": racks_of(2, 8), "64 in 8": racks_of(8, 8)}


def of_232() -> dict[str, list[str]]:
    """232 nodes in 13 racks, the fleet of NVIDIA's published figures."""
    found = racks_of(13, 18)
    found["r13"] = found["r13"][:16]
    return found


@dataclass(frozen=True)
class Told:
    """What was said in all fleets of a row."""

    fleets: int = 0
    named: int = 0
    doubted: int = 0
    rejected: int = 0
    held_up: int = 0
    good: int = 0
    launches: int = 0
    rounds: int = 0
    minutes: float = 0.0

    def __add__(self, other: Told) -> Told:
        return Told(*(mine + its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True)))


def concerned(judged: Judged) -> set[str]:
    """The nodes that the search calls one side of a path or behind uplinks."""
    return {name for name, found in judged.found.items() for run in found.runs if run.notes.concerned}


def told(racks: Racks, faults: Faults, **fabric: object) -> Told:
    """One fleet. Named: every sick node is rejected, and the search has the sides of every bad path, no more."""
    made = Fabric(racks, faults, **fabric)  # type: ignore[arg-type]
    judged = measured(made)
    everybody = set(made.names)
    sick = {each.node for each in faults if isinstance(each, Sick)}
    if made.lost is not None:
        sick.add(made.lost[0])
    sides: set[str] = set()
    for each in faults:
        if isinstance(each, Path):
            sides |= (
                each.one if each.one | each.other == everybody and each.one != half(racks) else each.one | each.other
            )
    good = everybody - sick - sides
    fails, warns = judged.are("fail"), judged.are("warn")
    stopped = fails | ({made.lost[0]} & judged.are("error") if made.lost else set())
    named = sick <= stopped and (not sides or concerned(judged) == sides)
    doubted = sick <= stopped | warns and (not sides or concerned(judged) == sides)
    wronged = len(fails - sick)
    held_up = len(good - judged.accepted - fails)
    return Told(1, named, doubted, wronged, held_up, len(good), made.launches, made.rounds, judged.minutes)


def half(racks: Racks) -> frozenset[str]:
    """The first half of the racks."""
    chosen = list(racks.values())[: len(racks) // 2]
    return frozenset(name for names in chosen for name in names)


def rest(racks: Racks, one: frozenset[str]) -> frozenset[str]:
    return frozenset(name for names in racks.values() for name in names) - one


def nodes(draw: random.Random, racks: Racks, count: int) -> list[str]:
    return draw.sample([name for names in racks.values() for name in names], count)


def two_racks(draw: random.Random, racks: Racks) -> list[frozenset[str]]:
    return [frozenset(racks[name]) for name in draw.sample(list(racks), 2)]


def pair(draw: random.Random, racks: Racks, how: str | float) -> Faults:
    one, other = nodes(draw, racks, 2)
    return [Path(frozenset({one}), frozenset({other}), how)]


def uplinks(draw: random.Random, racks: Racks, how: str | float) -> Faults:
    one = two_racks(draw, racks)[0]
    return [Path(one, rest(racks, one), how)]


def trunk(racks: Racks, how: str | float) -> Faults:
    return [Path(half(racks), rest(racks, half(racks)), how)]


def several(draw: random.Random, racks: Racks, count: int, how: str | float) -> Faults:
    return [Sick(name, how) for name in nodes(draw, racks, count)]


def wrong_and_slow(one: str, other: str) -> Faults:
    return [Sick(one, "wrong", "alltoall"), Sick(other, 0.7)]


Made = Callable[[random.Random, Racks], Faults]
FAULTS: Mapping[str, Made] = {
    "a node hangs": lambda draw, racks: several(draw, racks, 1, "hang"),
    "a node hangs in half of its launches": lambda draw, racks: [Sick(nodes(draw, racks, 1)[0], "hang", chance=0.5)],
    "a node hangs in a quarter of them": lambda draw, racks: [Sick(nodes(draw, racks, 1)[0], "hang", chance=0.25)],
    "a node hangs in alltoall only": lambda draw, racks: [Sick(nodes(draw, racks, 1)[0], "hang", "alltoall")],
    "a node brings wrong data in sendrecv only": lambda draw, racks: [
        Sick(nodes(draw, racks, 1)[0], "wrong", "sendrecv")
    ],
    "one wrong in alltoall, one 30 % slow": lambda draw, racks: wrong_and_slow(*nodes(draw, racks, 2)),
    "three nodes hang": lambda draw, racks: several(draw, racks, 3, "hang"),
    "a node 20 % slow": lambda draw, racks: several(draw, racks, 1, 0.8),
    "a node 10 % slow": lambda draw, racks: several(draw, racks, 1, 0.9),
    "a node 5 % slow": lambda draw, racks: several(draw, racks, 1, 0.95),
    "a node 3 % slow": lambda draw, racks: several(draw, racks, 1, 0.97),
    "a node hangs in launches over 3 and more": lambda draw, racks: [Sick(nodes(draw, racks, 1)[0], "hang", least=3)],
    "a node hangs in launches over 9 and more": lambda draw, racks: [Sick(nodes(draw, racks, 1)[0], "hang", least=9)],
    "a node 30 % slow in launches over 3 and more": lambda draw, racks: [Sick(nodes(draw, racks, 1)[0], 0.7, least=3)],
    "two nodes hang only together": lambda draw, racks: pair(draw, racks, "hang"),
    "two nodes 30 % slow only together": lambda draw, racks: pair(draw, racks, 0.7),
    "two racks hang together": lambda draw, racks: [Path(*two_racks(draw, racks), "hang")],
    "uplinks of a rack hang": lambda draw, racks: uplinks(draw, racks, "hang"),
    "uplinks of a rack 30 % slow": lambda draw, racks: uplinks(draw, racks, 0.7),
    "trunk between two halves hangs": lambda _draw, racks: trunk(racks, "hang"),
    "trunk between two halves 30 % slow": lambda _draw, racks: trunk(racks, 0.7),
}
COLUMNS = "fleets | named % | at least warned % | good nodes | rejected | not accepted | launches | rounds | minutes"
ONLY_WITH_MANY_RACKS = ("uplinks", "two racks", "trunk")  # of two racks nobody can say whose uplinks it is


def share(part: int, whole: int) -> str:
    """A share in per cent with its 95 % interval (Wilson 1927)."""
    z, p = 1.96, part / whole
    middle = (p + z * z / (2 * whole)) / (1 + z * z / whole)
    reach = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole)) / (1 + z * z / whole)
    return f"{100 * p:.2f} [{max(0.0, 100 * (middle - reach)):.2f}-{min(100.0, 100 * (middle + reach)):.2f}]"


def healthy(*, quick: bool) -> None:
    """Good nodes only: who is rejected is wronged."""
    print("| fabric | nodes, racks | node-runs | rejected | % rejected [95 %] | not accepted | launches | minutes |")
    print("|---|---|---|---|---|---|---|---|")
    levels: Mapping[str, Mapping[str, float]] = {
        "noise 1 %": {"noise": 0.01},
        "noise 2 %": {"noise": 0.02},
        "noise 1 %, 1 % of launches 5 to 30 % slow": {"noise": 0.01, "disturbed": 0.01},
        "two tiers: 12 % slower between racks": {"noise": 0.01, "across": 0.88},
    }
    for name, level in levels.items():
        for shape, racks in {**SHAPES, "16 in 8": racks_of(8, 2)}.items():
            count = (11 if shape.startswith("64") else 24) if quick else (40 if shape.startswith("64") else 160)
            found = Told()
            for seed in range(count):
                found += told(racks, (), seed=seed, **level)
            wronged = share(found.rejected, found.good)
            row = (name, shape, found.good, found.rejected, wronged, found.held_up + found.rejected)
            cost = (f"{found.launches / count:.0f}", f"{found.minutes / count:.0f}")
            print(f"| {' | '.join(map(str, (*row, *cost)))} |", flush=True)


def faults(*, quick: bool) -> None:
    """One fault, or two; noise 1 %."""
    print(
        "| fault | nodes, racks | fleets | named % | at least warned % | good nodes | rejected | not accepted |", end=""
    )
    print(" launches | rounds | minutes |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for name, make in FAULTS.items():
        for shape, racks in SHAPES.items():
            if name.startswith(ONLY_WITH_MANY_RACKS) and len(racks) < 3:
                continue
            count = (20 if shape.startswith("16") else 6) if quick else (60 if shape.startswith("16") else 30)
            found = Told()
            for seed in range(count):
                draw = random.Random(f"{name} {shape} {seed}")  # noqa: S311 - where the fault is
                found += told(racks, make(draw, racks), seed=seed)
            print(f"| {name} | {shape} | {_row(found)} |", flush=True)
    found, count = Told(), 10 if quick else 30
    for seed in range(count):
        draw = random.Random(f"lost {seed}")  # noqa: S311 - when it is lost
        racks = SHAPES["16 in 2"]
        found += told(racks, (), seed=seed, lost=(nodes(draw, racks, 1)[0], draw.randrange(1, 30)))
    print(f"| a node is lost on the way | 16 in 2 | {_row(found)} |", flush=True)


def small_racks(*, quick: bool) -> None:
    """Racks of a few nodes, 12 % slower between racks, and two nodes slow."""
    print(
        "| nodes, racks | two nodes | fleets | named % | at least warned % | good nodes | rejected | not accepted |",
        end="",
    )
    print(" launches | rounds | minutes |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for shape, racks in {"16 in 4": racks_of(4, 4), "16 in 8": racks_of(8, 2), "18 in 6": racks_of(6, 3)}.items():
        for left in (0.95, 0.9, 0.7, None):
            found = Told()
            for seed in range(8 if quick else 40):
                draw = random.Random(f"{shape}{left}{seed}")  # noqa: S311 - where the fault is
                found += told(racks, several(draw, racks, 2, left) if left else (), seed=seed, across=0.88)
            how = f"{100 * (1 - left):.0f} % slow" if left else "good"
            print(f"| {shape} | {how} | {_row(found)} |", flush=True)


def cost(*, quick: bool) -> None:
    """The fleet of NVIDIA's published figures."""
    print(
        "| 232 nodes in 13 racks | fleets | named % | at least warned % | good nodes | rejected | not accepted |",
        end="",
    )
    print(" launches | rounds | minutes |\n|---|---|---|---|---|---|---|---|---|---|")
    cases: Mapping[str, Made] = {
        "healthy": lambda _draw, _racks: (),
        "1 hangs": lambda draw, racks: several(draw, racks, 1, "hang"),
        "5 hang": lambda draw, racks: several(draw, racks, 5, "hang"),
        "5 are 20 % slow": lambda draw, racks: several(draw, racks, 5, 0.8),
        "2 nodes hang only together": lambda draw, racks: pair(draw, racks, "hang"),
        "uplinks of a rack hang": lambda draw, racks: uplinks(draw, racks, "hang"),
    }
    for name, make in cases.items():
        found = Told()
        for seed in range(1 if quick else 5):
            draw = random.Random(f"{name} {seed}")  # noqa: S311 - where the fault is
            racks = of_232()
            found += told(racks, make(draw, racks), seed=seed)
        print(f"| {name} | {_row(found)} |", flush=True)


def _row(found: Told) -> str:
    named, doubted = (f"{100 * each / found.fleets:.0f}" for each in (found.named, found.doubted))
    each_run = (found.launches / found.fleets, found.rounds / found.fleets, found.minutes / found.fleets)
    row = (
        found.fleets,
        named,
        doubted,
        found.good,
        found.rejected,
        found.held_up,
        *(f"{each:.0f}" for each in each_run),
    )
    return " | ".join(map(str, row))


SECTIONS = {"healthy": healthy, "faults": faults, "small_racks": small_racks, "cost": cost}


def main() -> None:
    asked = [word for word in sys.argv[1:] if word != "--quick"]
    for name in asked or SECTIONS:
        began = time.process_time()
        print(f"\n## {name}\n")
        SECTIONS[name](quick="--quick" in sys.argv)
        print(f"\n{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
