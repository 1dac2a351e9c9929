"""What a site file says of an acceptance, as a run keeps it for its paper: parties, contract, lot, place, criteria."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PARTIES = ("supplier", "customer", "supervisor", "test_body")


@dataclass(frozen=True, slots=True)
class Party:
    """Who signs, as the site writes it."""

    name: str = ""
    address: str = ""
    contact: str = ""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A claim in the words of the contract, and the clause that asks for it."""

    text: str = ""
    clause: str = ""


@dataclass(frozen=True, slots=True)
class Contract:
    """`file` is the site file, empty without one; `criteria` are by the claim's name.

    `languages` are those of the paper and of the answer, the first one first; none: English.
    """

    file: str = ""
    parties: Mapping[str, Party] = field(default_factory=dict)
    contract: Mapping[str, str] = field(default_factory=dict)
    lot: Mapping[str, str] = field(default_factory=dict)
    site: Mapping[str, str] = field(default_factory=dict)
    criteria: Mapping[str, Criterion] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
