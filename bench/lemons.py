"""Nodes and boards that fail again and again, found in drawn fleets: python bench/lemons.py [--fleets N] [--first S].

`bench/lemon_nights.py`, which shares nothing with the rules, draws 90 days of 1,250 nodes; the nights are kept by the
functions that a run uses, and the question of `nodegate lemons` is asked for every day. A lemon is found if it (or the
node that holds it) is named before the end. A good node or board that is named on any day is false; those of a bad
rack, firmware or lot count neither way. A node is rightly named if it is a lemon or holds one on that day. The record
is read once for all days, and at two of them again, as the command reads it: both must name the same.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from judged_fleets import interval
from lemon_nights import DAYS, KINDS, Drawn, Fault, Look, draw

from nodegate.judge.characteristics import traits_of
from nodegate.node import Node
from nodegate.past import database
from nodegate.past.event import XID, Event
from nodegate.past.faults import DAY_S, read
from nodegate.past.keys import CHASSIS, KeptNode, KeptRun, Keys, Placed
from nodegate.past.lemon import BATCH, BOARD, NODE, RACK, WINDOW_DAYS, Told
from nodegate.past.lemons import lemons
from nodegate.past.record import FleetRecord
from nodegate.records import part
from nodegate.records.cause import Cause, CheckFinding, Class, Severity
from nodegate.records.finding import Finding, Record
from nodegate.records.run import NodeReport, Run
from nodegate.records.verdict import NodeVerdict, Verdict

BEGIN_S = 1_779_926_400.0
CHECKS = tuple(sorted({kind[2] for kind in KINDS}))
GOOD = tuple(Record("", each, Verdict.PASS, ()) for each in CHECKS)
AGAIN = (45, DAYS)  # days on which the record is read as the command reads it


class Fleet:
    """A drawn fleet on its way into a record."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.traits = defaultdict[str, dict[str, str]](dict)
        for node, name, value in drawn.traits:
            self.traits[node][name] = value
        self.moves = sorted({each.first for each in drawn.boards if each.first})
        self.of_node = defaultdict[str, list](list)
        for each in drawn.boards:
            self.of_node[each.node].append(each)
        self.lasting = defaultdict[str, list[Fault]](list)
        for each in drawn.faults:
            self.lasting[each.node].append(each)
        self.program = defaultdict[str, list[tuple[float, str, str, int]]](list)
        for row in drawn.program:
            self.program[row[1]].append(row)
        self.seen_s: dict[str, float] = {}

    def runs(self) -> Iterator[KeptRun]:
        """A run for each time at which nodes were looked at."""
        at = defaultdict[float, list[Look]](list)
        for each in self.drawn.looks:
            at[each.day].append(each)
        for day in sorted(at):
            nodes = [self.node(each.node, day) for each in at[day]]
            started = BEGIN_S + DAY_S * day
            run = Run(f"run {day}", "nightly", started, started + 600.0, "0.4")
            yield KeptRun(run, "", nodes, frozenset(), lambda _: ())

    def changed(self, name: str, day: float) -> bool:
        """Whether parts must be told: first, last, around a move. Told each night they take five times as long."""
        near = any(abs(each.first - day) < 3 for each in self.of_node[name] if each.first)
        return near or day < 3 or day > DAYS - 3

    def node(self, name: str, day: float) -> KeptNode:
        boards = [each for each in self.of_node[name] if each.first <= day < each.last or each.last == DAYS <= day]
        places = (Placed(CHASSIS, f"CH-{name}"), *(Placed(each.slot, each.serial) for each in boards))
        keys, before = Keys(name, places), self.seen_s.get(name, 0.0)
        here = [each for each in self.lasting[name] if each.day <= day < each.day + each.days]
        new = [each for each in self.lasting[name] if each.xid and before <= each.day < day]
        xids = [(each.day, each.slot, each.xid) for each in new]
        xids += [(at, slot, xid) for at, _, slot, xid in self.program[name] if before <= at < day]
        self.seen_s[name] = day
        events = [
            Event(BEGIN_S + DAY_S * at, XID, name, keys.of(slot), "kernel log", str(xid)) for at, slot, xid in xids
        ]
        verdict = NodeVerdict.REJECTED if here else NodeVerdict.ACCEPTED
        gpus = {each.slot: each.serial for each in boards if each.slot.startswith("GPU")}
        if not here and not xids and not self.changed(name, day):
            return KeptNode(NodeReport(name, NodeVerdict.ACCEPTED, "hgx-h100-8", records=GOOD), sound=True)
        traits = traits_of(Node(name), self.traits[name], gpus)
        report = NodeReport(name, verdict, "hgx-h100-8", records=GOOD)
        return KeptNode(report, not here, tuple(map(cause, here)), places, traits, tuple(events))


def cause(fault: Fault) -> Cause:
    if fault.slot.startswith("GPU"):
        where, sort = part.gpu(int(fault.slot[4:]), serial=fault.serial), Class.GPU
    else:
        where, sort = (part.nic(fault.slot), Class.NIC) if fault.slot else (part.NODE, Class.HOST)
    found = Finding(where, Verdict.FAIL, text="as drawn", action="service it")
    return Cause(fault.condition, (where,), Severity.LOST, sort, CheckFinding(fault.check, found), nodes=(fault.node,))


class Score:
    """What was named over the days, of lemons and of good ones."""

    def __init__(self) -> None:
        self.lemons = self.found = self.false = self.right = self.racks = self.batches = self.odd = 0
        self.when: list[float] = []

    def row(self) -> tuple[int, ...]:
        return self.found, self.false, self.racks, self.batches, self.odd

    def add(self, drawn: Drawn, days: dict[int, Told]) -> None:
        truth = {each.name: each for each in drawn.truth if each.what in ("board", "node")}
        apart = {each.node for each in drawn.truth if each.what not in ("board", "node")}
        stays = [each for each in drawn.boards if each.serial in truth]
        found: dict[str, int] = {}
        false: dict[str, int] = {}
        groups: set[tuple[str, str]] = set()
        for day, told in days.items():
            holds = {
                each.node: each.serial for each in stays if each.first <= day and (day < each.last or each.last == DAYS)
            }
            for each in told.named:
                unit = each.unit
                if unit.what in (RACK, BATCH):
                    groups.add((unit.what, unit.key))
                    continue
                serial = unit.key.removeprefix("S/N ") if unit.what == BOARD else ""
                lemon = serial if serial in truth else unit.node if unit.node in truth else ""
                lemon = lemon or (holds.get(unit.node, "") if unit.what == NODE else "")
                if lemon:
                    found.setdefault(lemon, day)
                elif unit.node not in apart:
                    false.setdefault(unit.node, day)
        self.lemons, self.found, self.false = self.lemons + len(truth), self.found + len(found), self.false + len(false)
        self.when += found.values()
        racks = {f"rack {value}" for node, name, value in drawn.traits if name == "rack" and node in apart}
        self.racks += (RACK, racks_of(drawn)) in groups
        bad = {key for what, key in groups if what == BATCH}
        self.batches += ("firmware MT4129 28.43.1014" in bad) + any(key.startswith("GPU serials") for key in bad)
        self.odd += sum(key not in racks and not key.startswith(("firmware MT", "GPU serials")) for _, key in groups)


def racks_of(drawn: Drawn) -> str:
    node = next(each.node for each in drawn.truth if each.what == "rack")
    return next(f"rack {value}" for name, what, value in drawn.traits if name == node and what == "rack")


def asked_daily(drawn: Drawn, folder: Path, every: int) -> tuple[dict[int, Told], float, float]:
    record, begun = FleetRecord(folder / "fleet.sqlite"), time.perf_counter()
    for kept in Fleet(drawn).runs():
        record.keep(kept)
    keeping, days = time.perf_counter() - begun, {}
    with database.reading(record.file) as base:
        seen = read(base, BEGIN_S - DAY_S, BEGIN_S + DAY_S * (DAYS + 2))
        for day in range(1, DAYS + 1):
            if day % every == 0 or day in AGAIN:
                until = BEGIN_S + DAY_S * (day + 0.5)
                then = [each for each in seen.stays if each.since_s < until]
                days[day] = lemons(replace(seen, stays=then), until - DAY_S * WINDOW_DAYS, until)
        for day in AGAIN:
            until, begun = days[day].until_s, time.perf_counter()
            as_asked = lemons(read(base, until - 4 * DAY_S * WINDOW_DAYS, until), days[day].since_s, until)
            asking = time.perf_counter() - begun
            same = [{each.unit.key for each in told.named} for told in (as_asked, days[day])]
            if same[0] != same[1]:
                print(f"  day {day}: read again other names: {same[0] ^ same[1]}")
    return days, keeping, asking


def without_sync() -> None:
    """Hundreds of runs are kept here: none waits for the disk."""
    connect = sqlite3.connect

    def quick(*given: object, **named: object) -> sqlite3.Connection:
        base = connect(*given, **named)
        base.execute("pragma synchronous = off")
        return base

    sqlite3.connect = quick


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--every", type=int, default=1, help="asked every so many days")
    asked = parser.parse_args()
    without_sync()
    score = Score()
    print(
        "| fleet | faults in 1,000 node-days | found of 24 | false | rack | batches | other groups | keep, s | ask, s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for seed in range(asked.first, asked.first + asked.fleets):
        drawn, before = draw(seed), score.row()
        with tempfile.TemporaryDirectory() as folder:
            days, keeping, asking = asked_daily(drawn, Path(folder), asked.every)
        score.add(drawn, days)
        now = " | ".join(str(after - past) for after, past in zip(score.row(), before, strict=True))
        row = f"{now} | {keeping:.0f} | {asking:.2f}"
        print(f"| {seed} | {1000 * drawn.rate:.1f} | {row} |", flush=True)
    named = score.found + score.false
    print(f"recall {interval(score.found, score.lemons)}; precision {interval(score.found, named)}")
    print(
        f"racks told {score.racks} of {asked.fleets}, batches {score.batches} of {2 * asked.fleets}, others {score.odd}"
    )
    print(f"median day {sorted(score.when)[len(score.when) // 2] if score.when else '-'}")


if __name__ == "__main__":
    main()
