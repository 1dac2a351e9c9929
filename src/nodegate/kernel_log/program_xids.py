"""Xids that mostly are a program's own fault (13, 31), counted by unit and program: when the GPU is to be suspected.

Two programs that have nothing in common and fail on one GPU (13: on one TPC) have the GPU in common. It stays a
suspicion: NVIDIA's workflow for both codes ends in a diagnostic of the GPU, not in its replacement.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import combinations

from nodegate.knowledge.tables import rows
from nodegate.knowledge.words import Text
from nodegate.knowledge.xid_lines import GpuEvent
from nodegate.unknown import Known, Unknown

_MOST_PROCESSES = 200  # of one GPU and code: a hostile log must not make pairs of more
_MOST_PLACES = 256  # GPUs and MIG instances, by code
_MOST_NAMELESS = 64  # lines of one GPU before a line that names their process
_CHANNEL_STOPPED = 43
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
    """Why a GPU is to be suspected, and what to do."""

    words: Text
    action: Text


class ProgramXids:
    """The processes of one node that met such Xids: fed with events, asked at the end."""

    def __init__(self) -> None:
        self._met: dict[tuple[int, str, str], dict[str, _Process]] = {}
        self._nameless: dict[tuple[str, str], list[GpuEvent]] = {}

    def add(self, event: GpuEvent) -> None:
        """Count an event of these codes; one that names no process is of the process that the next Xid 43 names."""
        where = (event.address, event.instance)
        if event.code == _CHANNEL_STOPPED and _named(event):
            for each in self._nameless.pop(where, ()):
                if _seconds(each, event) <= _rules()[each.code][1]:
                    self._count(replace(each, pid=event.pid, process=event.process))
        elif event.code in _rules() and event.address:
            if _named(event):
                self._count(event)
            elif len(waiting := self._nameless.setdefault(where, [])) < _MOST_NAMELESS:
                waiting.append(event)

    def _count(self, event: GpuEvent) -> None:
        place = (event.code, event.address, event.instance)
        if place not in self._met and len(self._met) >= _MOST_PLACES:
            return
        processes = self._met.setdefault(place, {})
        if event.pid not in processes and len(processes) < _MOST_PROCESSES:
            processes[event.pid] = _Process(*_program(event.process), event.epoch_s, event.epoch_s, set())
        if seen := processes.get(event.pid):
            seen.last_s = event.epoch_s
            seen.units |= {unit_of(event)[0]} - {""} if len(seen.units) < 2 else set()

    def suspicion(self, code: int, address: str, instance: str = "") -> Suspicion | None:
        """Why this GPU is to be suspected; None if one program, or several GPUs, explain as much."""
        here = self._met.get((code, address, instance), {}).values()
        if not here:
            return None
        others = [each for place, each in self._met.items() if place[0] == code and place[1:] != (address, instance)]
        elsewhere = [{each.program for each in processes.values()} for processes in others]
        own = [each for each in here if not any(each.program in programs for programs in elsewhere)]
        enough = any(each.known_good for each in own)  # such a program needs no second one
        found = dict.fromkeys(each.program for each in own) if enough else _pairs(code, own)
        if found:
            units = {unit for each in own if each.program in found for unit in each.units}
            unit = f" ({units.pop()})" if len(units) == 1 else ""
            return _said("good" if len(found) == 1 else "programs", list(found), code=code, unit=unit, count=len(found))
        good = sorted({each.program for each in here if each.known_good})
        count = 1 + sum(any(program in good for program in programs) for programs in elsewhere)
        return _said("node", good, code=code, count=count) if good else None


def unit_of(event: GpuEvent) -> tuple[str, str]:
    """The part of the GPU that an Xid 13 names, "GPC 2, TPC 3", and what happened in it; "" where it names none."""
    found = _TPC.search(event.text) if event.code in _rules() else None
    return (found["unit"], (found["what"] or "").strip()) if found else ("", "")


def _named(event: GpuEvent) -> bool:
    return event.pid.isdigit() and event.process.strip("'\"<> ") not in {"", "unknown"}


def _seconds(one: GpuEvent, other: GpuEvent) -> float:
    if isinstance(one.epoch_s, Unknown) or isinstance(other.epoch_s, Unknown):
        return float("inf")
    return abs(other.epoch_s - one.epoch_s)


def _pairs(code: int, processes: Iterable[_Process]) -> dict[str, None]:
    """The different programs that met it apart in time and, where the code names units, on one."""
    unit, burst_s, within_s = _rules()[code]
    able = [each for each in processes if unit != "tpc" or len(each.units) == 1]
    found: dict[str, None] = {}
    for one, other in combinations(able, 2):
        if one.program != other.program and one.units == other.units and burst_s < _apart_s(one, other) <= within_s:
            found |= {one.program: None, other.program: None}
    return found


def _apart_s(one: _Process, other: _Process) -> float:
    """The seconds between what two processes met; 0 if a time is not known."""
    times = (one.first_s, one.last_s, other.first_s, other.last_s)
    known = [each for each in times if not isinstance(each, Unknown)]
    return max(known[2] - known[1], known[0] - known[3]) if len(known) == len(times) else 0.0


def _said(sort: str, names: list[str], **about: object) -> Suspicion:
    words = {row["sort"]: row for row in rows("program_xid_words.csv")}
    en, zh = (words[sort][language].format(names=", ".join(names[:4]), **about) for language in ("en", "zh"))
    return Suspicion(Text(en, zh), Text(words["action"]["en"], words["action"]["zh"]))


@cache
def _rules() -> dict[int, tuple[str, float, float]]:
    return {
        int(row["code"]): (row["unit"], float(row["burst_s"]), float(row["within_h"]) * 3600)
        for row in rows("program_xids.csv")
    }


@cache
def _names() -> tuple[tuple[str, str, bool], ...]:
    return tuple(
        (
            row["name"] if row["name"].endswith("*") else row["name"][:_NAME_KEPT],
            row["program"],
            row["known_good"] == "yes",
        )
        for row in rows("program_names.csv")
    )


def _program(name: str) -> tuple[str, bool]:
    """Which program a process of this name is, and whether it is known to be good."""
    short = name.strip("'\" ").rpartition("/")[2][:_NAME_KEPT]
    known = ((program, good) for pattern, program, good in _names() if fnmatchcase(short, pattern))
    return next(known, (short.rstrip("0123456789.-_"), False))
