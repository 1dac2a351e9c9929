"""The program of the copies, run for real on stand-ins for NVIDIA's libraries."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.cache import FOLDER
from lab.nvml import scenario as nvml
from nodegate.measure import own_program
from nodegate.node_program import PYTHON_OPTIONS
from nodegate.node_side.load.copies import WIRE

if TYPE_CHECKING:
    from lab.nvml.scenario import Scenario

SOURCES = tuple(Path(__file__).parent.parent / "cuda" / name for name in ("copies.c", "libcudamock.c", "memory.c"))
SCENARIO_SOURCES = (nvml.SOURCES / "scenario.c", nvml.SOURCES / "scenario.h")
SMALL = {"seconds": 1.0, "size": 1 << 16, "kernel_size": 1 << 18, "peers": "none"}


@functools.cache
def library() -> Path:
    """libcuda.so.1, whose copies take time, in a folder of its own."""
    content = b"".join(file.read_bytes() for file in (*SOURCES, *SCENARIO_SOURCES))
    built = FOLDER / "cuda-copies" / hashlib.sha256(content).hexdigest()[:16] / "libcuda.so.1"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            fresh = Path(folder, built.name)
            options = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
            sources = [SOURCES[0], SCENARIO_SOURCES[0], "-lm"]
            subprocess.run(["gcc", *options, "-o", fresh, *sources], check=True, timeout=120)
            fresh.replace(built)
    return built


def environment(scenario: Path) -> dict[str, str]:
    """The variables with which a program finds the stand-ins and this scenario."""
    variables = nvml.environment(scenario)
    return dict(variables, LD_LIBRARY_PATH=f"{library().parent}:{variables['LD_LIBRARY_PATH']}")


def program(**options: Any) -> bytes:
    """The program as it goes to a node."""
    return own_program.program("copies", options=options, purpose="copies for a test.")


def run(
    scenario: Scenario, folder: Path, *, root: Path | None = None, python: str = sys.executable, **options: Any
) -> dict[str, Any]:
    """The document of short copies of small buffers; `root` is a made file tree in place of /sys."""
    variables = dict(os.environ, **environment(scenario.write(folder / "scenario.conf")))
    if root is not None:
        variables["NODEGATE_PROBE_ROOT"] = str(root)
    done = subprocess.run(
        [python, *PYTHON_OPTIONS, "-"],
        input=program(**dict(SMALL, **options)),
        capture_output=True,
        env=variables,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    document: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(done.stdout.rpartition(WIRE)[2])))
    return document
