"""What goes to a node runs on its own Python, 3.6 at the oldest, with its standard library and pynvml alone."""

import ast
import importlib.machinery
import importlib.util
import re
import subprocess
import sys
from importlib import resources

import pytest
from support.payload import run_probe
from support.pythons import other_pythons

from lab.nvml import scenario as nvml
from lab.nvml.scenario import healthy_h100
from nodegate.errors import UsageError
from nodegate.node_program import pack, pynvml_source
from nodegate.probe.collect import program

PACKAGE = "nodegate.node_side"
NEWER_MODULES = {"__future__", "dataclasses", "contextvars", "importlib.resources", "zoneinfo", "tomllib"}
NEWER_ARGUMENTS = {"capture_output", "text", "missing_ok", "dirs_exist_ok", "process_group"}
NEWER_METHODS = {"removeprefix", "removesuffix", "fromisoformat", "pidfd_open", "waitstatus_to_exitcode"}


def sources(folder, package):
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            yield from sources(entry, f"{package}.{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{package}.{entry.name.removesuffix('.py')}".removesuffix(".__init__"), entry.read_text("utf-8")


SOURCES = dict(sources(resources.files(PACKAGE), PACKAGE))


def imported_by(tree):
    found = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return found | {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}


def test_all_programs_that_run_on_nodes_are_here():
    assert {f"{PACKAGE}.{name}" for name in ("guard", "lock", "run_many", "probe.main", "load.burn")} <= set(SOURCES)
    assert len(SOURCES) > 40


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_module_is_python_3_6_and_rests_on_the_standard_library(name):
    tree = ast.parse(SOURCES[name], feature_version=(3, 6))
    assert not imported_by(tree) & NEWER_MODULES
    words = {keyword.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords}
    assert not words & NEWER_ARGUMENTS
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & NEWER_METHODS
    for imported in imported_by(tree):
        assert imported.split(".")[0] in sys.stdlib_module_names or imported.startswith(PACKAGE), imported


@pytest.mark.parametrize("python", other_pythons())
def test_every_python_of_this_machine_imports_all_of_it(python):
    packages = sorted(name for name in SOURCES if any(other.startswith(name + ".") for other in SOURCES))
    text = pack(main=f"{PACKAGE}.guard", packages=packages, options={}, purpose="imports everything").decode()
    source = text.partition(f"from {PACKAGE}.guard import main")[0]
    source += "".join(f"import {name}\n" for name in sorted(SOURCES))
    done = subprocess.run([python, "-I", "-S", "-"], input=source, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_small_enough_to_send_to_a_thousand_nodes():
    assert len(program()) < 150_000


@pytest.mark.parametrize("python", other_pythons())
def test_it_runs_on_every_python_of_this_machine(python, tmp_path):
    variables = nvml.environment(healthy_h100(2).write(tmp_path / "scenario.conf"))
    ran = run_probe(environment=variables, python=python)
    assert len(ran.data("nvml")["gpus"]) == 2
    assert ran.data("nvml")["gpus"][1]["fabric"]["state"] == 3
    bad = {name: section for name, section in ran.document["sections"].items() if section.get("why") == "failed"}
    assert bad == {}


def test_an_older_python_is_told_so_in_one_line():
    head = program().decode().split("\nimport base64")[0].replace("(3, 6)", "(99, 0)")
    done = subprocess.run([sys.executable, "-"], input=head, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"nodegate needs Python 3\.6 or newer on the node, this is 3\.[0-9.]+\n", done.stderr)


def test_a_module_in_the_logins_folder_cannot_take_the_place_of_the_standard_library(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    assert run_probe(sections=["clock"], environment={"PYTHONPATH": str(tmp_path)}).data("clock")


def test_the_retired_pynvml_package_is_refused_by_name(monkeypatch):
    dead = importlib.machinery.ModuleSpec("pynvml", importlib.machinery.SourceFileLoader("pynvml", "x"))
    dead.origin = "/site-packages/pynvml/__init__.py"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: dead)
    with pytest.raises(UsageError) as raised:
        pynvml_source()
    assert "/site-packages/pynvml/__init__.py" in raised.value.message
    assert "pip uninstall pynvml" in raised.value.hint


def test_no_pynvml_at_all_is_a_clear_error(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="not installed") as raised:
        pynvml_source()
    assert raised.value.hint == "pip install nvidia-ml-py"
