"""`nodegate history`: the past of a node or a part in lines."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from nodegate.inventory.hostlist import fold
from nodegate.metric_names import words
from nodegate.numbers.comparison import Margins, shown
from nodegate.past.difference import changes, least_step
from nodegate.past.event import (
    ACCEPT_AGAIN,
    BOOT,
    DOWN,
    DRAIN,
    HOOK,
    HOOK_DROPPED,
    HOOK_FIT,
    HOOK_UNREAD,
    IN_SERVICE,
    REPAIR,
    XID,
)
from nodegate.past.keys import CHASSIS, SERIAL
from nodegate.past.questions import Stay, Told, Whom, key_of_part, numbers, stays
from nodegate.past.tables import marks
from nodegate.text import counted, day_of

MOST_CAUSES = MOST_EVENTS = 20
_FEW = 8  # of the first and of the newest values, whose means are shown
_KINDS = {ACCEPT_AGAIN: "accepted again", REPAIR: "repaired", XID: "Xid", BOOT: "booted", HOOK: "hook"}
_KINDS |= {DRAIN: "drained in Slurm", DOWN: "down in Slurm", IN_SERVICE: "in service again, was out for"}
_COUNTED = (HOOK_FIT, HOOK_DROPPED, HOOK_UNREAD)  # said by their number
VERDICTS = """
select cast(started_epoch_s as real) as at, cast(profile as text), cast(verdict as text)
from decisions join runs on runs.id = run where {of} = ? order by at
"""
CAUSES = """
select cast(place as text), cast(condition as text), cast(problems.node as text), count(*),
min(cast(started_epoch_s as real)), max(cast(started_epoch_s as real)) as last, cast(verdict as text),
cast(texts.text as text)
from problems join causes on causes.problem = problems.id join runs on runs.id = causes.run
join texts on texts.id = causes.text
where problems.part in ({marks}) and verdict in ('fail', 'error')
group by problems.part, place, condition, problems.node order by last desc, count(*) desc
"""
EVENTS = """
select cast(epoch_s as real) as at, cast(kind as text), cast(node as text), cast(events.part as text),
cast(events.text as text) from events
where (events.part in (select key from parts where id in ({marks})) or node = ?) order by at
"""


def lines(base: sqlite3.Connection, who: Whom, margins: Margins) -> Iterator[str]:
    """What the record has of a node or a part; dates are UTC."""
    seen = stays(base, who)
    key = key_of_part(base, who.machine)
    yield f"{who.name} ({key})" if who.is_node and key.startswith(SERIAL) else who.name
    if who.is_node:
        yield from _verdicts(base, who)
    yield from _hooks(base, who)
    yield from _section("causes", list(_causes(base, who)), MOST_CAUSES)
    yield from _section("events", list(_events(base, who)), MOST_EVENTS)
    yield from _section("places", list(_moves(who, seen)), None)
    told = numbers(base, who)
    yield from _section("numbers", list(_numbers(told, margins, _Changed(base, who, seen))), None)
    if not told:
        yield "  nothing was measured under load"


def _section(name: str, found: Sequence[str], most: int | None) -> Iterator[str]:
    """The newest of them come first where not all are shown."""
    shown_here = found if most is None else found[:most]
    if shown_here:
        yield f"  {name}:"
    yield from (f"    {line}" for line in shown_here)
    if len(shown_here) < len(found):
        yield f"    and {len(found) - len(shown_here)} more"


def _verdicts(base: sqlite3.Connection, who: Whom) -> Iterator[str]:
    asked = VERDICTS.format(of="decisions.part" if who.machine else "decisions.node")
    rows = base.execute(asked, (who.machine or who.node,)).fetchall()
    if not rows:
        yield "  verdicts are not known: an earlier release kept values alone"
        return
    counts = Counter(verdict for _, _, verdict in rows)
    each = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    at, profile, newest = rows[-1]
    since = f" from {day_of(rows[0][0])}" if len(rows) > 1 else ""
    yield f"  {counted(len(rows), 'run')}{since} to {day_of(at)}: {each}"
    alike = next((number for number, row in enumerate(reversed(rows)) if row[2] != newest), len(rows))
    again = f", as in the {alike - 1} runs before" if alike > 1 else ""
    yield f"  newest: {newest} ({profile}){again}"


def _hooks(base: sqlite3.Connection, who: Whom) -> Iterator[str]:
    """How often hooks found a node fit; what else they found is among the events."""
    asked = "select sum(cast(text as int)), min(epoch_s), max(epoch_s) from events where node = ? and kind = ?"
    count, first, last = base.execute(asked, (who.node, HOOK_FIT)).fetchone()
    if who.is_node and count:
        yield f"  hooks found it fit {counted(int(count), 'time')} from {day_of(first)} to {day_of(last)}"
    asked = "select epoch_s, cast(text as text), kind from events where node = ? and kind in (?, ?) order by epoch_s"
    for at, text, kind in base.execute(asked, (who.node if who.is_node else "", HOOK_DROPPED, HOOK_UNREAD)):
        if kind == HOOK_DROPPED:
            yield f"  what hooks found before {day_of(at)} is not all known: their node had dropped {text} verdicts"
        else:
            yield f"  of what hooks noted {text} lines could not be read on {day_of(at)}"


def _causes(base: sqlite3.Connection, who: Whom) -> Iterator[str]:
    asked = CAUSES.format(marks=marks(who.parts))
    for place, condition, node, count, first, last, verdict, text in base.execute(asked, tuple(who.parts)):
        since = f"since {day_of(first)}, last" if count > 1 else "on"
        where = f" on {node}" if node != who.node or not who.is_node else ""
        yield f"{place}{where}: {condition} ({verdict}) in {counted(count, 'run')} {since} {day_of(last)}: {text}"


def _events(base: sqlite3.Connection, who: Whom) -> Iterator[str]:
    rows = base.execute(EVENTS.format(marks=marks(who.parts)), (*who.parts, who.node if who.is_node else ""))
    for at, kind, node, part, text in reversed([row for row in rows if row[1] not in _COUNTED]):
        on = f" on {node}" if node and node != who.node else ""
        of = f" of {part}" if kind == XID else ""
        yield f"{day_of(at)}: {_KINDS.get(kind, kind)}{of}{on}" + (f": {text}" if kind != BOOT else "")


def _moves(who: Whom, seen: Sequence[Stay]) -> Iterator[str]:
    """The places of a part; of a node what was replaced, came or left."""
    held = Counter((each.node, each.slot) for each in seen)
    placed = Counter(each.part for each in seen)
    for each in seen:
        if each.slot and (not who.is_node or placed[each.part] > 1 or held[each.node, each.slot] > 1):
            what = each.key if who.is_node or each.slot == CHASSIS else who.name
            yield f"{what}: {each.slot} of {each.node} from {day_of(each.since_s)} to {day_of(each.until_s)}"


class _Changed:
    """What else changed with a number: between the last run before and the first run after."""

    def __init__(self, base: sqlite3.Connection, who: Whom, seen: Sequence[Stay]) -> None:
        self._base, self._who, self._seen = base, who, seen

    def between(self, before_s: float, after_s: float, versions: Sequence[tuple[str, str, str]]) -> str:
        """In words: "when driver changed from 570 to 580"; empty where nothing did."""
        found = [f"{name} changed from {one} to {two}" for name, one, two in versions]
        asked = """
select now.name, was.value, now.value from traits as now join traits as was
on was.part = now.part and was.name = now.name and was.to_epoch_s < now.from_epoch_s and was.value != now.value
where now.part = ? and now.from_epoch_s > ? and now.from_epoch_s <= ? order by now.name"""
        for name, one, two in self._base.execute(asked, (self._who.machine, before_s, after_s)):
            found.append(f"{name} changed from {one} to {two}")
        asked = "select kind, text from events where node = ? and epoch_s > ? and epoch_s <= ? and kind in (?, ?)"
        for kind, text in self._base.execute(asked, (self._who.node, before_s, after_s, REPAIR, ACCEPT_AGAIN)):
            found.append(f"{_KINDS[kind]}: {text}")
        came = (each for each in self._seen if before_s < each.since_s <= after_s)
        found += [f"{each.key} came to {each.slot} of {each.node}" for each in came]
        return "; ".join(dict.fromkeys(found))


def _numbers(of: Sequence[Told], margins: Margins, changed: _Changed) -> Iterator[str]:
    """Each that has changed, with its levels; then the others, all parts of a quantity in one line."""
    alike: defaultdict[tuple[str, str], list[Told]] = defaultdict(list)
    for told in of:
        least = least_step(told.metric, told.unit, _ends(told)[0], margins)
        steps = list(changes(told.values, least, margins.past_z))
        if steps:
            yield from _changed_number(told, steps, changed)
        else:
            alike[told.metric, told.unit].append(told)
    for several in alike.values():
        yield from _alike(several)


def _ends(told: Told) -> tuple[float, float, int]:
    """The means of its first and of its newest values, and of how many."""
    few = max(1, min(_FEW, len(told.values) // 2))
    return sum(told.values[:few]) / few, sum(told.values[-few:]) / few, few


def _bad(told: Told) -> str:
    bad = len(told.values) - sum(told.sound)
    of_them = f"{bad} of them " if len(told.sound) > 1 else ""
    return f", {of_them}when the node had a fault" if bad else ""


def _under(told: Told) -> dict[str, str]:
    return {**told.under, **told.versions[-1]}


def _alike(several: Sequence[Told]) -> Iterator[str]:
    """One quantity, of each set of conditions a line; what all have in common is left out."""
    common = set.intersection(*(set(_under(each).items()) for each in several))
    lines_of: defaultdict[tuple[str, str], list[Told]] = defaultdict(list)
    for told in several:
        own = ", ".join(f"{name} {value}" for name, value in _under(told).items() if (name, value) not in common)
        lines_of[own, _bad(told)].append(told)
    for (own, bad), same in lines_of.items():
        newest, unit = sorted(_ends(each)[1] for each in same), same[0].unit
        low, high = (shown(each, unit) for each in (newest[0], newest[-1]))
        values = high if low == high else f"{low.removesuffix(f' {unit}')} to {high}"
        devices = fold(dict.fromkeys(each.device for each in same if each.device))
        runs = max(len(each.values) for each in same)
        what = f"{devices}: " * bool(devices) + f"{words(same[0].metric)} {values}"
        since = f"no lasting change in {runs} runs" if runs > 1 else "one run"
        yield f"{what} ({since}{bad})" + (f"; {own}" if own else "")


def _changed_number(told: Told, steps: Sequence[int], changed: _Changed) -> Iterator[str]:
    values = told.values
    first, newest, few = _ends(told)
    change = f", {100 * (newest - first) / first:+.1f} %" if first else ""
    under = ", ".join(f"{name} {value}".strip() for name, value in _under(told).items())
    of = f"first and newest {few} of {len(values)} kept{_bad(told)}"
    said = f"{words(told.metric)} {shown(first, told.unit)} -> {shown(newest, told.unit)}"
    yield f"{told.device}: " * bool(told.device) + f"{said}{change} ({of})" + (f"; {under}" if under else "")
    for start, at, end in zip((0, *steps[:-1]), steps, (*steps[1:], len(values)), strict=True):
        one, two = (sum(part) / len(part) for part in (values[start:at], values[at:end]))
        pairs = ((name, told.versions[at - 1].get(name, "none"), value) for name, value in told.versions[at].items())
        why = changed.between(told.at_s[at - 1], told.at_s[at], [pair for pair in pairs if pair[1] != pair[2]])
        word = "lower" if two < one else "higher"
        level = f"{word} since {day_of(told.at_s[at])}: {shown(one, told.unit)} -> {shown(two, told.unit)}"
        yield f"  {level}" + (f", when {why}" if why else "")
