"""A finding as data, and its sentence, which is made here and nowhere else. Nothing reads a sentence back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.text import some, with_unit
from nodegate.unknown import Why
from nodegate.words.catalogue import is_foreign, phrase, say, spoken, term

AT_LEAST, AT_MOST, EQUAL = "at least", "at most", ""
COUNTER_FULL, NOT_READ = "counter_full", "not_read"
NOT_FOR_LACK_OF_A_LIMIT = frozenset((COUNTER_FULL, NOT_READ))  # codes of what is not judged for another reason
OWN_WORD = "the device itself"  # the witness of a skip that holds only if all parts of the kind say the same
VIRTUAL = "the machine: it is virtual"  # the witness of what its host keeps for itself
CLOSED = frozenset((Why.BY_DESIGN, Why.NOT_DEMANDED))  # a skip for one of these may leave a claim closed
_MOST_NAMES = 8  # of parts in one finding; the record has them all
Value = bool | int | float | str | None
LimitValue = bool | int | float | str | tuple[int | float | str, ...]
T_co = TypeVar("T_co", bound=LimitValue, covariant=True)
# A part of such a quantity that is missing bounds what everything that rests on it can reach.
_RATES = frozenset({"lanes", "links", "GT/s", "MHz", "TFLOPS", "MB/s", "GB/s", "Gb/s"})
_PLURAL = re.compile(r"(?<=ch)es$|s$")
_SHORTEST_NOUN = 4  # a unit of this many letters or more is a noun ("rows"), not a symbol ("W")


class LimitKind(str, Enum):
    """What a limit rests on. A node that keeps within a relative one may be as bad as all that it is compared with."""

    RULE = "rule"  # what is right by its meaning: no error, a service that is active
    DEVICE = "device"  # the part's own word: the lanes that it has, its slowdown temperature
    BASELINE = "baseline"  # stored for the platform, by nodegate or by a site
    ORDER = "order"  # the inventory's word
    DERIVED = "derived"  # a share of what physics allows: of a port's rate, a memory's peak
    FLOOR = "floor"  # what only a broken part falls below: a part that keeps it may still be slow
    FLEET = "fleet"  # the other nodes of the run
    NODE = "node"  # the other parts of the node, or what most of them have
    PAST = "past"  # the node's own earlier runs

    @property
    def is_absolute(self) -> bool:
        """Whether it says what is right; otherwise it only says what others have."""
        return self not in (LimitKind.FLEET, LimitKind.NODE, LimitKind.PAST)

    @property
    def proves(self) -> bool:
        """Whether a part that keeps it is shown to be good."""
        return self.is_absolute and self is not LimitKind.FLOOR


@dataclass(frozen=True, slots=True)
class Limit(Generic[T_co]):
    """What is right: a number with its unit, a text, a switch, a list of accepted texts, or a table.

    A table is several numbers, one for each generation of something; what is judged by it takes one of them.

    `source` says where it comes from: the device's own word, baseline file and key, the other nodes. `direction` is
    `AT_LEAST`, `AT_MOST` or `EQUAL`; the judging method sets it. `kind` says what it rests on.
    """

    value: T_co
    unit: str = ""
    source: str = ""
    direction: str = EQUAL
    kind: LimitKind = LimitKind.RULE

    def words(self, *, exact: bool = False) -> str:
        """The limit as people read it: "at least 16 lanes", "active", "one of 9.1, 9.2"."""
        return f"{term(self.direction)} {with_unit(self.value, self.unit, exact=exact)}".lstrip()

    @property
    def cited(self) -> str:
        """Its source; before one that is a citation in another language than is spoken, what it rests on."""
        said = phrase(self.source)
        return f"{term(f'rests on: {self.kind.value}')}: {said}" if is_foreign(self.source) else said


AnyLimit = Limit[LimitValue]
NumberLimit = Limit[int | float]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check saw on one part.

    Args:
        part: the part that it is about.
        verdict: what it means.
        quantity: what was looked at: "link width", "bf16", "service".
        observed: the value, in `unit`; None where it is no single value.
        limit: what it was held to; None where nothing says what is right.
        text: what was observed in words, where quantity and value do not say it; of an `error` the reason.
        note: what is to be known besides: what holds the clock, how far from the other nodes.
        action: what a technician or operator does next.
        code: a finer name of what was found, where one check finds several things: "79" of Xid 79, "power brake".
        metric: the key of a measured number in baselines and history: "burn.bf16_tflops"; empty for other values.
        share: the part of what is right that is left, 0 to 1; None where that means nothing.
        why: of an `error`, why the value is unknown; of a `skip`, what the silence means (`Why.BY_DESIGN` and after).
            A skip without it counts as one that was not done.
        witness: of a skip by design, who says so: a platform's file and key, the order, the device itself.
        blocked_by: of an `error`, the check that kept the measurement from being made.
        lacks: of an `error`, the code of what was not there to judge by: a fact, a section of the probe, a tool, a
            third node. Errors of a node that lack the same are one cause.
        also: other healthy parts with the same result.
    """

    part: Part
    verdict: Verdict
    quantity: str = ""
    observed: Value = None
    unit: str = ""
    limit: AnyLimit | None = None
    text: str = ""
    note: str = ""
    action: str = ""
    code: str = ""
    metric: str = ""
    share: float | None = None
    why: Why | None = None
    blocked_by: str = ""
    lacks: str = ""
    also: tuple[Part, ...] = ()
    witness: str = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part that it is about."""
        return (self.part, *self.also)

    @property
    def parts_in_words(self) -> str:
        """Every part that it is about, by its long form."""
        return ", ".join(part.label for part in self.parts)

    @property
    def is_proof(self) -> bool:
        """Whether it shows that the part keeps a limit that proves it; other nodes and the past only compare."""
        return self.verdict is Verdict.PASS and self.limit is not None and self.limit.kind.proves

    @property
    def is_open(self) -> bool:
        """Whether it leaves open what its check is to prove: not judged, not done, or not known."""
        if self.verdict is Verdict.SKIP:
            return self.why not in CLOSED
        return self.verdict in (Verdict.ERROR, Verdict.NOT_JUDGED)

    @property
    def brief(self) -> str:
        """What was found, without part, source and action: "link width 8 lanes, expected at least 16 lanes"."""
        return self._said(source=False)

    @property
    def seen(self) -> str:
        """What was found, without what was expected: "link width 8 lanes"."""
        if self.verdict is Verdict.ERROR and self.quantity:
            return say("could not read {quantity}: {why}", quantity=phrase(self.quantity), why=self.reason)
        if self.witness and self.witness != OWN_WORD:
            return f"{phrase(self.text)} ({phrase(self.witness)})"
        return self.reason or self._reading

    @property
    def reason(self) -> str:
        """The text, in the language that is spoken."""
        if self.blocked_by and spoken() != "en":
            return say("blocked by {check}", check=self.blocked_by)
        return phrase(self.text)

    @property
    def expected(self) -> str:
        """What it was held to: "at least 16 lanes"; empty where nothing says what is right."""
        return self.limit.words(exact=self._exact) if self.limit is not None else ""

    @property
    def message(self) -> str:
        """The whole line: part, what was found, what was expected and why, and what to do."""
        line = f"{self._whose}: {self._said(source=True)}"
        return f"{line} - {phrase(self.action)}" if self.action else line

    @property
    def _whose(self) -> str:
        if not self.also:
            return self.part.label
        return say(
            "{n} alike: {names}", n=len(self.also) + 1, names=some([part.said for part in self.parts], _MOST_NAMES)
        )

    def _said(self, *, source: bool) -> str:
        said = self.seen
        if self.limit is not None and self.verdict in (Verdict.WARN, Verdict.FAIL):
            said = say("{seen}, expected {limit}", seen=said, limit=self.expected)
            said += f" ({self.limit.cited})" if source and self.limit.source else ""
        return f"{said}; {phrase(self.note)}" if self.note else said

    @property
    def _reading(self) -> str:
        """Quantity and value: "link width 8 lanes"; where the quantity names what is counted, "3 remapped rows"."""
        value = with_unit(self.observed, self.unit, exact=self._exact)
        count, _, unit = value.partition(" ")
        counted = ""
        if len(unit) >= _SHORTEST_NOUN and spoken() == "en":
            counted = next((word for word in self.quantity.split() if word.lower().endswith(unit.lower())), "")
        if not counted:
            return f"{phrase(self.quantity)} {value}".strip()
        noun = _PLURAL.sub("", counted) if count == "1" else counted
        return f"{count} {self.quantity.replace(counted, noun, 1)}"

    @property
    def _exact(self) -> bool:
        """Whether rounding would hide the difference between value and limit."""
        if self.limit is None or self.limit.value == self.observed:
            return False
        return with_unit(self.observed, self.unit) == with_unit(self.limit.value, self.limit.unit)


@dataclass(frozen=True, slots=True)
class Record:
    """What one check says of one node: one line of results.jsonl.gz, the authoritative record.

    `check` is the check's own id, the same in every install mode. `why` is a code: why there is no verdict on the
    hardware (`reason_of`); empty where there is one. `waiver` is the reason, owner and expiry of the waiver that covers
    a fail; `remark` says why one does not. `claim` is the one that a site's own check belongs to.
    """

    node: str
    check: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    failure_modes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    why: str = ""
    waiver: str = ""
    remark: str = ""
    claim: str = ""

    @property
    def decisive(self) -> tuple[Finding, ...]:
        """The findings that made the verdict."""
        return tuple(finding for finding in self.findings if finding.verdict is self.verdict)

    @property
    def message(self) -> str:
        """The first of the decisive findings, and how many more there are of it."""
        decisive = self.decisive
        if not decisive:
            return self.remark
        is_one = len(decisive) == 1 or self.verdict is Verdict.PASS
        more = "" if is_one else say(" (and {n} more)", n=len(decisive) - 1)
        return decisive[0].message + more + (f" ({phrase(self.remark)})" if self.remark else "")


def kinds(findings: Sequence[Finding]) -> frozenset[Verdict]:
    """The verdicts among findings. Those that are packed (nodegate.run.packed_findings) know them without unpacking."""
    known = getattr(findings, "verdicts", None)
    return known if isinstance(known, frozenset) else frozenset([finding.verdict for finding in findings])


def reason_of(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """Why a check has no verdict on the hardware; else empty.

    "not_done", "not_demanded", "by_design", "no_limit", "unknown", or why a counter was not judged.
    """
    if verdict is Verdict.SKIP:
        whys = {finding.why for finding in findings}
        worst = Why.NOT_DONE if whys - CLOSED else Why.NOT_DEMANDED if Why.NOT_DEMANDED in whys else Why.BY_DESIGN
        return worst.value
    codes = {finding.code for finding in findings if finding.verdict is verdict}
    if verdict is Verdict.NOT_JUDGED:
        return min(codes & NOT_FOR_LACK_OF_A_LIMIT, default="no_limit")
    return "unknown" if verdict is Verdict.ERROR else ""


def limit_value(value: object) -> LimitValue:
    """A value of a file as a limit holds it: a list of numbers is a table, another list stands for any of its items."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if not isinstance(value, (list, tuple)):
        return str(value)
    if value and all(type(each) in (int, float) for each in value):
        return tuple(value)
    return tuple(sorted({str(each) for each in value}))


def share_left(observed: Value, limit: Limit[LimitValue]) -> float | None:
    """The part of a rate, width or clock that is left of what its limit asks for; None for other quantities."""
    if limit.direction == AT_MOST or limit.unit not in _RATES:
        return None
    if isinstance(observed, (bool, str, type(None))) or isinstance(limit.value, (bool, str, tuple)):
        return None
    return observed / limit.value if 0 <= observed < limit.value else None
