"""A claim, and what a run has shown of it on one node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from nodegate.text import counted, with_unit
from nodegate.words.catalogue import phrase, say

BESIDE = "metrics"  # a claim that counts for no verdict of a node


class State(str, Enum):
    """What is known of a claim."""

    PROVEN = "proven"
    REFUTED = "refuted"
    NOT_PROVEN = "not-proven"


@dataclass(frozen=True, slots=True)
class Claim:
    """What must be true of a node for its use.

    Args:
        name: "compute".
        title: the claim in the words of an acceptance paper.
        tier: the least thorough profile that claims it.
        proof: the checks that all have to pass.
        numbers: those of which every part has to keep an absolute limit: other nodes or the past prove nothing.
        silent_ok: those that may say nothing, each with the reason: what else catches the fault.
        rests_on: those of other claims that have to pass for this one too.
        speak: patterns of all other checks that refute it where they fail.
        limits: for each check of `numbers`, the keys of limits of which one is enough to judge it.
        amounts: the checks whose values are said with it where it is proven.
        needs: what has to be there besides a limit, for those who prepare a run.
        tools: programs without which nothing is measured.
        nodes: how many nodes a run needs for it.
        asked_by: keys of limits; where there are such, nothing asks for the claim without one of them.
        not_of: a run of this many nodes does not make it.
    """

    name: str
    title: str
    tier: str
    proof: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    silent_ok: tuple[tuple[str, str], ...] = ()
    rests_on: tuple[str, ...] = ()
    speak: tuple[str, ...] = ()
    limits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    amounts: tuple[str, ...] = ()
    needs: str = ""
    tools: tuple[str, ...] = ()
    nodes: int = 1
    asked_by: tuple[str, ...] = ()
    not_of: int = 0

    @property
    def proving(self) -> tuple[str, ...]:
        """Every check that has to pass."""
        return (*self.proof, *self.numbers, *self.rests_on)

    @property
    def silent(self) -> tuple[str, ...]:
        """The checks that may say nothing."""
        return tuple(check for check, _ in self.silent_ok)

    @property
    def home_of(self) -> tuple[str, ...]:
        """The checks whose silence or failure is this claim's, and no other's."""
        return (*self.proof, *self.numbers, *self.silent)


@dataclass(frozen=True, slots=True)
class Amount:
    """What the parts of a node (`noun`: "GPU") showed of one quantity: from `low` to `high`, over so many of them."""

    quantity: str
    unit: str
    low: float
    high: float
    parts: int
    noun: str

    @property
    def words(self) -> str:
        """Quantity and values: "temperature under load 58 to 71 °C"."""
        low, high = with_unit(self.low, ""), with_unit(self.high, self.unit)
        both = high if self.low == self.high else say("{low} to {high}", low=low, high=high)
        return f"{phrase(self.quantity)} {both}"


def joined(amounts: Iterable[Amount]) -> tuple[Amount, ...]:
    """One for each quantity, from the lowest to the highest value, over all parts."""
    found: dict[tuple[str, str], Amount] = {}
    for each in amounts:
        of = each.quantity, each.unit
        known = found.get(of, replace(each, parts=0))
        low, high = min(known.low, each.low), max(known.high, each.high)
        found[of] = replace(known, low=low, high=high, parts=known.parts + each.parts)
    return tuple(found.values())


def in_words(amounts: Iterable[Amount]) -> str:
    """How much was shown: "8 GPUs: time at work 600 s, temperature under load 58 to 71 °C"; empty of nothing."""
    found = joined(amounts)
    most = max(found, key=lambda each: each.parts, default=None)
    return f"{counted(most.parts, most.noun)}: {', '.join(each.words for each in found)}" if most else ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a run has shown of one claim on one node.

    Args:
        claim: its name.
        state: what is known.
        why: of what is not proven the reason, of what is refuted what was found.
        by: the checks that proved or refuted it, or left it open.
        signed: who accepts that it is not proven, why and until when; empty if no one does.
        left_out: whether it is open only because this run was asked for a part of its profile.
        is_ended: whether it is open only because the run ended before its time.
        is_waived: whether it is open because a failure was waived.
        amounts: how much was shown of what is proven: how long, how hot.
    """

    claim: str
    state: State
    why: str = ""
    by: tuple[str, ...] = ()
    signed: str = ""
    left_out: bool = False
    is_ended: bool = False
    is_waived: bool = False
    amounts: tuple[Amount, ...] = ()
