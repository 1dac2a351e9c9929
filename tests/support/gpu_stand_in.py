"""`python -m lab gpu` on stand-ins for NVIDIA's libraries, with short loads."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml
from support import copies_node

ROOT = Path(__file__).parents[2]
SHORT = ("--seconds", "1", "--matrix", "256", "--bytes", "65536")


@dataclass(frozen=True)
class Outcome:
    """What one run printed, and where its report and recordings are."""

    code: int
    said: str
    complained: str
    folder: Path

    @property
    def report(self):
        """The one report."""
        (file,) = (self.folder / "reports").glob("gpu-*.json")
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def step(self, name):
        """A step of the report."""
        (found,) = [each for each in self.report["steps"] if each["step"] == name]
        return dict(found)

    def broken(self, name):
        """What did not hold in a step."""
        return [each["what"] for each in self.step(name)["claims"] if not each["held"]]


def run(folder, scenario, *arguments, blas=True, bare=False):
    """Run it; `scenario` None: no GPU anywhere; `bare`: with the standard library and pynvml.py, and nothing else."""
    folder.mkdir(exist_ok=True)
    variables = dict(os.environ, CUDA_VISIBLE_DEVICES="")
    if scenario is not None:
        variables = dict(os.environ, **copies_node.environment(scenario.write(folder / "scenario.conf")))
    words = [sys.executable, *(["-S"] if bare else []), "-m", "lab", "gpu", *SHORT, *arguments]
    words += ["--reports", str(folder / "reports"), "--recordings", str(folder / "recordings")]
    if scenario is not None and blas:
        library = folder / "libcublas.so.12"
        library.symlink_to(copies_node.library())
        words += ["--library", str(library)]
    if bare:
        (folder / "pynvml").mkdir()
        (folder / "pynvml" / "pynvml.py").symlink_to(pynvml.__file__)
        variables["PYTHONPATH"] = str(folder / "pynvml")
    done = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr, folder)
