"""NVIDIA's own nvidia-smi, from Debian's non-free packages: fetched when a test asks for it, kept outside the tree.

It runs on the mock NVML library, so what we believe of its output is checked against the real program.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from lab.cache import FOLDER

# Driver branch -> the Debian release whose non-free section has it.
RELEASES = {535: "bookworm", 550: "trixie"}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FETCH_LIMIT_S = 120


class NotToBeHad(Exception):  # noqa: N818 - reads as the sentence that it raises
    """This machine cannot fetch the package: no Debian, or no network."""


@functools.cache
def binary(branch: int) -> Path:
    """The path of nvidia-smi of a driver branch.

    Raises:
        NotToBeHad: it is not cached and cannot be fetched here.
    """
    kept = FOLDER / "nvidia-smi" / str(branch) / "nvidia-smi"
    if not kept.exists():
        _fetch(RELEASES[branch], kept)
    return kept


def _fetch(release: str, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        folder = Path(name)
        apt = ["apt-get", "-q", *_private_apt(folder, release)]
        _run([*apt, "update"], folder)
        _run([*apt, "download", "nvidia-smi"], folder)
        packages = list(folder.glob("nvidia-smi_*.deb"))
        if not packages:
            raise NotToBeHad(f"apt-get download left no nvidia-smi package of {release}")
        _run(["dpkg", "-x", str(packages[0]), "unpacked"], folder)
        found = [path for path in folder.glob("unpacked/usr/**/nvidia-smi") if _is_program(path)]
        if not found:
            raise NotToBeHad(f"{packages[0].name} holds no nvidia-smi")
        found[0].replace(kept)


def _is_program(path: Path) -> bool:
    """The program itself, not its link, completion file or documentation."""
    return path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"


def _private_apt(folder: Path, release: str) -> list[str]:
    """Options by which apt leaves the machine's own lists and sources alone."""
    for name in ("lists/partial", "cache/archives/partial", "etc"):
        (folder / name).mkdir(parents=True)
    sources = folder / "etc" / "sources.list"
    sources.write_text(f"deb [arch=amd64 signed-by={KEYRING}] {_mirror(folder)} {release} non-free\n")
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
        "APT::Architecture": "amd64",
        "Acquire::Languages": "none",
        "Acquire::Retries": 5,
        "Acquire::http::Timeout": 20,
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _mirror(folder: Path) -> str:
    """The mirror that this machine already uses."""
    if not (shutil.which("apt-get") and shutil.which("dpkg") and KEYRING.exists()):
        raise NotToBeHad("this is no Debian machine")
    fields = ["--format", "$(REPO_URI) $(COMPONENT) $(ORIGIN)", "Identifier: Packages"]
    for line in _run(["apt-get", "indextargets", *fields], folder).splitlines():
        uri, component, *origin = line.split()
        if component == "main" and origin[:1] == ["Debian"] and "security" not in uri:
            return uri
    raise NotToBeHad("apt knows no Debian mirror")


def _run(argv: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=FETCH_LIMIT_S,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()
        raise NotToBeHad(f"{' '.join(argv[:2])}: {said[-1] if said else error}") from error
    return done.stdout
