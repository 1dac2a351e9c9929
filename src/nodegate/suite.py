"""The checks as data: id, accepted condition, failure modes, tier and the facts that each asks for."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.files.bounded import read_whole
from nodegate.files.paths import CHECKS, suite_folder
from nodegate.profile import TIERS, Profile

if TYPE_CHECKING:
    import pytest

DEFAULT_TIER = "delivery"
_MOST_CODE_BYTES = 4 << 20
_FAILURE_MODE = re.compile(r"\bF\d\d\b")
_LIMIT_KEY = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+")
_REFUSED_MARKS = {
    "parametrize": "add a finding for each device instead",
    "usefixtures": "a check asks for facts by the names of its arguments",
    "xfail": "accept a deviation with --waivers, which has an owner and an expiry date",
}


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
    claim: str = ""  # of a site's own check: the claim that it belongs to, as its mark says


def check_id(module_name: str, function_name: str) -> str:
    """The check's own id, the same in every install mode: test_pcie.py::test_link_width is "pcie.link_width"."""
    return f"{module_name.rpartition('.')[2].removeprefix('test_')}.{function_name.removeprefix('test_')}"


def describe(function: Callable[..., None], module: ModuleType) -> Check:
    """A check from its function: its docstring, marks and arguments.

    Raises:
        UsageError: it is not a valid check.
    """
    name = check_id(module.__name__, function.__name__)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{name} is async", hint="a check is a plain function: the facts that it asks for are already there"
        )
    if inspect.isgeneratorfunction(function):
        raise UsageError(f"{name} yields", hint="a check is a plain function that adds findings to `verdicts`")
    marks = _marks(function, module)
    for mark in marks:
        if mark.name in _REFUSED_MARKS:
            raise UsageError(f"{name} is marked {mark.name}", hint=_REFUSED_MARKS[mark.name])
    docstring = inspect.getdoc(function) or ""
    first = docstring.partition("\n")[0]
    head, _, tail = first.rpartition("(")
    modes = tuple(_FAILURE_MODE.findall(tail)) if head else ()
    return Check(
        id=name,
        title=(head if modes else first).strip(),
        failure_modes=modes,
        tier=_tier(name, marks),
        asks_for=tuple(inspect.signature(function).parameters),
        function=function,
        docstring=docstring,
        claim=_claim(name, marks),
    )


def _marks(function: Callable[..., None], module: ModuleType) -> list[pytest.Mark]:
    """The marks of a function, then those of its module."""
    shared = getattr(module, "pytestmark", [])
    marks = [*getattr(function, "pytestmark", []), *(shared if isinstance(shared, (list, tuple)) else [shared])]
    return [getattr(mark, "mark", mark) for mark in marks]


def _tier(check: str, marks: Iterable[pytest.Mark]) -> str:
    for mark in marks:
        if mark.name == "tier":
            tier = mark.args[0] if len(mark.args) == 1 else None
            if tier not in TIERS:
                said = ", ".join(map(repr, mark.args))
                raise UsageError(f"{check} has the mark tier({said})", hint=f"give it one of {', '.join(TIERS)}")
            return str(tier)
    return DEFAULT_TIER


def _claim(check: str, marks: Iterable[pytest.Mark]) -> str:
    for mark in marks:
        if mark.name == "claim":
            if len(mark.args) != 1 or not isinstance(mark.args[0], str):
                raise UsageError(f"{check} has the mark claim without a name", hint='claim("configuration")')
            return mark.args[0]
    return ""


def arguments_in(file: Path) -> dict[str, tuple[str, ...]]:
    """What each check in a file asks for, by its id. The file is read, not executed; nothing if it is not Python."""
    tree = _parsed(file)
    functions = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"))
    return {check_id(file.stem, each.name): tuple(one.arg for one in each.args.args) for each in functions}


def limit_keys_in(file: Path) -> frozenset[str]:
    """The limit keys that a check file names, directly or for a helper. It is read, not executed."""
    texts = (each.value for each in ast.walk(_parsed(file)) if isinstance(each, ast.Constant))
    return frozenset(text for text in texts if isinstance(text, str) and _LIMIT_KEY.fullmatch(text))


def _parsed(file: Path) -> ast.Module:
    """The code of a file; empty if it is not Python."""
    try:
        return ast.parse(read_whole(file, _MOST_CODE_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def load(files: Iterable[Path]) -> tuple[Check, ...]:
    """Every check of these files, in their order and that of the lines, without pytest's collection.

    Raises:
        UsageError: a check file does not load, or has an invalid check, or two checks share an id.
    """
    found: dict[str, Check] = {}
    for file in files:
        with light_marks():
            module = _import(file)
        functions = [
            item for name, item in vars(module).items() if name.startswith("test_") and inspect.isfunction(item)
        ]
        for function in functions:
            try:
                check = describe(function, module)
            except UsageError as said:
                raise UsageError(said.message, file=str(file), hint=said.hint) from None
            if check.id in found:
                raise UsageError(f"two checks are called {check.id}", file=str(file))
            found[check.id] = check
    return tuple(found.values())


@cache
def checks() -> tuple[Check, ...]:
    """The checks of this installation."""
    return load(own_files())


@cache
def checks_of(profile: Profile) -> tuple[Check, ...]:
    """The checks of this installation that belong to a profile.

    A job waits for a bootcheck: of the suite's own files those that name other tiers only are not loaded.
    """
    if profile is Profile.BOOTCHECK:
        every = load(file for file in own_files() if _may_have(file, profile.value))
    else:
        every = checks()
    return tuple(each for each in every if profile.includes(each.tier))


def own_files() -> list[Path]:
    """The check files of this installation.

    Raises:
        UsageError: one of them has no check. It was damaged, and nodes would pass without what it had.
    """
    files = sorted(suite_folder(CHECKS).glob("test_*.py"))
    for file in files:
        if b"def test_" not in _code(file):
            raise UsageError("there is no check in this file", file=str(file), hint="install nodegate again")
    return files


def _may_have(file: Path, tier: str) -> bool:
    """Whether checks of a tier can be in a file: it names the tier, or none at all, as one that was damaged."""
    text = _code(file)
    return f'"{tier}"'.encode() in text or b"tier(" not in text


def has(wanted: str) -> bool:
    """Whether a check file of this installation has a check of this id, of any profile. The file is not executed."""
    subject, _, name = wanted.partition(".")
    return f"\ndef test_{name}(".encode() in _code(suite_folder(CHECKS) / f"test_{subject}.py")


@cache
def _code(file: Path) -> bytes:
    """What a check file contains; nothing if it is not there."""
    return read_whole(file, _MOST_CODE_BYTES) if file.is_file() else b""


def check(wanted: str) -> Check:
    """The check with this id; KeyError if there is none."""
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


@dataclass(frozen=True)
class Mark:
    """A mark with its arguments: of a module (`pytestmark`), or of the function that it is called with."""

    name: str
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """The function with this mark, or the mark with these arguments."""
        if len(args) == 1 and not kwargs and inspect.isfunction(args[0]):
            function = args[0]
            function.pytestmark = [*getattr(function, "pytestmark", []), self]  # type: ignore[attr-defined]
            return function
        return Mark(self.name, (*self.args, *args), {**self.kwargs, **kwargs})


class _Marks:
    def __getattr__(self, name: str) -> Mark:
        return Mark(name)


class _Pytest(ModuleType):
    """Stands for pytest in a check file."""

    mark = _Marks()

    def __getattr__(self, name: str) -> object:
        """Anything but `mark`."""
        if sys.modules.get("pytest") is self:
            del sys.modules["pytest"]
        return getattr(importlib.import_module("pytest"), name)


@contextlib.contextmanager
def light_marks() -> Iterator[None]:
    """In this block `import pytest` brings the marks alone, unless pytest itself is there already."""
    if "pytest" in sys.modules:
        yield
        return
    light = sys.modules["pytest"] = _Pytest("pytest")
    try:
        yield
    finally:
        if sys.modules.get("pytest") is light:
            del sys.modules["pytest"]
