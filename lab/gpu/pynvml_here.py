"""Finding pynvml.py on a machine without a package registry: it travels with nodegate's programs, as on any run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Of another Python too: pynvml is one file without needs. Torch and JAX bring it, so most images for GPUs have it.
_PLACES = (
    f"{ROOT}/.venv/lib/python3*/site-packages",
    f"{ROOT}/.whl/*",
    "/usr/lib/python3*/*-packages",
    "/usr/local/lib/python3*/*-packages",
    "/opt/*/lib/python3*/site-packages",
    "/opt/*/.venv/lib/python3*/site-packages",
    "/opt/*/*/lib/python3*/site-packages",
)
WANTED = (
    "pynvml.py (one file, of the package nvidia-ml-py) was not found: pip install nvidia-ml-py,"
    " or name its folder: PYTHONPATH=FOLDER make gpu"
)


def find() -> str:
    """Make pynvml's source available to `nodegate.node_program`; why that is impossible, or ""."""
    found = importlib.util.find_spec("pynvml")
    if found is not None and (found.origin or "").endswith("pynvml.py"):
        return ""
    for place in _PLACES:
        for path in sorted(map(str, Path("/").glob(f"{place[1:]}/pynvml.py")), reverse=True):
            if b"def nvmlInit" in Path(path).read_bytes():
                _know(path)
                return ""
    return WANTED


def _know(path: str) -> None:
    """Let the import system know the file; it is never executed here."""
    spec = importlib.util.spec_from_file_location("pynvml", path)
    if spec is not None:
        sys.modules["pynvml"] = importlib.util.module_from_spec(spec)
