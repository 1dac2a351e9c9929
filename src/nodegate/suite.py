"""The checks as data: id, accepted condition, failure modes, tier and the facts that each asks for."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.paths import suite_folder
from nodegate.profile import TIERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

DEFAULT_TIER = "delivery"
_FAILURE_MODE = re.compile(r"\bF\d\d\b")


@dataclass(frozen=True)
class Check:
    """One check: a function of checks/test_<subject>.py.

    `title` is the accepted condition (first docstring line without the failure modes), `asks_for` the names of the
    facts and other values that its arguments name.
    """

    id: str  # "pcie.link_width"
    title: str
    failure_modes: tuple[str, ...]
    tier: str
    asks_for: tuple[str, ...]
    function: Callable[..., None]
    docstring: str


def check_id(module_name: str, function_name: str) -> str:
    """The check's own id, the same in every install mode: test_pcie.py::test_link_width is "pcie.link_width"."""
    return f"{module_name.rpartition('.')[2].removeprefix('test_')}.{function_name.removeprefix('test_')}"


def describe(function: Callable[..., None], module: ModuleType) -> Check:
    """A check from its function: what its docstring, marks and arguments say."""
    docstring = inspect.getdoc(function) or ""
    first = docstring.partition("\n")[0]
    head, _, tail = first.rpartition("(")
    modes = tuple(_FAILURE_MODE.findall(tail)) if head else ()
    return Check(
        id=check_id(module.__name__, function.__name__),
        title=(head if modes else first).strip(),
        failure_modes=modes,
        tier=_tier(function, module),
        asks_for=tuple(inspect.signature(function).parameters),
        function=function,
        docstring=docstring,
    )


def _tier(function: Callable[..., None], module: ModuleType) -> str:
    own = getattr(function, "pytestmark", [])
    shared = getattr(module, "pytestmark", [])
    for mark in [*own, *(shared if isinstance(shared, list) else [shared])]:
        if mark.name == "tier":
            return str(mark.args[0])
    return DEFAULT_TIER


def load(folder: Path) -> tuple[Check, ...]:
    """Every check of a folder of test_*.py files, in file and line order, without pytest's collection.

    Raises:
        UsageError: a check file does not load, has an unknown tier, or two checks share an id.
    """
    found: dict[str, Check] = {}
    for file in sorted(folder.glob("test_*.py")):
        module = _import(file)
        functions = [
            item for name, item in vars(module).items() if name.startswith("test_") and inspect.isfunction(item)
        ]
        for function in functions:
            check = describe(function, module)
            if check.tier not in TIERS:
                raise UsageError(
                    f"{check.id} has tier {check.tier!r}", file=str(file), hint=f"use one of {', '.join(TIERS)}"
                )
            if check.id in found:
                raise UsageError(f"two checks are called {check.id}", file=str(file))
            found[check.id] = check
    return tuple(found.values())


@cache
def checks() -> tuple[Check, ...]:
    """The checks of this installation."""
    return load(suite_folder("checks"))


def check(wanted: str) -> Check:
    """The check with this id; KeyError when there is none."""
    return {each.id: each for each in checks()}[wanted]


def _import(file: Path) -> ModuleType:
    name = f"nodegate_checks.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError("this check file cannot be loaded", file=str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
