"""A stand-in for NVIDIA's driver library (and for cuBLAS), compiled once, and the burn's real program run on it."""

import base64
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from lab.cache import FOLDER
from lab.nvml import scenario as nvml
from nodegate.measure import own_program
from nodegate.node_program import PYTHON_OPTIONS
from nodegate.node_side.load.burn import WIRE

SOURCES = Path(__file__).parent.parent / "cuda"
SCENARIO_SOURCES = (nvml.SOURCES / "scenario.c", nvml.SOURCES / "scenario.h")


@functools.cache
def library(*sources):
    """libcuda.so.1 in a folder of its own, of the first of these files, which includes the others.

    Beside it the same file as libcublas.so.12.
    """
    own = [SOURCES / name for name in sources or ("libcudamock.c",)]
    content = b"".join(file.read_bytes() for file in (*own, *SCENARIO_SOURCES))
    built = FOLDER / "cuda" / hashlib.sha256(content).hexdigest()[:16] / "libcuda.so.1"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            fresh = Path(folder, built.name)
            options = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
            subprocess.run(["gcc", *options, "-o", fresh, own[0], SCENARIO_SOURCES[0], "-lm"], check=True, timeout=120)
            (fresh.parent / "link").symlink_to(built.name)
            (fresh.parent / "link").replace(built.with_name("libcublas.so.12"))
            fresh.replace(built)
    return built


def environment(scenario, *sources):
    """The variables with which a program finds the stand-ins and this scenario."""
    variables = nvml.environment(scenario)
    return dict(variables, LD_LIBRARY_PATH=f"{library(*sources).parent}:{variables['LD_LIBRARY_PATH']}")


def program(**options):
    """The burn's program as it goes to a node."""
    purpose = "loads the GPUs of this node for a while and writes one JSON document."
    return own_program.program("burn", options=options, purpose=purpose)


def burn(scenario, folder, *, python=sys.executable, **options):
    """The document of a short burn with small matrices."""
    small: dict[str, Any] = {"seconds": 1.0, "matrix": 256, "path": "ptx", "phases": [["bf16", 1]]}
    return decoded(
        ran(program(**dict(small, **options)), environment(scenario.write(folder / "scenario.conf")), python)
    )


def ran(source, variables, python=sys.executable):
    """What a program writes that is sent to a Python with these variables."""
    command = [python, *PYTHON_OPTIONS, "-"]
    variables = dict(os.environ, **variables)
    done = subprocess.run(command, input=source, capture_output=True, env=variables, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout


def decoded(stdout, mark=WIRE):
    """The document in what a program wrote."""
    document: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(stdout.rpartition(mark)[2])))
    return document


def ptxas():
    """NVIDIA's assembler: of the package nvidia-cuda-nvcc-cu12 (knows the oldest GPUs) or of this machine; or ""."""
    spec = util.find_spec("nvidia")
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        packed = Path(folder, "cuda_nvcc", "bin", "ptxas")
        if packed.exists():
            packed.chmod(0o755)  # an installer may leave the bit out
            return str(packed)
    return shutil.which("ptxas") or ""


def assembled(text, architecture, folder):
    """What the assembler says of a text for this architecture; the test is skipped where it does not know it."""
    source = folder / "kernel.ptx"
    source.write_text(text)
    argv = [ptxas(), "-v", "-arch", architecture, "-o", "/dev/null", str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "is not defined for option 'gpu-name'" in done.stderr:
        pytest.skip(f"this ptxas does not know {architecture}")
    assert done.returncode == 0, done.stderr
    return done.stderr
