"""The program that goes to a node: small, in one piece, good for the oldest Python, with the right pynvml."""

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.payload import run_probe
from support.pythons import other_pythons

from lab.nvml import scenario as nvml
from lab.nvml.scenario import healthy_h100
from nodegate.errors import UsageError
from nodegate.node_program import pynvml_source
from nodegate.probe.collect import program


def test_it_is_small_enough_to_send_to_a_thousand_nodes() -> None:
    assert len(program()) < 150_000


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
