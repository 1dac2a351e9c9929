"""docs/tried.md: what was tried to get a bad node accepted, a good one rejected or a hook misled, and the result.

A test under tests/tries makes one try and is marked with `tried`; the page is written from these marks.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Function = TypeVar("Function", bound=Callable[..., object])

TRIES = Path(__file__).resolve().parents[1] / "tries"
HEAD = """# What was tried

Written by `make docs` from the tests under `tests/tries`, each of which makes its try again; do not
edit. "Before" is what version 0.1.0 said.

"""


class Try(NamedTuple):
    """One row of the page: what was done, what 0.1.0 made of it, what is made of it now."""

    group: str
    what: str
    before: str
    now: str


def tried(what: str, *, before: str, now: str) -> Callable[[Function], Function]:
    """Mark a test as one try: what is done, what 0.1.0 said, and what this test holds to be said now."""
    del what, before, now  # read from the source text, so that the page needs no run

    def unchanged(function: Function) -> Function:
        return function

    return unchanged


def all_tries() -> Iterator[Try]:
    """The tries of all test files in the order of the files; the group is the first line of a file's docstring."""
    for file in sorted(TRIES.glob("test_*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        group = (ast.get_docstring(tree) or file.stem).splitlines()[0].rstrip(".")
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            for mark in function.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "tried":
                    said = {each.arg: str(ast.literal_eval(each.value)) for each in mark.keywords}
                    yield Try(group, str(ast.literal_eval(mark.args[0])), said["before"], said["now"])


def page() -> str:
    """The page as Markdown: a table for each group."""
    groups: dict[str, list[Try]] = {}
    for each in all_tries():
        groups.setdefault(each.group, []).append(each)
    tables = [
        f"## {group}\n\n| tried | before | now |\n|---|---|---|\n"
        + "".join(f"| {each.what} | {each.before} | {each.now} |\n" for each in rows)
        for group, rows in groups.items()
    ]
    return HEAD + "\n".join(tables)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
