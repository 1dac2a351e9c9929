"""Every case of the tables in tests/checks/*_cases.py, whatever kind of machine or measurement it is about."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard

from nodegate.records.finding import Record
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).resolve().parents[1] / "checks"


class Tried(Protocol):
    """One situation and what one check must say of it. Its module judges it: `judged(case)`, unless it does itself."""

    @property
    def check(self) -> str:
        """The id of the check."""
        ...

    @property
    def verdict(self) -> Verdict:
        """What the check must say."""
        ...


@cache
def cases() -> tuple[Tried, ...]:
    """The cases of all tables, each once."""
    found: dict[int, Tried] = {}
    for file in sorted(FOLDER.glob("test_*_cases.py")):
        for table in vars(_module(file)).values():
            if isinstance(table, (tuple, list)):
                found.update({id(case): case for case in table if _is_case(case)})
    return tuple(found.values())


def record_of(case: Tried) -> Record:
    """What the check says."""
    itself = getattr(case, "record", None)
    record = itself() if itself else importlib.import_module(type(case).__module__).judged(case)
    assert isinstance(record, Record)
    return record


def _is_case(item: object) -> TypeGuard[Tried]:
    return isinstance(getattr(item, "check", None), str) and isinstance(getattr(item, "verdict", None), Verdict)


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"table_of_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
