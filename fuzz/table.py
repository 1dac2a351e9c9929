"""Every target, by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuzz.target import Target

MODULES = ("tool_targets", "node_targets", "log_targets", "file_targets")


def targets(module: str) -> Mapping[str, Target]:
    """The targets of one module: a process that fuzzes one of them need not load and count all the others."""
    found: Mapping[str, Target] = import_module(f"fuzz.{module}").TARGETS
    return found


def every_target() -> dict[str, Target]:
    """All of them."""
    return {name: target for module in MODULES for name, target in targets(module).items()}


def module_of(name: str) -> str:
    """Where a target stands."""
    return next(module for module in MODULES if name in targets(module))
