"""Xids that mostly are a program's own fault (13, 31), counted by unit and program: when the GPU is to be suspected.

Two programs that have nothing in common and fail on one GPU (13: on one TPC) have the GPU in common. It stays a
suspicion: NVIDIA's workflow for both codes ends in a diagnostic of the GPU, not in its replacement.
"""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from nodegate.knowledge.tables import rows
from nodegate.knowledge.words import Text
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nodegate.knowledge.xid_lines import GpuEvent

ACTION = Text(
    "run dcgmi diag -r 3 and then field diagnostics on this GPU before it takes another job; if they pass, run the same"
    " programs on another GPU",
    "该 GPU 接新作业前先运行 dcgmi diag -r 3，再做现场诊断；若通过，在其他 GPU 上运行相同程序对比",
)
_MOST_PROCESSES = 200  # of one GPU and code: a hostile log must not make pairs of more
_MOST_PLACES = 256  # GPUs and MIG instances, by code
_NAME_KEPT = 15  # characters that the kernel keeps of a program's name
_TPC = re.compile(r"\((?P<unit>GPC \d{1,3}, TPC \d{1,3})(?:, SM \d{1,3})?\)(?:: (?P<what>[A-Za-z][\w ]{0,60}))?")


@dataclass
class _Process:
    """A process that met the code on a GPU: when, and on which units (two are enough to know that it was not one)."""

    program: str
    known_good: bool
    first_s: Known[float]
    last_s: Known[float]
    units: set[str]


@dataclass(frozen=True)
class Suspicion:
    """Why a GPU is to be suspected: the programs that met the code on it, and on which unit of it ("" for 31).

    `gpus` is how many GPUs of the node a known-good program met it on: from two on it is the node that has a fault.
    """

    code: int
    programs: tuple[str, ...]
    known_good: tuple[str, ...]
    unit: str = ""
    gpus: int = 1

    @property
    def words(self) -> Text:
        """The reason as a sentence."""
        at, at_zh = (f" on its {self.unit}", f" {self.unit} ") if self.unit else ("", "")
        if self.gpus > 1:
            names = ", ".join(self.known_good[:4])
            return Text(
                f"{names}, known to be good, met Xid {self.code} on {self.gpus} GPUs: suspect this node, not the job",
                f"可靠程序 {names} 在 {self.gpus} 块 GPU 上遇到 Xid {self.code}：应怀疑该节点而非作业",
            )
        names = ", ".join(self.programs[:4])
        if len(self.programs) == 1:
            return Text(
                f"{names}, known to be good, met Xid {self.code}{at}: suspect the GPU, not the job",
                f"可靠程序 {names} 在该 GPU{at_zh}上遇到 Xid {self.code}：应怀疑该 GPU 而非作业",
            )
        return Text(
            f"{len(self.programs)} different programs ({names}) met Xid {self.code} on this one GPU{at}: suspect the"
            " GPU",
            f"{len(self.programs)} 个不同程序（{names}）都在这一块 GPU{at_zh}上遇到 Xid {self.code}：应怀疑该 GPU",
        )


def unit_of(event: GpuEvent) -> tuple[str, str]:
    """The part of the GPU that an Xid 13 names, "GPC 2, TPC 3", and what happened in it; "" where it names none."""
    found = _TPC.search(event.text) if event.code in _rules() else None
    return (found["unit"], (found["what"] or "").strip()) if found else ("", "")


class ProgramXids:
    """The processes of one node that met such Xids: fed with events, asked at the end."""

    def __init__(self) -> None:
        self._met: dict[tuple[int, str, str], dict[str, _Process]] = {}

    def add(self, event: GpuEvent) -> None:
        """Count an event, if it is of these codes and names its process."""
        if event.code not in _rules() or not event.pid.isdigit() or not event.address:
            return
        place = (event.code, event.address, event.instance)
        if place not in self._met and len(self._met) >= _MOST_PLACES:
            return
        processes = self._met.setdefault(place, {})
        seen = processes.get(event.pid)
        if seen is None:
            if len(processes) >= _MOST_PROCESSES:
                return
            program, good = _program(event.process)
            seen = processes[event.pid] = _Process(program, good, event.epoch_s, event.epoch_s, set())
        seen.last_s = event.epoch_s
        if len(seen.units) < 2 and (unit := unit_of(event)[0]):
            seen.units.add(unit)

    def suspicion(self, code: int, address: str, instance: str = "") -> Suspicion | None:
        """Why this GPU is to be suspected; None if one program, or several GPUs, explain as much."""
        processes = list(self._met.get((code, address, instance), {}).values())
        if not processes:
            return None
        good = {each.program for each in processes if each.known_good}
        elsewhere = self._elsewhere(code, (address, instance))
        spread = {name: gpus for name, gpus in elsewhere.items() if name in good}
        counted = [each for each in processes if each.program not in elsewhere]
        found = dict.fromkeys(each.program for pair in self._pairs(code, counted) for each in pair)
        found |= dict.fromkeys(each.program for each in counted if each.known_good)
        if not found:
            if not spread:
                return None
            return Suspicion(code, tuple(spread), tuple(spread), gpus=1 + max(len(gpus) for gpus in spread.values()))
        units = {unit for each in counted if each.program in found for unit in each.units}
        known = tuple(name for name in found if name in good)
        return Suspicion(code, tuple(found), known, next(iter(units)) if len(units) == 1 else "")

    def _elsewhere(self, code: int, place: tuple[str, str]) -> dict[str, set[tuple[str, str]]]:
        """The programs that met the code on other GPUs too, with those: the program is what they have in common."""
        found: dict[str, set[tuple[str, str]]] = {}
        for (other, *where), processes in self._met.items():
            if other == code and tuple(where) != place:
                for each in processes.values():
                    found.setdefault(each.program, set()).add((where[0], where[1]))
        return found

    @staticmethod
    def _pairs(code: int, processes: Iterable[_Process]) -> Iterator[tuple[_Process, _Process]]:
        """Two processes of different programs that met it apart in time and, where the code names units, on one."""
        rule = _rules()[code]
        able = [each for each in processes if rule.unit != "tpc" or len(each.units) == 1]
        for one, other in combinations(able, 2):
            if one.program != other.program and one.units == other.units and rule.fits(one, other):
                yield one, other


@dataclass(frozen=True)
class _Rule:
    """One row of program_xids.csv."""

    unit: str
    burst_s: float
    within_s: float

    def fits(self, one: _Process, other: _Process) -> bool:
        """Whether two processes met it in two incidents; without their times that is not known."""
        times = (one.first_s, one.last_s, other.first_s, other.last_s)
        known = [each for each in times if not isinstance(each, Unknown)]
        if len(known) < len(times):
            return False
        apart = max(known[2] - known[1], known[0] - known[3])
        return self.burst_s < apart <= self.within_s


@cache
def _rules() -> dict[int, _Rule]:
    return {
        int(row["code"]): _Rule(row["unit"], float(row["burst_s"]), float(row["within_h"]) * 3600)
        for row in rows("program_xids.csv")
    }


@cache
def _names() -> tuple[tuple[str, str, bool], ...]:
    return tuple(
        (name if name.endswith("*") else name[:_NAME_KEPT], row["program"], row["known_good"] == "yes")
        for row in rows("program_names.csv")
        for name in [row["name"]]
    )


def _program(name: str) -> tuple[str, bool]:
    """Which program a process of this name is, and whether it is known to be good."""
    short = name.strip().rpartition("/")[2][:_NAME_KEPT]
    known = ((program, good) for pattern, program, good in _names() if fnmatchcase(short, pattern))
    return next(known, (short.rstrip("0123456789.-_"), False))
