"""The register of a run: which checks each node must pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from nodegate.judge.context import AT_THE_END
from nodegate.measure.registry import is_active
from nodegate.suite import Check


@dataclass
class Register:
    """The checks of a run by id, and for each node the ids of those that it must pass, in their order.

    The controller of pytest-xdist judges nothing: it knows the ids alone.
    """

    asked: dict[str, list[str]] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)

    def ask(self, check: Check, node: str) -> None:
        """The node must pass this check."""
        self.checks[check.id] = check
        self.asked.setdefault(node, []).append(check.id)

    def first(self, node: str) -> list[Check]:
        """The checks of a node that need neither load nor another node."""
        return [check for check in self._of(node) if not comes_last(check)]

    def last(self, node: str) -> list[Check]:
        """The checks of a node that wait until all is in."""
        return [check for check in self._of(node) if comes_last(check)]

    @property
    def is_passive(self) -> bool:
        """Whether no check asks for what is measured under load; False where no check is known."""
        return bool(self.checks) and not any(is_active(check.asks_for) for check in self.checks.values())

    def _of(self, node: str) -> list[Check]:
        return [self.checks[check] for check in self.asked.get(node, ()) if check in self.checks]


def comes_last(check: Check) -> bool:
    """Whether a check asks for the fleet or for what is measured under load, and so must wait until all is in."""
    return not AT_THE_END.isdisjoint(check.asks_for)
