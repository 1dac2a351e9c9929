"""Which cuBLAS of a node is used: all of them are found, the newest that starts is taken, unless others are named.

Searched: what the caller names (the inventory's nodegate_cublas, what --tools brought), then where administrators and
pip put it (ld cache, /usr/local/cuda*, /opt, Python's package folders of the system, never those of a home). Each is
asked for its own version, in a process of its own: the name of pip's file says no more than "12".
"""

import functools
import glob
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from nodegate.node_side.load import cublas
from nodegate.node_side.probe import child, children, commands, reading

NAME = re.compile(r"libcublas\.so\.(\d{1,3})(?:\.(\d{1,5})){0,4}$")
HERE = "this node"
_PACKAGE_NAMES = ("cublas", "cu13")  # nvidia-cublas-cu11, -cu12; nvidia-cublas of CUDA 13
_PLACES = (
    *("/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/x86_64-linux-gnu"),
    *("/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/opt/nvidia/hpc_sdk/Linux_*/*/math_libs/lib64"),
    *("/opt/nvidia/hpc_sdk/Linux_*/*/math_libs/*/lib64", "/opt/*conda*/lib", "/opt/*conda*/envs/*/lib"),
    *("/cm/shared/apps/cuda*/toolkit/*/lib64",),
)
_PACKAGES = (
    *("/usr/lib/python3*/*-packages/nvidia/{}/lib", "/usr/local/lib/python3*/*-packages/nvidia/{}/lib"),
    *("/opt/*/lib/python3*/site-packages/nvidia/{}/lib", "/opt/*/*/lib/python3*/site-packages/nvidia/{}/lib"),
    *("/opt/*/.venv/lib/python3*/site-packages/nvidia/{}/lib",),
)
# Below a folder that was named: itself, a toolkit, what pip puts there (--target, a virtual environment), the HPC SDK,
# the root of an unpacked image.
_BELOW = (
    *("", "/lib", "/lib64", "/targets/*/lib", "/math_libs/lib64", "/math_libs/*/lib64", "/nvidia/{}/lib"),
    *("/lib/python3*/site-packages/nvidia/{}/lib", "/usr/local/cuda*/lib64"),
    *("/usr/local/cuda*/targets/*/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"),
    *("/usr/lib64", "/usr/local/lib/python3*/*-packages/nvidia/{}/lib"),
)
_MOST = 24  # libraries that are asked
_LOOK_S, _ASK_S = 20.0, 40.0
_AT_ONCE = 4


class Library(NamedTuple):
    """A cuBLAS on this node: its own version, who named it (`origin`), and why it cannot be used ("" if it can)."""

    path: str
    version: Tuple[int, ...]
    origin: str
    refused: str = ""


def find(cuda_version: int, named: "Sequence[Tuple[str, str]]" = ()) -> List[Library]:
    """All libraries: first those of each named (origin, folder or file) in turn, newest first; then this node's own.

    Args:
        cuda_version: what the driver can do (12040: CUDA 12.4); a library of a newer major release is refused.
        named: places that are searched before the usual ones.
    """
    # In a process of its own: a file system that hangs costs its time limit.
    looked = children.run({"": child.Task(functools.partial(_search, named), _LOOK_S)})[""]
    found = [(str(each[0]), str(each[1])) for each in looked.parts if isinstance(each, list)]
    usable = {path for path, _ in found if _major(path) <= cuda_version // 1000}
    tasks = {path: child.Task(functools.partial(_asked, path), _ASK_S) for path in sorted(usable)}
    told = children.run(tasks, at_once=_AT_ONCE)
    libraries = [_library(path, origin, told.get(path), cuda_version) for path, origin in found]
    order = {origin: number for number, origin in enumerate([*(each[0] for each in named), HERE])}
    return sorted(libraries, key=lambda each: (order[each.origin], [-number for number in each.version]))


def entries(cuda_version: object, places: "Sequence[Tuple[str, str]]") -> List[Dict[str, Any]]:
    """The same for the burn's document; nothing where the driver does not tell its version."""
    found = find(cuda_version, places) if isinstance(cuda_version, int) else []
    return [dict(each._asdict(), version=".".join(map(str, each.version))) for each in found]


def why(chosen: str, libraries: "Sequence[Dict[str, Any]]") -> str:
    """Why a library was taken."""
    origin = next((each["origin"] for each in libraries if each["path"] == chosen), "")
    if origin != HERE:
        return f"named by {origin}" if origin else ""
    good = sum(not each["refused"] and each["origin"] == HERE for each in libraries)
    return f"the newest of {good} on {HERE} that can be used" if good > 1 else f"the one on {HERE} that can be used"


def _library(path: str, origin: str, told: "Optional[children.Outcome]", cuda_version: int) -> Library:
    if told is None:
        driver = f"{cuda_version // 1000}.{cuda_version % 1000 // 10}"
        return Library(path, (_major(path),), origin, f"the driver is of CUDA {driver}")
    if isinstance(told.value, list):
        return Library(path, tuple(told.value), origin)
    return Library(path, (_major(path),), origin, str(told.unknown["detail"] if told.unknown else told.value))


def _asked(path: str) -> object:
    try:
        return cublas.version_of(path)
    except cublas.CublasError as error:
        return str(error)


def _search(named: "Sequence[Tuple[str, str]]") -> None:
    """Send (path, origin) of each file once."""
    known: List[str] = []
    for origin, place in [*named, (HERE, "")]:
        for path in _files(place):
            real = os.path.realpath(path)
            fresh = real not in known and len(known) < _MOST
            if fresh and NAME.search(os.path.basename(path)) and os.path.exists(real):
                known.append(real)
                child.emit([path, origin])


def _files(place: str) -> List[str]:
    """The libraries at a named file or below a named folder; everywhere, if none is named."""
    if place and not os.path.isdir(place):
        return [place]
    patterns = [glob.escape(place) + each for each in _BELOW] if place else [*_PLACES, *_PACKAGES]
    full = [each.replace("{}", name) for each in patterns for name in (_PACKAGE_NAMES if "{}" in each else ("",))]
    found = [path for pattern in full for path in sorted(glob.glob(pattern + "/libcublas.so.*"), key=len)]
    return found if place else found + _from_cache()


def _from_cache() -> List[str]:
    try:
        lines = commands.run(["ldconfig", "-p"], limit_s=10.0, limit_bytes=4 << 20).stdout.splitlines()
    except reading.CannotRead:
        return []
    return [line.rpartition(" => ")[2].strip() for line in lines if "libcublas.so" in line and "64" in line]


def _major(path: str) -> int:
    """The major version: 12 for libcublas.so.12 and libcublas.so.12.4.5.8."""
    match = NAME.search(os.path.basename(path))
    return int(match.group(1)) if match else 0
