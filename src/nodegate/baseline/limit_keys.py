"""The limit keys that something asks for: a similar key is a mistake that would switch a limit off."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from nodegate import suite


class LimitKeys:
    """The keys in `named`, and those that the check files in `checks` name, which are read when they are needed."""

    def __init__(self, named: Iterable[str] = (), checks: Iterable[Path] = ()) -> None:
        self._named, self._checks = frozenset(named), tuple(checks)

    def and_named(self, keys: Iterable[str]) -> LimitKeys:
        """With more named keys."""
        return LimitKeys(self._named.union(keys), self._checks)

    def __contains__(self, key: str) -> bool:
        """Whether something asks for this key."""
        return key in self._named or key in self._of_checks

    def nearest(self, key: str) -> str:
        """The key that was probably meant by an unknown one; "" if it is known or none is similar."""
        if key in self:
            return ""
        known = sorted(self._named | self._of_checks)
        return next(iter(get_close_matches(key, known, n=1, cutoff=0.8)), "")

    @cached_property
    def _of_checks(self) -> frozenset[str]:
        return frozenset[str]().union(*map(suite.limit_keys_in, self._checks))


def checks_beside(baselines: Iterable[Path]) -> list[Path]:
    """The check files in a folder checks/ next to a baseline file, or next to the folder that it is in."""
    places = {place for file in baselines for place in file.absolute().parents[:2]}
    return sorted(file for place in places for file in place.glob("checks/test_*.py"))
