"""Nodes, boards and racks that fail again and again, beyond chance: from the faults of the fleet's record.

First what many nodes had at once is set aside. Then racks and batches (one firmware, one lot of serial numbers) that
fail more often are named, and their nodes compared with each other. Then boards, which keep their past where they move;
then nodes, without the faults of boards that are named. docs/reference/statistics.md has the rules.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from operator import attrgetter
from typing import TypeVar

from nodegate.past.faults import DAY_S, Fault, Machine, Seen, newest, read
from nodegate.past.lemon import (
    BATCH,
    BOARD,
    FLOOR,
    NODE,
    RACK,
    RMA,
    SERVICE,
    SOAK,
    SWAP,
    WATCH,
    WINDOW_DAYS,
    Figures,
    Lemon,
    Told,
    Unit,
)

LONG = 3  # times as long: in which a board or node is named that fails seldom, and again
LEAST_OTHERS = 2  # nodes of a platform, with which one is compared
FALSE_RATE = 0.01  # of what is named on one day; over months of days several times as much
AT_ONCE, AT_ONCE_SHARE, AT_ONCE_OF_RACK = 3, 0.05, 0.5  # nodes, of the fleet, of a rack: one event, and no node's own
SAME_KIND, SAME_KIND_DAYS = 3, 14.0  # recurrence: of one kind in so many days
GONE_AGAIN, GONE_AGAIN_DAYS = 4, 7.0  # recurrence: of any kind that went away again, in so many days
QUIET_DAYS = 14.0
PLACES = ("rack", "leaf")  # the traits that say where a node is
Key = TypeVar("Key", bound=Hashable)


def of_record(
    base: sqlite3.Connection, until_s: float | None = None, *, days: float = WINDOW_DAYS, since_s: float | None = None
) -> Told | None:
    """What a record has of a time, without `until_s` up to its newest run. None where it has too few days of it."""
    until = newest(base) if until_s is None else until_s
    since = until - days * DAY_S if since_s is None else since_s
    begin = until - LONG * (until - since) - WINDOW_DAYS * DAY_S  # what lasted at the begin does not count as new
    told = lemons(read(base, begin, until), since, until)
    return told if max(told.days.values(), default=0) >= FLOOR else None


def lemons(seen: Seen, since_s: float, until_s: float) -> Told:
    """What fails again beyond chance between two times; of rare faults in a longer time, which ends with it."""
    window = _Window(seen, since_s, until_s)
    groups = window.groups()
    kin = {member: lemon.unit.key for lemon in groups for member in lemon.unit.members}
    windows = (window, _Window(seen, until_s - LONG * (until_s - since_s), until_s))
    boards = [lemon for each in windows for lemon in each.named(each.boards(kin))]
    taken = {lemon.unit.key for lemon in boards}
    nodes = [lemon for each in windows for lemon in each.named(each.nodes(kin, taken))]
    return Told(
        since_s,
        until_s,
        window.figures(),
        tuple(_once((*groups, *boards, *nodes))),
        window.recurring(),
        {each.key: each.node for each in window.machines if each.platform in window.few},
        {each.key: each.looks.between(since_s, until_s)[0] for each in window.machines},
    )


def _once(found: Iterable[Lemon]) -> Iterator[Lemon]:
    """What is in its place, each once: of two times the shorter one."""
    seen = set()
    for each in found:
        about = (each.unit.key, each.unit.kin if each.unit.is_group else ())
        if each.unit.is_here and about not in seen:
            seen.add(about)
            yield each


class _Window:
    """The faults of a time, by board and by node. `few`: platforms with too few nodes to compare them."""

    def __init__(self, seen: Seen, since_s: float, until_s: float) -> None:
        self._seen, self._since_s, self._until_s = seen, since_s, until_s
        self.machines = [each for each in seen.machines.values() if each.looks.between(since_s, until_s)[1]]
        every = [each for each in seen.faults if since_s <= each.at_s < until_s]
        self._own = list(_apart(every, self.machines))
        self._at_once = len(every) - len(self._own)
        self._of_board, self._of_machine = defaultdict[str, list[Fault]](list), defaultdict[str, list[Fault]](list)
        sizes = Counter(each.platform for each in self.machines)
        self.few = {platform for platform, count in sizes.items() if count <= LEAST_OTHERS}
        for fault in self._own:
            if fault.at_s < max(self._begin(fault.board), self._begin(fault.machine) if not fault.board else 0.0):
                continue
            self._of_machine[fault.machine].append(fault)
            if fault.board:
                self._of_board[fault.board].append(fault)

    def _begin(self, key: str) -> float:
        """From when on faults of a part count: a repair starts a clean count."""
        repaired = [at for at in self._seen.repairs.get(key, ()) if at < self._until_s]
        return max([self._since_s, *repaired])

    def groups(self) -> list[Lemon]:
        """Racks and batches, the surest first; a node belongs to one of them at most."""
        found: list[Lemon] = []
        left = {each.key: each for each in self.machines if each.platform not in self.few}
        while sure := self.named(list(self._groups(left.values()))):
            best = min(sure, key=lambda lemon: lemon.chance)
            found.append(replace(best, advice=SERVICE, recurs=""))  # that is of one part
            for key in best.unit.members:
                del left[key]
        return found

    def _groups(self, machines: Collection[Machine]) -> Iterator[Unit]:
        """The nodes of each value of a trait that is not the same on all nodes of a platform."""
        sizes = Counter(each.platform for each in machines)
        sharing = defaultdict[tuple[str, str, str], list[Machine]](list)
        for each in machines:
            for name, value in each.traits.items():
                sharing[each.platform, name, value].append(each)
        for (platform, name, value), members in sharing.items():
            if len(members) < sizes[platform]:
                faults = sorted(
                    (fault for each in members for fault in self._of_machine[each.key]), key=attrgetter("at_s")
                )
                exposure = _sum([each.looks.between(self._since_s, self._until_s) for each in members])
                about = (RACK if name in PLACES else BATCH, f"{name} {value}", "", "", (platform, name), exposure)
                keys = tuple(each.key for each in members)
                yield Unit(*about, tuple(faults), keys, is_most=2 * len(members) > sizes[platform])

    def boards(self, kin: Mapping[str, str]) -> list[Unit]:
        """The GPUs and adapters with a fault; the others are one unit of each kind."""
        between = cache(self._between)
        found, rest = [], defaultdict[tuple[str, ...], list[tuple[int, int]]](list)
        for key, own in self._seen.boards.items():
            last = own[-1]
            machine, begin = self._seen.by_node.get(last.node), self._begin(key)
            if machine is None or machine.platform in self.few:
                continue
            about = (machine.platform, kin.get(machine.key, ""), "GPU" if last.slot.startswith("GPU") else "adapter")
            exposures = [between(each.node, max(each.since_s, begin), each.until_s) for each in own]
            if key in self._of_board:
                faults, is_here = tuple(self._of_board[key]), self._seen.is_here(key)
                unit = Unit(BOARD, key, last.node, last.slot, about, _sum(exposures), faults, is_here=is_here)
                found.append(unit)
            else:
                rest[about] += exposures
        return found + [Unit(BOARD, "", "", "", about, _sum(own), number=len(own)) for about, own in rest.items()]

    def _between(self, node: str, since_s: float, until_s: float) -> tuple[int, int]:
        looks = self._seen.looks.get(node)
        return looks.between(since_s, min(until_s + 1, self._until_s)) if looks else (0, 0)

    def nodes(self, kin: Mapping[str, str], taken: Iterable[str]) -> list[Unit]:
        """The nodes, without the faults of boards that are named."""
        found, others = [], frozenset(taken)
        for each in self.machines:
            if each.platform in self.few:
                continue
            begin = self._begin(each.key)
            faults = tuple(
                fault for fault in self._of_machine[each.key] if fault.at_s >= begin and fault.board not in others
            )
            about = (each.platform, kin.get(each.key, ""))
            found.append(Unit(NODE, each.key, each.node, "", about, each.looks.between(begin, self._until_s), faults))
        return found

    def named(self, units: Sequence[Unit]) -> list[Lemon]:
        """Those beyond chance. What was named once is left out, and the others are asked again without it."""
        found: dict[Unit, tuple[float, float]] = {}
        days, asked = round((self._until_s - self._since_s) / DAY_S), sum(each.number for each in units)
        while True:
            chances = {unit: told for unit, told in _chances(units, found) if unit not in found}
            new = beyond({unit: told[0] for unit, told in {**found, **chances}.items()}, asked, FALSE_RATE)
            if not new - found.keys():
                return [
                    Lemon(unit, expected, chance, self._advice(unit), days, _recurs(unit.faults, self._until_s))
                    for unit, (chance, expected) in found.items()
                ]
            found |= {unit: chances[unit] for unit in new - found.keys()}

    def _advice(self, unit: Unit) -> str:
        """What to do: see which one the fault follows, where that is not known yet."""
        if max(each.end_s for each in unit.faults) < self._until_s - QUIET_DAYS * DAY_S and self._is_looked_at(unit):
            return WATCH
        places = {(each.machine, each.slot) for each in unit.faults if each.slot}
        if unit.what == BOARD and len({machine for machine, _ in places}) > 1:
            return RMA  # in one node a board may have another slot without a move: they are renumbered
        for machine, slot in places:
            here = [each for each in self._of_machine[machine] if each.slot == slot]
            if any(self._seen.came_after(new.board, old.node, old.at_s) for old, new in combinations(here, 2)):
                return SERVICE
        return SWAP if unit.what == BOARD else SOAK

    def _is_looked_at(self, unit: Unit) -> bool:
        """Whether the last weeks have runs enough with it to say that it has no fault."""
        quiet = self._until_s - QUIET_DAYS * DAY_S
        stays = [(each.node, each.since_s, each.until_s) for each in self._seen.boards.get(unit.key, ())]
        looks = [self._between(node, max(begin, quiet), end) for node, begin, end in stays]
        return _sum(looks or [self._between(unit.node, quiet, self._until_s)])[0] >= FLOOR

    def recurring(self) -> dict[tuple[str, str, str], str]:
        """The parts that a reset did not help: their key, node and slot, and the kind; empty for several kinds."""
        found = {}
        of_machine = {key: [each for each in own if not each.board] for key, own in self._of_machine.items()}
        for key, faults in {**self._of_board, **of_machine}.items():
            if (why := _recurs(faults, self._until_s)) and self._seen.is_here(key):
                found[key, faults[-1].node, faults[-1].slot] = why
        return found

    def figures(self) -> Figures:
        """The fleet's own numbers; what many nodes had at once is not in them."""
        days, looks = _sum([each.looks.between(self._since_s, self._until_s) for each in self.machines])
        faults = len({(each.machine, each.day) for each in self._own})
        gone = sorted(each.gone_s - each.at_s for each in self._own if each.gone_s is not None)
        bad = sum(self._since_s <= at < self._until_s for each in self.machines for at in each.bad)
        return Figures(
            len(self.machines),
            days,
            faults,
            self._at_once,
            days / faults if faults else None,
            gone[len(gone) // 2] / 3600 if gone else None,
            1 - bad / looks if looks else None,
        )


def _sum(exposures: Sequence[tuple[int, int]]) -> tuple[int, int]:
    days, looks = zip(*exposures, strict=True) if exposures else ((), ())
    return sum(days), sum(looks)


def _chances(units: Sequence[Unit], without: Iterable[Unit]) -> Iterator[tuple[Unit, tuple[float, float]]]:
    """For each with enough faults the chance of so many, and how many the others had in as much time.

    By days and by looks: a node that is looked at more often may have more faults by either, and the worse one counts.
    """
    left = frozenset(without)
    others = [each for each in units if each not in left]
    sums = defaultdict[tuple[str, ...], list[int]](lambda: [0, 0, 0])
    for each in others:
        for place, value in enumerate((each.count, *each.exposure)):
            sums[each.kin][place] += value
    for each in others:
        if not each.is_enough:
            continue
        faults, days, looks = sums[each.kin]
        rest = faults - each.count
        if days <= each.exposure[0]:
            continue
        shares = (each.exposure[0] / days, each.exposure[1] / looks)
        expected = max(rest * share / (1 - share) for share in shares if share < 1)
        yield each, (max(at_least(each.count, rest, share) for share in shares), expected)


def _apart(faults: Sequence[Fault], machines: Sequence[Machine]) -> Iterator[Fault]:
    """The faults without those that many nodes had at once: an outage, a change by the site."""
    racks = {each.key: [each.traits[name] for name in PLACES if name in each.traits] for each in machines}
    sizes = Counter(place for places in racks.values() for place in places)
    together = defaultdict[tuple[int, str], set[str]](set)
    for each in faults:
        together[each.day, each.kind].add(each.machine)
    at_once: dict[tuple[int, str], set[str]] = {}
    for about, own in together.items():
        if len(own) >= AT_ONCE:
            if len(own) >= AT_ONCE_SHARE * len(machines):
                at_once[about] = own
                continue
            here = Counter(place for each in own for place in racks.get(each, ()))
            full = {place for place, count in here.items() if count >= max(AT_ONCE, AT_ONCE_OF_RACK * sizes[place])}
            at_once[about] = {each for each in own if full.intersection(racks.get(each, ()))}
    yield from (each for each in faults if each.machine not in at_once.get((each.day, each.kind), ()))


def _recurs(faults: Sequence[Fault], until_s: float) -> str:
    """The kind that came three times in 14 days; "any" where four faults came and went in a week; else nothing."""
    kinds = Counter(
        kind for kind, _ in {(each.kind, each.day) for each in faults if each.at_s >= until_s - SAME_KIND_DAYS * DAY_S}
    )
    often = [kind for kind, count in kinds.items() if count >= SAME_KIND]
    if often:
        return min(often)
    newest = [each for each in faults if each.at_s >= until_s - GONE_AGAIN_DAYS * DAY_S]
    gone = {each.day for each in newest if each.gone_s is not None and each.gone_s < until_s}
    return "any" if len(gone) >= GONE_AGAIN else ""


def at_least(count: int, of_others: int, share: float) -> float:
    """The chance that so many or more faults fall on one, if all fail alike.

    Two Poisson rates compared exactly (Przyborowski and Wilenski 1940): given the sum, each fault falls on the one with
    its share of the exposure. So a fleet of a few nodes, or without any other fault, needs no special rule.

    Args:
        count: its own faults, at least one.
        of_others: the faults of those that it is compared with.
        share: its exposure by that of all, between 0 and 1.
    """
    from scipy.special import betainc  # noqa: PLC0415 - heavy

    return float(betainc(count, of_others + 1, share))


def beyond(chances: Mapping[Key, float], asked: int, rate: float) -> set[Key]:
    """Those of `asked` questions that are beyond chance; about `rate` of them is false (Benjamini and Hochberg)."""
    ranked = sorted(chances.items(), key=lambda each: each[1])
    last = max((place for place, (_, p) in enumerate(ranked, 1) if p <= rate * place / asked), default=0)
    return {key for key, _ in ranked[:last]}
