"""`pytest.mark` for check files that are loaded outside of pytest: a job that waits for a bootcheck imports no pytest.

A check file says `import pytest` for its marks. While it is loaded, that is a module of this kind; whatever else it
asks of pytest, it gets from the real one. So bootcheck.pyz needs no pytest at all.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType


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
