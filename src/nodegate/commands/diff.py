"""`nodegate diff`: what changed between two runs; exit 0 nothing new, 1 something new, 2 they cannot be compared."""

import argparse
import contextlib
import dataclasses
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from nodegate.commands.record_option import add_record
from nodegate.errors import UsageError
from nodegate.inventory.hostlist import fold
from nodegate.metric_names import words
from nodegate.numbers.comparison import shown
from nodegate.past import database, tables
from nodegate.past.difference import Difference, Problem, Side, difference, folded, margins_of_suite, side
from nodegate.past.store import number_of, store
from nodegate.records.run_folder import RunFolder
from nodegate.run import conditions
from nodegate.run.rebuild import read_run
from nodegate.text import day_of, visible

SCHEMA = "nodegate.diff/1"
MOST_LINES = 20  # of a section, without --all
_LAST = "select id from runs where profile {which} and started_epoch_s < ? order by started_epoch_s desc limit 1"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    text = "a run folder, or the id of a run that the record knows; the earlier one first"
    command.add_argument("runs", nargs="*", metavar="RUN", help=text)
    since = command.add_mutually_exclusive_group()
    since.add_argument(
        "--since-last-night", action="store_true", help="the newest nightly run beside the one before it"
    )
    since.add_argument("--since-acceptance", action="store_true", help="the newest run beside the last delivery")
    command.add_argument("--all", action="store_true", help=f"every line, not the first {MOST_LINES} of a section")
    command.add_argument("--json", action="store_true", help=f"one object, {SCHEMA}")
    add_record(command)


def run(asked: argparse.Namespace) -> int:
    """Print what changed; returns 1 where something is new.

    Raises:
        UsageError: a run cannot be read, or they have no node in common.
    """
    record = asked.record
    with contextlib.ExitStack() as opened:
        base = opened.enter_context(database.reading(record)) if record.exists() else None
        before, after = _sides(asked, base, record)
        found = difference(base, before, after, margins_of_suite())
    if asked.json:
        names = {"schema": SCHEMA, "before": before.name, "after": after.name}
        print(json.dumps(names | dataclasses.asdict(found), ensure_ascii=False))
        return int(found.is_new)
    for line in _lines(before, after, found, most=None if asked.all else MOST_LINES):
        print(visible(line))
    return int(found.is_new)


def _sides(asked: argparse.Namespace, base: sqlite3.Connection | None, record: Path) -> tuple[Side, Side]:
    since = asked.since_last_night or asked.since_acceptance
    if len(asked.runs) != (0 if since else 2):
        hint = "nodegate diff RUN RUN, or --since-last-night, or --since-acceptance"
        raise UsageError("name two runs, or none with --since-...", hint=hint)
    if not since:
        one, two = (_side(each, base, record) for each in asked.runs)
        return one, two
    if base is None:
        raise UsageError("there is no record yet", file=str(record), hint="the first run that ends makes it")
    which, newest = ("= 'nightly'", "= 'nightly'") if asked.since_last_night else ("= 'delivery'", "!= ''")
    after = _newest(base, newest, float("inf"))
    last = side(base, after)
    return side(base, _newest(base, which, last.started_s)), last


def _newest(base: sqlite3.Connection, which: str, before_s: float) -> int:
    found = base.execute(_LAST.format(which=which), (min(before_s, 1e300),)).fetchone()
    if found is None:
        raise UsageError("the record has no such run", hint="name two runs: nodegate diff RUN RUN")
    return int(found[0])


def _side(name: str, base: sqlite3.Connection | None, record: Path) -> Side:
    """A run of the record, by its id or folder; of a folder that the record does not know from its files."""
    if not (Path(name) / "run.json").is_file():
        asked = "select id from runs where name = ? order by started_epoch_s desc"
        found = base.execute(asked, (name,)).fetchone() if base else None
        if found is None:
            hint = "name a run folder, or an id as nodegate's reports have it"
            raise UsageError(f"no folder and no run of the record: {name}", file=str(record), hint=hint)
        return side(base, found[0])  # type: ignore[arg-type]
    known = conditions.read(RunFolder(Path(name)))
    number = number_of(base, known.id, known.started_epoch_s) if base else None
    if base and number is not None:
        return side(base, number)
    kept = read_run(Path(name), record)
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as own:
        tables.make(own)
        store(own, kept)
        return side(own, number_of(own, kept.run.id, kept.run.started_epoch_s) or 0)


def _lines(before: Side, after: Side, found: Difference, *, most: int | None) -> Iterator[str]:
    sides = [f"{each.name} ({each.profile}, {day_of(each.started_s)})" for each in (before, after)]
    yield " -> ".join(sides)
    for name, own in (("new", found.new), ("still", found.still), ("gone", found.gone)):
        yield from _section(name, [_problem(each) for each in own], most)
    yield from _section("not looked at again", [_problem(each) for each in found.unseen], most)
    moved = []
    for node, metric, alike in folded(found.moved):
        devices = fold(each.device for each in alike if each.device)
        worst = max(alike, key=lambda each: abs(each.after - each.before))
        change = f"{shown(worst.before, worst.unit)} -> {shown(worst.after, worst.unit)}"
        most_of = " at most" if len(alike) > 1 else ""
        moved.append(f"{node}: {words(metric)}{f' of {devices}' if devices else ''} {worst.words}{most_of}: {change}")
    yield from _section("numbers beyond their noise", moved, most)
    for what, nodes in (("first", found.only_before), ("second", found.only_after)):
        if nodes:
            yield f"only in the {what}, not compared: {fold(nodes)}"


def _problem(each: Problem) -> str:
    return f"{each.node}: {each.place}: {each.condition} ({each.verdict}): {each.text}"


def _section(name: str, found: Sequence[str], most: int | None) -> Iterator[str]:
    yield f"{name}: {len(found) or 'none'}"
    shown = found if most is None else found[:most]
    yield from (f"  {line}" for line in shown)
    if len(shown) < len(found):
        yield f"  and {len(found) - len(shown)} more (--all)"
