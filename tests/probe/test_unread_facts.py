"""What the probe reads of a node is also read by a check, a cause, a page or a measurement, or stands in KEPT."""

import ast
import dataclasses
import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import fact_reads

ROOT = Path(__file__).parents[2]
# Read of each node and judged by nothing yet: what for.
KEPT = {
    "gpu.Gpu.module_id": "the place of a board on the baseboard, for whoever has to pull it",
    "hooks.HookVerdict.demands": "which demands a hook judged by: in the evidence, for who asks why",
    "hooks.HookVerdict.exit": "what Slurm acted on: in the evidence, for who asks why",
    "rdma.NetDevice.carrier": "a network device without a link",
    "rdma.RdmaPort.sm_lid": "0 on InfiniBand: no subnet manager has configured the port",
}
NOT_FACTS = ("document",)  # how the facts came here
PARSERS = ("src/nodegate/probe/", "src/nodegate/tools/nvidia_smi")


def fields():
    found = set()
    for file in (ROOT / "src/nodegate/probe").glob("*.py"):
        if file.stem in (*NOT_FACTS, "__init__"):
            continue
        for name, known in vars(importlib.import_module(f"nodegate.probe.{file.stem}")).items():
            if inspect.isclass(known) and dataclasses.is_dataclass(known) and known.__module__.endswith(file.stem):
                found |= {f"{file.stem}.{name}.{field.name}" for field in dataclasses.fields(known)}
    return found


def reads(root, folder):
    """The fields that src and checks below `root` read, by mypy's types: of other classes' fields none has the name."""
    config, found = folder / "pyproject.toml", folder / "reads"
    ours = (ROOT / "pyproject.toml").read_text()
    more = f'[tool.mypy]\nplugins = ["{fact_reads.__file__}"]\ncache_dir = "{os.devnull}"\n'
    config.write_text(ours.replace("[tool.mypy]\n", more))
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "src/nodegate", "checks"]
    environment = {**os.environ, "FACT_READS": str(found)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("\t") for line in found.read_text().splitlines()]
    return {name.removeprefix("nodegate.probe.") for name, path, line in rows if counts(root / path, path, int(line))}


def counts(file, path, line):
    """A parser's own reading is none; a property or method of a fact is its reader."""
    if not path.startswith(PARSERS):
        return True
    classes = (each for each in ast.parse(file.read_text()).body if isinstance(each, ast.ClassDef))
    methods = (each for known in classes for each in known.body if isinstance(each, ast.FunctionDef))
    return any(each.lineno <= line <= (each.end_lineno or 0) for each in methods)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The sources with a field that nothing reads, whose name other classes have too."""
    root = tmp_path_factory.mktemp("planted")
    for name in ("src", "checks"):
        shutil.copytree(ROOT / name, root / name)
    mounts = root / "src/nodegate/probe/mounts.py"
    head, of_disk, rest = mounts.read_text().partition("    model: Known[str]\n    size_bytes: Known[int]\n")
    assert of_disk
    mounts.write_text(f"{head}{of_disk}    index: int = 0\n{rest}")
    return root


@pytest.mark.long
def test_what_nothing_reads_is_kept_for_a_reason_and_nothing_else(planted, tmp_path):
    read = reads(planted, tmp_path)
    assert fields() - read == KEPT.keys()
    assert "gpu.Gpu.index" in read
    assert "mounts.Disk.size_bytes" in read
    assert "mounts.Disk.index" not in read  # the planted one
