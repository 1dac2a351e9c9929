"""A claim, and what a run has shown of it on one node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(str, Enum):
    """What is known of a claim."""

    PROVEN = "proven"
    REFUTED = "refuted"
    NOT_PROVEN = "not-proven"


@dataclass(frozen=True)
class Claim:
    """What must be true of a node for its use.

    Args:
        name: "compute".
        title: the claim in the words of an acceptance paper.
        tier: the least thorough profile that claims it.
        proof: the checks that all have to pass.
        numbers: those of which every part has to keep an absolute limit: other nodes or the past prove nothing.
        speak: patterns of all other checks that refute it where they fail.
        limits: for each check of `numbers`, the keys of limits of which one is enough to judge it.
        needs: what has to be there besides a limit, for those who prepare a run.
        tools: programs without which nothing is measured.
        nodes: how many nodes a run needs for it.
        not_of: a run of so many nodes does not make it.
    """

    name: str
    title: str
    tier: str
    proof: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    speak: tuple[str, ...] = ()
    limits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    needs: str = ""
    tools: tuple[str, ...] = ()
    nodes: int = 1
    not_of: int = 0

    @property
    def proving(self) -> tuple[str, ...]:
        """Every check that has to pass."""
        return (*self.proof, *self.numbers)


@dataclass(frozen=True)
class Shown:
    """What a run has shown of one claim on one node.

    Args:
        claim: its name.
        state: what is known.
        why: of what is not proven the reason, of what is refuted what was found.
        by: the checks that proved or refuted it, or left it open.
        signed: who accepts that it is not proven, why and until when; empty where nobody does.
        left_out: whether it is open only because this run was asked for a part of its profile.
        is_waived: whether it is open because a failure was waived.
    """

    claim: str
    state: State
    why: str = ""
    by: tuple[str, ...] = ()
    signed: str = ""
    left_out: bool = False
    is_waived: bool = False
