"""`nodegate tools`: what `--tools DIR` brings to the nodes."""

import argparse
import platform
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree, which

from nodegate.errors import UsageError
from nodegate.text import visible
from nodegate.toolbox import carried

HASHES = Path(carried.__file__).parent  # cublas-cu12.txt, cublas-cu13.txt
PLACES = {"12": "nvidia/cublas/lib", "13": "nvidia/cu13/lib"}  # where NVIDIA's packages have their libraries
ARCHITECTURES = ("x86_64", "aarch64")
_PIP = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-compile", "--no-deps")
_PLATFORM = "manylinux_2_27_"  # of NVIDIA's packages
_LAST_LINES = 8


def add_arguments(command: argparse.ArgumentParser) -> None:
    """One command so far: fetch."""
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    text = "let pip fetch cuBLAS, from the index that it is set up for, into a folder for --tools"
    fetch = commands.add_parser("fetch", help=text, description=text)
    fetch.add_argument("what", choices=["cublas"], help="what to fetch")
    fetch.add_argument("--to", required=True, type=Path, metavar="DIR", help="the folder for --tools; may have tools")
    text = "the CUDA that the library is of; drivers of 13 load one of 12 too (default %(default)s)"
    fetch.add_argument("--cuda", choices=sorted(PLACES), default="12", help=text)
    here = platform.machine() if platform.machine() in ARCHITECTURES else ARCHITECTURES[0]
    fetch.add_argument("--arch", choices=ARCHITECTURES, default=here, help="the nodes' CPUs (default %(default)s)")


def run(asked: argparse.Namespace) -> int:
    """Fetch it, and print what is where, what each node will get, and what to type next.

    Raises:
        UsageError: pip failed, or the folder cannot be used.
    """
    place = asked.to / PLACES[asked.cuda]
    if place.exists():
        raise UsageError(f"{place} exists already", hint="remove it, or name another folder")
    try:
        _fetch(HASHES / f"cublas-cu{asked.cuda}.txt", asked.arch, place, asked.to)
    except OSError as error:
        raise UsageError(f"--to {asked.to}: {error}") from None
    try:
        size_mb = carried.Carried(asked.to).size_bytes / 1e6
    except UsageError:  # with what was there before it is too large, for one
        rmtree(place)
        raise
    print(f"{place}: {', '.join(sorted(each.name for each in place.glob('*.so.*')))}")
    print(f"each node gets {size_mb:.0f} MB, and needs room for twice as much")
    print(f"next: {'pytest' if which('pytest') else 'nodegate test'} --inventory hosts.yaml --tools {asked.to}")
    return 0


def _fetch(hashes: Path, arch: str, place: Path, folder: Path) -> None:
    """Into a folder beside the one that was asked for; only the whole libraries are moved to their place."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        _install(hashes, arch, Path(name))
        libraries = Path(name) / place.relative_to(place.parents[2])
        if not list(libraries.glob("libcublas.so.*")):
            raise UsageError(f"the package of {hashes.name} has no libcublas", hint="is pip's index NVIDIA's own?")
        place.parent.mkdir(parents=True, exist_ok=True)
        libraries.replace(place)


def _install(hashes: Path, arch: str, folder: Path) -> None:
    if find_spec("pip") is None:
        hint = f"install it (python -m ensurepip), or type: pip install --target DIR --require-hashes -r {hashes}"
        raise UsageError(f"{sys.executable} has no pip", hint=hint)
    what = ["--only-binary=:all:", "--platform", f"{_PLATFORM}{arch}", "--require-hashes", "-r", str(hashes)]
    argv = [sys.executable, *_PIP, *what, "--target", str(folder)]
    done = subprocess.run(argv, stdout=2, stderr=subprocess.PIPE, check=False)  # its progress is no answer of ours
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        said = "\n".join(f"  {visible(each)}" for each in lines[-_LAST_LINES:])
        hint = "what was asked for and its hashes are in that file; pip's index is its own setting (pip config list)"
        raise UsageError(f"pip could not install what {hashes} names:\n{said}", hint=hint)
