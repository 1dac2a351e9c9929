"""What the record is asked about one node or one part."""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean, shown
from nodegate.past.keys import CHASSIS, PLACE, SERIAL
from nodegate.past.tables import marks
from nodegate.records.verdict import NodeVerdict

VERSIONS = ("cuda", "driver", "nccl", "tool_version")  # conditions with which one quantity goes on
_NEWEST_NODE = """
select cast(decisions.node as text), decisions.part from decisions join runs on runs.id = run
join parts on parts.id = decisions.part where decisions.{of} = ? order by started_epoch_s desc limit 1
"""
# A damaged or edited file may hold any type anywhere: `cast` leaves the one that is expected.
_PLACES = """
select part, cast(key as text), cast(node as text), cast(slot as text), cast(from_epoch_s as real),
cast(to_epoch_s as real) from places join parts on parts.id = part
"""
_NUMBERS = """
select cast(parts.key as text), cast(metric as text), cast(conditions as text), cast(unit as text),
cast(started_epoch_s as real) as at, cast(value as real), sound from parts join sequences on sequences.part = parts.id
join quantities on quantities.id = sequences.quantity join numbers on numbers.series = sequences.id
join runs on runs.id = numbers.run where parts.id in ({marks}) order by at, runs.id
"""


_LAST = """
select cast(verdict as text), cast(finished_epoch_s as real) from decisions join runs on runs.id = run
where node = ? and verdict != ? and started_epoch_s < ? order by finished_epoch_s desc limit 1
"""


@dataclass(frozen=True)
class LastVerdict:
    """What a node was judged to be, and when that run ended, in seconds since the epoch."""

    verdict: str
    epoch_s: float


@dataclass(frozen=True)
class Stay:
    """A part in one place, from when to when it was seen there. Times are seconds since the epoch."""

    part: int
    key: str
    node: str
    slot: str
    since_s: float
    until_s: float


@dataclass(frozen=True)
class Whom:
    """A node or a part that the record knows: its name as asked, its node now, its machine, and its parts by number."""

    name: str
    node: str
    machine: int
    parts: Mapping[int, str]  # what to call each: "GPU 3", empty for the node itself
    is_node: bool


@dataclass(frozen=True)
class Told:
    """One quantity of one part over the runs, with its versions in each; oldest first."""

    device: str
    metric: str
    unit: str
    under: Mapping[str, str]
    at_s: Sequence[float]
    values: Sequence[float]
    sound: Sequence[bool]
    versions: Sequence[Mapping[str, str]]


def whom(base: sqlite3.Connection, name: str) -> Whom:
    """The node or the part of this name or serial number.

    Raises:
        UsageError: the record knows nothing of it.
    """
    found = base.execute(_NEWEST_NODE.format(of="node"), (name,)).fetchone()
    if found is None and (part := _part(base, name)) is not None:
        seen = list(_stays(base, "part", part))
        if not any(each.slot == CHASSIS for each in seen):
            names = {part: "", **{each: f"port {port}" for each, port in _below(base, key_of_part(base, part), ":")}}
            return Whom(name, seen[-1].node if seen else "", part, names, is_node=False)
        found = base.execute(_NEWEST_NODE.format(of="part"), (part,)).fetchone() or (seen[-1].node, part)
    if found is None:
        found = _only_measured(base, name)
    node, machine = found
    return Whom(name, node, machine, _parts_of(base, node, machine), is_node=True)


def key_of_part(base: sqlite3.Connection, number: int) -> str:
    """The key of a part; empty of none."""
    asked = "select cast(key as text) from parts where id = ?"
    return str(base.execute(asked, (number,)).fetchone()[0]) if number else ""


def last_verdicts(base: sqlite3.Connection, nodes: Iterable[str], before_epoch_s: float) -> dict[str, LastVerdict]:
    """The last verdict of each of these nodes in a run that began before that time; nothing of one never judged."""
    rows = {
        node: base.execute(_LAST, (node, NodeVerdict.NOT_JUDGED.value, before_epoch_s)).fetchone() for node in nodes
    }
    return {node: LastVerdict(*row) for node, row in rows.items() if row}


def stays(base: sqlite3.Connection, who: Whom) -> list[Stay]:
    """Where its parts were, and what was in its places, oldest first."""
    found = {each for part in who.parts for each in _stays(base, "part", part)}
    if who.is_node:
        found |= set(_stays(base, "node", who.node))
    return sorted(found, key=lambda each: (each.since_s, each.slot, each.node, each.key))


def numbers(base: sqlite3.Connection, who: Whom) -> list[Told]:
    """What its parts measured, one quantity after the other; driver, NCCL and tools may change within one."""
    device_of = {key_of_part(base, number): device for number, device in who.parts.items()}
    asked = _NUMBERS.format(marks=marks(who.parts))
    rows = []
    known: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {}  # most rows have the same conditions: 40 % less
    for key, metric, conditions, unit, *rest in base.execute(asked, tuple(who.parts)):
        if conditions not in known:
            known[conditions] = _split(conditions)
        of, under, versions = known[conditions]
        rows.append(((device_of[key], metric, unit, of), under, rest, versions))
    rows.sort(key=lambda row: (row[0], row[2][0]))
    found = []
    for (device, metric, unit, _), group in groupby(rows, key=lambda row: row[0]):
        own = list(group)
        times, values, sound = zip(*(rest for _, _, rest, _ in own), strict=True)
        found.append(Told(device, metric, unit, own[0][1], times, values, [*map(bool, sound)], [row[3] for row in own]))
    return found


def _part(base: sqlite3.Connection, name: str) -> int | None:
    found = base.execute("select id from parts where key in (?, ?)", (SERIAL + name, name)).fetchone()
    return int(found[0]) if found else None


def _stays(base: sqlite3.Connection, of: str, value: object) -> Iterator[Stay]:
    asked = f"{_PLACES} where {of} = ? order by from_epoch_s, to_epoch_s"
    return (Stay(*row) for row in base.execute(asked, (value,)))


def _only_measured(base: sqlite3.Connection, name: str) -> tuple[str, int]:
    """A node of which only the values of an earlier release are known."""
    key = PLACE + name
    if any(True for _ in _stays(base, "node", name)):
        part = _part(base, key)
        return name, part or 0
    known = [node for (node,) in base.execute("select distinct cast(node as text) from places")]
    near = did_you_mean(name, known)
    hint = near if near.startswith("did") else "name a node, or a serial number of a part, as a run wrote it"
    raise UsageError(f"the record knows nothing of {shown(name)}", hint=hint)


def _parts_of(base: sqlite3.Connection, node: str, machine: int) -> dict[int, str]:
    """The parts that were seen last in each place of a node, and the places themselves, where no board was known."""
    last: dict[str, Stay] = {}
    for each in _stays(base, "node", node):
        if each.slot not in last or each.until_s >= last[each.slot].until_s:
            last[each.slot] = each
    found = {each.part: each.slot for slot, each in last.items() if slot not in ("", CHASSIS)}
    for key, slot in [(each.key, each.slot) for each in last.values() if each.key.startswith(SERIAL)]:
        found |= {number: f"{slot}:{port}" for number, port in _below(base, key, ":")}
    for key in dict.fromkeys((key_of_part(base, machine), PLACE + node)):
        found |= {number: "" for number in [_part(base, key)] if number is not None}
        found |= dict(_below(base, key, "/"))
    return found


def _below(base: sqlite3.Connection, key: str, mark: str) -> Iterator[tuple[int, str]]:
    """The parts whose keys go on after a mark, with the rest of each."""
    begin, end = key + mark, key + chr(ord(mark) + 1)
    for number, found in base.execute(
        "select id, cast(key as text) from parts where key > ? and key < ?", (begin, end)
    ).fetchall():
        yield number, found.removeprefix(begin)


def _split(written: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """The conditions without the versions, as a text and by name; then the versions. As one where they are damaged."""
    known = None
    with contextlib.suppress(ValueError, RecursionError):
        known = json.loads(written)
    named = {str(name): str(value) for name, value in known.items()} if isinstance(known, dict) else {"": written}
    under = {name: value for name, value in named.items() if name not in VERSIONS}
    return json.dumps(under), under, {name: value for name, value in named.items() if name in VERSIONS}
