"""The peers: pinned releases from PyPI in an environment of their own, and Debian's packages; never the project's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.side_by_side.measured import NotMeasured

if TYPE_CHECKING:
    from pathlib import Path

PYPI = {
    "pytest": "9.2.0",
    "pytest-testinfra": "10.2.2",
    "pytest-xdist": "3.8.0",
    "pytest-html": "4.2.0",
    "ansible-core": "2.19.14",
    "ClusterShell": "1.10.1",
    "parallel-ssh": "2.16.0.post1",
}
DEBIAN = {"pdsh": "pdsh", "rg": "ripgrep"}  # program -> package
LIMIT_S = 600


@dataclass(frozen=True)
class Peers:
    """`folder`: the programs of their environment. `refused`: why a package is not here."""

    folder: Path
    refused: dict[str, str]

    def program(self, name: str) -> Path:
        """A program of the environment.

        Raises:
            NotMeasured: it could not be installed.
        """
        file = self.folder / name
        if not file.exists():
            raise NotMeasured("; ".join(self.refused.values()) or f"{name} is not installed")
        return file

    def system(self, name: str) -> str:
        """A program of the machine.

        Raises:
            NotMeasured: it is not there.
        """
        found = shutil.which(name)
        if found is None:
            raise NotMeasured(self.refused.get(name, f"{name} is not installed"))
        return found

    def versions(self) -> dict[str, str]:
        """What is measured, by name."""
        found = {name: version for name, version in PYPI.items() if (self.folder / "python").exists()}
        for program, package in DEBIAN.items():
            if shutil.which(program):
                found[package] = _said(["dpkg-query", "-W", "-f", "${Version}", package]) or "of this machine"
        found["OpenSSH"] = _said(["ssh", "-V"]).partition(",")[0].removeprefix("OpenSSH_")
        found["grep"] = _said(["grep", "--version"]).partition("\n")[0].rpartition(" ")[2]
        return found


def install(folder: Path) -> Peers:
    """Install what is missing; what cannot be had is not measured, and the rest is."""
    refused: dict[str, str] = {}
    python = folder / "bin" / "python"
    pins = [f"{name}=={version}" for name, version in PYPI.items()]
    kept = folder / "pins"
    if not kept.exists() or kept.read_text().split() != pins:
        try:
            _run([sys.executable, "-m", "venv", "--clear", str(folder)])
            _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins])
            kept.write_text("\n".join(pins))
        except (OSError, subprocess.SubprocessError) as error:
            refused["pypi"] = f"its environment could not be made: {_last_words(error)}"
    for program, package in DEBIAN.items():
        if shutil.which(program) is None:
            try:
                _run(["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", package])
            except (OSError, subprocess.SubprocessError) as error:
                refused[program] = f"Debian's package {package} could not be installed: {_last_words(error)}"
    return Peers(python.parent, refused)


def _run(command: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=LIMIT_S, env=environment, stdin=subprocess.DEVNULL
    )


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip()


def _last_words(error: Exception) -> str:
    said = str(getattr(error, "stderr", None) or error).strip().splitlines()
    return said[-1] if said else str(error)
