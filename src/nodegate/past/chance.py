"""Whether something failed more often than chance explains: exact, with few others too, and over many questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import TypeVar

    Key = TypeVar("Key", bound=Hashable)


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
