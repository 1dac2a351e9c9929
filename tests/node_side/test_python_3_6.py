"""Everything below node_side/ runs on the nodes' own Python, 3.6 at the oldest, with its standard library alone."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

import pytest
from support.pythons import other_pythons

from nodegate.node_program import pack

PACKAGE = "nodegate.node_side"
NEWER_MODULES = {"__future__", "dataclasses", "contextvars", "importlib.resources", "zoneinfo", "tomllib"}
NEWER_ARGUMENTS = {"capture_output", "text", "missing_ok", "dirs_exist_ok", "process_group"}
NEWER_METHODS = {"removeprefix", "removesuffix", "fromisoformat", "pidfd_open", "waitstatus_to_exitcode"}


def sources(folder: Traversable, package: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            yield from sources(entry, f"{package}.{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{package}.{entry.name.removesuffix('.py')}".removesuffix(".__init__"), entry.read_text("utf-8")


SOURCES = dict(sources(resources.files(PACKAGE), PACKAGE))


def imported_by(tree: ast.Module) -> set[str]:
    found = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return found | {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}


def test_all_programs_that_run_on_nodes_are_here() -> None:
    assert {f"{PACKAGE}.{name}" for name in ("guard", "lock", "run_many", "probe.main", "load.burn")} <= set(SOURCES)
    assert len(SOURCES) > 40


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_module_is_python_3_6_and_rests_on_the_standard_library(name: str) -> None:
    tree = ast.parse(SOURCES[name], feature_version=(3, 6))
    assert not imported_by(tree) & NEWER_MODULES
    words = {keyword.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords}
    assert not words & NEWER_ARGUMENTS
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & NEWER_METHODS
    for imported in imported_by(tree):
        assert imported.split(".")[0] in sys.stdlib_module_names or imported.startswith(PACKAGE), imported


@pytest.mark.parametrize("python", other_pythons())
def test_every_python_of_this_machine_imports_all_of_it(python: str) -> None:
    packages = sorted(name for name in SOURCES if any(other.startswith(name + ".") for other in SOURCES))
    text = pack(main=f"{PACKAGE}.guard", packages=packages, options={}, purpose="imports everything").decode()
    program = text.partition(f"from {PACKAGE}.guard import main")[0]
    program += "".join(f"import {name}\n" for name in sorted(SOURCES))
    done = subprocess.run([python, "-I", "-S", "-"], input=program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
