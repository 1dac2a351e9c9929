"""A node that has no GPU and none of the tools of measurements, whatever the machine that the tests run on has."""

import subprocess
from pathlib import Path

from nodegate.toolbox.tool_list import NAMES

FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")
LIBRARIES = ("libnvidia-ml.so.1", "libcuda.so.1")
_NOT_THERE = {*NAMES, "nvidia-smi", "apptainer", "docker", "enroot", "podman", "singularity"}


def programs(folder):
    """A folder for PATH, made here: the programs of this machine's system, no tool of a measurement, no containers."""
    folder.mkdir(parents=True)
    for file in (file for name in FOLDERS for file in Path(name).iterdir()):
        link = folder / file.name
        if file.name not in _NOT_THERE and not link.is_symlink():
            link.symlink_to(file)
    return folder


def libraries(folder):
    """A folder for LD_LIBRARY_PATH, made here: whoever loads NVIDIA's libraries is told of a file that is not there.

    The loader finds them in this folder first, and they need a library that nobody has.
    """
    folder.mkdir(parents=True)
    needed = folder / "libabsent.so"
    _compile(needed)
    for name in LIBRARIES:
        _compile(folder / name, "-Wl,--no-as-needed", needed)
    needed.unlink()
    return folder


def _compile(library, *needs):
    command = ["gcc", "-shared", "-x", "c", "/dev/null", "-x", "none", f"-Wl,-soname,{library.name}"]
    subprocess.run([*command, *map(str, needs), "-o", str(library)], check=True, timeout=60)
