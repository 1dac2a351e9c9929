"""What `nodegate lemons` names, with its grounds: boards, nodes, racks and batches, and the fleet as a whole.

In words for people in English and Chinese (lemon_words.csv), and as JSON for programs.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property

from nodegate.knowledge.tables import rows
from nodegate.knowledge.words import Text
from nodegate.past.faults import Fault
from nodegate.past.keys import CHASSIS, Keys
from nodegate.records.verdict import NodeVerdict
from nodegate.text import day_of, some, visible

WINDOW_DAYS = 28  # of Meta's published detection of lemon nodes (arXiv 2410.21680)
FLOOR = 3  # faults on as many days, below which nothing is named
MOST_OF_ONE = 2  # faults of a node that count for its rack or batch: one lemon makes none
BOARD, NODE, RACK, BATCH = "board", "node", "rack", "batch"
WATCH, SOAK, SWAP, SERVICE, RMA = "watch", "soak", "swap", "service", "rma"
SCHEMA = "nodegate.lemons/1"
MOST_NODES = 8


@dataclass(frozen=True, eq=False)
class Unit:
    """A board, a node or a group of nodes, with its faults and how often it was looked at.

    `kin`: with what it is compared. `exposure`: days with a look, and looks.
    """

    what: str
    key: str
    node: str
    slot: str
    kin: tuple[str, ...]
    exposure: tuple[int, int]
    faults: tuple[Fault, ...] = ()
    members: tuple[str, ...] = ()  # of a group, its machines
    is_here: bool = True  # of a board: no other one is in its place
    number: int = 1  # of boards without a fault, which are asked together
    is_most: bool = False  # of a group: more nodes than not are in it, so it is what others are compared with

    @cached_property
    def count(self) -> int:
        """The days on which a fault began; of a group of nodes those of each, but few of one."""
        days = Counter(machine for machine, _ in {(each.machine, each.day) for each in self.faults})
        return sum(min(own, MOST_OF_ONE) for own in days.values()) if self.is_group else sum(days.values())

    @property
    def is_group(self) -> bool:
        """Whether it is a rack or a batch."""
        return self.what in (RACK, BATCH)

    @property
    def is_enough(self) -> bool:
        """Whether it has faults on as many days, a group on as many nodes, as is worth asking."""
        if self.is_group:
            return not self.is_most and len({each.machine for each in self.faults}) >= FLOOR
        return self.count >= FLOOR


@dataclass(frozen=True)
class Lemon:
    """What is named, with its grounds: its faults in so many days where others had `expected`; what to do."""

    unit: Unit
    expected: float
    chance: float
    advice: str
    days: int
    recurs: str = ""


@dataclass(frozen=True)
class Figures:
    """The fleet as a whole. Days between faults of a node and hours until one was gone are None where none was."""

    machines: int
    node_days: int
    faults: int
    at_once: int
    mtbf_days: float | None
    repair_hours: float | None
    healthy_share: float | None


@dataclass(frozen=True)
class Told:
    """The answer for a time. `recurring` are parts that a reset does not help, named or not: part -> why.

    `days`: machine -> days with a look. `not_compared`: machine -> its node, of platforms with too few.
    """

    since_s: float
    until_s: float
    figures: Figures
    named: tuple[Lemon, ...] = ()
    recurring: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    not_compared: Mapping[str, str] = field(default_factory=dict)
    days: Mapping[str, int] = field(default_factory=dict)

    def of(self, keys: Keys) -> list[tuple[str, Lemon]]:
        """What is named of a node as it is now, its own boards too: with their slots, empty for the node."""
        slots = {keys.machine: "", **{keys.of(each.slot): each.slot for each in keys.placed if each.slot != CHASSIS}}
        return [(slots[each.unit.key], each) for each in self.named if each.unit.key in slots]


@cache
def _table() -> Mapping[str, Text]:
    return {row["id"]: Text(row["en"], row["zh"]) for row in rows("lemon_words.csv")}


def _say(sentence: str, **values: object) -> Text:
    said = _table()[sentence]
    return Text(said.en.format(**values), said.zh.format(**values))


def lines(told: Told, language: str = "en") -> Iterator[str]:
    """The answer: who, why and what to do; then parts that a reset does not help, and the fleet as a whole."""
    yield from (said.zh if language == "zh" else said.en for said in _lines(told))


def _lines(told: Told) -> Iterator[Text]:
    since, until = day_of(told.since_s), day_of(told.until_s)
    yield _say("named" if told.named else "none", count=len(told.named), since=since, until=until)
    for each in told.named:
        unit = each.unit
        who = (unit.kin[0], unit.key, "") if unit.is_group and unit.kin[0] else (unit.key, unit.node, unit.slot)
        yield _joined(f"  {_where(*who)}: ", grounds(each))
        yield _joined("    ", to_do(each))
    named = {each.unit.key for each in told.named}
    for (key, node, slot), why in told.recurring.items():
        if key not in named:
            yield _joined(f"  {_where(key, node, slot)}: ", recurs(why))
    if told.figures.at_once:
        yield _say("at_once", count=told.figures.at_once)
    numbers = told.figures
    yield _say(
        "fleet",
        machines=numbers.machines,
        node_days=numbers.node_days,
        faults=numbers.faults,
        mtbf="-" if numbers.mtbf_days is None else f"{numbers.mtbf_days:.0f}",
        repair="-" if numbers.repair_hours is None else f"{numbers.repair_hours:.0f}",
        healthy="-" if numbers.healthy_share is None else f"{100 * numbers.healthy_share:.1f} %",
    )
    if told.not_compared:
        yield _say("few", nodes=some(sorted(told.not_compared.values()), MOST_NODES))


def grounds(lemon: Lemon) -> Text:
    """Why it is named, in both languages."""
    unit = lemon.unit
    return _say(
        "group" if unit.is_group else "grounds",
        count=unit.count,
        days=lemon.days,
        expected=f"{lemon.expected:.1f}",
        kinds=", ".join(f"{kind} {count}" for kind, count in _kinds(unit)),
        last=day_of(unit.faults[-1].at_s),
        hit=len({each.machine for each in unit.faults}),
        size=len(unit.members),
    )


def to_do(lemon: Lemon) -> Text:
    """What to do, in both languages; for a fault that recurs not a reset."""
    about = {WATCH: WATCH, SOAK: _soak(lemon.unit)}
    said = _say(about.get(lemon.advice, f"{lemon.unit.what} {lemon.advice}"))
    if not lemon.recurs:
        return said
    why = recurs(lemon.recurs)
    return Text(f"{said.en}; {why.en}", f"{said.zh}；{why.zh}")  # noqa: RUF001 - Chinese punctuation


def _soak(unit: Unit) -> str:
    """What a node's faults show: several parts; only that it did not answer; or it may be one part.

    A part by number, one by its name and one by its bus address may be the same.
    """
    if all(each.kind == NodeVerdict.UNREACHABLE.value for each in unit.faults):
        return "silent"
    parts = {(each.board, each.device) for each in unit.faults if each.board or each.device}
    sorts = Counter((bool(board), ":" in device) for board, device in parts)
    return "several" if max(sorts.values(), default=0) > 1 else "one part"


def recurs(why: str) -> Text:
    """How it comes again, and that a reset does not help."""
    how, so = _say("any") if why == "any" else _say("kind", kind=why), _say("reset")
    return Text(f"{how.en}: {so.en}", f"{how.zh}：{so.zh}")  # noqa: RUF001 - Chinese punctuation


def _joined(begin: str, said: Text) -> Text:
    return Text(begin + said.en, begin + said.zh)


def _kinds(unit: Unit) -> list[tuple[str, int]]:
    """The kinds of its faults, each with its days, the most frequent first."""
    found = Counter(kind for kind, _, _ in {(each.kind, each.machine, each.day) for each in unit.faults})
    return sorted(found.items(), key=lambda each: (-each[1], each[0]))


def _where(key: str, node: str, slot: str) -> str:
    where = " ".join(part for part in (node, slot) if part)
    return f"{where} ({key})" if where else key


def as_json(told: Told) -> str:
    """The whole answer as one object; sentences are English, times are seconds since the epoch."""
    value = {
        "schema": SCHEMA,
        "since_epoch_s": told.since_s,
        "until_epoch_s": told.until_s,
        "fleet": asdict(told.figures),
        "lemons": [_lemon(each) for each in told.named],
        "reset_does_not_help": [
            {"part": visible(key), "node": visible(node), "slot": visible(slot), "why": recurs(why).en}
            for (key, node, slot), why in told.recurring.items()
        ],
        "not_compared": [visible(node) for node in sorted(told.not_compared.values())],
    }
    return json.dumps(value, ensure_ascii=False, indent=1)


def _lemon(each: Lemon) -> dict[str, object]:
    unit = each.unit
    return {
        "what": unit.what,
        "part": visible(unit.key),
        "node": visible(unit.node),
        "slot": visible(unit.slot),
        "platform": visible(unit.kin[0]),
        "nodes": sorted({visible(fault.node) for fault in unit.faults}),
        "days": each.days,
        "days_looked_at": unit.exposure[0],
        "days_with_a_fault": unit.count,
        "expected": round(each.expected, 4),
        "chance": each.chance,
        "kinds": dict(_kinds(unit)),
        "first_epoch_s": unit.faults[0].at_s,
        "last_epoch_s": unit.faults[-1].at_s,
        "advice": each.advice,
        "reset_helps": not each.recurs,
        "do": to_do(each).en,
    }
