"""Build nodegate's one file for compute nodes: `make bootcheck.pyz`, or python deploy/one_file/build.py TARGET.

It holds the wheel, PyYAML and pynvml, and none of the packages that only a controller needs. PyYAML's parser in C is
in it for the Python that builds; other Pythons use the one in Python, a quarter of a second slower.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipapp
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NOT_NEEDED = ("inventory", "reports")  # the demo fleet, the templates
PYTHON = "/usr/bin/env python3"


def main(target: Path) -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as name:
        wheels, content = Path(name, "wheels"), Path(name, "content")
        wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
        subprocess.run(wheel, check=True)
        for file in wheels.glob("nodegate-*.whl"):
            with zipfile.ZipFile(file) as packed:
                packed.extractall(content)
        for folder in NOT_NEEDED:
            shutil.rmtree(content / "nodegate" / "suite" / folder)
        for module in ("yaml", "pynvml"):
            _copy(module, content)
        shutil.copy(HERE / "__main__.py", content)
        target.parent.mkdir(parents=True, exist_ok=True)
        zipapp.create_archive(content, target, PYTHON, compressed=True)


def _copy(module: str, folder: Path) -> None:
    """An installed package or module, without bytecode."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise SystemExit(f"{module} is not installed here")
    if found.submodule_search_locations:
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(found.submodule_search_locations[0], folder / module, ignore=without)
    else:
        shutil.copy(found.origin, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
