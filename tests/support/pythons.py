"""The Pythons of this machine: nodes have older ones than we need ourselves."""

import shutil
import subprocess
from pathlib import Path


def other_pythons():
    """Interpreters of other versions on this machine."""
    named = [shutil.which(f"python3.{minor}") for minor in range(6, 15)]
    pyenv = sorted(map(str, Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3")))
    working = [path for path in [*filter(None, named), *pyenv] if _answers(path)]
    return list(dict.fromkeys(working))


def _answers(python):
    return subprocess.run([python, "-I", "-c", ""], capture_output=True, check=False).returncode == 0
