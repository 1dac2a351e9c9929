"""Faults as the record has them: when each began on which part, how often every node was looked at, where boards were.

A fault that is found night after night is one fault: it begins again only after a run that judged the same check did
not find it. Counted is what fails on hardware, an Xid that the kernel log has of hardware, and a node that does not
answer; not warnings, settings, drift, what is waived, nor the Xids of programs.
"""

import sqlite3
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nodegate.knowledge.tables import xids
from nodegate.knowledge.words import Cause as Blame
from nodegate.past.event import REPAIR, XID
from nodegate.past.keys import CHASSIS, PLACE, SERIAL
from nodegate.past.questions import Stay
from nodegate.past.tables import marks
from nodegate.records.cause import Class, Severity
from nodegate.records.verdict import NodeVerdict, Verdict

_Rows = Mapping[tuple[int, str], Mapping[object, tuple[Any, ...]]]
_Boards = Mapping[str, Sequence[Stay]]

DAY_S = 86400.0
_NO_TIME_S = 1e11  # no run begins so late
_MOST_DIGITS = 6  # of an Xid
_XID = "Xid "
UNREACHABLE = NodeVerdict.UNREACHABLE.value
_HARD = (Severity.WRONG_DATA, Severity.LOST, Severity.UNUSABLE, Severity.SLOW, Severity.LINK, Severity.DEGRADED)
_HARDWARE = (Class.GPU, Class.NIC, Class.CABLE, Class.NVLINK, Class.HOST)
_BAD = (NodeVerdict.REJECTED.value, UNREACHABLE)
_LOOKS = """
select run, cast(started_epoch_s as real) as at, cast(node as text), cast(key as text), cast(verdict as text),
cast(platform as text), judged from decisions join runs on runs.id = run join parts on parts.id = part
where started_epoch_s >= ? and started_epoch_s < ? order by at, run
"""
_CAUSES = """
select run, cast(problems.node as text), problem, cast(key as text), cast(condition as text),
cast(check_id as text), severity in ({hard}) and verdict = 'fail' and waiver = '',
severity in ({hard}) and waiver != '' from causes join runs on runs.id = run join problems on problems.id = problem
join parts on parts.id = problems.part where class in ({hardware}) and started_epoch_s >= ? and started_epoch_s < ?
"""
_STAYS = """
select part, cast(key as text), cast(node as text), cast(slot as text), cast(from_epoch_s as real),
cast(to_epoch_s as real) from places join parts on parts.id = part where from_epoch_s < ?
order by from_epoch_s, to_epoch_s
"""
_TRAITS = """
select cast(key as text), cast(name as text), cast(value as text) from traits join parts on parts.id = part
where from_epoch_s < ? order by from_epoch_s, to_epoch_s
"""
_EVENTS = """
select cast(epoch_s as real) as at, cast(node as text), cast(part as text), cast(text as text) from events
where kind = ? and epoch_s >= ? and epoch_s < ? order by at
"""
_JUDGED = "select id, cast(text as text) from texts where id in (select judged from decisions)"


@dataclass(frozen=True, slots=True)
class Fault:
    """What began on a part. `board` is the key of the GPU or adapter, `slot` where it was; empty of anything else.

    `device` is the name of a part without a number of its own; empty of the node itself. `gone_s`: when a run did not
    find it again; None while it lasts, or where nothing looked. `is_log`: a line of a log says it, and stays there
    until the next boot.
    """

    at_s: float
    node: str
    machine: str
    board: str
    slot: str
    kind: str
    gone_s: float | None = None
    is_log: bool = False
    device: str = ""

    @property
    def end_s(self) -> float:
        """When it was over: an Xid at once; infinite while the fault lasts."""
        over = self.at_s if self.kind.startswith(_XID) else float("inf")
        return over if self.gone_s is None else self.gone_s

    @property
    def day(self) -> int:
        """The day in UTC on which a run found it: what one part has on one day counts once."""
        return int(self.at_s // DAY_S)


@dataclass
class Looks:
    """When runs looked, oldest first."""

    at_s: list[float] = field(default_factory=list)

    @cached_property
    def days(self) -> list[float]:
        """The first look of each day."""
        return list({int(at // DAY_S): at for at in reversed(self.at_s)}.values())[::-1]

    def between(self, since_s: float, until_s: float) -> tuple[int, int]:
        """Days with a look, and looks, from one time to before another."""
        if until_s <= since_s:
            return 0, 0
        days, looks = ([bisect_left(each, at) for at in (since_s, until_s)] for each in (self.days, self.at_s))
        return days[1] - days[0], looks[1] - looks[0]


@dataclass
class Machine:
    """A node by the key of its chassis, with its name now. `bad`: the looks that rejected it or could not reach it."""

    key: str
    node: str = ""
    platform: str = ""
    looks: Looks = field(default_factory=Looks)
    bad: list[float] = field(default_factory=list)
    traits: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """What the record has of a time.

    `machines` by key; `looks` by the names of nodes; `stays` of boards, oldest first; the times of repairs by key.
    """

    faults: Sequence[Fault]
    machines: Mapping[str, Machine]
    looks: Mapping[str, Looks]
    stays: Sequence[Stay]
    repairs: Mapping[str, Sequence[float]]

    @cached_property
    def boards(self) -> Mapping[str, Sequence[Stay]]:
        """The stays of each board."""
        return _by_key(self.stays)

    def is_here(self, key: str) -> bool:
        """Whether no other board replaced this one. Where a GPU is lost, the next one of its node has its number."""
        own = self.boards.get(key, ())[-1:]
        return not any(self.came_after(self._held[each.node, each.slot], each.node, each.until_s) for each in own)

    def came_after(self, board: str, node: str, at_s: float) -> bool:
        """Whether a board was not on that node yet at that time."""
        was = _stay_at(self.boards[board], at_s)
        return was is None or was.node != node

    @cached_property
    def _held(self) -> Mapping[tuple[str, str], str]:
        return {(each.node, each.slot): each.key for each in self.stays}

    @cached_property
    def by_node(self) -> Mapping[str, Machine]:
        """The machines by their names now."""
        return {each.node: each for each in self.machines.values()}


def read(base: sqlite3.Connection, since_s: float, until_s: float) -> Seen:
    """What runs found from one time to before another, as the record was then. Seconds since the epoch."""
    looks = _looks(base, since_s, until_s)
    stays = [
        each
        for each in (Stay(*row) for row in base.execute(_STAYS, (until_s,)))
        if each.slot not in ("", CHASSIS) and each.key.startswith(SERIAL)
    ]
    boards = _by_key(stays)
    machines = _machines(looks)
    by_name = {node: Looks([each.at_s for each in own]) for node, own in looks.items()}
    for key, name, value in base.execute(_TRAITS, (until_s,)):
        if key in machines:
            machines[key].traits[name] = value
    repairs = defaultdict[str, list[float]](list)
    for at, _, key, _ in base.execute(_EVENTS, (REPAIR, since_s, until_s)):
        repairs[key].append(at)
    rows = _causes(base, since_s, until_s)
    faults = list(_of_causes(rows, looks, boards))
    waived = {(*look, _board(key, boards)) for look, own in rows.items() for key, *_, is_so in own.values() if is_so}
    faults += _of_xids(base.execute(_EVENTS, (XID, since_s, until_s)), looks, boards, faults, waived)
    return Seen(sorted(faults, key=lambda each: each.at_s), machines, by_name, stays, repairs)


def newest(base: sqlite3.Connection) -> float:
    """Just after the newest run began; 0 where there is none."""
    asked = "select max(cast(started_epoch_s as real)) from runs where started_epoch_s < ?"
    (found,) = base.execute(asked, (_NO_TIME_S,)).fetchone()
    return 0.0 if found is None else float(found) + 1


def _stay_at(stays: Iterable[Stay], at_s: float) -> Stay | None:
    """Where a board was at a time, or last before it; None before it was seen at all."""
    return max((each for each in stays if each.since_s <= at_s), key=lambda each: each.since_s, default=None)


def _by_key(stays: Iterable[Stay]) -> dict[str, list[Stay]]:
    found = defaultdict[str, list[Stay]](list)
    for each in stays:
        found[each.key].append(each)
    return found


@dataclass
class _Look:
    run: int
    at_s: float
    node: str
    machine: str
    verdict: str
    platform: str
    judged: frozenset[str]


def _looks(base: sqlite3.Connection, since_s: float, until_s: float) -> dict[str, list[_Look]]:
    """By node, oldest first. In a run that could not read its serial number a node is the machine of before."""
    judged = {number: frozenset(str(text).split()) for number, text in base.execute(_JUDGED)}
    found = defaultdict[str, list[_Look]](list)
    for run, at, node, key, verdict, platform, checks in base.execute(_LOOKS, (since_s, until_s)):
        found[node].append(_Look(run, at, node, key, verdict, platform, judged.get(checks, frozenset())))
    for node, looks in found.items():
        known = next((each.machine for each in looks if each.machine != PLACE + node), PLACE + node)
        for look in looks:
            known = look.machine = known if look.machine == PLACE + node else look.machine
    return found


def _machines(looks: Mapping[str, Sequence[_Look]]) -> dict[str, Machine]:
    found: dict[str, Machine] = {}
    for look in sorted((each for own in looks.values() for each in own), key=lambda each: each.at_s):
        machine = found.setdefault(look.machine, Machine(look.machine))
        machine.node, machine.platform = look.node, look.platform or machine.platform
        machine.looks.at_s.append(look.at_s)
        if look.verdict in _BAD:
            machine.bad.append(look.at_s)
    return found


def _causes(base: sqlite3.Connection, *window: float) -> _Rows:
    """By run and node, problem -> its part, condition and check; whether it counts; whether it is waived."""
    asked = (*(each.value for each in (*_HARD, *_HARD, *_HARDWARE)), *window)
    rows = defaultdict[tuple[int, str], dict[object, tuple[Any, ...]]](dict)
    for run, node, problem, *about in base.execute(_CAUSES.format(hard=marks(_HARD), hardware=marks(_HARDWARE)), asked):
        rows[run, node][problem] = tuple(about)
    return rows


def _of_causes(rows: _Rows, looks: Mapping[str, Sequence[_Look]], boards: _Boards) -> Iterator[Fault]:
    """Each cause from the run that found it to the one that judged its check and did not; a warning begins none."""
    for node, own in looks.items():
        begun: dict[object, tuple[_Look, Sequence[str]]] = {}
        for look in own:
            here = rows.get((look.run, node), {})
            if look.verdict == UNREACHABLE:
                here = {UNREACHABLE: ("", UNREACHABLE, "", 1, 0)}
            for problem in [each for each in begun if each not in here]:
                was, about = begun[problem]
                if about[2] in look.judged or (problem == UNREACHABLE and look.verdict != UNREACHABLE):
                    del begun[problem]
                    yield _fault(was, about, boards, look.at_s)
            for problem, (*about, counts, _) in here.items():
                if counts:
                    begun.setdefault(problem, (look, about))
        for was, about in begun.values():
            yield _fault(was, about, boards, None)


def _fault(look: _Look, about: Sequence[str], boards: _Boards, gone_s: float | None = None) -> Fault:
    """A fault, by its part's key, condition and check; of a port that of its adapter."""
    key, condition, check = about
    board = _board(key, boards)
    stay = _stay_at(boards.get(board, ()), look.at_s)
    name = "" if board else key.removeprefix(look.machine).removeprefix(PLACE + look.node).removeprefix("/")
    owner, _, port = name.rpartition(":")
    device, is_log = owner if port.isdecimal() else name, check.partition(".")[0].endswith("_log")
    slot = stay.slot if stay else ""
    return Fault(look.at_s, look.node, look.machine, board, slot, condition, gone_s, is_log, device)


def _board(key: str, boards: Mapping[str, object]) -> str:
    """The board that a key means, of a port its adapter; empty of what has no number of its own."""
    return next((each for each in (key, key.rpartition(":")[0]) if each in boards), "")


def _of_xids(
    rows: Iterable[tuple[float, str, str, str]],
    looks: Mapping[str, Sequence[_Look]],
    boards: _Boards,
    faults: Sequence[Fault],
    waived: set[tuple[int, str, str]],
) -> Iterator[Fault]:
    """Xids of hardware, at the run that read them; not while a fault lasts on the part that is not of a log.

    Nor where that run has a waived failure of the part (`waived`: run, node and board).
    """
    lasting = defaultdict[tuple[str, str], list[tuple[float, float]]](list)
    for each in faults:
        if not each.is_log:
            lasting[each.node, each.board].append((each.at_s, each.end_s))
    for at, node, key, code in rows:
        rule = xids().get(int(code)) if code.isdecimal() and len(code) < _MOST_DIGITS else None
        if rule is None or rule.cause is not Blame.HARDWARE or rule.bootcheck is not Verdict.FAIL or node not in looks:
            continue
        own = looks[node]
        look = own[min(bisect_left(own, at, key=lambda each: each.at_s), len(own) - 1)]
        fault = _fault(look, (key, f"{_XID}{code}", ""), boards)
        lasts = any(begin <= when < end for begin, end in lasting[node, fault.board] for when in (look.at_s, at))
        if not lasts and (look.run, node, fault.board) not in waived:
            yield fault
