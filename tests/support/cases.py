"""Every case of the tables in tests/checks/*_cases.py."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from support.judging import Case

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).resolve().parents[1] / "checks"


@cache
def cases() -> tuple[Case, ...]:
    """The cases of all tables, each once."""
    found: dict[int, Case] = {}
    for file in sorted(FOLDER.glob("test_*_cases.py")):
        for table in vars(_module(file)).values():
            if isinstance(table, (tuple, list)):
                found.update({id(case): case for case in table if isinstance(case, Case)})
    return tuple(found.values())


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"table_of_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
