"""A run is written into the record: all of it or nothing."""

import sqlite3
from dataclasses import replace

from nodegate.past import events, series
from nodegate.past.event import Event
from nodegate.past.keys import CHASSIS, SERIAL, KeptNode, KeptRun, Keys, Placed
from nodegate.past.tables import PLACES, TRAITS, Ids
from nodegate.records.claim import State
from nodegate.records.verdict import Verdict

LOOKED = frozenset((Verdict.PASS, Verdict.WARN, Verdict.FAIL))
_NEW_RUN = """
insert into runs (name, started_epoch_s, finished_epoch_s, profile, folder, manifest_sha256, suite_version)
values (?, ?, ?, ?, ?, ?, ?)
"""
_BOARD = """
select key from traits join parts on parts.id = part where name = 'uuid' and value = ? order by to_epoch_s desc limit 1
"""
_OF_RUN = tuple(f"delete from {table} where run = ?" for table in ("numbers", "causes", "decisions"))  # noqa: S608


def number_of(base: sqlite3.Connection, name: str, started_epoch_s: float) -> int | None:
    """The number of a run that is there with its nodes; None of one of which only values were taken over."""
    asked = "select id from runs where name = ? and started_epoch_s = ? and profile != ''"
    found = base.execute(asked, (name, started_epoch_s)).fetchone()
    return int(found[0]) if found else None


def store(base: sqlite3.Connection, kept: KeptRun, *, resumed: bool = False) -> list[Event]:
    """Write a run, inside a transaction of the caller's. One that is there already is replaced.

    `resumed`: it goes on with a run of the same folder, which it replaces too. Returns the events that were new.
    """
    run = kept.run
    asked = "select id from runs where name = ? and (started_epoch_s = ? or (? and folder = ?))"
    for (old,) in base.execute(asked, (run.id, run.started_epoch_s, resumed, kept.folder)).fetchall():
        for statement in (*_OF_RUN, "delete from runs where id = ?"):
            base.execute(statement, (old,))
    about = (run.profile, kept.folder, run.manifest_sha256, run.suite_version)
    number = base.execute(_NEW_RUN, (run.id, run.started_epoch_s, run.finished_epoch_s, *about)).lastrowid or 0
    base.executemany("insert or ignore into shared values (?)", ((each,) for each in sorted(kept.shared)))
    parts = Ids(base, "parts", "key")
    added: list[Event] = []
    for node in (_with_numbers(base, each) for each in kept.nodes):
        keys = kept.keys(node)
        added += events.keep(base, node.events)
        _node(base, number, node, keys, parts)
        _seen(base, node, keys, parts, run.started_epoch_s)
    series.keep(base, number, ((kept.keys(node), node.sound, kept.metrics(node.name)) for node in kept.nodes))
    series.thin(base, number)
    return added


def _with_numbers(base: sqlite3.Connection, node: KeptNode) -> KeptNode:
    """Of a lost GPU only the UUID can be read: it is known by the serial number that it had beside it before."""
    known = {}
    for each in node.placed:
        if each.uuid == each.serial and (found := base.execute(_BOARD, (each.uuid,)).fetchone()):
            known[SERIAL + each.uuid] = str(found[0])
    if not known:
        return node
    placed = tuple(
        replace(each, serial=known.get(SERIAL + each.serial, SERIAL + each.serial).removeprefix(SERIAL))
        for each in node.placed
    )
    events = tuple(replace(each, part=known.get(each.part, each.part)) for each in node.events)
    return replace(node, placed=placed, events=events)


def _node(base: sqlite3.Connection, run: int, node: KeptNode, keys: Keys, parts: Ids) -> None:
    """The verdict on a node, its claims and its causes."""
    report = node.report
    refuted, unproven = (
        " ".join(each.claim for each in report.claims if each.state is state)
        for state in (State.REFUTED, State.NOT_PROVEN)
    )
    texts = Ids(base, "texts", "text")
    judged = texts.of(" ".join(sorted(each.check for each in report.records if each.verdict in LOOKED)))
    row = (run, node.name, parts.of(keys.machine), report.verdict.value, report.platform, refuted, unproven, judged)
    base.execute("insert or replace into decisions values (?, ?, ?, ?, ?, ?, ?, ?)", row)
    problems = Ids(base, "problems", "node", "cause", "part", "place", "condition", "class")
    for cause in node.causes:
        part = (cause.part.of or cause.part).short
        about = (parts.of(keys.of(part)), cause.part.short, cause.condition, cause.sort.value)
        problem, text = problems.of(node.name, cause.id, *about), texts.of(cause.message)
        found = (run, problem, cause.severity.value, cause.verdict.value, text, cause.decisive.check, cause.waiver)
        base.execute("insert or replace into causes values (?, ?, ?, ?, ?, ?, ?)", found)


def _seen(base: sqlite3.Connection, node: KeptNode, keys: Keys, parts: Ids, at: float) -> None:
    """Where its parts are now, and what it is."""
    if not node.placed and not node.traits:
        return  # nothing was read: it may be anything
    machine = parts.of(keys.machine)
    known = {each.slot: each for each in keys.placed}
    for each in {CHASSIS: Placed(CHASSIS, ""), **known}.values():
        part = parts.of(keys.of(each.slot))
        PLACES.seen(base, (part,), (node.name, each.slot), at)
        if each.uuid not in ("", each.serial):
            TRAITS.seen(base, (part, "uuid"), (each.uuid,), at)
    for name, value in node.traits.items():
        TRAITS.seen(base, (machine, name), (value,), at)
