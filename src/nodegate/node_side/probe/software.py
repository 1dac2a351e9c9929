"""Section `software`: libraries, packages and tools on the node."""

import glob
import os
import re
from typing import Dict, List

from nodegate.node_side.probe import child, commands, files, reading

TOOLS = (
    *("nvidia-smi", "dcgmi", "ib_write_bw", "all_reduce_perf", "gpu_burn", "nvbandwidth", "numactl"),
    *("mpirun", "srun", "docker", "podman", "enroot", "apptainer"),
)
PACKAGES = (
    *("nvidia-driver*", "cuda-drivers*", "nvidia-fabricmanager*", "datacenter-gpu-manager*"),
    *("libnccl2", "libnccl"),
)
_LIBRARY_FOLDERS = (
    *("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/usr/local/lib"),
    *("/usr/local/cuda*/lib64", "/usr/local/nccl*/lib", "/opt/nccl*/lib", "/opt/nccl*/build/lib"),
)
_DRIVER_FOLDERS = ("/usr/lib/*-linux-gnu/nvidia/current", "/usr/local/nvidia/lib64", "/usr/lib/nvidia*")
DRIVER_LIBRARIES = ("libcuda.so.1", "libnvidia-ptxjitcompiler.so.1")
MOST_LIBRARIES = 20
asked_for: List[str] = []  # programs that the inventory requires, in addition to TOOLS


def read() -> object:
    """The data of the section."""
    return {
        "nccl": _nccl(),
        "cuda": _cuda(),
        "nvcc": commands.which("nvcc"),
        "driver_libraries": {name: _libraries(name) for name in DRIVER_LIBRARIES},
        "ofed": commands.text(["ofed_info", "-s"], limit_s=4.0),
        "packages": _packages(),
        "libraries": _asked_libraries() if asked_for else {},
        "tools": {name: commands.which(name) for name in list(TOOLS) + asked_for},
    }


def _found(pattern: str) -> List[str]:
    """Paths of the node that match, without the tree's root."""
    child.note(pattern)
    return [path[len(files.ROOT) :] for path in sorted(glob.glob(glob.escape(files.ROOT) + pattern))]


def _nccl() -> List[Dict[str, str]]:
    """NCCL libraries in the loader's folders, each once: several names may lead to one file."""
    folders = list(_LIBRARY_FOLDERS) + _loader_folders()
    by_file: Dict[str, Dict[str, str]] = {}
    for path in [path for folder in folders for path in _found(folder + "/libnccl.so*")]:
        real = os.path.realpath(files.rooted(path))
        by_file.setdefault(real, {"path": path, "file": os.path.basename(real)})
    return list(by_file.values())[:MOST_LIBRARIES]


def _libraries(name: str) -> List[str]:
    folders = [*_LIBRARY_FOLDERS, *_DRIVER_FOLDERS, *_loader_folders()]
    return sorted({path for folder in folders for path in _found(f"{folder}/{name}")})[:MOST_LIBRARIES]


def _asked_libraries() -> Dict[str, str]:
    """Where a library is that the inventory names: by the loader's cache, else in the usual folders; "" if nowhere."""
    try:
        cached = commands.run(["ldconfig", "-p"], 2.0, limit_bytes=2 << 20).stdout
    except reading.CannotRead:
        cached = ""
    rows = re.findall(r"(\S+) \(.*\) => (\S+)", cached)
    found: Dict[str, str] = {}
    for name in asked_for:
        stem = re.sub(r"^lib|\.so.*$|[0-9.-]+$", "", name)
        paths = [path for file, path in rows if re.match(rf"lib{re.escape(stem)}[0-9.]*\.so", file)]
        found[name] = (paths or _libraries(f"lib{glob.escape(stem)}.so*") or [""])[0]
    return found


def _loader_folders() -> List[str]:
    lines = [line for path in _found("/etc/ld.so.conf.d/*.conf") for line in files.plain(path).splitlines()]
    return [line.strip() for line in lines if line.strip().startswith("/")]


def _cuda() -> Dict[str, object]:
    """The version file of each CUDA toolkit: version.json since 11.1, version.txt before."""
    found: Dict[str, object] = {}
    for folder in _found("/usr/local/cuda") + _found("/usr/local/cuda-*"):
        newer = files.text(folder + "/version.json", limit=8 << 10)
        found[folder] = newer if isinstance(newer, str) else files.text(folder + "/version.txt", limit=8 << 10)
    return found


def _packages() -> object:
    if commands.which("dpkg-query"):
        argv = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\n"]
        listed = commands.text(argv + list(PACKAGES), limit_s=2.0)
        pattern = r"^[ih]i ?\t([^\t]+)\t(.+)$"
    else:
        listed = commands.text(["rpm", "-qa", "--qf", "%{NAME}\t%{VERSION}-%{RELEASE}\n", *list(PACKAGES)], limit_s=3.0)
        pattern = r"^([^\t]+)\t(.+)$"
    if isinstance(listed, str):
        return dict(re.findall(pattern, listed, re.MULTILINE))
    return {} if "no packages found matching" in str(listed.get("detail")) else listed
