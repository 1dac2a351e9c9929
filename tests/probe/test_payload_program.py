"""The program that goes to a node: small, in one piece, good for the oldest Python, with the right pynvml."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.payload import run_probe

from lab.nvml import scenario as nvml
from lab.nvml.scenario import healthy_h100
from nodegate.errors import UsageError
from nodegate.probe.program import payload, program, pynvml_source

MODULES = payload()


def other_pythons() -> list[str]:
    """Interpreters of other versions on this machine."""
    named = [shutil.which(f"python3.{minor}") for minor in range(6, 15)]
    pyenv = sorted(map(str, Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3")))
    working = [path for path in [*filter(None, named), *pyenv] if answers(path)]
    return list(dict.fromkeys(working))


def answers(python: str) -> bool:
    return subprocess.run([python, "-I", "-c", ""], capture_output=True, check=False).returncode == 0


def test_it_is_small_enough_to_send_to_a_thousand_nodes() -> None:
    assert len(program()) < 150_000


def test_it_is_built_once() -> None:
    assert program() == program()
    assert program(sections=["pci"]) != program()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_module_is_python_3_6(name: str) -> None:
    tree = ast.parse(MODULES[name], feature_version=(3, 6))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "__future__" not in imported  # annotations: 3.7
    newer = {"dataclasses", "contextvars", "importlib.resources", "zoneinfo", "tomllib"}
    assert not imported & newer
    words = {keyword.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords}
    assert not words & {"capture_output", "text", "missing_ok", "dirs_exist_ok", "process_group"}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & {"removeprefix", "removesuffix", "fromisoformat", "pidfd_open", "waitstatus_to_exitcode"}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_module_rests_on_the_standard_library_and_its_siblings(name: str) -> None:
    for node in ast.walk(ast.parse(MODULES[name])):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
        for imported in names:
            assert imported.split(".")[0] in sys.stdlib_module_names or imported.startswith("nodegate.probe.payload")


@pytest.mark.parametrize("name", sorted(MODULES))
def test_no_annotation_needs_a_newer_python_when_the_module_is_imported(name: str) -> None:
    builtin = re.compile(r"(?<![\"'\w.])(?:list|dict|tuple|set|type)\[")
    tree = ast.parse(MODULES[name])
    annotations = [
        node.annotation for node in ast.walk(tree) if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation
    ]
    annotations += [node.returns for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.returns]
    for annotation in annotations:
        assert not isinstance(annotation, ast.BinOp), ast.unparse(annotation)  # X | Y: 3.10
        assert not builtin.search(ast.unparse(annotation)), ast.unparse(annotation)  # list[X]: 3.9


@pytest.mark.parametrize("python", other_pythons())
def test_it_runs_on_every_python_of_this_machine(python: str, tmp_path: Path) -> None:
    variables = nvml.environment(healthy_h100(2).write(tmp_path / "scenario.conf"))
    ran = run_probe(environment=variables, python=python)
    assert len(ran.data("nvml")["gpus"]) == 2
    assert ran.data("nvml")["gpus"][1]["fabric"]["state"] == 3
    bad = {name: section for name, section in ran.document["sections"].items() if section.get("why") == "failed"}
    assert bad == {}


def test_an_older_python_is_told_so_in_one_line() -> None:
    head = program().decode().split("\nimport base64")[0].replace("(3, 6)", "(99, 0)")
    done = subprocess.run([sys.executable, "-"], input=head, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"nodegate needs Python 3\.6 or newer on the node, this is 3\.[0-9.]+\n", done.stderr)


def test_a_module_in_the_logins_folder_cannot_take_the_place_of_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    assert run_probe(sections=["clock"], environment={"PYTHONPATH": str(tmp_path)}).data("clock")


def test_the_retired_pynvml_package_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = importlib.machinery.ModuleSpec("pynvml", importlib.machinery.SourceFileLoader("pynvml", "x"))
    dead.origin = "/site-packages/pynvml/__init__.py"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: dead)
    with pytest.raises(UsageError) as raised:
        pynvml_source()
    assert "/site-packages/pynvml/__init__.py" in raised.value.message
    assert "pip uninstall pynvml" in raised.value.hint


def test_no_pynvml_at_all_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="not installed") as raised:
        pynvml_source()
    assert raised.value.hint == "pip install nvidia-ml-py"
