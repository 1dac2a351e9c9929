"""Root file systems from Debian's packages, and where this machine gets those from."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from lab import cache

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BUILD_LIMIT_S = 1200
# In namespaces that end with us: an interrupted build leaves none of its programs, and nothing mounted (/dev!).
_CONTAINED = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")


def build(suite: str, target: Path, packages: str, recipe: Path | None = None, *options: str) -> None:
    """The root file system of a Debian release in the folder `target`, finished by customize.sh of a recipe.

    Raises:
        RuntimeError: this machine has no mirror, or the build failed twice: a mirror may change under one.
    """
    command = ["mmdebstrap", "--variant=minbase", "--mode=root", f"--include={packages}"]
    command += ["--aptopt=Apt::Install-Recommends false", "--dpkgopt=force-unsafe-io"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    command += [f"--customize-hook={recipe / 'customize.sh'}"] if recipe else []
    command += [*options, suite, str(target), f"deb {_mirror()} {suite} main"]
    try:
        run(command)
    except RuntimeError:
        shutil.rmtree(target, ignore_errors=True)
        run(command)


def run(command: Sequence[str]) -> None:
    """Run a step of a build, which ends with us.

    Raises:
        RuntimeError: it failed; the end of what it said.
    """
    done = subprocess.run([*_CONTAINED, *command], capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-3000:]}")


def recipe_key(recipe: Path, *more: object) -> str:
    """A name for what a recipe builds: its files with their modes, and whatever else decides."""
    files = sorted(path for path in recipe.rglob("*") if path.is_file())
    content = [(str(path.relative_to(recipe)), path.read_text(), path.stat().st_mode) for path in files]
    return cache.key(content, *more)


def _mirror() -> str:
    """Where this machine's own apt gets Debian from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        uri, component = line.split()
        if component == "main" and re.search(r"/debian/?$", uri):
            return uri
    raise RuntimeError("apt knows no mirror of Debian: run apt-get update, or see /etc/apt/sources.list.d")
